"""The rows of Claude Code's transcript, and the messages that it sends of them. Pure.

A row is what a mod gets and returns of a message: its role, its text, its calls and its results, and a handle by which
the client knows it. The client sends neighbouring rows as one message, with texts that it adds by itself. An edit is
computed on messages in which every block has a mark. So what is left of them names the rows that stay.

Only prompts are returned with their handles. The client writes what stays into its transcript once more. When it
resumes the session, it adds all lines of an answer that it finds there, and the copy of a result still continues the
call in front of the edit. So an answer that kept its id was sent twice, and a result brought dropped turns back. What
has no handle is another record to the client. Answers lose their thinking by that. Results with images or documents
keep their handles, because only their text could be written.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from foldmark.formats.claude.told import is_injected
from foldmark.live.clients.anthropic import ANTHROPIC
from foldmark.overlay.edit import EditedMessages
from foldmark.overlay.pieces import SentMessage, decoded
from foldmark.wires.anthropic import RESULT, USE

Row = Mapping[str, Any]
"""A row as the client hands it over: `role`, `text`, `toolUses`, `toolResults`, `handle`."""

MARK = "_place"
"""The member that marks a block with its message and its place in it."""

OPENING = str(decoded(ANTHROPIC.opening)["content"][0]["text"])
"""The text of a row that is installed where nothing stays, where an answer would be first, and between answers."""

_OPENING: Mapping[str, Any] = {"type": "text", "text": OPENING}

_END = "_end"
_PROMPT = msgspec.json.encode({"role": "user", "content": [{"type": "text", "text": "?", _END: True}]})
ASKED = SentMessage(_PROMPT, ANTHROPIC.read(_PROMPT))
"""A prompt that stands for the next one while an edit is computed."""

Place = tuple[int, int]


def without_repeated(messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return messages without calls and results that an earlier block repeats. A client that has resumed a session with
    edits lists results once more for each edit, and sends them once."""
    met: set[tuple[str, Any]] = set()
    found: list[Mapping[str, Any]] = []
    for message in messages:
        content = []
        for block in message["content"]:
            key = (str(block.get("type")), block.get("tool_use_id") or block.get("id"))
            if key[1] is None or key not in met:
                content.append(block)
            met.add(key)
        if content:
            found.append(message if len(content) == len(message["content"]) else {**message, "content": content})
    return found


def without_asked(edited: EditedMessages) -> EditedMessages:
    """Return an edit without `ASKED`."""
    found = []
    for about in map(decoded, edited.messages):
        content = [block for block in about["content"] if _END not in block]
        if content:
            found.append(msgspec.json.encode({**about, "content": content}))
    return edited._replace(messages=found)


class Rows:
    """The rows of a transcript, and the messages of the same moment. `of` maps the place of a block (message, block) to
    the number of its row; what the client adds by itself has none, nor has thinking, which no edit keeps."""

    def __init__(self, rows: Sequence[Row], messages: Sequence[Mapping[str, Any]]) -> None:
        self.rows, self._messages = rows, messages
        self.of: dict[Place, int] = {}
        self._calls = {_id(use): at for at, row in enumerate(rows) for use in row.get("toolUses") or ()}
        self._results = {_id(each): at for at, row in enumerate(rows) for each in row.get("toolResults") or ()}
        self._next = 0
        for place, block in self._blocks():
            row = self._row_of(self._role(place), block)
            if row >= 0:
                self.of[place] = row
                self._next = max(self._next, row)

    def _row_of(self, role: str, block: Mapping[str, Any]) -> int:
        """Return the number of a block's row, -1 if it has none. That of thinking is not looked for."""
        kind = block.get("type")
        if kind == USE:
            return self._calls.get(block.get("id"), -1)
        if kind == RESULT:
            return self._results.get(block.get("tool_use_id"), -1)
        text = str(block.get("text", "")).strip()
        if ANTHROPIC.is_thinking(block) or (kind == "text" and (not text or _is_injected(role, block))):
            return -1
        for at in range(self._next, len(self.rows)):
            row = self.rows[at]
            if row.get("role") == role and (text in str(row.get("text", "")) if text else bool(row.get("text"))):
                return at
        return -1

    def marked(self, sent: Iterable[SentMessage]) -> list[SentMessage]:
        """Return the messages with their blocks marked. `sent` are the messages of these rows, which may be divided
        into several. They keep their keys: the marks are no part of them."""
        places = (place for place, _ in self._blocks())
        found = []
        for each in sent:
            about = decoded(each.raw)
            content = [{**block, MARK: place} for block, place in zip(about["content"], places, strict=False)]
            found.append(each._replace(raw=msgspec.json.encode({**about, "content": content})))
        return found

    def has_stray_opening(self, edited: EditedMessages) -> bool:
        """Return True if an edit of `marked` leaves Foldmark's own opening where no two answers would be neighbours
        without it. In front of everything it stays: what follows was answered with it."""
        said = [
            (str(message["role"]), block)
            for message in map(decoded, edited.messages)
            for block in message["content"]
            if not _is_injected(str(message["role"]), block)
        ]
        return any(
            _opens(block) and not said[at - 1][0] == "assistant" == (said[at + 1][0] if at + 1 < len(said) else "")
            for at, (_, block) in enumerate(said)
            if at
        )

    def contents(self, edited: EditedMessages) -> list[tuple[Place | None, Mapping[str, Any]]]:
        """Return the contents that are installed for an edit of `marked`, in order: each with its place before, None if
        there was none. The client's own texts and thinking are none of them."""
        return [
            (_place(block), block)
            for role, blocks in self._parts(edited)
            for block in blocks
            if not _is_injected(role, block) and not ANTHROPIC.is_thinking(block)
        ]

    def changes(self, edited: EditedMessages) -> bool:
        """Return True if an edit of `marked` changes what is sent."""
        before = [
            (place, block)
            for place, block in self._blocks()
            if not _is_injected(self._role(place), block) and not ANTHROPIC.is_thinking(block)
        ]
        after = self.contents(edited)
        return len(before) != len(after) or any(
            mine != theirs or not _same(left, block)
            for (mine, block), (theirs, left) in zip(before, after, strict=True)
        )

    def installed(self, edited: EditedMessages) -> list[dict[str, Any]] | None:
        """Return the rows of an edit of `marked`, in which what stays has its handle; None if nothing changes."""
        if not self.changes(edited):
            return None
        parts, blocks = list(self._parts(edited)), dict(self._blocks())
        left = ((_place(block), block) for _, own in parts for block in own)
        stays = {place for place, block in left if place is not None and _same(block, blocks[place])}
        broken = {row for place, row in self.of.items() if place not in stays}
        complete = set(self.of.values()) - broken - self._texts_of_results()
        return [row for role, own in parts for row in self._rows_of(role, own, complete)]

    def _parts(self, edited: EditedMessages) -> Iterator[tuple[str, Sequence[Mapping[str, Any]]]]:
        """Yield the role and the blocks of each part of an edit. Answers that became neighbours are apart, with the
        opening between them: a row is one answer, and a provider may refuse two in a row. It precedes an answer that
        would be first, and stands alone if nothing is left: the client would summarize a transcript without a row."""
        before = ""
        for message in map(decoded, edited.messages):
            role, runs = str(message["role"]), list[list[Mapping[str, Any]]]()
            newest: object = None
            for block in message["content"]:
                place = _place(block)
                own = -1 if place is None else place[0]
                if not runs or (role == "assistant" and (own != newest or _follows_text(runs[-1], block))):
                    runs.append([])
                runs[-1].append(block)
                newest = own
            for run in runs:
                if all(_is_injected(role, block) for block in run):
                    continue  # the client adds these by itself
                if role == "assistant" and before != "user":  # the client adds its own texts to a later prompt
                    yield "user", [_OPENING]
                yield role, run
                before = role
        if not before:
            yield "user", [_OPENING]

    def _rows_of(self, role: str, blocks: Sequence[Mapping[str, Any]], complete: set[int]) -> Iterator[dict[str, Any]]:
        """Yield the rows of a part: one for an answer."""
        own = [block for block in blocks if not self._is_added(block)]
        rows = [-1 if (place := _place(block)) is None else self.of.get(place, -1) for block in own]
        complete = set() if role == "assistant" else complete
        done: set[int] = set()
        new: list[Mapping[str, Any]] = []
        for block, row in zip(own, rows, strict=True):
            if row not in complete:
                new.append(block)
                continue
            if built := _built(role, new):
                yield built
            new = []
            if row not in done:
                done.add(row)
                yield dict(self.rows[row])
        if built := _built(role, new):
            yield built

    def _texts_of_results(self) -> set[int]:
        """Return the rows of results that are nothing but texts."""
        found = {at for at, row in enumerate(self.rows) if row.get("toolResults")}
        for (place, at), row in self.of.items():
            content = self._messages[place]["content"][at].get("content")
            if isinstance(content, list) and any(each.get("type") != "text" for each in content):
                found.discard(row)
        return found

    def _is_added(self, block: Mapping[str, Any]) -> bool:
        """Return True for a text that the client adds by itself, and adds again."""
        place = _place(block)
        return place is not None and place not in self.of and not ANTHROPIC.is_thinking(block)

    def _role(self, place: Place) -> str:
        return str(self._messages[place[0]]["role"])

    def _blocks(self) -> Iterator[tuple[Place, Mapping[str, Any]]]:
        for place, message in enumerate(self._messages):
            for at, block in enumerate(message["content"]):
                yield (place, at), block


def _id(about: Mapping[str, Any]) -> Any:
    return about.get("tool_use_id") or about.get("id")


def _place(block: Mapping[str, Any]) -> Place | None:
    found = block.get(MARK)
    return (found[0], found[1]) if isinstance(found, list) else None


def _is_injected(role: str, block: Mapping[str, Any]) -> bool:
    """Return True for a text that the client adds by itself."""
    return role == "user" and block.get("type") == "text" and is_injected(str(block.get("text", "")))


def _follows_text(blocks: Sequence[Mapping[str, Any]], block: Mapping[str, Any]) -> bool:
    """Return True for a text directly behind another one: a row has only one, and the client would send both as one."""
    said: Mapping[str, Any] = next((each for each in reversed(blocks) if not ANTHROPIC.is_thinking(each)), {})
    return block.get("type") == said.get("type") == "text"


def _opens(block: Mapping[str, Any]) -> bool:
    return block.get("type") == "text" and str(block.get("text", "")).strip() == OPENING


def _same(block: Mapping[str, Any], before: Mapping[str, Any]) -> bool:
    """Return True if an edit has left a block as it was."""
    return block.get("type") == before.get("type") and text_of(block) == text_of(before)


def text_of(block: Mapping[str, Any]) -> str:
    """Return the text of a block, or of the result in it. What is no text there is named, because it cannot be built
    anew: `[image]`."""
    content = block.get("content", block.get("text", ""))
    if isinstance(content, str):
        return content
    return "\n".join(_said(each) for each in content if isinstance(each, dict))


def _said(part: Mapping[str, Any]) -> str:
    return str(part.get("text", "")) if part.get("type") == "text" else f"[{part.get('type')}]"


def _built(role: str, blocks: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a row for these blocks, which the client builds anew; empty if it would hold nothing."""
    blocks = list(blocks)
    texts = [str(each.get("text", "")) for each in blocks if each.get("type") == "text"]
    uses = [
        {"tool_use_id": each["id"], "tool": each["name"], "input": each["input"]}
        for each in blocks
        if each.get("type") == USE
    ]
    results = [
        {"tool_use_id": each["tool_use_id"], "text": text_of(each), "isError": bool(each.get("is_error"))}
        for each in blocks
        if each.get("type") == RESULT
    ]
    if not any(texts) and not uses and not results:
        return {}
    made: dict[str, Any] = {"role": role, "text": "\n\n".join(filter(None, texts)), "toolUses": uses}
    return {**made, "toolResults": results} if results else made
