"""Cut the body of a request into its messages. Pure, except for the memory of a `RequestReader`."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from foldmark.live.clients.dialect import ClientDialect, ClientRequest
from foldmark.overlay.pieces import SentMessage, without_surrogates

_REMEMBERED = 8


class RequestReader:
    """Reads requests, and looks for `texts` in their bodies. A client sends its transcript again and again: the
    messages that a request shares with one of the newest ones are not decoded and searched again."""

    def __init__(self, texts: Iterable[bytes] = ()) -> None:
        self._texts = tuple(texts)
        self._newest: list[ClientRequest] = []

    def read(self, dialect: ClientDialect, target: str, headers: Mapping[str, str], body: bytes) -> ClientRequest:
        """Read a request. Raises ValueError (which includes msgspec's errors) for a body with another structure."""
        candidates = [(_shared(each, body), each.texts) for each in self._newest if each.dialect is dialect]
        (begin, at, sent), texts = max(candidates, key=lambda found: found[0][1], default=((0, 0, ()), frozenset()))
        # The rest is a valid body: everything before the messages, then the remaining messages.
        rest = body[: begin + 1] + body[at:] if sent else body
        whole, text = _read_body(dialect, rest)
        messages = bytes(whole.messages)
        own = text.index(messages)
        places = _places(text, own, messages)
        if not sent:
            leading = dialect.leading([text[first:end] for first, end in places])
            begin = text.index(b",", places[leading - 1][1]) if 0 < leading < len(places) else own
        new = _cut(dialect, rest, text, [place for place in places if place[0] > begin])
        end = own + len(messages) + (at - begin - 1 if sent else 0)
        head, origin = dialect.head(target, headers, whole), dialect.agent.origin(headers, text)
        head = replace(head, **origin._asdict() | {"aside": head.aside or origin.aside})
        wanted = (*self._texts, *(each for each, *_ in dialect.long_caches))
        texts = frozenset(each for each in wanted if (sent and each in texts) or each in rest)
        request = ClientRequest(dialect, target, body, begin, end, (*sent, *new), head, texts)
        self._newest = [request, *(each for each in self._newest if each.sent[:1] != request.sent[:1])][:_REMEMBERED]
        return request


def _places(text: bytes, own: int, messages: bytes) -> list[tuple[int, int]]:
    """Return where each item of the list that begins at `own` begins and ends."""
    places, place = list[tuple[int, int]](), own + 1
    for each in map(bytes, msgspec.json.decode(messages, type=list[Raw])):
        place = text.index(each, place)
        places.append((place, place + len(each)))
        place += len(each)
    return places


def _cut(dialect: ClientDialect, rest: bytes, text: bytes, places: list[tuple[int, int]]) -> list[SentMessage]:
    """Return the messages that consist of the items at `places`. `text` is `rest` as it was decoded, with the same
    length."""
    found, first = list[SentMessage](), 0
    for many in dialect.grouped([text[begin:end] for begin, end in places]):
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
