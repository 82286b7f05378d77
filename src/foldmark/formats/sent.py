"""Make messages of the records of a session, as Claude Code sends them on resuming it [SPEC 8].

Import, export, trim and diagnosis agree on what is sent, because they ask here (see `claude.resumption`). In what a
person has abandoned, the records are in this order, too.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Generic, NamedTuple, TypeVar

from msgspec import Struct

from foldmark.formats.messages import ChainRecord

R = TypeVar("R", bound=ChainRecord)


class CallPart(NamedTuple, Generic[R]):
    """A call or a result: its record, and the id of the call."""

    row: R
    id: str


class SentMessages(Struct, Generic[R], frozen=True):
    """What is sent of records that are in sending order.

    `messages` are the records of each message of the request, answers and others in turn. `dropped` are the records
    that are left out. `lost` are results that are left out, or calls that are sent already. `missing` maps answers, by
    their place in `messages`, to their calls for which Claude Code makes up a result.
    """

    messages: list[list[R]]
    dropped: list[R]
    lost: list[CallPart[R]]
    missing: dict[int, list[str]]


def messages_of(order: Sequence[R]) -> SentMessages[R]:
    """Return the messages that are sent of these records."""
    results = {id for row in order if row.said for id in row.result_ids}
    dropped = [row for row in order if row.is_answer and row.calls and results.isdisjoint(row.calls)]
    gone = {id(row) for row in dropped}
    whole = {row.message_id for row in order if row.is_answer and not row.thinking and id(row) not in gone}
    for row in order:
        if row.is_answer and row.thinking and (row.message_id is None or row.message_id not in whole):
            dropped.append(row)
            gone.add(id(row))
    messages = _grouped(row for row in order if row.spoken and id(row) not in gone)
    lost: list[CallPart[R]] = []
    missing: dict[int, list[str]] = {}
    met: set[str] = set()
    waiting: dict[str, None] = {}
    for at, message in enumerate(messages):
        if message[0].is_answer:
            waiting = {}
            for row in message:
                for call in row.calls:
                    if call in met:
                        lost.append(CallPart(row, call))
                    else:
                        met.add(call)
                        waiting[call] = None
            behind = messages[at + 1] if at + 1 < len(messages) else []
            there = {call for row in behind for call in row.result_ids}
            if open := [call for call in waiting if call not in there]:
                missing[at] = open
            continue
        for row in message:
            for call in row.result_ids:
                if call in waiting:
                    del waiting[call]
                else:
                    lost.append(CallPart(row, call))
        waiting = {}
    return SentMessages(messages, dropped, lost, missing)


def sent_records(order: Sequence[R]) -> list[R]:
    """Return those of the records in sending order that are not left out whole."""
    found = messages_of(order)
    left = {id(row) for row in found.dropped}
    lost = {(id(row), call) for row, call in found.lost}
    left.update(id(row) for row in order if row.result_ids and all((id(row), call) in lost for call in row.result_ids))
    return [row for row in order if id(row) not in left]


def in_sending_order(records: Sequence[R], sent: SentMessages[R]) -> Iterator[R]:
    """Yield the records with a message as they are sent, and those that are left out behind what precedes them."""
    left = {record.line for record in sent.dropped}
    behind: dict[int, list[R]] = {}
    before = 0
    for record in records:
        if record.line in left:
            behind.setdefault(before, []).append(record)
        elif record.spoken:
            before = record.line
    yield from behind.get(0, ())
    for message in sent.messages:
        for record in message:
            yield record
            yield from behind.get(record.line, ())


def _grouped(rows: Iterable[R]) -> list[list[R]]:
    """Return the records of each message. Neighbours of one role are one message, and so are the lines of an answer
    with only other answers and messages with results between them. Results come first, in the order of their calls. In
    an answer, calls come last, unless one follows thinking."""
    messages: list[list[R]] = []
    answers: dict[str, list[R]] = {}
    for row in rows:
        last = messages[-1] if messages else []
        if not row.is_answer:
            if last and not last[0].is_answer:
                last.append(row)
            else:
                messages.append([row])
            continue
        if last and not last[0].is_answer and not any(each.result_ids for each in last):
            answers.clear()
        home = answers.get(row.message_id or "")
        if home is not None:
            home.append(row)
            continue
        messages.append([row])
        if row.message_id:
            answers[row.message_id] = messages[-1]
    order: dict[str, int] = {}
    for at, message in enumerate(messages):
        if message[0].is_answer:
            if not any(before.thinking and row.calls for before, row in pairwise(message)):
                message.sort(key=lambda row: bool(row.calls))
            order = {call: place for place, call in enumerate(call for row in message for call in row.calls)}
            continue
        end = len(order)
        results = [row for row in message if row.result_ids]
        results.sort(key=lambda row: min(order.get(call, end) for call in row.result_ids))
        messages[at] = [*results, *(row for row in message if not row.result_ids)]
    return messages
