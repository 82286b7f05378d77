"""The cut of a single result: its position, its pointer, and results that are already cut [SPEC 8]."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foldmark.formats import cut
from foldmark.formats.cut import Origin
from foldmark.sessions.trim.results import content, display
from sampled import DEEP, sampled

PLACE = Origin(123, "/p/abc.jsonl")
LONG = "line of text\n" * 200


def dumped(value: Any, **style: Any) -> bytes:
    return json.dumps(value, **style).encode()


def after(value: Any, threshold: int = 500, **style: Any) -> Any:
    """Return a result's content after the cut, or the same value if it is not cut."""
    found = content(dumped(value, **style), threshold, PLACE)
    return value if found is None else json.loads(found.raw)


def shown(value: Any, threshold: int = 500) -> Any:
    return json.loads(display(dumped(value), threshold, PLACE))


def pointer(kept: int, whole: int, unit: str = "characters") -> str:
    return f"... [TRIMMED by Foldmark: {kept:,} of {whole:,} {unit}. The whole result: line 123 of /p/abc.jsonl]"


def test_the_first_characters_stay_and_the_pointer_says_where_the_rest_is() -> None:
    assert after(LONG) == f"{LONG[:500]}\n{pointer(500, 2600)}"
    found = content(dumped(LONG), 500, PLACE)
    assert found
    assert found.characters == 2100
    assert found.bytes == len(dumped(LONG)) - len(found.raw)


@pytest.mark.parametrize("length", [0, 499, 500, 501, 590])
def test_a_text_that_would_not_get_shorter_stays(length: int) -> None:
    assert after("x" * length) == "x" * length


def test_a_text_that_would_get_longer_stays() -> None:
    text = "x" * 1000
    deep = Origin(1, "/" + "\x01" * 150)  # 150 characters are 900 bytes of JSON
    assert cut.string(dumped(text), 500, deep) is None
    assert cut.string(dumped(text * 2), 500, deep) is not None


@pytest.mark.parametrize(
    ("joined", "length"),
    [
        ("e\u0301", 2),
        ("👩‍👩‍👧", 5),
        ("🇩🇪", 2),
        ("👍🏽", 2),
        ("\u1100\u1161\u11a8", 3),
        ("\r\n", 2),
        ("\\u00e9", 6),
        ("\x1b[31m", 5),
    ],
)
@pytest.mark.parametrize("ascii", [True, False], ids=["escaped", "as it is"])
def test_no_cut_divides_a_character(joined: str, length: int, ascii: bool) -> None:
    assert len(joined) == length
    for inside in range(1, length):
        text = "x" * (500 - inside) + joined + "y" * 1000
        assert after(text, ensure_ascii=ascii) == f"{'x' * (500 - inside)}\n{pointer(500 - inside, len(text))}"


def test_a_result_with_a_lone_surrogate_is_trimmed_too() -> None:
    text = "\ud800" + "x" * 1000 + "\udc00"
    assert after(text) == f"{text[:500]}\n{pointer(500, 1002)}"


def test_text_that_is_not_utf_8_stays() -> None:
    assert content(b'"' + b"\xff" * 2000 + b'"', 500, PLACE) is None
    assert content(b'"' + b"\xed\xa0\x80" * 2000 + b'"', 500, PLACE) is None


@pytest.mark.parametrize("value", [None, 5, True, {"a": LONG}, [], [5, None, []]])
def test_content_of_other_types_stays(value: Any) -> None:
    assert after(value) == value


THEIRS = (
    "\n\n[...truncated - original content was 9,000 characters, showing first 500. See line 7 of /q for full content]"
)


@pytest.mark.parametrize("threshold", [0, 10, 500])
@pytest.mark.parametrize(
    "text",
    [
        f"{'x' * 700}\n{pointer(700, 9000)}",
        f"{'x' * 12345}\n{pointer(12345, 99000)}",
        f"\n{pointer(0, 9000)}",
        f"{'x' * 500}{THEIRS}",
    ],
)
def test_a_text_that_was_cut_before_stays(text: str, threshold: int) -> None:
    assert after(text, threshold) == text
    assert after([{"type": "text", "text": text}], threshold) == [{"type": "text", "text": text}]
    assert shown({"stdout": text}, threshold) == {"stdout": text}


@pytest.mark.parametrize(
    "text",
    [
        f"{'x' * 700}\n{pointer(700, 9000)}{'y' * 700}",
        f"{'x' * 700}\n{pointer(700, 9000)}\n",
        f"{'x' * 700}\n{pointer(701, 9000)}",
        f"{'x' * 700}\n{pointer(700, 700)}",
        f"{'x' * 700}{pointer(700, 9000)}",
        f"{'x' * 501}{THEIRS}" + "y" * 300,
        f"{'x' * 901}{THEIRS}",
        f"{'x' * 700}\n{pointer(0, 9000, 'bytes')}",
        f"{'x' * 700}\n{pointer(700, 9000, 'entries')}",
        "x" * 700 + "\n\n[...truncated - original content was 9,000 characters, showing first 700]",
    ],
    ids=range(10),
)
def test_a_text_that_only_resembles_a_cut_one_is_cut(text: str) -> None:
    kept = 500 if text.startswith("x" * 500) else 0
    assert after(text) == f"{text[:kept]}\n{pointer(kept, len(text))}"


def test_the_path_of_an_output_that_claude_code_put_aside_stays() -> None:
    head = "<persisted-output>\nOutput too large (58.3KB). Full output saved to: /home/me/t/tool-results/b1.txt\n"
    text = f"{head}\nPreview (first 2KB):\n{LONG}"
    assert after(text, 10) == f"{head}\n{pointer(len(head), len(text))}"
    assert after(text).startswith(head)
    assert after(after(text, 10), 0) == after(text, 10)


def test_the_texts_of_a_list_count_together() -> None:
    blocks = [{"type": "text", "text": each * 300} for each in "abcd"]
    assert after(blocks) == [blocks[0], {"type": "text", "text": f"{'b' * 200}\n{pointer(500, 1200)}"}]
    assert after(after(blocks)) == after(blocks)
    assert after(after(blocks), 10) == after(blocks)
    reference = {"type": "tool_reference", "tool_name": "x"}
    assert after([blocks[0], reference, *blocks[1:], reference]) == [
        blocks[0],
        reference,
        {"type": "text", "text": f"{'b' * 200}\n{pointer(500, 1200)}"},
        reference,
    ]


def image(size: int, kind: Any = "image/png") -> dict[str, Any]:
    data = base64.b64encode(b"\x89PNG" + b"0" * (size - 4)).decode()
    return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}


@pytest.mark.parametrize("size", [600, 601, 602, 100_000])
def test_an_image_becomes_a_text_that_names_it(size: int) -> None:
    note = {"type": "text", "text": f"image/png image\n{pointer(0, size, 'bytes')}"}
    assert after([image(size)]) == [note]
    assert after([note], 0) == [note]
    text = {"type": "text", "text": "short"}
    assert after([text, image(size), text], 100_000_000) == [text, note, text]
    found = content(dumped([image(size)]), 500, PLACE)
    assert found
    assert found.characters == 0
    assert found.bytes <= cut.IMAGE


@pytest.mark.parametrize("kind", [None, 5, "image/\n[x]" * 50])
def test_an_image_of_an_odd_kind(kind: Any) -> None:
    (found,) = after([image(5000, kind)])
    assert found["type"] == "text"
    assert after([found]) == [found]


def test_small_images_and_those_elsewhere_stay() -> None:
    for blocks in ([image(9)], [{"type": "image", "source": {"type": "url", "url": "https://x/" + "y" * 900}}]):
        assert after(blocks) == blocks


def test_text_and_images_in_one_list() -> None:
    text = {"type": "text", "text": "t" * 400}
    assert after([image(900), text, image(901), text, text]) == [
        {"type": "text", "text": f"image/png image\n{pointer(0, 900, 'bytes')}"},
        text,
        {"type": "text", "text": f"image/png image\n{pointer(0, 901, 'bytes')}"},
        {"type": "text", "text": f"{'t' * 100}\n{pointer(500, 1200)}"},
    ]
    cut_once = after([image(900), text, image(901), text, text])
    assert after(cut_once) == after(cut_once, 10) == cut_once


def test_the_display_copy_keeps_its_shape() -> None:
    long, short = LONG, "short"
    left = f"{LONG[:500]}\n{pointer(500, len(LONG))}"
    files = [f"/work/src/module_{number}.py" for number in range(100)]
    whole = {
        "stdout": long,
        "stderr": short,
        "isImage": False,
        "file": {"filePath": "/" + "p" * 600, "content": long, "numLines": 200, "none": None},
        "filenames": files,
        "structuredPatch": [{"oldStart": 1, "lines": [long, long]}],
        "content": [{"type": "text", "text": long}],
        "odd key \u00e9\n": long,
    }
    kept = next(n for n in range(100) if len("".join(files[: n + 1])) > 500)
    assert (
        shown(whole)
        == {
            **whole,
            "stdout": left,
            "file": {**whole["file"], "content": left},  # type: ignore[dict-item]
            "filenames": [*files[:kept], pointer(kept, 100, "entries")],
            "content": [{"type": "text", "text": left}],
            "odd key \u00e9\n": left,
        }
    )
    assert shown(shown(whole)) == shown(whole)
    assert shown(shown(whole), 10) == shown(whole)
    assert shown(long) == left
    assert shown([long, long]) == [pointer(0, 2, "entries")]
    assert shown([*files, pointer(7, 9, "entries")])[-1] == pointer(kept, 101, "entries")


def test_unknown_members_of_a_display_copy_stay() -> None:
    left = f"{LONG[:500]}\n{pointer(500, len(LONG))}"
    for more in ({}, {"other": LONG}, {"other": {"content": LONG}}, {"content": "x", "other": LONG}):
        whole = {"type": "text", "file": {"filePath": "/p", "content": LONG, **more}}
        raw = dumped(whole, separators=(",", ":"))
        expected = dumped(whole, separators=(",", ":")).replace(dumped(LONG), dumped(left))
        assert display(raw, 500, PLACE) == expected
        raw, new = dumped({"stdout": LONG, "stderr": LONG}, separators=(",", ":")), dumped(left)
        assert display(raw, 500, PLACE, {dumped(LONG): new}) == b'{"stdout":%b,"stderr":%b}' % (new, new)


def test_an_image_in_the_display_copy() -> None:
    data = image(3000)["source"]["data"]
    whole = {"type": "image", "file": {"base64": data, "type": "image/png", "originalSize": 3000}}
    note = f"image/png image\n{pointer(0, 3000, 'bytes')}"
    assert shown(whole) == {"type": "image", "file": {"base64": note, "type": "image/png", "originalSize": 3000}}
    assert shown([image(3000)])[0]["source"]["data"] == note
    assert shown(shown(whole), 0) == shown(whole)


def test_a_text_of_many_megabytes_is_measured_in_pieces() -> None:
    for piece in ("plain text, ", "é日👍🏽 ", 'q"\\\n', "\u0007"):
        text = piece * ((3_000_000 if DEEP else 1_200_000) // len(piece))
        for ascii in (True, False):
            found = content(dumped(text, ensure_ascii=ascii), 500, PLACE)
            assert found
            left, _, told = json.loads(found.raw).partition("\n... [")
            assert text.startswith(left)
            assert 490 < len(left) <= 500
            assert f"{len(left)} of {len(text):,} characters" in told
            again = f"{text}\n{pointer(len(text), len(text) + 1)}"
            assert content(dumped(again, ensure_ascii=ascii), 500, PLACE) is None
    for length in sampled(range((1 << 20) - 120, 1 << 20, 7), 6):  # the pointer spans the boundary of two pieces
        cut_before = f"{'x' * length}\n{pointer(length, length + 1)}"
        assert content(dumped(cut_before), 500, PLACE) is None


@given(text=st.text(st.characters(codec=None), max_size=400), threshold=st.integers(0, 300), style=st.booleans())
@settings(max_examples=settings().max_examples * 2)
def test_any_text(text: str, threshold: int, style: bool) -> None:
    raw = json.dumps(text, ensure_ascii=style or any("\ud800" <= char <= "\udfff" for char in text)).encode()
    found = content(raw, threshold, PLACE)
    if found is None:
        assert len(text) < threshold + 120 or len(raw) < 1000
        return
    left = json.loads(found.raw)
    kept, _, told = left.rpartition("\n... [TRIMMED")
    assert text.startswith(kept)
    assert len(kept) <= threshold < len(text)
    assert len(left) < len(text)
    assert len(found.raw) < len(raw)
    assert told.startswith(f" by Foldmark: {len(kept)} of {len(text)} characters.")
    assert content(found.raw, threshold, PLACE) is None
    assert content(found.raw, 0, PLACE) is None
