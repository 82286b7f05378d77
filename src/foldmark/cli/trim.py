"""`foldmark trim`: a coding agent's session with less in it, and how to go on with it [SPEC 8, S4]."""

import os
import sys
import uuid
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from foldmark.app import Setup
from foldmark.core.errors import CommandError
from foldmark.core.wording import one_line
from foldmark.rendering import harmless, json_text

if TYPE_CHECKING:
    from foldmark.sessions.trim.job import TrimOptions

_DIGITS = 10


@click.command()
@click.argument("session", required=False)
@click.option("--threshold", metavar="N", help="Characters of a result that are kept. [setting trim_threshold_chars]")
@click.option("--tools", metavar="A,B", help="Whose results: names or patterns as mcp__*. [setting trim_target_tools]")
@click.option("--profile", metavar="NAME", help="`default`, or `deep`: all tools' results and what became stale.")
@click.option("--spare", metavar="N", help="The newest N results stay whole. [0, with --profile deep 5]")
@click.option("--keep-display-copy", is_flag=True, help="Leave the copy of a result that only the display reads.")
@click.option("--dry-run", is_flag=True, help="Tell what would be saved; write nothing.")
@click.option("--launch", is_flag=True, help="Go on with the trimmed session at once.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def trim(
    setup: Setup,
    session: str | None,
    threshold: str | None,
    tools: str | None,
    profile: str | None,
    spare: str | None,
    keep_display_copy: bool,
    dry_run: bool,
    launch: bool,
    as_json: bool,
) -> None:
    """Cut long results of tools in a coding agent's session.

    `--profile deep` cuts those of all tools, and what later calls made stale: reads and arguments of calls, identical
    results, earlier todo lists, failed attempts that succeeded later. The default says what each of these would save.

    SESSION is a file, a session's id or the beginning of one; by default the one that this runs in, or the newest of
    this folder. The session is archived, and what is left of it becomes a new session beside it, which names file and
    line of everything that was cut. The session itself stays as it is. A trim takes effect when the new session is
    resumed.
    """
    from foldmark.cli import launching
    from foldmark.cli.stopping import outcome_told, session_written
    from foldmark.cli.trim_report import data, text
    from foldmark.sessions.places import find, recognized
    from foldmark.sessions.trim.report import trim_session

    if launch and dry_run:
        raise click.UsageError("--launch goes on with the new session, and --dry-run makes none: leave out one")
    launching.check(launch, as_json)
    options = _options(setup, threshold, tools, profile, spare, keep_display_copy)
    parent = recognized(find(session, Path.cwd(), os.environ))
    new_id, opened, exclude = str(uuid.uuid4()), partial(setup.log, create=True), setup.given.sync_exclude
    with outcome_told(lambda: session_written(parent, new_id)):
        report = trim_session(parent, options, new_id, opened, os.environ, exclude, preview=dry_run)
    for warning in report.warnings:
        _warn(warning)
    print(json_text(data(report)) if as_json else harmless(text(report, launch)))
    if launch and report.resume:
        launching.start(report.resume.words, report.resume.cwd)
        _warn(f"the trim takes effect with: {report.resume.shell}")


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
    from foldmark.settings.given import checked_global

    if profile not in (None, "default", "deep"):
        raise click.UsageError(f"there is no profile {one_line(str(profile))!r}: default, deep")
    deep = profile == "deep"
    if deep and tools is not None:
        raise click.UsageError("--profile deep cuts the results of all tools: leave out --tools")
    if spare is not None and not (spare.isascii() and spare.isdigit() and len(spare) < _DIGITS):
        raise click.UsageError(f"--spare is a number of results from 0, not {one_line(spare)!r}")
    spared = int(spare) if spare is not None else SPARED if deep else 0
    most, names = setup.given.trim_threshold_chars, setup.given.trim_target_tools
    try:
        if threshold is not None:
            most = checked_global("trim_threshold_chars", threshold, "--threshold")
        if tools is not None:
            names = checked_global("trim_target_tools", tools, "--tools")
    except CommandError as error:
        raise click.UsageError(str(error)) from None
    return TrimOptions(most, names, keep_display_copy, deep, spared)


def _warn(text: str) -> None:
    print(harmless(f"foldmark: {text}"), file=sys.stderr)
