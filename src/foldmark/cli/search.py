"""`foldmark search`: results by words and by meaning, each with its surrounding passage [SPEC 7]."""

import os
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from foldmark.app import Setup, nothing_to
from foldmark.cli.parameters import Number, conversations, reporting
from foldmark.cli.process import warn
from foldmark.cli.sessions import update_index
from foldmark.core.errors import CommandError, FoldmarkError
from foldmark.core.search import FILTERED_ROLES, Mode, PassageMessage, SearchResult
from foldmark.core.wording import one_line, title
from foldmark.log import Log
from foldmark.rendering import harmless, is_bold, json_text, marked

if TYPE_CHECKING:
    from foldmark.core.search import Excerpt

_AROUND = 3

NEIGHBOUR = 2000
"""Maximum number of characters of a message next to the requested one."""

LINE = 120
"""Maximum number of characters of a neighbour that is shown on one line."""


def _date(context: click.Context, option: click.Parameter, value: str | None) -> datetime | None:
    """Parse an ISO 8601 date or time; without a time zone, it is UTC."""
    from foldmark.core.codec import utc

    try:
        return None if value is None else utc(value)
    except ValueError:
        why = f"'{value:.40}' is not a date; write one as 2026-01-31 or 2026-01-31T12:00"
        raise click.BadParameter(why, context, option) from None


@click.command()
@click.argument("query", nargs=-1)
@click.option(
    "--limit",
    "-n",
    metavar="N",
    default=10,
    show_default=True,
    type=Number(1, 1000),
    help="Maximum number of results.",
)
@click.option(
    "--mode",
    type=click.Choice(get_args(Mode)),
    default="auto",
    show_default=True,
    help="Search by words (text), by meaning (vector), or both; auto: both if `foldmark index` has made vectors.",
)
@click.option("--since", metavar="DATE", callback=_date, help="Only messages from DATE on; UTC.")
@click.option("--before", metavar="DATE", callback=_date, help="Only messages before DATE; UTC.")
@click.option("--project", metavar="TEXT", help="Only where the working folder or the name contains TEXT.")
@click.option(
    "--agent",
    "--session",
    metavar="ID",
    shell_complete=conversations,
    help="Only this conversation or session, or those whose id begins so.",
)
@click.option("--tool", metavar="NAME", help="Only calls of this tool and its results.")
@click.option("--role", type=click.Choice(FILTERED_ROLES), help="Only messages of this role.")
@click.option("--visible/--forgotten", default=None, help="Only messages in a context, or out of it.")
@click.option(
    "--context",
    "-C",
    metavar="N",
    type=Number(1, 100),
    help="Also show N messages around each result.",
)
@click.option("--read", "place", metavar="PLACE", help="Print the message at FILE:LINE, SESSION:LINE, ID or NAME:ID.")
@click.option(
    "--around",
    metavar="N",
    type=Number(0, 1000),
    help=f"With --read: print N messages on each side.  [default: {_AROUND}]",
)
@reporting
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

    QUERY takes words in any order, "phrases in quotes", and beginnings as in migrat*. Messages with all words come
    first. `foldmark search --read PLACE` prints a message of the results whole, forgotten or not; a session without a
    LINE prints all of its messages.
    """
    filtered = any(value is not None for value in filters.values())
    if place is not None:
        if query or filtered or context is not None:
            raise click.UsageError("--read prints the message at a place: leave out words, filters and --context")
        _read(setup, place, _AROUND if around is None else around, as_json)
        return
    if around is not None:
        raise click.UsageError("--around requires --read")
    if not query:
        raise click.UsageError("Missing argument 'QUERY'.", click.get_current_context())
    from foldmark.core.codec import well_formed
    from foldmark.core.search import Filters
    from foldmark.log.search import search_everything
    from foldmark.recall.embeddings.model import undivided
    from foldmark.recall.query import read as check
    from foldmark.sessions.archive.searching import opened
    from foldmark.sessions.archive.storing import archive_folder

    text = " ".join(query)
    check(text)
    update_index(setup)
    archive, wanted = archive_folder(os.environ), Filters(**well_formed(filters))
    with ExitStack() as stack:
        stack.enter_context(undivided())
        log = stack.enter_context(setup.log(create=False)) if setup.has_database else None
        sessions = stack.enter_context(opened(archive, wanted, setup.given.recall_model))
        if log is None and sessions is None:
            raise click.ClickException(nothing_to("search"))
        hits = search_everything(text, limit, wanted, log=log, archive=sessions, mode=mode)
        neighbours = {hit: _neighbours(hit, log, archive, context) for hit in hits} if context else {}
    if as_json:
        print(json_text({"query": text, "hits": _rows(hits, neighbours)}))
        return
    print(hits_text(hits, filtered=filtered, bold=is_bold(), neighbours=neighbours))
    if sessions is None:
        print("No coding agent's session is archived yet; `foldmark sync` archives them.", file=sys.stderr)


def _neighbours(hit: SearchResult, log: Log | None, archive: Path, reach: int) -> list[PassageMessage]:
    """Return the messages around a hit; empty if they can no longer be read."""
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


def _rows(hits: Sequence[SearchResult], neighbours: dict[SearchResult, list[PassageMessage]]) -> list[dict[str, Any]]:
    from msgspec import to_builtins

    from foldmark.core.codec import well_formed

    rows: list[dict[str, Any]] = []
    for hit in hits:
        around = [{**to_builtins(line), "text": line.text[:NEIGHBOUR]} for line in neighbours.get(hit, ())]
        rows.append(well_formed({**to_builtins(hit), **({"context": around} if neighbours else {})}))
    return rows


def hits_text(
    hits: Sequence[SearchResult],
    *,
    bold: bool,
    filtered: bool = False,
    neighbours: Mapping[SearchResult, Sequence[PassageMessage]] = {},
) -> str:
    """Return hits as text, grouped by session or conversation, the group with the best hit first. `filtered` is True if
    the search had filters. `neighbours` are the messages to show with each hit."""
    if not hits:
        return f"No messages match{' these words and filters' if filtered else ''}."
    groups: dict[tuple[str, str], list[SearchResult]] = {}
    for hit in hits:
        groups.setdefault((hit.source, hit.id), []).append(hit)
    return "\n\n".join("\n".join(_group(group, bold, neighbours)) for group in groups.values())


def _passage_text(shown: "Excerpt") -> str:
    from foldmark.core.search import excerpt_text

    return harmless(excerpt_text(shown, None, NEIGHBOUR, "foldmark search --read "))


def _place(hit: SearchResult) -> str | None:
    """Return the place of a hit for `--read`; None for a memo."""
    if hit.event_id is not None:
        return f"{hit.name}:{hit.event_id}"
    return f"{hit.file}:{hit.line}" if hit.file else None


def _group(
    hits: Sequence[SearchResult], bold: bool, neighbours: Mapping[SearchResult, Sequence[PassageMessage]]
) -> list[str]:
    from foldmark.formats.session_format import title_of

    first = hits[0]
    date = (first.at or "no date")[:10]
    if first.source == "memo":
        lines = [f"{date}  memo {first.id}{f' [{one_line(first.name)}]' if first.name else ''}"]
    elif first.source == "conversation":
        lines = [f"{date}  conversation '{one_line(first.name)}', agent {first.id[:8]}"]
    else:
        lines = [f"{date}  {one_line(first.name)}  {title_of(first.source)} session {one_line(first.id)}"]
    for hit in hits:
        lines.append(f"  {hit.who}: {marked(hit.snippet, hit.highlights, bold=bold)}")
        if (at := _place(hit)) is not None:
            where = "  out" if hit.visible is False else ""
            lines.append(f"    {one_line(at)}{where}")
        lines += [
            f"      {one_line(each.place)}, {each.who}: {title(each.text, LINE)}" for each in neighbours.get(hit, ())
        ]
    return lines


def _read(setup: Setup, place: str, reach: int, as_json: bool) -> None:
    """Print a message of a conversation, or a line of a session, with its neighbours."""
    from foldmark.formats.places import NoSessionError
    from foldmark.log.search import message_excerpt, message_named
    from foldmark.sessions.archive.index import IndexFileError
    from foldmark.sessions.archive.reading import excerpt, read
    from foldmark.sessions.archive.storing import archive_folder

    with ExitStack() as stack:
        log = None
        try:
            log = stack.enter_context(setup.log(create=False)) if setup.has_database else None
        except FoldmarkError as error:
            warn(f"conversations cannot be read: {error}")
        if log is not None and (message := message_named(log, place)) is not None:
            print(_messages(log, message, reach) if as_json else _passage_text(message_excerpt(log, message, reach)))
            return
    try:
        passage = read(archive_folder(os.environ), place, reach)
    except (NoSessionError, IndexFileError):
        if log is None or not re.fullmatch("[0-9]{1,18}", place):
            raise
        raise CommandError(
            f"there is no message {place}, and no archived session whose id begins with it; `foldmark search` shows ids"
        ) from None
    print(json_text(passage) if as_json else _passage_text(excerpt(passage)))


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
