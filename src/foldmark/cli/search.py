"""`foldmark search`: everything that was said by its words, and what stands around a hit [SPEC 7]."""

import os
import re
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any, get_args

import click

from foldmark.app import Setup, nothing_to
from foldmark.cli.archive import caught_up
from foldmark.cli.completion import conversations
from foldmark.core.errors import CommandError, FoldmarkError
from foldmark.core.search import SPEAKERS, Mode, PassageMessage, SearchResult
from foldmark.log import Log
from foldmark.rendering import harmless, is_bold, json_text

_AROUND = 3


def _moment(context: click.Context, option: click.Parameter, value: str | None) -> datetime | None:
    """A date or a time in ISO 8601; UTC where it names no zone."""
    from foldmark.core.codec import utc

    try:
        return None if value is None else utc(value)
    except ValueError:
        told = f"'{value:.40}' is no date; write one as 2026-01-31 or 2026-01-31T12:00"
        raise click.BadParameter(told, context, option) from None


@click.command()
@click.argument("query", nargs=-1)
@click.option("--limit", "-n", default=10, show_default=True, type=click.IntRange(1, 1000), help="The most hits.")
@click.option(
    "--mode",
    type=click.Choice(get_args(Mode)),
    default="auto",
    show_default=True,
    help="By words (text), by meaning (vector), or both; auto: both where `foldmark index` has made vectors.",
)
@click.option("--since", metavar="DATE", callback=_moment, help="Said then or later; UTC.")
@click.option("--before", metavar="DATE", callback=_moment, help="Said before then; UTC.")
@click.option("--project", metavar="TEXT", help="A part of the working folder, or of the conversation's name.")
@click.option(
    "--agent",
    "--session",
    metavar="ID",
    shell_complete=conversations,
    help="A conversation or a session, or the beginning of its id.",
)
@click.option("--tool", metavar="NAME", help="Calls of this tool and what it answered.")
@click.option("--role", type=click.Choice(SPEAKERS), help="Who said it.")
@click.option("--visible/--forgotten", default=None, help="What is in its conversation's context, or no longer.")
@click.option(
    "--context", "-C", metavar="N", type=click.IntRange(1, 100), help="Also N messages before and behind each hit."
)
@click.option(
    "--read", "place", metavar="PLACE", help="Print what was said there: FILE:LINE, SESSION:LINE, an ID or NAME:ID."
)
@click.option("--around", type=click.IntRange(0, 1000), help=f"With --read: how many beside it.  [default: {_AROUND}]")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def search(
    setup: Setup,
    /,
    query: tuple[str, ...],
    limit: int,
    mode: Mode,
    context: int | None,
    place: str | None,
    around: int | None,
    as_json: bool,
    **filters: Any,
) -> None:
    """Search conversations, memos and archived coding sessions.

    Words in any order, "words that stand together", beginnings as in migrat*. What holds all words comes first.
    `foldmark search --read PLACE` prints a passage that was found, whole, forgotten or not; of a session without a LINE
    all that it says.
    """
    filtered = any(value is not None for value in filters.values())
    if place is not None:
        if query or filtered or context is not None:
            raise click.UsageError("--read prints what stands at a place: leave out words, filters and --context")
        _read(setup, place, _AROUND if around is None else around, as_json)
        return
    if around is not None:
        raise click.UsageError("--around belongs to --read")
    if not query:
        raise click.UsageError("Missing argument 'QUERY'.", click.get_current_context())
    from foldmark.cli.search_render import hits_text
    from foldmark.core.codec import well_formed
    from foldmark.core.search import Filters
    from foldmark.log.search import search_everything
    from foldmark.recall.embeddings.model import undivided
    from foldmark.recall.query import read as check
    from foldmark.sessions.archive.index import NAME
    from foldmark.sessions.archive.searching import opened
    from foldmark.sessions.archive.storing import archive_folder

    asked = " ".join(query)
    check(asked)
    caught_up(setup)
    archive = archive_folder(os.environ)
    archived, logged = (archive / NAME).is_file(), setup.has_database
    if not archived and not logged:
        raise click.ClickException(nothing_to("search"))
    with ExitStack() as stack:
        stack.enter_context(undivided())
        log = stack.enter_context(setup.log(create=False)) if logged else None
        wanted = Filters(**well_formed(filters))
        sessions = stack.enter_context(opened(archive, wanted, setup.given.recall_model))
        hits = search_everything(asked, limit, wanted, log=log, archive=sessions, mode=mode)
        beside = {hit: _beside(hit, log, archive, context) for hit in hits} if context else {}
    if as_json:
        print(json_text({"query": asked, "hits": _rows(hits, beside)}))
        return
    print(hits_text(hits, filtered=filtered, bold=is_bold(), beside=beside))
    if not archived:
        print("No coding agent's session is archived yet; `foldmark sync` does that.", file=sys.stderr)


def _beside(hit: SearchResult, log: Log | None, archive: Path, reach: int) -> list[PassageMessage]:
    """What stands around a hit; nothing if it cannot be read any more."""
    from foldmark.log.search import message_excerpt
    from foldmark.sessions.archive.reading import excerpt, read

    try:
        if log is not None and hit.event_id is not None:
            found = message_excerpt(log, hit.event_id, reach)
        elif hit.file is not None:
            found = excerpt(read(archive, f"{hit.file}:{hit.line}", reach))
        else:
            return []
    except FoldmarkError:
        return []
    return [line for line in found.lines if not line.asked]


def _rows(hits: Sequence[SearchResult], beside: dict[SearchResult, list[PassageMessage]]) -> list[dict[str, Any]]:
    """Hits as JSON, with their neighbours where these were asked for."""
    from msgspec import to_builtins

    from foldmark.cli.search_render import NEIGHBOUR
    from foldmark.core.codec import well_formed

    rows: list[dict[str, Any]] = []
    for hit in hits:
        around = [{**to_builtins(line), "text": line.text[:NEIGHBOUR]} for line in beside.get(hit, ())]
        rows.append(well_formed({**to_builtins(hit), **({"context": around} if beside else {})}))
    return rows


def _read(setup: Setup, place: str, reach: int, as_json: bool) -> None:
    """Print a message of a conversation, or a line of a session, with its neighbours."""
    from foldmark.cli.search_render import passage_text
    from foldmark.log.search import message_excerpt, message_named
    from foldmark.sessions.archive.index import IndexFileError
    from foldmark.sessions.archive.reading import read
    from foldmark.sessions.archive.storing import archive_folder
    from foldmark.sessions.places import NoSessionError

    with ExitStack() as stack:
        log = None
        try:
            log = stack.enter_context(setup.log(create=False)) if setup.has_database else None
        except FoldmarkError as error:
            print(harmless(f"foldmark: conversations cannot be read: {error}"), file=sys.stderr)
        if log is not None and (message := message_named(log, place)) is not None:
            shown = message_excerpt(log, message, reach)
            print(_messages(log, message, reach) if as_json else harmless(passage_text(shown)))
            return
    try:
        passage = read(archive_folder(os.environ), place, reach)
    except (NoSessionError, IndexFileError):
        if log is None or not re.fullmatch("[0-9]{1,18}", place):
            raise
        raise CommandError(f"there is no message {place}, and no archived session whose id begins so") from None
    print(json_text(passage) if as_json else harmless(passage_text(passage)))


def _messages(log: Log, message: int, reach: int) -> str:
    from foldmark.commands.show import message_json

    found = log.around(message, reach)
    with log.store.read() as moment:
        record = moment.agent(found[0].event.agent_id)
    rows = [
        {**message_json(each.event), "visible": each.visible, "erased": each.erased, "asked": each.event.id == message}
        for each in found
    ]
    return json_text({"agent": found[0].event.agent_id, "name": record.name if record else None, "messages": rows})
