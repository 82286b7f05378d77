"""Print the report of a trim as text or JSON [SPEC 8]."""

from collections.abc import Mapping, Sequence
from typing import Any

from foldmark.core.wording import one_line
from foldmark.sessions.trim.job import ToolTally
from foldmark.sessions.trim.report import TrimReport
from foldmark.sessions.trim.trimming import kind_of

_HEAD = ("tool", "results", "cut", "characters", "~tokens")
_ARGUMENTS = 3
"""Column of the calls whose arguments were cut, which there is only if there are any."""


def data(report: TrimReport) -> dict[str, Any]:
    """What `--json` prints."""
    trimmed, ratio = report.trimmed, kind_of(report.parent).bytes_per_token
    share = report.share
    return {
        "trimmed_count": trimmed.trimmed_count,
        "tokens_saved": trimmed.tokens_saved,
        "new_session_id": trimmed.session.id if report.written else None,
        "file": str(trimmed.session.path) if report.written else None,
        "parent_file": str(report.parent.path),
        "by_tool": [
            {
                "tool": tool,
                "results": each.results,
                "cut": each.cut,
                "arguments": each.arguments,
                "characters": each.characters,
                "tokens": round(each.bytes / ratio),
            }
            for tool, each in trimmed.tally.items()
        ],
        "by_step": trimmed.steps,
        "further_steps": report.further,
        "reminders": trimmed.reminders,
        "bytes_before": trimmed.sizes[0],
        "bytes_after": trimmed.sizes[1],
        "context": share
        and {
            "tokens": share.tokens,
            "window": share.window,
            "percent_before": share.percent,
            "percent_after": report.after,
            "tokens_saved": trimmed.in_context,
        },
        "lines": trimmed.lines,
        "long_lines": trimmed.long,
        "archived": report.archived and str(report.archived),
        "dry_run": report.preview,
        "command": report.resume and report.resume.shell,
        "suggests_rollover": report.little,
    }


def text(report: TrimReport, launch: bool) -> str:
    """What a person is told; with `launch` not how to go on, for that follows at once."""
    trimmed, share = report.trimmed, report.share
    lines = [_tools_table(trimmed.tally, kind_of(report.parent).bytes_per_token)]
    if len(trimmed.steps) > 1:
        lines.append(f"\n{_steps_table('step', trimmed.steps)}\n")
    if report.further:
        lines.append(f"\n{_steps_table('--profile deep would also cut', report.further)}\n")
    if share is not None:
        lines.append(f"Context: {share.percent}% → ~{report.after}% of {share.window:,} tokens")
    if trimmed.trimmed_count:
        before, after = trimmed.sizes
        lines.append(f"File: {before / 1e6:,.2f} MB → {after / 1e6:,.2f} MB")
    else:
        lines.append(f"There is nothing to cut{'' if report.written else '; nothing was written'}.")
    if report.written:
        lines.append(f"New session: {one_line(str(trimmed.session.path))}")
        lines.append(f"The session itself stays as it is: {one_line(str(report.parent.path))}")
        if report.resume and not launch:
            lines.append(f"The trim takes effect when the new session is resumed:\n\n  {report.resume.shell}\n")
    if report.little:
        saved = f"only ~{trimmed.in_context:,} tokens" if trimmed.in_context else "nothing"
        lines.append(f"{'This would save' if report.preview else 'This saved'} {saved}: /rollover helps more.")
    return "\n".join(lines).rstrip("\n")


def _tools_table(tally: Mapping[str, ToolTally], bytes_per_token: float) -> str:
    """A line for each tool, and one for all of them together; numbers to the right."""
    rows = [_row(one_line(tool)[:40], each, bytes_per_token) for tool, each in tally.items()]
    whole = ToolTally()
    for each in tally.values():
        whole.results += each.results
        whole.cut += each.cut
        whole.arguments += each.arguments
        whole.add(each.characters, each.bytes)
    if len(rows) != 1:
        rows.append(_row("all", whole, bytes_per_token))
    rows.insert(0, [*_HEAD[:_ARGUMENTS], "arguments", *_HEAD[_ARGUMENTS:]])
    return _aligned(rows if whole.arguments else [row[:_ARGUMENTS] + row[_ARGUMENTS + 1 :] for row in rows])


def _steps_table(head: str, steps: Mapping[str, int]) -> str:
    """A line for each step and its tokens, and one for all of them together."""
    rows = [(step, f"{tokens:,}") for step, tokens in {**steps, "all": sum(steps.values())}.items()]
    return _aligned([(head, "~tokens"), *rows])


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        )
        for row in rows
    )


def _row(name: str, each: ToolTally, bytes_per_token: float) -> list[str]:
    numbers = (each.results, each.cut, each.arguments, each.characters, round(each.bytes / bytes_per_token))
    return [name, *(f"{number:,}" for number in numbers)]
