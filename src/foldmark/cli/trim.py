"""`foldmark trim`: a shortened copy of a coding agent's session, and the command that continues it [SPEC 8, S4]."""

import os
import uuid
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from foldmark.app import Setup
from foldmark.cli.parameters import AS_JSON
from foldmark.cli.process import check_launch, session_outcome, start, warn
from foldmark.core.errors import CommandError
from foldmark.core.wording import one_line
from foldmark.rendering import aligned, harmless, json_text

if TYPE_CHECKING:
    from foldmark.sessions.trim.job import ToolTally, TrimOptions
    from foldmark.sessions.trim.report import TrimReport

_DIGITS = 10
_HEAD = ["tool", "results", "cut", "arguments", "characters", "~tokens"]
_ARGUMENTS = 3
"""Column of the number of calls with cut arguments. It is left out if there are none."""


@click.command()
@click.argument("session", required=False)
@click.option("--threshold", metavar="N", help="Keep N characters of a result. [setting trim_threshold_chars]")
@click.option("--tools", metavar="A,B", help="Tools to cut: names or patterns as mcp__*. [setting trim_target_tools]")
@click.option("--profile", metavar="NAME", help="`default`, or `deep`: results of all tools, and what became stale.")
@click.option("--spare", metavar="N", help="Leave the newest N results whole. [0, with --profile deep 5]")
@click.option("--keep-display-copy", is_flag=True, help="Keep the copy of a result that only the display reads.")
@click.option("--dry-run", is_flag=True, help="Print what would be saved; write nothing.")
@click.option("--launch", is_flag=True, help="Start the coding agent in the trimmed session.")
@AS_JSON
@click.pass_obj
def trim(setup: Setup, /, session: str | None, dry_run: bool, launch: bool, as_json: bool, **wanted: Any) -> None:
    """Cut long tool results in a coding agent's session.

    `--profile deep` cuts the results of all tools, and what later calls made stale: reads and arguments of calls,
    identical results, earlier todo lists, failed attempts that succeeded later. The default prints what each of these
    would save.

    SESSION is a file, a session's id or the beginning of one; by default the session that this runs in, or the newest
    of this folder. The session is archived and stays as it is. The trimmed copy is a new session in the same folder,
    which names file and line of everything that was cut. A trim takes effect when the new session is resumed.
    """
    from foldmark.sessions.places import find, recognized
    from foldmark.sessions.trim.report import trim_session

    if launch and dry_run:
        raise click.UsageError("--launch starts the new session, and --dry-run writes none: leave out one")
    check_launch(launch, as_json)
    options = _options(setup, **wanted)
    parent = recognized(find(session, Path.cwd(), os.environ))
    new_id, opened, exclude = str(uuid.uuid4()), partial(setup.log, create=True), setup.given.sync_exclude
    with session_outcome(parent, new_id):
        report = trim_session(parent, options, new_id, opened, os.environ, exclude, preview=dry_run)
    for warning in report.warnings:
        warn(warning)
    print(json_text(_data(report)) if as_json else harmless(_text(report, launch)))
    if launch and report.resume:
        start(report.resume.words, report.resume.cwd)
        warn(f"the trim takes effect with: {report.resume.shell}")


def _options(
    setup: Setup,
    threshold: str | None,
    tools: str | None,
    profile: str | None,
    spare: str | None,
    keep_display_copy: bool,
) -> "TrimOptions":
    from foldmark.sessions.trim.job import TrimOptions
    from foldmark.sessions.trim.stale import SPARED
    from foldmark.settings.given import GLOBAL_KINDS

    if profile not in (None, "default", "deep"):
        raise click.UsageError(f"there is no profile {one_line(str(profile))!r}; profiles: default, deep")
    deep = profile == "deep"
    if deep and tools is not None:
        raise click.UsageError("--profile deep cuts the results of all tools: leave out --tools")
    if spare is not None and not (spare.isascii() and spare.isdigit() and len(spare) < _DIGITS):
        raise click.UsageError(f"--spare must be a number of results from 0, not {one_line(spare)!r}")
    spared = int(spare) if spare is not None else SPARED if deep else 0
    most, names = setup.given.trim_threshold_chars, setup.given.trim_target_tools
    try:
        if threshold is not None:
            most = GLOBAL_KINDS["trim_threshold_chars"].value("--threshold", threshold)
        if tools is not None:
            names = GLOBAL_KINDS["trim_target_tools"].value("--tools", tools)
    except CommandError as error:
        raise click.UsageError(str(error)) from None
    return TrimOptions(most, names, keep_display_copy, deep, spared)


def _data(report: "TrimReport") -> dict[str, Any]:
    from foldmark.sessions.trim.trimming import kind_of

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


def _text(report: "TrimReport", launch: bool) -> str:
    from foldmark.sessions.trim.trimming import kind_of

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
        lines.append(f"The original session is unchanged: {one_line(str(report.parent.path))}")
        if report.resume and not launch:
            lines.append(f"The trim takes effect when the new session is resumed:\n\n  {report.resume.shell}\n")
    if report.little:
        saved = f"only ~{trimmed.in_context:,} tokens" if trimmed.in_context else "nothing"
        lines.append(f"{'This would save' if report.preview else 'This saved'} {saved}: /rollover helps more.")
    return "\n".join(lines).rstrip("\n")


def _tools_table(tally: Mapping[str, "ToolTally"], bytes_per_token: float) -> str:
    from foldmark.sessions.trim.job import ToolTally

    rows = [_row(one_line(tool)[:40], each, bytes_per_token) for tool, each in tally.items()]
    whole = ToolTally()
    for each in tally.values():
        whole.results += each.results
        whole.cut += each.cut
        whole.arguments += each.arguments
        whole.characters += each.characters
        whole.bytes += each.bytes
    if len(rows) != 1:
        rows.append(_row("all", whole, bytes_per_token))
    rows.insert(0, _HEAD)
    return aligned(rows if whole.arguments else [row[:_ARGUMENTS] + row[_ARGUMENTS + 1 :] for row in rows])


def _steps_table(head: str, steps: Mapping[str, int]) -> str:
    rows = [(step, f"{tokens:,}") for step, tokens in {**steps, "all": sum(steps.values())}.items()]
    return aligned([(head, "~tokens"), *rows])


def _row(name: str, each: "ToolTally", bytes_per_token: float) -> list[str]:
    numbers = (each.results, each.cut, each.arguments, each.characters, round(each.bytes / bytes_per_token))
    return [name, *(f"{number:,}" for number in numbers)]
