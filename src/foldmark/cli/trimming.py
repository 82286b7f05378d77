"""`foldmark trim`: a copy of a coding agent's session with shortened tool results [SPEC 8, S4]."""

import os
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from foldmark.app import Setup
from foldmark.cli.parameters import reporting
from foldmark.cli.process import check_launch, session_outcome, show, start, warn
from foldmark.core.config import number
from foldmark.core.errors import CommandError
from foldmark.core.wording import count, one_line
from foldmark.formats.places import find, recognized_in
from foldmark.formats.session_file import SessionFile
from foldmark.rendering import aligned
from foldmark.sessions.trim.job import ToolTally, TrimOptions
from foldmark.sessions.trim.trimming import TrimReport, kind_of, trim_session
from foldmark.settings.given import GLOBAL_KINDS, Settings

_HEAD = ["tool", "results", "cut", "arguments", "characters", "~tokens"]
_ARGUMENTS = 3
"""Index of the column with the number of calls with cut arguments, omitted if there are none."""


@click.command()
@click.argument("session", required=False)
@click.option("--threshold", metavar="N", help="Keep N characters of a result. [setting trim_threshold_chars]")
@click.option("--tools", metavar="A,B", help="Tools to cut: names or patterns as mcp__*. [setting trim_target_tools]")
@click.option("--profile", metavar="NAME", help="`default`, or `deep`: results of all tools, and what became stale.")
@click.option("--spare", metavar="N", help="Leave the newest N results whole. [0]")
@click.option("--keep-display-copy", is_flag=True, help="Keep the copy of a result that only the display reads.")
@click.option("--dry-run", is_flag=True, help="Print what would be saved; write nothing.")
@click.option("--launch", is_flag=True, help="Start the coding agent in the trimmed session.")
@reporting
def trim(setup: Setup, /, session: str | None, dry_run: bool, launch: bool, as_json: bool, **wanted: Any) -> None:
    """Cut long tool results in a coding agent's session.

    `--profile deep` also cuts the results of all other tools, and what later calls made stale: reads and arguments of
    calls, identical results, earlier todo lists, failed attempts that succeeded later. The default prints what this
    would save. Tokens are those of the context: what the model is sent when the session is resumed.

    SESSION is a file, a session's id or the beginning of one; by default the session that this runs in, or the newest
    of this folder. The session is archived and stays as it is. The trimmed copy is a new session in the same folder,
    which names file and line of everything that was cut. A trim takes effect when the new session is resumed.
    """
    if launch and dry_run:
        raise click.UsageError("--launch starts the new session, and --dry-run writes none: leave out one")
    check_launch(launch, as_json)
    options = _options(setup.given, **wanted)
    found, new_id, exclude = find(session, Path.cwd(), os.environ), str(uuid.uuid4()), setup.given.sync_exclude
    with SessionFile(found.path) as file:
        parent = recognized_in(file, found)
        with session_outcome(parent, new_id):
            report = trim_session(parent, file, options, new_id, os.environ, exclude, dry_run=dry_run)
    for warning in report.warnings:
        warn(warning)
    show(_data(report), _text(report, launch), as_json)
    if launch and report.resume:
        start(report.resume.words, report.resume.cwd)
        warn(f"the trim takes effect with: {report.resume.shell}")


def _options(
    given: Settings,
    threshold: str | None,
    tools: str | None,
    profile: str | None,
    spare: str | None,
    keep_display_copy: bool,
) -> TrimOptions:
    """Return the options of a trim. Raises UsageError."""
    if profile not in (None, "default", "deep"):
        raise click.UsageError(f"there is no profile {one_line(str(profile))!r}; profiles: default, deep")
    deep = profile == "deep"
    if deep and tools is not None:
        raise click.UsageError("--profile deep cuts the results of all tools: leave out --tools")
    most, names = given.trim_threshold_chars, given.trim_target_tools
    try:
        spared = 0 if spare is None else number(example=5).value("--spare", spare)
        if threshold is not None:
            most = GLOBAL_KINDS["trim_threshold_chars"].value("--threshold", threshold)
        if tools is not None:
            names = GLOBAL_KINDS["trim_target_tools"].value("--tools", tools)
    except CommandError as error:
        raise click.UsageError(str(error)) from None
    return TrimOptions(most, names, keep_display_copy, deep, spared)


def _data(report: TrimReport) -> dict[str, Any]:
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
        "other_tools": {"results": trimmed.others, "tokens": trimmed.others_saved},
        "reminders": trimmed.reminders,
        "bytes_before": trimmed.sizes[0],
        "bytes_after": trimmed.sizes[1],
        "context": share
        and {
            "tokens": share.tokens,
            "window": share.window,
            "percent_before": share.percent,
            "percent_after": report.after,
            "tokens_saved": trimmed.tokens_saved,
        },
        "lines": trimmed.lines,
        "long_lines": trimmed.long,
        "archived": report.archived and str(report.archived),
        "dry_run": report.preview,
        "command": report.resume and report.resume.shell,
        "suggests_rollover": report.little,
    }


def _text(report: TrimReport, launch: bool) -> str:
    trimmed, share = report.trimmed, report.share
    lines = [_tools_table(trimmed.tally, kind_of(report.parent).bytes_per_token)]
    if len(trimmed.steps) > 1:
        lines.append(f"\n{_steps_table('step', trimmed.steps)}\n")
    if trimmed.trimmed_count:
        filled = "" if share is None else f", {share.percent}% → ~{report.after}% of {share.window:,}"
        before, after = trimmed.sizes
        lines.append(f"Context: ~{trimmed.tokens_saved:,} tokens less{filled}")
        lines.append(f"File: {before / 1e6:,.2f} MB → {after / 1e6:,.2f} MB")
    else:
        lines.append(f"There is nothing to cut{'' if report.written else '; nothing was written'}.")
    if trimmed.others:
        more = f"{count(trimmed.others, 'result')} of other tools, ~{trimmed.others_saved:,} tokens"
        stale = ", and what later calls made stale" if kind_of(report.parent).finds_stale else ""
        lines.append(f"--profile deep would also cut up to {more}{stale}.")
    if report.written:
        lines.append(f"New session: {one_line(str(trimmed.session.path))}")
        lines.append(f"The original session is unchanged: {one_line(str(report.parent.path))}")
        if report.resume and not launch:
            lines.append(f"The trim takes effect when the new session is resumed:\n\n  {report.resume.shell}\n")
    if report.little:
        saved = f"only ~{trimmed.tokens_saved:,} tokens" if trimmed.tokens_saved else "nothing"
        lines.append(f"{'This would save' if report.preview else 'This saved'} {saved}: /rollover helps more.")
    return "\n".join(lines).rstrip("\n")


def _tools_table(tally: Mapping[str, ToolTally], bytes_per_token: float) -> str:
    names, counts = [one_line(tool)[:40] for tool in tally], list[Sequence[int]]()
    for each in tally.values():
        counts.append((each.results, each.cut, each.arguments, each.characters, each.bytes))
    if len(counts) != 1:
        names.append("all")
        counts.append([sum(column) for column in zip((0,) * 5, *counts, strict=True)])
    rows = [_HEAD]
    for name, (*numbers, size) in zip(names, counts, strict=True):
        rows.append([name, *(f"{number:,}" for number in (*numbers, round(size / bytes_per_token)))])
    if not any(each.arguments for each in tally.values()):
        rows = [row[:_ARGUMENTS] + row[_ARGUMENTS + 1 :] for row in rows]
    return aligned(rows)


def _steps_table(head: str, steps: Mapping[str, int]) -> str:
    rows = [(step, f"{tokens:,}") for step, tokens in {**steps, "all": sum(steps.values())}.items()]
    return aligned([(head, "~tokens"), *rows])
