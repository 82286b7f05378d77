"""What a call was given, cut: `tool_use.input` with the same members, of which long texts are shorter [SPEC 8].

A client shows old calls, and a model reads them: every text stays a text, and a list of todos one of todos.
"""

from collections.abc import Iterator

from foldmark.sessions import spans
from foldmark.sessions.trim import cut
from foldmark.sessions.trim.cut import Cut, Place

_TEXTS = ("content", "old_string", "new_string", "new_source", "prompt")
"""Members that hold what was written or asked; paths and names are never cut."""


def arguments(raw: bytes, kept: int, place: Place) -> Cut | None:
    """Return the arguments with the first `kept` characters of each long text; None if they stay as they are."""
    try:
        found = list(_cuts(raw, kept, place))
    except (ValueError, RecursionError):
        return None
    if not found:
        return None
    new = spans.edited(raw, [(begin, end, each.raw) for begin, end, each in found])
    return Cut(new, sum(each.characters for _, _, each in found), len(raw) - len(new))


def todos(raw: bytes, place: Place) -> Cut | None:
    """Return the arguments with one todo that says where the list is; None if they stay as they are."""
    try:
        at = spans.last(raw, "todos")
        items = spans.items(raw[slice(*at)]) if at else []
        texts = [_content(raw[at[0] + begin : at[0] + end]) for begin, end in items] if at else []
    except (ValueError, RecursionError):
        return None
    if at is None or not items or (len(texts) == 1 and cut.is_cut_list(texts[0], 1)):
        return None
    pointer = cut.quoted(place.pointer(0, len(items), "entries"))
    new = b'[{"content":%b,"status":"completed","activeForm":"Trimmed"}]' % pointer
    if len(new) >= at[1] - at[0]:
        return None
    return Cut(spans.edited(raw, [(*at, new)]), sum(map(len, texts)), at[1] - at[0] - len(new))


def _cuts(raw: bytes, kept: int, place: Place) -> Iterator[tuple[int, int, Cut]]:
    for key, begin, end in spans.members(raw):
        if key in _TEXTS and raw[begin : begin + 1] == b'"':
            if found := cut.string(raw[begin:end], kept, place):
                yield begin, end, found
        elif key == "edits" and raw[begin : begin + 1] == b"[":
            for first, last in spans.items(raw[begin:end]):
                for inner, outer, found in _cuts(raw[begin + first : begin + last], kept, place):
                    yield begin + first + inner, begin + first + outer, found


def _content(todo: bytes) -> str:
    at = spans.last(todo, "content")
    return cut.text_of(todo[slice(*at)]) if at and todo[at[0] : at[0] + 1] == b'"' else ""
