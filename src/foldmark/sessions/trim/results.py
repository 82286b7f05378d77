"""Shorten a tool result in every form in which a session holds it [SPEC 8].

- `content`: a result of Claude Code as the model reads it, a text or a list of blocks.
- `display`: the second copy of such a result, `toolUseResult`, which may have any shape.
- `output`: the output of a tool of Codex. It is a text; a text that is itself JSON, `{"output": "...", "metadata":
  {...}}`, in which only the inner text is cut; a list of texts and images; or `{"content": ..., "success": ...}`.

Every value is JSON in bytes, as it is in the file.
"""

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from foldmark.core.patterns import pattern
from foldmark.formats import cut
from foldmark.formats.cut import Origin, Replacement
from foldmark.wires import responses, spans
from foldmark.wires.spans import Span

_CODEX_TEXTS = tuple(map(cut.quoted, responses.TEXTS))
_CODEX_IMAGES = {cut.quoted(responses.INPUT_IMAGE): "image_url", b'"image"': "data"}
_DATA_URL = pattern(rb'"data:([^;,"\\]{1,100});base64,')

MOST_IMAGE = 4_500
"""Maximum bytes to count for an image of Codex: the model pays for the picture, not for the file."""

_MAX_DEPTH = 50
_BASE64 = pattern(rb'"[A-Za-z0-9+/\\]+={0,2}"')
_IMAGE_KEYS = ("base64", "data")
_KEPT = pattern(r"structuredPatch|.*[pP]ath")
"""Matches uncut members of a display copy: Claude Code counts the lines of a patch, and paths lead to files."""

ImageNote = Callable[[bytes, bytes, dict[str, Span], Origin], tuple[bytes, int] | None]
"""Takes an item, its type, its members and its origin. Returns the note that replaces an image and the bytes that it
saves, or None if the item is not an image."""


def content(raw: bytes, threshold: int, place: Origin) -> Replacement | None:
    """Return the content of a result with at most `threshold` characters of text, or None if it stays as it is.

    The texts of a list count together, and one pointer follows the kept text. Notes replace images. Other blocks stay.
    """
    if raw[:1] == b'"':
        return cut.string(raw, threshold, place)
    if raw[:1] != b"[":
        return None
    try:
        return _list(raw, threshold, place, (b'"text"',), _image)
    except (ValueError, RecursionError):
        return None


def output(raw: bytes, threshold: int, place: Origin) -> Replacement | None:
    """Return an output of Codex with at most `threshold` characters of text, and with notes in place of images.

    Return None if there is nothing to cut or the form is unknown.
    """
    try:
        match raw[:1]:
            case b'"':
                return _output_text(raw, threshold, place)
            case b"[":
                return _list(raw, threshold, place, _CODEX_TEXTS, _codex_image)
            case b"{":
                at = spans.last(raw, "content")
                if at is None or raw[at[0] : at[0] + 1] == b"{":
                    return None
                new = output(raw[slice(*at)], threshold, place)
                return new and replace(new, raw=spans.edited(raw, [(*at, new.raw)]))
    except ValueError:
        pass
    return None


def display(raw: bytes, threshold: int, place: Origin, known: Mapping[bytes, bytes] = {}) -> bytes:
    """Return a display copy in which every long string and every long list of strings is cut. Its shape stays.

    `known` maps JSON strings that were cut already to their replacements, since a copy often holds the same text.
    """
    if len(raw) - 2 <= threshold:
        return raw
    for old, new in known.items():  # usually only this text is long; a colon before it shows that its quote is real
        at = raw.find(old)
        if at > 0 and raw[at - 1 : at] == b":" and len(raw) - len(old) <= threshold:
            return spans.edited(raw, [(at, at + len(old), new)])
    try:
        return _Display(threshold, place, known).value(raw, 0)
    except (ValueError, RecursionError):
        return raw


class _TextBlock(NamedTuple):
    """A text block: its index in the list, the span of its text in the list, and the text."""

    item: int
    begin: int
    end: int
    text: str


def _list(raw: bytes, threshold: int, place: Origin, kinds: Collection[bytes], image: ImageNote) -> Replacement | None:
    """Shorten a list. Items of these `kinds` are texts, and `image` recognizes images. Raises ValueError."""
    items = spans.items(raw)
    edits: list[tuple[int, int, bytes]] = []
    texts: list[_TextBlock] = []
    saved = 0
    for number, (begin, end) in enumerate(items):
        item = raw[begin:end]
        if item[:1] != b"{":
            continue
        block = {key: (at, to) for key, at, to in spans.members(item)}
        kind = item[slice(*block.get("type", (0, 0)))]
        if kind in kinds and "text" in block:
            at, to = block["text"]
            if item[at : at + 1] == b'"':
                text = cut.text_of(memoryview(item)[at:to])  # without a copy: it may be many MB
                if not cut.is_image_note(text):
                    texts.append(_TextBlock(number, begin + at, begin + to, text))
        elif (note := image(item, kind, block, place)) and len(note[0]) < len(item):
            edits.append((begin, end, note[0]))
            saved += note[1]
    shortened, characters = _shortened(texts, items, threshold, place)
    if sum(end - begin - len(new) for begin, end, new in shortened) <= 0:
        return Replacement(spans.edited(raw, edits), 0, saved) if edits else None
    new = spans.edited(raw, [*edits, *shortened])
    return Replacement(new, characters, saved + sum(_read(raw[begin:end]) - len(new) for begin, end, new in shortened))


def _read(part: bytes) -> int:
    """Return the bytes of a text of a list, or of a whole item with the comma before it."""
    return cut.sent_size(part) if part[:1] == b'"' else len(part)


def _shortened(
    texts: list[_TextBlock], items: list[Span], threshold: int, place: Origin
) -> tuple[list[tuple[int, int, bytes]], int]:
    """Return the edits that leave at most `threshold` characters in total, and the number of characters removed."""
    whole = sum(len(each.text) for each in texts)
    joined = "".join(each.text for each in texts) if whole > threshold else ""
    if whole <= threshold or cut.is_cut(joined):
        return [], 0
    kept = cut.keeping(joined, threshold)
    pointer = f"\n{place.pointer(kept, whole)}"
    if kept + len(pointer) >= whole:
        return [], 0
    edits, left = [], kept
    for each in texts:
        if left < 0:  # removed, with the comma before it
            edits.append((items[each.item - 1][1], items[each.item][1], b""))
        elif len(each.text) > left:
            edits.append((each.begin, each.end, cut.quoted(each.text[:left] + pointer)))
        left -= len(each.text)
    return edits, whole - kept


def _image(item: bytes, kind: bytes, block: dict[str, Span], place: Origin) -> tuple[bytes, int] | None:
    """Return the text block that replaces an image whose data is in the list itself."""
    if kind != b'"image"' or "source" not in block:
        return None
    begin, end = block["source"]
    source = {key: item[begin + at : begin + to] for key, at, to in spans.members(item[begin:end])}
    data = source.get("data", b"")
    if data[:1] != b'"':
        return None
    named = cut.text_of(source["media_type"]) if source.get("media_type", b"")[:1] == b'"' else ""
    note = b'{"type":"text","text":%b}' % cut.image_note(named, _decoded_size(data), place)
    return note, min(len(item) - len(note), cut.IMAGE)


def _codex_image(item: bytes, kind: bytes, block: dict[str, Span], place: Origin) -> tuple[bytes, int] | None:
    if kind not in _CODEX_IMAGES:
        return None
    data, named = (item[slice(*block.get(key, (0, 0)))] for key in (_CODEX_IMAGES[kind], "mimeType"))
    url = _DATA_URL.match(data)
    named = url[1] if url else (named or b'"image"').strip(b'"')
    size = _decoded_size(data[url.end() - 1 :] if url else data or b'""')
    shown = cut.image_note(named.decode("ascii", "replace"), size, place)
    note = b'{"type":%b,"text":%b}' % (b'"text"' if kind == b'"image"' else _CODEX_TEXTS[0], shown)
    return note, max(0, min(len(item), MOST_IMAGE) - len(note))


def _decoded_size(quoted: bytes) -> int:
    """Return the decoded size of a JSON string of base64."""
    return (len(quoted) - 2) * 3 // 4 - quoted[-3:-1].count(b"=")


def _output_text(raw: bytes, threshold: int, place: Origin) -> Replacement | None:
    if len(raw) - 2 <= threshold:
        return None
    found = _wrapped_output(raw) if raw.startswith(b'"{') else None
    if found is None:
        return cut.string(raw, threshold, place)
    data, (begin, end) = found
    if len(data) - (end - begin) > threshold:
        return cut.string(raw, threshold, place)
    new = cut.string(data[begin:end], threshold, place)
    if new is None:
        return None
    whole = cut.quoted(spans.edited(data, [(begin, end, new.raw)]).decode())
    return Replacement(whole, new.characters, cut.sent_size(raw) - len(whole)) if len(whole) < len(raw) else None


def _wrapped_output(raw: bytes) -> tuple[bytes, Span] | None:
    """Return the JSON object inside a text, and the span of its text `output`; None if there is none."""
    try:
        data = cut.text_of(raw).encode()
        at = spans.last(data, "output") if spans.is_json(data) else None
    except (ValueError, RecursionError):  # a lone surrogate, or not an object
        return None
    return (data, at) if at and data[at[0] : at[0] + 1] == b'"' else None


class _Display(NamedTuple):
    """Cuts the values of a display copy at any depth."""

    threshold: int
    place: Origin
    known: Mapping[bytes, bytes]

    def value(self, raw: bytes, depth: int) -> bytes:
        if len(raw) - 2 <= self.threshold or depth > _MAX_DEPTH:
            return raw
        match raw[:1]:
            case b'"' if raw in self.known:
                return self.known[raw]
            case b'"':
                found = cut.string(raw, self.threshold, self.place)
                return found.raw if found else raw
            case b"{":
                return self._object(raw, depth)
            case b"[":
                return self._list(raw, depth)
        return raw

    def _object(self, raw: bytes, depth: int) -> bytes:
        edits = []
        members = spans.members(raw)
        for key, begin, end in members:
            if end - begin - 2 <= self.threshold or _KEPT.fullmatch(key):
                continue
            value = raw[begin:end]
            if key in _IMAGE_KEYS and _BASE64.fullmatch(value):
                kinds = [raw[at:to] for name, at, to in members if name in ("type", "media_type", "mediaType")]
                kind = next((cut.text_of(each) for each in kinds if each[:1] == b'"' and b"/" in each), "")
                new = cut.image_note(kind, _decoded_size(value), self.place)
            else:
                new = self.value(value, depth + 1)
            if len(new) < len(value):
                edits.append((begin, end, new))
        return spans.edited(raw, edits)

    def _list(self, raw: bytes, depth: int) -> bytes:
        items = spans.items(raw)
        if len(items) > 1 and all(raw[begin : begin + 1] == b'"' for begin, _ in items):
            return self._strings(raw, items)
        new = [self.value(raw[begin:end], depth + 1) for begin, end in items]
        edits = [(*at, each) for at, each in zip(items, new, strict=True) if len(each) < at[1] - at[0]]
        return spans.edited(raw, edits)

    def _strings(self, raw: bytes, items: list[Span]) -> bytes:
        """Keep the first strings of a list, such as file names, up to the threshold in total."""
        if cut.is_cut_list(cut.text_of(raw[slice(*items[-1])]), len(items)):
            return raw
        kept = length = 0
        for begin, end in items:
            length += len(cut.text_of(raw[begin:end]))
            if length > self.threshold:
                break
            kept += 1
        if kept == len(items):
            return raw
        pointer = cut.quoted(self.place.pointer(kept, len(items), "entries"))
        new = raw[: items[kept][0]] + pointer + raw[items[-1][1] :]
        return new if len(new) < len(raw) else raw
