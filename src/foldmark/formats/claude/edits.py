"""Recognize the edits that a plugin installed in a running Claude Code session [SPEC 8].

A plugin may answer a compaction with the messages that stay. Then no summary follows the boundary of the compaction:
the client writes these messages again behind it. What stays as it was becomes a copy, with a new uuid and the same
time. What the plugin made anew becomes a new record, written just before the boundary. The first message that is newer
than the boundary is not part of the edit.

A copy is the record that it repeats. A new record is recognized by its content among all earlier messages: calls and
results by their ids, texts by equal texts but for white space. A result with a placeholder is the earlier result,
evicted. Recognition keeps the order of the earlier messages, and ends at the first message that is none of
them. That one and all that follow it are new messages, so that a log, which only grows, has them in the client's order.

What a session says elsewhere is never recognized: texts that look like Foldmark's own arrive in tool results.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from foldmark.core.assembly.eviction import CLIENT_OPENING, is_client_placeholder
from foldmark.formats.claude.blocks import read_message
from foldmark.formats.cut import is_cut
from foldmark.formats.messages import PreservedRecords, RecordEntry
from foldmark.wires.lenient_json import member
from foldmark.wires.parts import CallMessage, Part, ResultMessage, TextMessage

Read = Callable[[RecordEntry], Any]
"""Reads the record of an entry again."""

_SHARED = ("type", "subtype", "timestamp", "attachment", "content")
"""The members that a copy has in common with its record, beside those of its message."""

_JOINED = 64
"""Maximum number of texts that are recognized as one."""


class _Edit(NamedTuple):
    """The position of an edit's boundary, and those of the records that it wrote, in order."""

    boundary: int
    run: list[int]


class _Said(NamedTuple):
    """What a record says again: its place in the order of the messages, the lines of the earliest records with these
    messages (none for the opening text), and the calls whose results it evicts."""

    place: float
    lines: tuple[int, ...]
    evicts: tuple[str, ...] = ()


def edited(entries: Sequence[RecordEntry], read: Read) -> Sequence[RecordEntry]:
    """Return the entries of a session with its edits recognized: `edit` of their boundaries, and `copies` of the
    records that repeat others. What an edit wrote is one chain, as the client has it in memory.

    Nothing is read if the session has no edit. Cost grows with the records.
    """
    found, known, begin = list(entries), _Known(read), 0
    edits: list[_Edit] = []
    for edit in _edits(entries):
        known.add(found[begin : edit.boundary])
        begin = edit.run[-1] + 1
        run = [found[at] for at in edit.run]
        said = known.recognized(run)
        if any(each is not None for each in said):
            edits.append(edit)
            boundary = found[edit.boundary] = replace(found[edit.boundary], edit=True)
            for at, entry in zip(edit.run, _chained(boundary, run, said), strict=True):
                found[at] = entry
    if edits:
        _continue(found, edits)
    return found


def _edits(entries: Sequence[RecordEntry]) -> list[_Edit]:
    """Return the boundaries that have no summary and preserve nothing, with what was written behind them."""
    found: list[_Edit] = []
    summaries: set[datetime | None] = set()
    edit: _Edit | None = None
    for at, entry in enumerate(entries):
        if entry.aside or not entry.chained:
            continue
        if entry.boundary:
            edit = _Edit(at, []) if entry.uuid and entry.preserved is None else None
            continue
        if edit is not None:
            boundary = entries[edit.boundary]
            is_later = entry.moment is not None and boundary.moment is not None and entry.moment > boundary.moment
            is_summary = entry.compacts and entry.moment not in summaries
            if is_later or is_summary or not (edit.run or entry.parent == boundary.uuid):
                edit = edit if edit.run and not entry.spoken else None
            else:
                if not edit.run:
                    found.append(edit)
                edit.run.append(at)
        if entry.compacts:
            summaries.add(entry.moment)
    return found


def _chained(boundary: RecordEntry, run: Sequence[RecordEntry], said: Sequence[_Said | None]) -> list[RecordEntry]:
    """Return the records of an edit as one chain behind its boundary. They belong to no request, and to no answer that
    was written before."""
    found: list[RecordEntry] = []
    there, before = {boundary.uuid}, boundary.uuid
    for entry, each in zip(run, said, strict=True):
        fields: dict[str, Any] = {} if each is None else {"copies": each.lines, "evicts": each.evicts}
        if entry.message_id is not None:
            fields["message_id"] = f"{entry.message_id} {boundary.line}"
        if entry.parent not in there:  # a result's parent may be its call before the boundary
            fields["parent"] = before
        if entry.uuid is not None:
            before = entry.uuid
            there.add(before)
        found.append(replace(entry, usage=None, **fields))
    return found


def _continue(found: list[RecordEntry], edits: Sequence[_Edit]) -> None:
    """Let the records behind an edit, up to the next boundary, continue the copies of the records that they name."""
    uuids = {entry.line: entry.uuid for entry in found}
    begins = {edit.boundary: edit for edit in edits}
    copied: dict[str | None, str | None] = {}
    behind = 0
    for at, entry in enumerate(found):
        if entry.boundary:
            edit, copied = begins.get(at), {}
            if edit is not None:
                behind = edit.run[-1]
                copied = {uuids[line]: found[each].uuid for each in edit.run for line in found[each].copies or ()}
        elif copied and at > behind and entry.parent in copied:
            found[at] = replace(entry, parent=copied[entry.parent])


class _Known:
    """The messages of a session so far, to look them up by their content."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._records: dict[bytes, list[_Said]] = {}
        self._texts: dict[tuple[str, bytes], list[_Said]] = {}
        self._calls: dict[str, _Said] = {}
        self._results: dict[str, tuple[_Said, bytes]] = {}
        self._holds: dict[int, tuple[frozenset[str], int]] = {}
        self._places: dict[str, float] = {}
        self._preserved: dict[str | None, PreservedRecords | None] = {}
        self._answers: dict[str, _Texts] = {}
        self._asked: _Texts | None = None

    def add(self, entries: Iterable[RecordEntry]) -> None:
        """Add records that no edit wrote."""
        for entry in entries:
            if entry.boundary:
                self._preserved[entry.uuid] = entry.preserved
            elif entry.chained and not entry.aside:
                self._add(entry, self._read(entry))

    def recognized(self, run: Sequence[RecordEntry]) -> list[_Said | None]:
        """Return for each record of an edit what it says again; None if it says something new. Add those that are not
        copies."""
        found: list[_Said | None] = []
        copied: list[bool] = []
        values = [self._read(entry) for entry in run]
        at, calls = _Position(), dict[str, int]()
        end = len(run)
        for number, (entry, value) in enumerate(zip(run, values, strict=True)):
            said = self._copied(entry, value, at)
            copied.append(said is not None)
            if said is None and number < end and entry.spoken:
                behind = next((each for each in range(number + 1, len(run)) if run[each].spoken), None)
                near = None if behind is None else self._first(run[behind], values[behind], at)
                said = self._made(entry, read_message(value).parts, at, near)
                if said is None:  # with a new result, its call is new, too
                    end = min([number, *(calls[call] for call in entry.results if call in calls)])
            calls.update(dict.fromkeys(entry.calls, number))
            found.append(said)
        for number, (entry, value) in enumerate(zip(run, values, strict=True)):
            said = found[number]
            if said is None or (number >= end and entry.spoken):
                found[number] = None
                self._add(entry, value)
            else:
                self._places[entry.uuid or ""] = said.place
                if not copied[number]:
                    insort(self._records.setdefault(_digest_of(value), []), said)
        return found

    def _copied(self, entry: RecordEntry, value: Any, at: "_Position") -> _Said | None:
        """Return what a copy says again; None if the record is no copy."""
        key = _digest_of(value)
        known = self._records.get(key, ())
        if known and not (entry.spoken and known[0].lines):
            return known[0]  # it has no place in the order
        # A resumed client has the lines of an answer as often as they are written, and writes all of them again.
        return at.next(key, known) or next((each for each in known if at.reaches(each.place)), None)

    def _first(self, entry: RecordEntry, value: Any, at: "_Position") -> float | None:
        """Return the first place at which a record may say something again, if there is one."""
        known = self._records.get(_digest_of(value)) or ()
        parts = read_message(value).parts
        texts = [part.text for part in parts if isinstance(part, TextMessage) and part.text.strip()]
        if not known and entry.calls:
            known = [said for said in map(self._calls.get, entry.calls) if said is not None]
        elif not known and not entry.results:
            known = self._texts.get((entry.role or "", _digest(" ".join(texts))), ())
        return at.first(known)

    def _made(
        self, entry: RecordEntry, parts: Sequence[Part], at: "_Position", near: float | None = None
    ) -> _Said | None:
        """Return what a record says again that was made anew; None if any of it is new. Of several equal prompts, it is
        the last one before the place `near`, at which the next message is."""
        texts = [part.text for part in parts if isinstance(part, TextMessage) and part.text.strip()]
        lines: dict[int, None] = {}
        place, evicts = 0.0, list[str]()
        for part in parts:
            if isinstance(part, TextMessage):
                continue
            said = self._calls.get(part.call_id)
            if isinstance(part, ResultMessage):
                said, text = self._results.get(part.call_id, (None, b""))
                if _digest(_uncut(part.text)) != text:
                    if not is_client_placeholder(part.text.strip()):
                        return None
                    evicts.append(part.call_id)  # its length is another one if a trim has cut the result
            if said is None:
                return None
            lines.update(dict.fromkeys(said.lines))
            place = max(place, said.place)
        ids = {*entry.calls, *entry.results}
        if ids != {id for line in lines for id in self._holds[line][0]} or not at.reaches(place):
            return None
        own = sum(self._holds[line][1] for line in lines)
        if texts:
            key = (entry.role or "", _digest(" ".join(texts)))
            known = self._texts.get(key, ())
            if near is not None and entry.role == "user":
                place = max(place, at.last(known, near))
            said = at.next(key, known, place, only=bool(entry.calls))
            if said is None and texts == [CLIENT_OPENING] and not lines and entry.role == "user":
                return _Said(0, ())
            if said is None:
                return None
            own -= sum(self._holds[line][1] for line in said.lines if line in lines)
            lines.update(dict.fromkeys(said.lines))
            place = max(place, said.place)
        if own or not lines:
            return None
        at.go(place)
        return _Said(place, tuple(sorted(lines)), tuple(evicts))

    def _add(self, entry: RecordEntry, value: Any) -> None:
        parts = read_message(value).parts
        texts = [part.text for part in parts if isinstance(part, TextMessage) and part.text.strip()]
        group = self._group(entry)
        place: float = group.place if entry.is_answer and group is not None else entry.line
        place = min((self._calls[call].place for call in entry.results if call in self._calls), default=place)
        if entry.compacts:
            place = self._before_preserved(entry, place)
        self._places[entry.uuid or ""] = place
        own = _Said(place, (entry.line,))
        insort(self._records.setdefault(_digest_of(value), []), own)
        self._holds[entry.line] = frozenset((*entry.calls, *entry.results)), len(texts)
        for part in parts:
            if isinstance(part, CallMessage):
                self._calls.setdefault(part.call_id, own)
            elif isinstance(part, ResultMessage):
                self._results.setdefault(part.call_id, (own, _digest(_uncut(part.text))))
        if texts and entry.role:
            text = " ".join(texts)
            insort(self._texts.setdefault((entry.role, _digest(text)), []), own)
            joined = group.joined(entry.line, text) if group is not None else b""
            if group is not None and 1 < len(group.lines) <= _JOINED:
                insort(self._texts.setdefault((entry.role, joined), []), _Said(place, tuple(group.lines)))

    def _before_preserved(self, summary: RecordEntry, place: float) -> float:
        """Return the place of a summary: before the messages that follow it, although they are older."""
        kept = self._preserved.get(summary.parent)
        if kept is None or kept.anchor != summary.uuid:
            return place
        places = (self._places[uuid] for uuid in (*kept.uuids, kept.head) if uuid in self._places)
        return min((each - 0.5 for each in places), default=place)

    def _group(self, entry: RecordEntry) -> "_Texts | None":
        """Return the texts with which those of a record may be joined; None if there are none."""
        if entry.is_answer:
            self._asked = None
            return self._answers.setdefault(entry.message_id, _Texts(entry.line)) if entry.message_id else None
        if entry.role != "user" or entry.raised or entry.results:
            return None
        self._asked = self._asked or _Texts(entry.line)
        return self._asked


class _Position:
    """How far an edit has come in the order of the messages."""

    def __init__(self) -> None:
        self._place, self._used = 0.0, dict[Any, int]()

    def reaches(self, place: float) -> bool:
        """Return True if a message at this place keeps the order."""
        return place == 0 or place >= self._place

    def go(self, place: float) -> None:
        """Continue behind a message."""
        self._place = max(self._place, place)

    def first(self, known: Sequence[_Said]) -> float | None:
        """Return the first of the messages' places that keeps the order; None if there is none."""
        at = bisect_left(known, (self._place,))
        return known[at].place if at < len(known) else None

    def last(self, known: Sequence[_Said], place: float) -> float:
        """Return the last of the messages' places that keeps the order and is before `place`; 0 if there is none."""
        at = bisect_left(known, (place,)) - 1
        return known[at].place if at >= 0 and known[at].place >= self._place else 0

    def next(self, key: Any, known: Sequence[_Said], place: float = 0, *, only: bool = False) -> _Said | None:
        """Return the first of the messages with this key that keeps the order, and continue behind it; None if there is
        none. It is at `place` or behind it; `only` at it."""
        at = max(bisect_left(known, (max(self._place, place),)), self._used.get(key, 0))
        if at >= len(known) or (only and known[at].place != place):
            return None
        self._used[key] = at + 1
        self.go(known[at].place)
        return known[at]


class _Texts:
    """The texts of one answer, or of the user between two answers."""

    def __init__(self, place: float) -> None:
        self.place, self.lines, self._hash = place, list[int](), blake2b(digest_size=16)

    def joined(self, line: int, text: str) -> bytes:
        """Add a text, and return the digest of all of them."""
        if len(self.lines) <= _JOINED:
            self._hash.update((b" " if self.lines else b"") + _plain(text))
            self.lines.append(line)
        return self._hash.digest()


def _uncut(text: str) -> str:
    """Return a result without the line in which a trim names its place, which differs from copy to copy."""
    return text.rpartition("\n")[0] if is_cut(text) else text


def _digest(text: str) -> bytes:
    return blake2b(_plain(text), digest_size=16).digest()


def _plain(text: str) -> bytes:
    return " ".join(text.split()).encode("utf-8", "surrogatepass")


def _digest_of(value: Any) -> bytes:
    """Return a digest that a copy shares with its record. Of calls and results it has only the ids: a trim cuts each
    of them differently."""
    about = [member(value, name) for name in _SHARED]
    about.append(member(value, "message", "id"))
    content = member(value, "message", "content")
    about.append([_bare(block) for block in content] if isinstance(content, list) else content)
    return blake2b(msgspec.json.encode(about), digest_size=16).digest()


def _bare(block: Any) -> Any:
    """Return a block, or what identifies a call or a result."""
    kind = member(block, "type")
    if kind == "tool_use":
        return [kind, block.get("id")]
    return [kind, block.get("tool_use_id")] if kind == "tool_result" else block
