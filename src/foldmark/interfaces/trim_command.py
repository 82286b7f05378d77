"""`foldmark trim`: a coding agent's session with less in it, and how to go on with it [SPEC 8, S4]."""

import os
import sys
import time
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from foldmark.core.errors import CommandError, FoldmarkError
from foldmark.core.wording import one_line
from foldmark.interfaces.render import harmless, json_text
from foldmark.interfaces.setup import Setup

if TYPE_CHECKING:
    from foldmark.interfaces.trim_report import Report
    from foldmark.sessions.hook.tail import Share
    from foldmark.sessions.places import SessionPath
    from foldmark.sessions.trim.kind import Wish

_DIGITS = 10


@click.command()
@click.argument("session", required=False)
@click.option("--threshold", metavar="N", help="Characters of a result that are kept. [setting trim_threshold_chars]")
@click.option("--tools", metavar="A,B", help="Whose results: names or patterns as mcp__*. [setting trim_target_tools]")
@click.option("--profile", metavar="NAME", help="`default`, or `deep`: all tools' results and what became stale.")
@click.option("--spare", metavar="N", help="The newest N results stay whole. [0, with --profile deep 5]")
@click.option("--keep-display-copy", is_flag=True, help="Leave the copy of a result that only the display reads.")
@click.option("--dry-run", is_flag=True, help="Tell what would be saved; write nothing.")
@click.option("--in-place", is_flag=True, help="Change the session itself; what it was is kept beside it.")
@click.option("--force", is_flag=True, help="With --in-place: even if the session seems to be in use.")
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
    in_place: bool,
    force: bool,
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
    from foldmark.interfaces import launching
    from foldmark.interfaces.trim_report import data, text, warnings
    from foldmark.sessions.places import find
    from foldmark.sessions.recognition import recognized
    from foldmark.sessions.trim.in_place import check_resting

    if launch and dry_run:
        raise click.UsageError("--launch goes on with the new session, and --dry-run makes none: leave out one")
    launching.check(launch, as_json)
    if force and not in_place:
        raise click.UsageError("--force belongs to --in-place")
    wish = _wish(setup, threshold, tools, profile, spare, keep_display_copy)
    parent = recognized(find(session, Path.cwd(), os.environ))
    if in_place and not dry_run and not force:
        check_resting(parent, os.environ, time.time())
    report = _work(setup, parent, wish, preview=dry_run, in_place=in_place)
    for warning in warnings(report, wish):
        _warn(warning)
    print(json_text(data(report)) if as_json else harmless(text(report, launch)))
    if launch and report.resume:
        launching.start(report.resume.words, report.resume.cwd)
        _warn(f"the trim takes effect with: {report.resume.shell}")


def _wish(
    setup: Setup,
    threshold: str | None,
    tools: str | None,
    profile: str | None,
    spare: str | None,
    keep_display_copy: bool,
) -> "Wish":
    from foldmark.sessions.trim.kind import Wish
    from foldmark.sessions.trim.stale import SPARED
    from foldmark.settings.trim import checked

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
            most = checked("trim_threshold_chars", threshold, "--threshold")
        if tools is not None:
            names = checked("trim_target_tools", tools, "--tools")
    except CommandError as error:
        raise click.UsageError(str(error)) from None
    return Wish(most, names, keep_display_copy, deep, spared)


def _work(setup: Setup, parent: "SessionPath", wish: "Wish", *, preview: bool, in_place: bool) -> "Report":
    from foldmark.interfaces.stopping import outcome_told
    from foldmark.interfaces.trim_report import Report
    from foldmark.sessions.hook.tail import share
    from foldmark.sessions.resuming import resume_command
    from foldmark.sessions.trim import trimming
    from foldmark.sessions.trim.in_place import trim_in_place

    moment, new_id = datetime.now(UTC), str(uuid.uuid4())
    before = share(parent.path)
    file = _file(parent)
    with outcome_told(lambda: _outcome(parent, new_id, file)):
        if preview:
            trimmed = trimming.preview(parent, wish, moment)
        elif in_place:
            trimmed = trim_in_place(parent, wish, moment)
        else:
            trimmed = trimming.trim(parent, wish, new_id, moment)
        written = not preview and trimmed.trimmed_count > 0
        archived = _archive(setup, parent) if written else None
        if written and not in_place:
            _record(setup, parent, trimmed.session, before)
    resume = resume_command(trimmed.session, os.environ) if written else None
    further = {} if wish.deep else trimming.further(parent, wish, trimmed, moment)
    return Report(parent, trimmed, before, archived, resume, preview, in_place, further)


def _outcome(parent: "SessionPath", new_id: str, before: tuple[int, int] | None) -> str:
    """Say what a trim that was ended has left of a session whose file was `before`."""
    from foldmark.interfaces.stopping import session_written

    if _file(parent) != before:
        return f"the session is trimmed whole, in its place: {parent.path}\nWhat it was is beside it."
    return session_written(parent, new_id)


def _file(session: "SessionPath") -> tuple[int, int] | None:
    """Return what identifies the file that has the session's name now."""
    try:
        found = session.path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _archive(setup: Setup, session: "SessionPath") -> Path | None:
    """Archive a session, unless the setting `sync_exclude` names its folder; where that fails, a warning: it stays
    where it is anyway."""
    from foldmark.sessions.archive.sources import passes_over
    from foldmark.sessions.archive.storing import archive_folder, put

    try:
        if passes_over(session.path, setup.given.sync_exclude, os.environ):
            return None
        done = put(session.path, archive_folder(os.environ), session.kind)
    except FoldmarkError as error:
        _warn(f"the session was not archived, but stays where it is: {error}")
        return None
    return None if done.state == "excluded" else done.path


def _record(setup: Setup, parent: "SessionPath", session: "SessionPath", share: "Share | None") -> None:
    """Keep track of the two sessions; where that fails, a warning."""
    from foldmark.sessions import lineage

    try:
        with setup.log(create=True) as log:
            work = lineage.given_work(os.environ)
            lineage.passed_on(log, parent, session, "trim", share.percent if share else None, work)
    except (FoldmarkError, OSError) as error:
        _warn(f"the database does not know of the new session: {error}")


def _warn(text: str) -> None:
    print(harmless(f"foldmark: {text}"), file=sys.stderr)
