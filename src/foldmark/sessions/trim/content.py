"""What a tool returned, as the model reads it: `tool_result.content`, a text or a list of blocks, cut [SPEC 8]."""

from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

from foldmark.sessions import spans
from foldmark.sessions.trim import cut
from foldmark.sessions.trim.cut import Origin, Replacement

_TEXT = (b'"text"',)

ImageNote = Callable[[bytes, bytes, dict[str, spans.Span], Origin], tuple[bytes, int] | None]
"""From an item, its type, its members and where it stands to what stands for the image in it, and how many bytes that
counts for; None for another item."""


class TextBlock(NamedTuple):
    """A text block: which of the list, where its text lies in the list, and the text."""

    item: int
    begin: int
    end: int
    text: str


def content(raw: bytes, threshold: int, place: Origin) -> Replacement | None:
    """The content of a result, cut; None if it stays as it is.

    In a list all texts together count: what is over the threshold is left out, with one pointer behind what is kept.
    Images are replaced by what they were. Other blocks stay.
    """
    if raw[:1] == b'"':
        return cut.string(raw, threshold, place)
    if raw[:1] != b"[":
        return None
    try:
        return in_list(raw, threshold, place, _TEXT, _image)
    except (ValueError, RecursionError):
        return None


def in_list(
    raw: bytes, threshold: int, place: Origin, kinds: Collection[bytes], image: ImageNote
) -> Replacement | None:
    """A list, cut, of which items of these kinds are texts and `image` knows the images. Raises ValueError."""
    items = spans.items(raw)
    edits: list[tuple[int, int, bytes]] = []
    texts: list[TextBlock] = []
    characters = saved = 0
    for number, (begin, end) in enumerate(items):
        item = raw[begin:end]
        if item[:1] != b"{":
            continue
        block = {key: (at, to) for key, at, to in spans.members(item)}
        kind = item[slice(*block.get("type", (0, 0)))]
        if kind in kinds and "text" in block:
            at, to = block["text"]
            if item[at : at + 1] == b'"':
                text = cut.text_of(memoryview(item)[at:to])  # which may be many MB
                if not cut.is_image_note(text):
                    texts.append(TextBlock(number, begin + at, begin + to, text))
        elif (note := image(item, kind, block, place)) and len(note[0]) < len(item):
            edits.append((begin, end, note[0]))
            saved += note[1]
    shortened = _over(texts, items, threshold, place)
    shorter = sum(end - begin - len(new) for begin, end, new in shortened.edits)
    if shorter > 0:
        edits += shortened.edits
        characters, saved = shortened.characters, saved + shorter
    return Replacement(spans.edited(raw, edits), characters, saved) if edits else None


class _Shortened(NamedTuple):
    edits: list[tuple[int, int, bytes]]
    characters: int


def _over(texts: list[TextBlock], items: list[spans.Span], threshold: int, place: Origin) -> _Shortened:
    """What is to change so that of all texts no more than the threshold is left."""
    whole = sum(len(each.text) for each in texts)
    joined = "".join(each.text for each in texts) if whole > threshold else ""
    if whole <= threshold or cut.is_cut(joined, whole):
        return _Shortened([], 0)
    kept = cut.keeping(joined, threshold)
    pointer = f"\n{place.pointer(kept, whole)}"
    if kept + len(pointer) >= whole:
        return _Shortened([], 0)
    return _Shortened(list(_edits(texts, items, kept, pointer)), whole - kept)


def _edits(
    texts: list[TextBlock], items: list[spans.Span], kept: int, pointer: str
) -> Iterator[tuple[int, int, bytes]]:
    left = kept
    over = False
    for each in texts:
        if over:  # with the comma in front of it
            yield (items[each.item - 1][1], items[each.item][1], b"")
        elif len(each.text) > left:
            yield (each.begin, each.end, cut.quoted(each.text[:left] + pointer))
            over = True
        left -= len(each.text)


def _image(item: bytes, kind: bytes, block: dict[str, spans.Span], place: Origin) -> tuple[bytes, int] | None:
    """A text block to stand for an image that is in the list itself."""
    if kind != b'"image"' or "source" not in block:
        return None
    begin, end = block["source"]
    source = {key: item[begin + at : begin + to] for key, at, to in spans.members(item[begin:end])}
    data = source.get("data", b"")
    if data[:1] != b'"':
        return None
    named = cut.text_of(source["media_type"]) if source.get("media_type", b"")[:1] == b'"' else ""
    note = b'{"type":"text","text":%b}' % cut.image_note(named, base64_size(data), place)
    return note, min(len(item) - len(note), cut.IMAGE)


def base64_size(quoted: bytes) -> int:
    """How many bytes a JSON string of base64 stands for."""
    return (len(quoted) - 2) * 3 // 4 - quoted[-3:-1].count(b"=")
