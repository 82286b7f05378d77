"""`foldmark sync`, `foldmark search` and `foldmark sessions`: the archive of coding agents' sessions [SPEC 8]."""

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from foldmark.core.errors import FoldmarkError
from foldmark.core.ports import Progress
from foldmark.interfaces.render import harmless, json_text
from foldmark.interfaces.setup import Setup

_AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_AROUND = 3
_ROLES = ("user", "assistant", "thinking", "tool_call", "tool_result")


def _moment(context: click.Context, option: click.Parameter, value: str | None) -> datetime | None:
    """A date or a time in ISO 8601; UTC where it names no zone."""
    from foldmark.core.codec import utc

    try:
        return None if value is None else utc(value)
    except ValueError:
        told = f"'{value:.40}' is no date; write one as 2026-01-31 or 2026-01-31T12:00"
        raise click.BadParameter(told, context, option) from None


@contextmanager
def _indexing(*, shown: bool = True) -> Iterator[Progress | None]:
    """A progress bar on a terminal's standard error, once there is something to index."""
    bar: Any = None

    def show(done: int, total: int) -> None:
        nonlocal bar
        if bar is None:
            bar = stack.enter_context(click.progressbar(length=1, label="Indexing", file=sys.stderr))
        bar.length = max(1, total)
        bar.update(done - bar.pos)

    with ExitStack() as stack:
        yield show if shown and sys.stderr.isatty() else None


def _catch_up(setup: Setup) -> None:
    """Index what was archived since; what keeps that from being done is told, for what is indexed can be used."""
    from foldmark.sessions.archive.syncing import catch_up

    try:
        with _indexing() as progress:
            catch_up(os.environ, setup.given.sync_exclude, progress)
    except FoldmarkError as error:
        print(harmless(f"foldmark: what was archived last may be missing: {error}"), file=sys.stderr)


@click.command()
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=click.Path(path_type=Path))
@click.option("--quiet", "-q", is_flag=True, help="Print only what went wrong.")
@_AS_JSON
@click.pass_obj
def sync(setup: Setup, paths: tuple[Path, ...], quiet: bool, as_json: bool) -> int:
    """Archive and index coding agents' sessions.

    All of Claude Code and Codex that are new or have grown, or those in PATH: session files, or folders of them. May be
    interrupted and repeated at any time. Exit code 1 if a file could not be read.
    """
    from foldmark.interfaces.archive_render import synced_data, synced_text
    from foldmark.sessions.archive.syncing import sync as bring

    with _indexing(shown=not quiet) as progress:
        report = bring(os.environ, setup.given.sync_exclude, paths, progress)
    if as_json:
        print(json_text(synced_data(report)))
    elif not quiet:
        print(harmless(synced_text(report)))
    for path, why in report.problems:
        print(harmless(f"foldmark: {path}: {why}" if path not in why else f"foldmark: {why}"), file=sys.stderr)
    return 1 if report.problems else 0


@click.command()
@click.argument("query", nargs=-1)
@click.option("--limit", "-n", default=10, show_default=True, type=click.IntRange(1, 1000), help="The most hits.")
@click.option("--since", metavar="DATE", callback=_moment, help="Said then or later; UTC.")
@click.option("--before", metavar="DATE", callback=_moment, help="Said before then; UTC.")
@click.option("--project", metavar="TEXT", help="A part of the working folder, or of the conversation's name.")
@click.option("--agent", "--session", metavar="ID", help="A conversation or a session, or the beginning of its id.")
@click.option("--tool", metavar="NAME", help="Calls of this tool and what it answered.")
@click.option("--role", type=click.Choice(_ROLES), help="Who said it.")
@click.option("--visible/--forgotten", default=None, help="What is in its conversation's context, or no longer.")
@click.option("--read", "place", metavar="PLACE", help="Print what was said there: FILE:LINE or SESSION:LINE.")
@click.option("--around", type=click.IntRange(0, 1000), help=f"With --read: how many beside it.  [default: {_AROUND}]")
@_AS_JSON
@click.pass_obj
def search(
    setup: Setup,
    /,
    query: tuple[str, ...],
    limit: int,
    place: str | None,
    around: int | None,
    as_json: bool,
    **filters: Any,
) -> None:
    """Search conversations and archived coding sessions.

    Words in any order, "words that stand together", beginnings as in migrat*. What holds all words comes first.
    `foldmark search --read PLACE` prints a passage that was found, whole; without a LINE all that a session says.
    """
    from foldmark.interfaces import archive_render as render
    from foldmark.sessions.archive.storing import archive_folder

    archive, filtered = archive_folder(os.environ), any(value is not None for value in filters.values())
    if place is not None:
        from foldmark.sessions.archive.reading import read

        if query or filtered:
            raise click.UsageError("--read prints what stands at a place: leave out words and filters")
        passage = read(archive, place, _AROUND if around is None else around)
        print(json_text(passage) if as_json else harmless(render.passage_text(passage)))
        return
    if around is not None:
        raise click.UsageError("--around belongs to --read")
    if not query:
        raise click.UsageError("Missing argument 'QUERY'.", click.get_current_context())
    from foldmark.conversation.recalling import search_everything
    from foldmark.core.recall import Filters
    from foldmark.recall.query import read as check
    from foldmark.sessions.archive.index import NAME
    from foldmark.sessions.archive.searching import opened

    asked = " ".join(query)
    check(asked)
    _catch_up(setup)
    archived, logged = (archive / NAME).is_file(), "://" in setup.db or Path(setup.db).exists()
    if not archived and not logged:
        raise click.ClickException(
            "there is nothing to search yet: `foldmark sync` archives coding agents' sessions, `foldmark chat` starts "
            "a conversation"
        )
    with ExitStack() as stack:
        log = stack.enter_context(setup.log(create=False)) if logged else None
        wanted = Filters(**filters)
        hits = search_everything(asked, limit, wanted, log=log, archive=stack.enter_context(opened(archive, wanted)))
    if as_json:
        print(json_text({"query": asked, "hits": hits}))
        return
    print(render.hits_text(hits, filtered=filtered, bold=sys.stdout.isatty() and not os.environ.get("NO_COLOR")))
    if not archived:
        print("No coding agent's session is archived yet; `foldmark sync` does that.", file=sys.stderr)


@click.command()
@click.option("--limit", "-n", default=20, show_default=True, type=click.IntRange(0), help="The most of no lineage.")
@_AS_JSON
@click.pass_obj
def sessions(setup: Setup, limit: int, as_json: bool) -> None:
    """Show which coding session continued which.

    As trees, with why each session ended and how full its context was; then archived sessions that continue none, the
    newest first.
    """
    from foldmark.interfaces import archive_render as render
    from foldmark.sessions.archive.forest import archived_sessions, forest
    from foldmark.sessions.archive.index import NAME
    from foldmark.sessions.archive.storing import archive_folder

    archive = archive_folder(os.environ)
    _catch_up(setup)
    archived = archived_sessions(archive) if (archive / NAME).is_file() else []
    known = []
    if "://" in setup.db or Path(setup.db).exists():
        with setup.log(create=False) as log:
            known = log.store.coding_sessions()
    roots = forest(known, archived)
    trees = [node for node in roots if node.children or node.known]
    others = [node for node in roots if not node.children and not node.known]
    if as_json:
        print(json_text(render.forest_data(trees, others[:limit], len(others))))
    else:
        print(harmless(render.forest_text(trees, others[:limit], len(others))))
