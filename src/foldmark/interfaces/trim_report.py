"""What is told about a trim: on the terminal, as JSON, and what warns [SPEC 8]."""

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from foldmark.core.wording import count, listing, one_line
from foldmark.interfaces.trim_table import steps_table, table
from foldmark.sessions.hook.tail import Share
from foldmark.sessions.places import SessionPath
from foldmark.sessions.resuming import ResumeCommand
from foldmark.sessions.trim import one_pass
from foldmark.sessions.trim.kind import Wish
from foldmark.sessions.trim.trimming import Trimmed, kind_of

LITTLE = 10
"""Percent of the context; a trim that saves less does not help for long."""

HALF = 50
"""Percent of the window; a context with less in it needs no help yet."""

NAMED = 20
"""Tools that are listed at most."""


class Report(NamedTuple):
    """What a trim has done, or with `preview` would do. `share` is how full the context was, None where that is
    unknown; `archived` where the session was archived, None if it was not; `resume` goes on with what was made;
    `further` are the tokens that each step of the profile `deep` would save beyond this."""

    parent: SessionPath
    trimmed: Trimmed
    share: Share | None
    archived: Path | None
    resume: ResumeCommand | None
    preview: bool
    in_place: bool
    further: dict[str, int]

    @property
    def written(self) -> bool:
        """Whether there is a new session."""
        return not self.preview and self.trimmed.trimmed_count > 0

    @property
    def after(self) -> int | None:
        """The share of the context that is left, in percent."""
        if self.share is None:
            return None
        left = max(self.share.tokens - self.trimmed.in_context, 0)
        return left * 100 // self.share.window

    @property
    def little(self) -> bool:
        """Whether so little was saved that a rollover is the better way."""
        saved, share = self.trimmed.in_context, self.share
        if share is None:
            return not saved
        return share.percent >= HALF and saved * 100 < share.tokens * LITTLE


def warnings(report: Report, wish: Wish) -> Iterator[str]:
    """What does not go as one might think."""
    trimmed = report.trimmed
    if trimmed.tools and not trimmed.tally:
        tools, own = (listing(map(one_line, names), NAMED) for names in (wish.tools, trimmed.tools))
        yield f"there is no result of {tools} in this session; its tools are {own}"
    if trimmed.long:
        were = "was left as it is" if trimmed.long == 1 else "were left as they are"
        yield f"{count(trimmed.long, 'line')} longer than {one_pass.LONGEST >> 20} MB {were}"
    if trimmed.nulls and trimmed.session.kind == "claude":
        file = shlex.quote(str(trimmed.session.path))
        yield (
            f"{count(trimmed.nulls, 'line')} of the session {'is' if trimmed.nulls == 1 else 'are'} `null`, with which "
            f"Claude Code cannot resume it: foldmark doctor --session {file} --repair"
        )


def data(report: Report) -> dict[str, Any]:
    """What `--json` prints."""
    trimmed, ratio = report.trimmed, kind_of(report.parent).bytes_per_token
    share = report.share
    return {
        "trimmed_count": trimmed.trimmed_count,
        "tokens_saved": trimmed.tokens_saved,
        "new_session_id": trimmed.session.id if report.written else None,
        "file": str(trimmed.session.path) if report.written else None,
        "parent_file": str(report.parent.path),
        "full_results": str(trimmed.source) if not report.preview else str(report.parent.path),
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
        "in_place": report.in_place,
        "command": report.resume and report.resume.shell,
        "suggests_rollover": report.little,
    }


def text(report: Report, launch: bool) -> str:
    """What a person is told; with `launch` not how to go on, for that follows at once."""
    trimmed, share = report.trimmed, report.share
    lines = [table(trimmed.tally, kind_of(report.parent).bytes_per_token)]
    if len(trimmed.steps) > 1:
        lines.append(f"\n{steps_table('step', trimmed.steps)}\n")
    if report.further:
        lines.append(f"\n{steps_table('--profile deep would also cut', report.further)}\n")
    if share is not None:
        lines.append(f"Context: {share.percent}% → ~{report.after}% of {share.window:,} tokens")
    if trimmed.trimmed_count:
        before, after = trimmed.sizes
        lines.append(f"File: {before / 1e6:,.2f} MB → {after / 1e6:,.2f} MB")
    else:
        lines.append(f"There is nothing to cut{'' if report.written else '; nothing was written'}.")
    if report.written:
        kept = "What it was" if report.in_place else "The session itself stays as it is"
        lines.append(f"{'Trimmed' if report.in_place else 'New session'}: {one_line(str(trimmed.session.path))}")
        lines.append(f"{kept}: {one_line(str(trimmed.source))}")
        if report.resume and not launch:
            what = "it" if report.in_place else "the new session"
            lines.append(f"The trim takes effect when {what} is resumed:\n\n  {report.resume.shell}\n")
    if report.little:
        saved = f"only ~{trimmed.in_context:,} tokens" if trimmed.in_context else "nothing"
        lines.append(f"{'This would save' if report.preview else 'This saved'} {saved}: /rollover helps more.")
    return "\n".join(lines).rstrip("\n")
