"""Give the events of a conversation new ids in another database, and follow every reference to them.

The places of ids in the data of events are listed here and nowhere else (`_PLACES`). A value that has not the form of
its place stays as it is.
Texts keep the ids that were in them: they are what a person or a model has read.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias, TypeGuard

from msgspec import structs

from foldmark.core.agents import AgentRecord
from foldmark.core.assembly.sent import foreign_text_name
from foldmark.core.codec import decode_data, encode_data
from foldmark.core.events import MESSAGE_KINDS, OPERATION_KINDS
from foldmark.core.records import IMPORTED_LINE, CopiedEvent
from foldmark.core.segments import END

Run: TypeAlias = tuple[int, int, int]
"""First id in the source, last id in the source, first id in the target."""


class Renumbering:
    """The new ids of events, which keep their order, and the new uuids of `agents`."""

    def __init__(self, agents: Mapping[str, str]) -> None:
        self.agents = agents
        self._firsts, self._lasts, self._new = list[int](), list[int](), list[int]()

    @property
    def runs(self) -> Iterator[Run]:
        """The ids of events as runs of neighbouring ids, in order."""
        return zip(self._firsts, self._lasts, self._new, strict=True)

    def add(self, old: int, new: int) -> None:
        """Add an event. Both ids are above those added before."""
        if self._lasts and old == self._lasts[-1] + 1 and new - self._new[-1] == old - self._firsts[-1]:
            self._lasts[-1] = old
        else:
            self._firsts.append(old)
            self._lasts.append(old)
            self._new.append(new)

    def remove_newest(self) -> None:
        """Remove the event that was added last."""
        self._lasts[-1] -= 1
        if self._lasts[-1] < self._firsts[-1]:
            for each in (self._firsts, self._lasts, self._new):
                each.pop()

    def id(self, old: int) -> int:
        """Return the new id of an event, and of any other id that of the newest event before it. Special values (0 and
        below, `END`) stay."""
        if not 0 < old < END:
            return old
        at = bisect_right(self._firsts, old) - 1
        return 0 if at < 0 else self._new[at] + min(old, self._lasts[at]) - self._firsts[at]

    def beginning(self, old: int) -> int:
        """Return the new id of an event, and of any other id that of the oldest event after it."""
        if not 0 < old < END:
            return old
        at = bisect_left(self._lasts, old)
        if at == len(self._lasts):
            return 1 + self.id(old)
        return self._new[at] + max(old, self._firsts[at]) - self._firsts[at]

    def agent(self, old: str) -> str:
        """Return the uuid of an agent; that of an agent of another conversation stays."""
        return self.agents.get(old, old)

    # The places of ids

    def record(self, record: AgentRecord) -> AgentRecord:
        """Return an agent's record with its new ids."""
        parent = None if record.parent is None else self.agent(record.parent)
        events = {
            name: self.id(getattr(record, name)) for name in ("fork_event", "asked", "killed", "deleted", "archived")
        }
        return structs.replace(record, id=self.agent(record.id), parent=parent, root=self.agent(record.root), **events)

    def event(self, event: CopiedEvent) -> CopiedEvent:
        """Return an event, whose own id has been added, as it is stored in the target."""
        return structs.replace(
            event,
            id=self.id(event.id),
            agent=self.agent(event.agent),
            turn=self._optional(event.turn),
            answers=self._optional(event.answers),
            redacted=self._optional(event.redacted),
            content=self._lines(event) if _is_import(event) else event.content,
            data=self._data(event.kind, event.data),
        )

    def data(self, kind: str, data: dict[str, Any]) -> dict[str, Any]:
        """Return the data of an event."""
        for path, change in _PLACES.get(kind, ()):
            data = _changed(data, path, change, self)
        return data

    def _optional(self, old: int | None) -> int | None:
        return None if old is None else self.id(old)

    def _data(self, kind: str, text: str | None) -> str | None:
        places = _PLACES.get(kind, ())
        if text is None or not any(f'"{path[0]}"' in text for path, _ in places):
            return text
        return encode_data(kind, self.data(kind, decode_data(kind, text) or {}))

    def _lines(self, event: CopiedEvent) -> str:
        """Return the lines of an imported file with the new ids of their messages."""
        from binascii import a2b_base64, b2a_base64

        lines = bytearray()
        for key, first, length, before in IMPORTED_LINE.iter_unpack(a2b_base64(event.content)):
            new = self.id(first)
            lines += IMPORTED_LINE.pack(key, new, length, new - self.id(first - before))
        return b2a_base64(lines, newline=False).decode()


def _is_import(event: CopiedEvent) -> bool:
    return event.kind == "command" and event.redacted is None and '"import"' in (event.data or "")


_Change: TypeAlias = Callable[[Any, Renumbering], Any]
_Path: TypeAlias = tuple[str | int, ...]


def _changed(value: Any, path: _Path, change: _Change, to: Renumbering) -> Any:
    """Return a value with the part at `path` changed, if it is there. `*` stands for each item of a list or each value
    of a table."""
    if not path:
        return change(value, to)
    head, rest = path[0], path[1:]
    if isinstance(value, dict):
        if head == "*":
            return {key: _changed(each, rest, change, to) for key, each in value.items()}
        return {**value, head: _changed(value[head], rest, change, to)} if head in value else value
    if isinstance(value, list):
        if head == "*":
            return [_changed(each, rest, change, to) for each in value]
        if isinstance(head, int) and head < len(value):
            return [*value[:head], _changed(value[head], rest, change, to), *value[head + 1 :]]
    return value


def _ids(value: Any, to: Renumbering) -> Any:
    """Change an id, or all ids in a list of ids or of lists."""
    if isinstance(value, list):
        return [_ids(each, to) for each in value]
    return to.id(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _turns(value: Any, to: Renumbering) -> Any:
    """Change the id of a turn, or a list of them. A turn whose beginning is missing begins with the next event."""
    if isinstance(value, list):
        return [_turns(each, to) for each in value]
    return to.beginning(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _keys(value: Any, to: Renumbering) -> Any:
    """Change a table whose keys are ids."""
    return {_span(key, to): each for key, each in value.items()} if isinstance(value, dict) else value


def _ranges(value: Any, to: Renumbering) -> Any:
    """Change a list of ranges, each with its agent. A range without an event of the conversation is left out."""
    if not _are_ranges(value):
        return value
    found = [(to.agent(agent), to.beginning(first), to.id(last)) for agent, first, last in value]
    return [[agent, first, last] for agent, first, last in found if first <= last]


def _are_ranges(value: Any) -> TypeGuard[list[tuple[str, int, int]]]:
    return isinstance(value, list) and all(
        isinstance(each, list) and [*map(type, each)] == [str, int, int] for each in value
    )


def _agent(value: Any, to: Renumbering) -> Any:
    """Change the uuid of an agent, or all in a list."""
    if isinstance(value, list):
        return [_agent(each, to) for each in value]
    return to.agent(value) if isinstance(value, str) else value


def _tail(value: Any, to: Renumbering) -> Any:
    """Change a list of a key followed by ids."""
    return [value[0], *_ids(value[1:], to)] if isinstance(value, list) else value


def _span(value: Any, to: Renumbering) -> Any:
    """Change the ends of a span, `12..M`, that are ids."""
    if not isinstance(value, str):
        return value
    return "..".join(str(to.id(int(end))) if _is_id(end) else end for end in value.split(".."))


def _is_id(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= len(str(END))


def _foreign(value: Any, to: Renumbering) -> Any:
    """Change the names of texts: the memos of the target are others."""
    return {foreign_text_name(name): hash for name, hash in value.items()} if isinstance(value, dict) else value


def _words(value: Any, to: Renumbering) -> Any:
    """Change the ids in a reason of Foldmark's own, `read again by call 30`."""
    return re.sub(r"\bcall (\d+)", lambda found: f"call {to.id(int(found[1]))}", str(value))


_OPERATION: tuple[tuple[_Path, _Change], ...] = (
    *(((name,), _ids) for name in ("mark_id", "position", "kept", "evicted", "results", "widened")),
    *(((name,), _ids) for name in ("planning", "target", "closes")),
    *(((name,), _turns) for name in ("turn", "others", "pins")),
    *(((name,), _ranges) for name in ("ranges", "start", "inherited")),
    (("child",), _agent),
    (("span",), _span),
)

_SIZES: tuple[tuple[_Path, _Change], ...] = (
    (("sent", "known"), _ids),
    (("sent", "added", "*", 0), _ids),
    (("sent", "unanswered"), _ids),
)

_MESSAGE: tuple[tuple[_Path, _Change], ...] = (
    (("mail", "*", "from"), _agent),
    (("mail", "*", "id"), _ids),
    (("openai_agents", "with"), _ids),
)

_LAYERS = ("identity", "state", "scratchpad", "window_summary", "children")
"""Layers of a request that name events; that of memos names memos, which belong to no conversation."""

_REQUEST: tuple[tuple[_Path, _Change], ...] = (
    *(((name, "ranges"), _ranges) for name in ("only", "quoted")),
    *(((name, "ids"), _ids) for name in ("only", "quoted")),
    *((("plan", name), _ids) for name in ("first", "settled", "results", "bare", "pins")),
    *((("plan", "layers", layer), _ids) for layer in _LAYERS),
    *((("plan", "later", "*", layer), _ids) for layer in _LAYERS),
    *((("plan", name), _keys) for name in ("told", "later")),
    *((("edge", name), _ids) for name in ("first", "turn")),
    (("hashes",), _foreign),
    *(((name,), _ids) for name in ("event", "after", "upto")),
    *((("plan", "told", "*", name), _agent) for name in ("killed", "mail")),
    (("plan", "told", "*", "children", "*", "agent"), _agent),
    *((("plan", "told", "*", "children", "*", name), _ids) for name in ("goal", "turn")),
)

_PLACES: Mapping[str, tuple[tuple[_Path, _Change], ...]] = {
    **dict.fromkeys(MESSAGE_KINDS, _MESSAGE),
    **dict.fromkeys((*OPERATION_KINDS, "turn_ended"), _OPERATION),
    "command": (
        (("planning", "first"), _ids),
        (("preview", "ids"), _ids),
        (("suggested", "*", "result"), _ids),
        (("suggested", "*", "call"), _ids),
        (("suggested", "*", "because"), _words),
        (("import", "begin"), _ids),
        (("import", "hidden"), _ids),
        (("import", "back"), _ids),
    ),
    **dict.fromkeys(("config", "scratchpad"), ((("restores",), _ids),)),
    "mail": ((("from",), _agent),),
    "killed": ((("by",), _agent),),
    "window_summary": ((("from",), _ids), (("until",), _ids), (("turns",), _ids)),
    "request": _REQUEST,
    "usage": ((("request",), _ids), *_SIZES),
    "record": (
        (("live", "added", "*"), _tail),
        (("live", "told", "*"), _tail),
        (("live", "shares", "of", "*", 0), _ids),
        (("live", "sums", "shares"), _ids),
        (("live", "refused"), _ids),
        (("live", "child", 1), _agent),
        *((("live", *path), change) for path, change in _SIZES),
        (("openai_agents", "with"), _ids),
    ),
}
"""Kind of event -> the places of ids, ranges and agents in its data."""
