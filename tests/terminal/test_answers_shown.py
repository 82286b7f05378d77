"""No text of a model disappears: every word of an answer is on the screen, whatever Markdown makes of it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.style import Style

from foldmark.chat.display.transcript import Said
from foldmark.terminal.scrollback.drawing import Drawing

STYLES = dict.fromkeys(("muted", "accent", "error", "strong", "left", "plain"), Style())


def drawn(text: str, width: int = 60) -> str:
    """Return the lines of an answer."""
    said = Said(id=2, turn=1, kind="assistant", actor="model", text=text)
    items = Drawing(width, STYLES, dark=True).items(said, {}, False)
    return "\n".join(strip.text for item in items for strip in item.strips)


WRITTEN = [
    "A `Vec<String>` and a Vec<String>, <your-name> and <div>one</div>.",
    "<div>\n\nblock\n\n</div>",
    "<details><summary>Sum</summary>inside</details>",
    "<!-- a remark -->",
    "<script>alert(1)</script>",
    '[ref]: https://example.org/a "Title"\n\nSee [it][ref].',
    "![a picture](https://example.org/b.png)",
    '[a link](https://example.org/c "its title")',
    "| a | b |\n| --- | --- |\n| 1 | 2 | surplus |",
    '```python title="main.py"\nprint(1)\n```',
    "Set `__init__` and __init__, _private, snake_case_name and *stars*.",
    "3. three\n7. seven",
    "> quoted <b>bold</b>\n> - item",
    "Line one  \nline two\\\nline three",
    "1 < 2 and 3 > 2 &amp; &lt;tag&gt;",
    "a" * 300 + " " + "<b" * 50,
    "~~gone~~ ==marked== ^up^ H~2~O [^1]\n\n[^1]: a footnote",
    "Term\n: definition",
    "- [ ] open\n- [x] done",
    "\\<escaped\\> \\*stars\\*",
]


@pytest.mark.parametrize("text", WRITTEN)
@pytest.mark.parametrize("width", [24, 60, 120])
def test_every_word_is_shown(text: str, width: int) -> None:
    joined = re.sub(r"\W+", "", drawn(text, width))
    languages = re.findall(r"^```(\w+)", text, re.MULTILINE)
    assert [word for word in re.findall(r"\w+", text) if word not in joined and word not in languages] == []


def test_tags_are_shown_as_they_are() -> None:
    shown = drawn("Use Vec<String>, then <your-name>, then <div>.")
    assert "Vec<String>, then <your-name>, then <div>." in shown


def test_names_keep_their_underscores() -> None:
    assert "__init__ and _private" in drawn("Call __init__ and _private **now**.")
    assert "**" not in drawn("Call __init__ and _private **now**.")


def test_a_language_is_left_out_and_the_code_is_not() -> None:
    shown = drawn("```rust\nlet a: Vec<String>;\n```")
    assert "rust" not in shown
    assert "let a: Vec<String>;" in shown


word = st.from_regex(r"[A-Za-z0-9_]{1,12}", fullmatch=True)
piece = st.one_of(
    word,
    word.map(lambda each: f"<{each}>"),
    word.map(lambda each: f"</{each} b='c'>"),
    st.tuples(word, word).map(lambda each: f"{each[0]}<{each[1]}>"),
    st.tuples(word, word).map(lambda each: f"[{each[0]}]({each[1]})"),
    st.tuples(word, word).map(lambda each: f"![{each[0]}]({each[1]})"),
    st.tuples(word, word).map(lambda each: f"[{each[0]}]: {each[1]}"),
    st.tuples(word, word).map(lambda each: f"**{each[0]}** *{each[1]}*"),
    st.tuples(word, word, word).map(lambda each: f"| {each[0]} | {each[1]} |\n| --- | --- |\n| 1 | 2 | {each[2]} |"),
    st.sampled_from(
        ["# ", "- ", "1. ", "> ", "    ", "```\n", "---\n", "<!--", "-->", "`", "**", "_", "~~", "\\", "&lt;"]
    ),
)


LANGUAGE = re.compile(r"^[ >]*(?:[-*+] +|\d+[.)] +)*(?:`{3,}|~{3,})[ ]*(\S+)", re.MULTILINE)


@given(st.lists(st.tuples(piece, st.sampled_from([" ", "\n", "\n\n"])), max_size=30), st.integers(24, 120))
def test_every_word_of_a_random_answer_is_shown(pieces: list[tuple[str, str]], width: int) -> None:
    text = "".join(part + end for part, end in pieces)
    joined = re.sub(r"\W+", "", drawn(text, width))
    languages = {each for found in LANGUAGE.findall(text) for each in re.findall(r"\w+", found)}
    assert [each for each in re.findall(r"\w+", text) if each not in joined and each not in languages] == []
