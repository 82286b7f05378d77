"""The sizes of a request that is passed on, recorded with it and with its answer (`request/client_sizes.py`). Pure."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from foldmark.core.assembly.caching import weight
from foldmark.live.clients.dialect import ClientAnswer, ClientDialect, ClientRequest
from foldmark.overlay.ledger import KnownMessage, ranges
from foldmark.overlay.pieces import ClientMessage, decoded
from foldmark.request.client_sizes import MOVES, STAYS, SizedMessage, sizes_data


class PassedOn(NamedTuple):
    """A request that goes out: the client's messages, the prefix that the thinking of its answer is bound to (None if
    that is what the client sent), the newest event that its edit knew (0 if it is not edited), its bytes besides the
    messages, Foldmark's own text before its answer, the seconds for which the provider's cache keeps it (None if
    unknown), and True if the client installs edits itself."""

    messages: list[ClientMessage]
    prefix: str | None = None
    known: int = 0
    rest: int = 0
    said: str = ""
    lives: float | None = None
    installs: bool = False

    @classmethod
    def of(cls, request: ClientRequest, prefix: str | None, known: int) -> "PassedOn":
        """Return what is to be recorded of a request."""
        return cls(request.messages, prefix, known, request.begin + len(request.body) - request.end)


def sizes(
    dialect: ClientDialect,
    before: Sequence[KnownMessage],
    known: Sequence[KnownMessage],
    passed: PassedOn,
    answer: ClientAnswer | None = None,
    unanswered: Sequence[int] = (),
) -> dict[str, Any]:
    """Return the sizes of a request, and of its answer if there is one, as data. `before` are the messages after the
    newest answer before it, `known` those after this request or its answer; `unanswered` as in `client_sizes`. Cost
    grows with the messages since then."""
    # The answer before is measured again, as the client now repeats it.
    places = {id(each): place for place, each in enumerate(before[:-1])}
    kept = list[int]()
    while len(kept) < len(known) and (place := places.get(id(known[len(kept)]))) is not None:
        kept.append(place)
    at = len(kept)
    blocks = [each.blocks for each in passed.messages[at:]]
    placed = MOVES if dialect.moves_systems else STAYS
    systems = [placed if each.role == "system" else 0 for each in passed.messages[at:]]
    if answer is not None:
        made = answer.blocks or [msgspec.json.encode(part) for part in answer.parts]
        if len(known) > len(passed.messages):
            blocks.append(tuple(made))
            systems.append(0)
        else:  # the client will repeat the answer in one message with the newest one
            blocks[-1] = (*blocks[-1], *made)
    added = [
        _sized(dialect, each.ids, own, system=system)
        for each, own, system in zip(known[at:], blocks, systems, strict=True)
    ]
    return sizes_data(
        passed.known, passed.rest, ranges(kept), added, passed.lives, unanswered, installs=passed.installs
    )


def _sized(dialect: ClientDialect, ids: tuple[int, ...], blocks: Sequence[bytes], *, system: int) -> SizedMessage:
    found = [_weight(dialect, block) for block in blocks]
    if len(ids) != len(found):  # the client has divided the message differently since it was recorded
        ids, found = (next((id for id in ids if id), 0),), [sum(map(abs, found))]
    return SizedMessage(ids, tuple(found), system)


def _weight(dialect: ClientDialect, block: bytes) -> int:
    """Return the bytes of a block, negative for thinking."""
    about = decoded(block)
    read = {name: value for name, value in about.items() if name not in dialect.passing}
    own = weight(block if len(read) == len(about) else msgspec.json.encode(read))
    return -own if dialect.is_thinking(about) else own
