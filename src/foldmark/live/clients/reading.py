"""Cut the body of a request into its messages. Pure, except for the memory of a `RequestReader`."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw

from foldmark.live.clients.dialect import ClientDialect, ClientRequest, SentMessage, without_surrogates

_REMEMBERED = 8


class RequestReader:
    """Reads requests. A client sends its transcript again and again: the messages that a request shares with one of the
    newest ones are not decoded again."""

    def __init__(self) -> None:
        self._newest: list[ClientRequest] = []

    def read(self, dialect: ClientDialect, target: str, headers: Mapping[str, str], body: bytes) -> ClientRequest:
        """Read a request. Raises ValueError (which includes msgspec's errors) for a body with another structure."""
        candidates = [_shared(each, body) for each in self._newest if each.dialect is dialect]
        begin, at, sent = max(candidates, key=_place, default=(0, 0, ()))
        # The rest is a valid body: everything before the messages, then the remaining messages.
        rest = body[: begin + 1] + body[at:] if sent else body
        whole, text = _read_body(dialect, rest)
        messages = bytes(whole.messages)
        own = text.index(messages)
        new = _cut(dialect, rest, text, own, messages)
        end = own + len(messages) + (at - begin - 1 if sent else 0)
        head = dialect.head(target, headers, whole)
        request = ClientRequest(dialect, target, body, own, end, (*sent, *new), head)
        self._newest = [request, *(each for each in self._newest if each.sent[:1] != request.sent[:1])][:_REMEMBERED]
        return request


def _cut(dialect: ClientDialect, rest: bytes, text: bytes, own: int, messages: bytes) -> list[SentMessage]:
    """Return the messages of the list that begins at `own`. `text` is `rest` in the form that was decoded, with the
    same length."""
    items, places, place = msgspec.json.decode(messages, type=list[Raw]), list[tuple[int, int]](), own + 1
    for each in map(bytes, items):
        place = text.index(each, place)
        places.append((place, place + len(each)))
        place += len(each)
    found, first = list[SentMessage](), 0
    for many in dialect.grouped(list(map(bytes, items))):
        raw = rest[places[first][0] : places[first + many - 1][1]]
        found.append(SentMessage(raw, dialect.read(raw)))
        first += many
    return found


def _read_body(dialect: ClientDialect, body: bytes) -> tuple[Any, bytes]:
    """Read a body; return it together with the bytes that were decoded, which have the same length."""
    try:
        return msgspec.json.decode(body, type=dialect.body), body
    except msgspec.DecodeError:
        text = without_surrogates(body)
        return msgspec.json.decode(text, type=dialect.body), text


def _shared(before: ClientRequest, body: bytes) -> tuple[int, int, tuple[SentMessage, ...]]:
    """Return where the messages of a body begin, where those shared with an earlier request end, and the latter."""
    at = before.begin + 1
    if body[:at] != before.body[:at]:
        return 0, 0, ()
    shared = 0
    for each in before.sent:
        after = at + len(each.raw)
        # Without a comma it is the last one, or the item continues, as a number could.
        if not body.startswith(each.raw, at) or body[after : after + 1] != b",":
            break
        at, shared = after + 1, shared + 1
    if before.dialect.groups and shared:
        shared -= 1  # the items after it may belong to the last message
        at -= len(before.sent[shared].raw) + 1
    return before.begin, at, before.sent[:shared]


def _place(found: tuple[int, int, tuple[SentMessage, ...]]) -> int:
    return found[1]
