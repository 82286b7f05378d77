"""`foldmark trim` and `foldmark rollover`: a coding agent's session continues in a new one [SPEC 8, S4].

A trim is a copy with shortened tool results. A rollover is a fresh session that begins with a summary.
"""

import os
import sys
import uuid
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from foldmark.app import Setup
from foldmark.cli.parameters import reporting
from foldmark.cli.process import check_launch, session_outcome, start, warn
from foldmark.core.codec import well_formed
from foldmark.core.errors import CommandError, FoldmarkError
from foldmark.core.wording import one_line
from foldmark.rendering import aligned, harmless, json_text

if TYPE_CHECKING:
    from foldmark.sessions.formats import SessionPath
    from foldmark.sessions.rollover.rolling import RolloverReport
    from foldmark.sessions.trim.job import ToolTally, TrimOptions
    from foldmark.sessions.trim.trimming import TrimReport

_DIGITS = 10
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
    from foldmark.sessions.places import find, recognized
    from foldmark.sessions.trim.trimming import trim_session

    if launch and dry_run:
        raise click.UsageError("--launch starts the new session, and --dry-run writes none: leave out one")
    check_launch(launch, as_json)
    options = _options(setup, **wanted)
    parent = recognized(find(session, Path.cwd(), os.environ))
    new_id, opened, exclude = str(uuid.uuid4()), partial(setup.log, create=True), setup.given.sync_exclude
    with session_outcome(parent, new_id):
        report = trim_session(parent, options, new_id, opened, os.environ, exclude, dry_run=dry_run)
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
    from foldmark.settings.given import GLOBAL_KINDS

    if profile not in (None, "default", "deep"):
        raise click.UsageError(f"there is no profile {one_line(str(profile))!r}; profiles: default, deep")
    deep = profile == "deep"
    if deep and tools is not None:
        raise click.UsageError("--profile deep cuts the results of all tools: leave out --tools")
    if spare is not None and not (spare.isascii() and spare.isdigit() and len(spare) < _DIGITS):
        raise click.UsageError(f"--spare must be a number of results from 0, not {one_line(spare)!r}")
    most, names = setup.given.trim_threshold_chars, setup.given.trim_target_tools
    try:
        if threshold is not None:
            most = GLOBAL_KINDS["trim_threshold_chars"].value("--threshold", threshold)
        if tools is not None:
            names = GLOBAL_KINDS["trim_target_tools"].value("--tools", tools)
    except CommandError as error:
        raise click.UsageError(str(error)) from None
    return TrimOptions(most, names, keep_display_copy, deep, int(spare or 0))


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
        "deep": {"tokens_saved": sum(trimmed.deep.values()), "by_step": trimmed.deep},
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


def _text(report: "TrimReport", launch: bool) -> str:
    from foldmark.sessions.trim.trimming import kind_of

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
    if report.deeper > 0:
        deep = trimmed.tokens_saved + report.deeper
        lines.append(f"--profile deep would save ~{deep:,} tokens, ~{report.deeper:,} more.")
    if report.written:
        lines.append(f"New session: {one_line(str(trimmed.session.path))}")
        lines.append(f"The original session is unchanged: {one_line(str(report.parent.path))}")
        if report.resume and not launch:
            lines.append(f"The trim takes effect when the new session is resumed:\n\n  {report.resume.shell}\n")
    if report.little:
        saved = f"only ~{trimmed.tokens_saved:,} tokens" if trimmed.tokens_saved else "nothing"
        lines.append(f"{'This would save' if report.preview else 'This saved'} {saved}: /rollover helps more.")
    return "\n".join(lines).rstrip("\n")


def _tools_table(tally: Mapping[str, "ToolTally"], bytes_per_token: float) -> str:
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


@click.command()
@click.argument("session", required=False)
@click.option("--summary-file", metavar="FILE", help="Take the summary from FILE; - reads standard input.")
@click.option("--auto-summary", is_flag=True, help="Have a language model write the summary.")
@click.option("--model", metavar="PROVIDER/MODEL", help="Model that writes the summary; from your settings by default.")
@click.option("--issue", metavar="REF", help="Issue of the work; FOLDMARK_ISSUE by default.")
@click.option("--worker", metavar="ID", help="Worker; FOLDMARK_WORKER by default.")
@click.option("--launch", is_flag=True, help="Start the new session.")
@reporting
def rollover(
    setup: Setup,
    session: str | None,
    summary_file: str | None,
    auto_summary: bool,
    model: str | None,
    issue: str | None,
    worker: str | None,
    launch: bool,
    as_json: bool,
) -> None:
    """Continue in a fresh session with a handoff summary.

    SESSION is a file, an id or the beginning of one; by default the session that this runs in, or the newest one of
    this folder. It is archived and its end recorded; its file is not changed. The new session's file lies in the same
    folder. Its first message is the summary, and where to find what the summary leaves out. The summary has about 500
    words under the headings ### Current Task, ### Key Decisions, ### Modified Files, ### Immediate Next Steps,
    ### Critical Context.
    """
    from foldmark.sessions import places
    from foldmark.sessions.rollover.handoff import handoff
    from foldmark.sessions.rollover.rolling import check, has_content, roll_over

    if (summary_file is None) != auto_summary:
        raise click.UsageError("Give either --summary-file FILE or --auto-summary")
    if model is not None and not auto_summary:
        raise click.UsageError("--model requires --auto-summary")
    check_launch(launch, as_json)
    found = check(places.find(session, _working_folder(), os.environ))
    if not has_content(found):
        if as_json:
            nothing = {"new_session_id": None, "file": None, "parent_file": str(found.path), "command": None}
            print(json_text(well_formed(nothing)))
        else:
            said = f"Session {one_line(found.id)} is empty: there is nothing to hand over; nothing was written."
            print(harmless(said))
        return
    new_id = str(uuid.uuid4())
    with session_outcome(found, new_id):
        summary = handoff(
            _read_summary(summary_file) if summary_file is not None else _written_summary(setup, found, model)
        )
        with setup.log(create=True) as log:
            rolled = roll_over(log, found, summary, os.environ, new_id=new_id, issue=issue, worker=worker)
    for warning in rolled.warnings:
        warn(one_line(warning))
    if as_json:
        print(json_text(well_formed(_rollover_data(rolled))))
    else:
        print(harmless(_rollover_text(rolled)), flush=True)
    if launch:
        start(rolled.command.words, rolled.command.cwd)


def _working_folder() -> str:
    try:
        return os.getcwd()  # noqa: PTH109 - as it is named
    except OSError:  # the folder was removed
        return os.sep


def _read_summary(name: str) -> str:
    """Return as much of a summary file as is needed to recognize a summary that is too long. Raises FoldmarkError if
    the file cannot be read."""
    from foldmark.sessions.rollover.handoff import LONGEST

    try:
        if name == "-":
            data = sys.stdin.buffer.read(4 * LONGEST + 1)
        else:
            with Path(name).open("rb") as file:
                data = file.read(4 * LONGEST + 1)
    except (OSError, ValueError) as error:  # ValueError if the name contains NUL
        why = getattr(error, "strerror", None) or error
        raise FoldmarkError(f"cannot read the summary in {one_line(name)}: {why}; nothing was written") from None
    return data.decode("utf-8", "replace")


def _written_summary(setup: Setup, session: "SessionPath", model: str | None) -> str:
    """Return a summary that a model has written, in a log that is not kept."""
    import foldmark
    from foldmark.providers.registry import check_model
    from foldmark.sessions.rollover.auto_summary import summarize

    def report(name: str) -> None:
        if sys.stderr.isatty():
            print(f"{name} writes the summary …", file=sys.stderr)

    given = setup.given
    if model is not None:
        check_model(model, given.dialects)
        given = given.without("model")
    with foldmark.open(":memory:", settings=given) as log:
        return summarize(log, session, model, report)


def _rollover_text(rolled: "RolloverReport") -> str:
    at = "" if rolled.context is None else f" at {rolled.context}% context"
    return (
        f"Session {one_line(rolled.parent.id)} ended{at}.\n"
        f"Session {rolled.session.id}, #{rolled.number} of its line, begins with the summary: "
        f"{one_line(str(rolled.session.path))}\n"
        f"Start it:\n  {rolled.command.shell}"
    )


def _rollover_data(rolled: "RolloverReport") -> dict[str, Any]:
    return {
        "new_session_id": rolled.session.id,
        "file": str(rolled.session.path),
        "parent_file": str(rolled.parent.path),
        "session_number": rolled.number,
        "context_at_end": rolled.context,
        "command": rolled.command.shell,
        "prompt": rolled.prompt,
        "warnings": list(rolled.warnings),
    }
