"""`foldmark trim`: a coding agent's session with less in it, and how to go on with it [SPEC 8, S4]."""

import os
import shlex
import sys
import time
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from foldmark.core.errors import CommandError, FoldmarkError
from foldmark.interfaces.render import harmless, json_text
from foldmark.interfaces.setup import Setup

if TYPE_CHECKING:
    from foldmark.sessions.hook.tail import Share
    from foldmark.sessions.places import SessionPath
    from foldmark.sessions.trim.kind import Wish
    from foldmark.sessions.trim.trimming import Trimmed

LITTLE = 10
"""Percent of the context; a trim that saves less does not help for long."""


class Report(NamedTuple):
    """What a trim has done, or with `preview` would do. `share` is how full the context was, None where that is
    unknown; `archived` where the session was archived, None if it was not."""

    parent: "SessionPath"
    trimmed: "Trimmed"
    share: "Share | None"
    archived: Path | None
    command: list[str]
    cwd: Path | None
    preview: bool
    in_place: bool

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
        saved = self.trimmed.in_context
        return not saved or (self.share is not None and saved * 100 < self.share.tokens * LITTLE)

    @property
    def resume(self) -> str:
        """The command that goes on with the session."""
        inside = f"cd {shlex.quote(str(self.cwd))} && " if self.cwd else ""
        return inside + shlex.join(self.command)


@click.command()
@click.argument("session", required=False)
@click.option("--threshold", metavar="N", help="Characters of a result that are kept. [setting trim_threshold_chars]")
@click.option("--tools", metavar="A,B", help="Whose results: names or patterns as mcp__*. [setting trim_target_tools]")
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
    keep_display_copy: bool,
    dry_run: bool,
    in_place: bool,
    force: bool,
    launch: bool,
    as_json: bool,
) -> None:
    """Cut long results of tools in a coding agent's session.

    SESSION is a file, a session's id or the beginning of one; by default the one that this runs in, or the newest of
    this folder. The session is archived, and what is left of it becomes a new session beside it, which names file and
    line of everything that was cut. The session itself stays as it is. A trim takes effect when the new session is
    resumed.
    """
    from foldmark.interfaces.launching import start
    from foldmark.sessions.places import find
    from foldmark.sessions.trim.in_place import check_resting

    if launch and dry_run:
        raise click.UsageError("--launch goes on with the new session, and --dry-run makes none: leave out one")
    if force and not in_place:
        raise click.UsageError("--force belongs to --in-place")
    wish = _wish(setup, threshold, tools, keep_display_copy)
    parent = find(session, Path.cwd(), os.environ)
    if in_place and not dry_run and not force:
        check_resting(parent, os.environ, time.time())
    report = _work(setup, parent, wish, preview=dry_run, in_place=in_place)
    print(json_text(_data(report)) if as_json else harmless(_text(report, launch)))
    if launch:
        start(report.command, report.cwd)
        _warn(f"the trim takes effect with: {report.resume}")


def _wish(setup: Setup, threshold: str | None, tools: str | None, keep_display_copy: bool) -> "Wish":
    from foldmark.sessions.trim.kind import Wish
    from foldmark.settings.trim import checked

    given = setup.given
    try:
        most = given.trim_threshold_chars if threshold is None else checked("trim_threshold_chars", threshold)
        names = given.trim_target_tools if tools is None else checked("trim_target_tools", tools)
    except CommandError as error:
        raise click.UsageError(str(error)) from None
    return Wish(most, names, keep_display_copy)


def _work(setup: Setup, parent: "SessionPath", wish: "Wish", *, preview: bool, in_place: bool) -> Report:
    from foldmark.sessions.hook.tail import share
    from foldmark.sessions.trim import trimming
    from foldmark.sessions.trim.in_place import trim_in_place

    kind, moment = trimming.kind_of(parent), datetime.now(UTC)
    trimming.check(parent)
    before = share(parent.path)
    archived = None if preview else _archive(parent)
    if preview:
        trimmed = trimming.preview(parent, wish, moment)
    elif in_place:
        trimmed = trim_in_place(parent, wish, moment)
    else:
        trimmed = trimming.trim(parent, wish, str(uuid.uuid4()), moment)
        _record(setup, parent, trimmed.session, before)
    command = kind.command(parent, trimmed.session.id)
    return Report(parent, trimmed, before, archived, command, kind.cwd(parent), preview, in_place)


def _archive(session: "SessionPath") -> Path | None:
    """Archive a session; where that fails, a warning: it stays where it is anyway."""
    from foldmark.sessions.archive.storing import archive_folder, put

    try:
        done = put(session.path, archive_folder(os.environ))
    except FoldmarkError as error:
        _warn(f"the session was not archived, but stays where it is: {error}")
        return None
    return None if done.state == "excluded" else done.path


def _record(setup: Setup, parent: "SessionPath", session: "SessionPath", share: "Share | None") -> None:
    """Keep track of the two sessions; where that fails, a warning."""
    from foldmark.sessions import lineage

    try:
        with setup.log(create=True) as log:
            ended = lineage.ended(log, parent, "trim", share.percent if share else None)
            lineage.continued(log, ended, session)
    except (FoldmarkError, OSError) as error:
        _warn(f"the database does not know of the new session: {error}")


def _warn(text: str) -> None:
    print(harmless(f"foldmark: {text}"), file=sys.stderr)


def _data(report: Report) -> dict[str, Any]:
    from foldmark.sessions.trim.trimming import kind_of

    trimmed, ratio = report.trimmed, kind_of(report.parent).bytes_per_token
    share = report.share
    return {
        "trimmed_count": trimmed.trimmed_count,
        "tokens_saved": trimmed.tokens_saved,
        "new_session_id": None if report.preview else trimmed.session.id,
        "file": None if report.preview else str(trimmed.session.path),
        "parent_file": str(report.parent.path),
        "full_results": str(trimmed.source) if not report.preview else str(report.parent.path),
        "by_tool": [
            {
                "tool": tool,
                "results": each.results,
                "cut": each.cut,
                "characters": each.characters,
                "tokens": round(each.bytes / ratio),
            }
            for tool, each in trimmed.tally.items()
        ],
        "context": share
        and {
            "tokens": share.tokens,
            "window": share.window,
            "percent_before": share.percent,
            "percent_after": report.after,
            "tokens_saved": trimmed.in_context,
        },
        "lines": trimmed.lines,
        "archived": report.archived and str(report.archived),
        "dry_run": report.preview,
        "in_place": report.in_place,
        "resume": None if report.preview else report.resume,
        "suggests_rollover": report.little,
    }


def _text(report: Report, launch: bool) -> str:
    from foldmark.interfaces.trim_table import table
    from foldmark.sessions.trim.trimming import kind_of

    trimmed, share = report.trimmed, report.share
    lines = [table(trimmed.tally, kind_of(report.parent).bytes_per_token)]
    if share is not None:
        lines.append(f"Context: {share.percent}% → ~{report.after}% of {share.window:,} tokens")
    if not report.preview:
        if not trimmed.trimmed_count:
            lines.append("There was nothing to cut.")
        kept = "What it was" if report.in_place else "The session itself stays as it is"
        lines.append(f"{'Trimmed' if report.in_place else 'New session'}: {trimmed.session.path}")
        lines.append(f"{kept}: {trimmed.source}")
        if not launch:
            what = "it" if report.in_place else "the new session"
            lines.append(f"The trim takes effect when {what} is resumed:\n\n  {report.resume}\n")
    if report.little:
        saved = f"only ~{trimmed.in_context:,} tokens" if trimmed.in_context else "nothing"
        lines.append(f"{'This would save' if report.preview else 'This saved'} {saved}: /rollover helps more.")
    return "\n".join(lines).rstrip("\n")
