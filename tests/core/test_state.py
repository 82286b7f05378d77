"""`### STATE` blocks, and text that only looks like one, whole and streamed (SPEC 7)."""

import re
from time import perf_counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldmark.text.state import KEYS, Hiding, Parted, missing, parted
from patience import LIMIT
from sampled import DEEP

BLOCK = "Goal: port the parser\nContext: src/parse.py\nResolved: the lexer\nTechnical Anchors: port 8080"


def test_the_block_of_the_seed() -> None:
    assert parted(f"Done.\n\n### STATE\n{BLOCK}\n") == Parted("Done.", BLOCK)
    assert parted(f"### STATE\n{BLOCK}") == Parted("", BLOCK)


@pytest.mark.parametrize(
    "head",
    [
        *(
            "### STATE",
            "## STATE",
            "#### STATE",
            "### STATE:",
            "### STATE :",
            "###  STATE",
            "### STATE  \t",
            "### STATE\r",
        ),
        *(
            "### State",
            "## State:",
            "**### STATE**",
            "**### State:**",
            "### **STATE**",
            "### __State__",
            "**## STATE** :\r",
        ),
    ],
)
def test_the_first_line_of_a_block_is_recognized(head: str) -> None:
    assert parted(f"Done.\n{head}\n{BLOCK}") == Parted("Done.", BLOCK)


@pytest.mark.parametrize(
    "head",
    [
        *(
            "# STATE",
            "##### STATE",
            "###STATE",
            "### state",
            "### StAtE",
            "### STATES",
            "### States",
            "### STATE of things",
            "STATE",
            "**STATE**",
        ),
        *("* ### STATE", "**STATE**", "**State**", "**# STATE**", "###**STATE**"),
        *(" ### STATE", "> ### STATE", "- ### STATE", "Done. ### STATE", "\u2028### STATE", "### STATE\u2028"),
        f"### STATE{' ' * 60}",
    ],
)
def test_a_block_without_a_proper_first_line_stays_text(head: str) -> None:
    text = f"Done.\n{head}\n{BLOCK}\n"
    assert parted(text) == Parted(text, None)


@pytest.mark.parametrize(
    "block",
    [
        *("Goal: x", "Context: a.py", "Resolved: nothing", "Technical Anchors: 10.0.0.1", "Technical anchors: 1"),
        *("**Goal:** x", "**Goal**: x", "- Goal: x", "* **Goal:** x", "  - Goal: x", "__Goal__: x"),
        *("Goal:\n- one\n- two", "Goal:\n\n- one\n\n- two", "Goal: x\n\n\nContext: y", "\nGoal: x"),
        *("Goal: x\n\n    indented", "Goal: x\n\n1. first\n\n2. second", "Goal: x\n\n> quoted", "Goal: x\nmore of it"),
        *("Goal: none", "Goal:\nContext:\nResolved: y\nTechnical Anchors:", "Notes first.\nGoal: x"),
        *("```\nGoal: x\n\nmore\n```", "Goal: x\n```\n# a comment\n```", "Goal: x\n```\n# never closed\n\nmore"),
        "Goal: x\n\nin between\n\nResolved: y",
        "Goal: x\u2028# still the goal",
    ],
)
def test_a_block_with_one_member_is_parsed_off(block: str) -> None:
    assert parted(f"Done.\n\n### STATE\n{block}\n\n") == Parted("Done.", block.strip())


@pytest.mark.parametrize(
    "block",
    [
        *("", "\n\n", "none", "All good.", "goal x", "Goals: x", "The Goal: x", "Goal", "### Goal: x"),
        *("Goal:", "Goal:\nContext:\n\nResolved:\n**Technical Anchors:**", "- Goal:\n- Context:\n---"),
        *("Goal: x\n\n## Next\nmore", "Goal: x\n# Title", "Goal: x\n   ###### small", "Goal: x\n#", "Goal:\n\nBye."),
    ],
)
def test_malformed_blocks_stay(block: str) -> None:
    for text in (f"Done.\n\n### STATE\n{block}", f"### STATE\n{block}\n"):
        assert parted(text) == Parted(text, None)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        *(
            ("```python\n", "\n```"),
            ("```markdown x\n", "\n```"),
            ("~~~ a`b\n", "\n~~~"),
            ("   ```state\n", "\n  ```"),
            ("```\n", "\n```\nSo a block looks."),
            ("```\n\n", "\n```"),
        ),
        *(("````\n```\n", "\n````"), ("```\n~~~\n", "\n```"), ("```\n``\n", "\n```"), ("```\n```x\n", "\n```")),
        *(("```\n    ```\n", "\n```"), ("```\nnever closed\n", ""), ("~~~\n```\n", "\n~~~\n"), ("`````\n````\n", "")),
    ],
)
def test_a_block_inside_a_code_fence_is_text(before: str, after: str) -> None:
    text = f"So it looks:\n{before}### STATE\n{BLOCK}{after}"
    assert parted(text) == Parted(text, None)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        *(("```markdown\n", "\n```"), ("```md\n", "\n```\n\n"), ("  ~~~ Markdown \n", "\n~~~~\t\n \n")),
        *(
            ("````md\r\n", "\r\n````"),
            ("```py\nx\n```\n```markdown\n", "\n```"),
            ("```md\nnote\n```\n```md\n", "\n```"),
        ),
        *(("```\n", "\n```"), ("~~~\n", "\n~~~"), ("   ```\n", "\n  ```\n"), ("```py\nx\n```\n```` \n", "\n````")),
        *(("```text\n", "\n```"), ("```TEXT\n", "\n```")),
        *(("```md\n**", "\n```"), ("### STATE\nGoal: old\n\n```md\n", "\n\n```")),
    ],
)
def test_one_plain_fence_around_the_block_is_removed(before: str, after: str) -> None:
    head = "### STATE**" if before.endswith("**") else "### STATE"
    text = f"Done.\n{before}{head}\n{BLOCK}{after}"
    opened = text[: text.rindex("### STATE")].removesuffix("**").rstrip("\r\n")
    shown = opened[: opened.rindex("\n")].rstrip()
    assert parted(text) == Parted(shown, BLOCK)
    hiding = Hiding()
    assert ("".join(map(hiding.feed, text)) + hiding.end()).rstrip() == shown
    hiding = Hiding()
    assert (hiding.feed(text.removeprefix("Done.\n")) + hiding.end()).rstrip() == shown[len("Done.\n") :]


@pytest.mark.parametrize(
    "text",
    [
        f"```md\n### STATE\n{BLOCK}\n```\nSo a block looks.",
        f"```md\n### STATE\n{BLOCK}\n```\n\n```py\nx\n```",
        f"```md\nSo it looks:\n### STATE\n{BLOCK}\n```",
        f"```md{' ' * 60}\n### STATE\n{BLOCK}\n```",
        f"```md\n\n### STATE\n{BLOCK}\n```",
        f"```md\n### STATE\n{BLOCK}\n\nShall I go on?\n```",
        f"```md\n### STATE\n{BLOCK}\n## Next\n```",
        f"```md\n### STATE\nGoal: a\n### STATE\n{BLOCK}\n```",
        "```md\n### STATE\nall is well\n```",
        "```md\n### STATE\n```",
        f"```md\n### STATE\n{BLOCK}",
        f"~~~~\n```md\n### STATE\n{BLOCK}\n```\n~~~~",
        f"~~~~\n```md\n### STATE\n{BLOCK}\n```",
        f"````md\n```md\n### STATE\n{BLOCK}\n```\n````",
        f"    ```md\n    ### STATE\n{BLOCK}\n    ```",
    ],
)
def test_any_other_fence_is_a_code_fence(text: str) -> None:
    assert parted(f"Done.\n{text}") == Parted(f"Done.\n{text}", None)
    hiding = Hiding()
    assert "".join(map(hiding.feed, f"Done.\n{text}")) + hiding.end() == f"Done.\n{text}"


def test_missing_members_of_a_block_are_named() -> None:
    assert missing(BLOCK) == []
    assert missing("**goal:** x\n- Technical anchors: y") == ["Context", "Resolved"]
    assert missing("Notes: x") == list(KEYS)


@pytest.mark.parametrize(
    "before",
    [
        *("```py\nx\n```\n", "```\nx\n````  \n", "``` a`b ```\n", "    ```\n", "\t```\n", "``\n", "~~\n", "> ```\n"),
        *("```\nx\n   ```\n", "~~~x\n```\n~~~\n", "````\n```\n````\n", "text ```\n"),
    ],
)
def test_a_block_after_a_code_fence_is_recognized(before: str) -> None:
    assert parted(f"{before}### STATE\n{BLOCK}") == Parted(before.rstrip(), BLOCK)


def test_the_last_of_several_blocks_counts() -> None:
    assert parted("### STATE\nGoal: a\n\n### STATE\nGoal: b") == Parted("### STATE\nGoal: a", "Goal: b")
    malformed = "### STATE\nGoal: a\n\n### STATE\nnothing"
    assert parted(malformed) == Parted(malformed, None)
    fenced = "### STATE\nGoal: a\n```py\n### STATE\nGoal: b\n```"
    assert parted(f"Done.\n{fenced}") == Parted("Done.", fenced.removeprefix("### STATE\n"))


def test_a_paragraph_after_the_members_belongs_to_the_answer() -> None:
    """Otherwise it would not be shown."""
    assert parted(f"Done.\n### STATE\n{BLOCK}\n\nShall I go on?") == Parted("Done.\n\nShall I go on?", BLOCK)
    assert parted(f"### STATE\n{BLOCK}\n\n\nDone.\n\n- a\n") == Parted("Done.\n\n- a", BLOCK)
    assert parted(f"Done.\n### STATE\n{BLOCK}\n\n```\ncode\n```") == Parted("Done.\n\n```\ncode\n```", BLOCK)


LENGTH = 300_000 if DEEP else 10_000


@pytest.mark.parametrize(
    "text",
    [
        "### STATE\n" * LENGTH,
        "### STATE\nGoal: x\n" + "- STATE\n\n" * LENGTH,
        "#" * (10 * LENGTH) + " STATE",
        "STATE" + "### " * (2 * LENGTH),
        "### STATE" + " " * (10 * LENGTH) + "x",
        "STATE\n" + " " * (10 * LENGTH) + "Goal: x",
        "### STATE\nGoal" + " " * (10 * LENGTH) + "x",
        "### STATE\n" + "`" * (10 * LENGTH),
        "STATE\n" + "```\n~~~ `\n" * LENGTH,
        "### STATE\n" + "\u2028### STATE" * LENGTH,
    ],
)
def test_huge_texts_take_linear_time(text: str) -> None:
    """Quadratic time would mean hours."""
    began = perf_counter()
    parted(text)
    hiding = Hiding()
    for at in range(0, len(text), 4096):
        hiding.feed(text[at : at + 4096])
    hiding.end()
    assert perf_counter() - began < LIMIT


# As it streams

PIECES = st.lists(
    st.sampled_from(
        [
            *(
                "#",
                "##",
                "### ",
                "### STATE",
                "STATE",
                "S",
                "TATE:",
                "\n",
                "\n\n",
                " ",
                "\t",
                "\r\n",
                "```",
                "~~~",
                "`",
                "**",
                "### State",
                "markdown\n",
                "md",
            ),
            *(
                "Goal: x",
                "Context:",
                "- ",
                "Bye.",
                "# Title",
                "\n### STATE\nGoal: y\n",
                "\n```md\n### STATE\nGoal: y\n```\n",
                "\n\nMore.",
                "\u2028",
                "",
            ),
        ]
    ),
    max_size=25,
)


@given(PIECES)
def test_the_shown_text_equals_the_recorded_text(pieces: list[str]) -> None:
    hiding = Hiding()
    shown = "".join(map(hiding.feed, pieces)) + hiding.end()
    text = "".join(pieces)
    assert shown.rstrip() == parted(text).text.rstrip()
    if parted(text).block is None:
        assert shown == text


@given(st.text(alphabet="#STAE :\n`~Golatemd*", max_size=60), st.lists(st.integers(1, 9), min_size=1))
def test_any_cut_of_a_stream_gives_the_same_text(text: str, sizes: list[int]) -> None:
    hiding, shown, at, turn = Hiding(), "", 0, 0
    while at < len(text):
        size = sizes[turn % len(sizes)]
        shown, at, turn = shown + hiding.feed(text[at : at + size]), at + size, turn + 1
    assert (shown + hiding.end()).rstrip() == parted(text).text.rstrip()


@given(PIECES)
def test_only_a_possible_block_is_held_back(pieces: list[str]) -> None:
    """All text so far is shown except a line that may begin a block, and everything from a block's first line on."""
    hiding, shown, text = Hiding(), "", ""
    for piece in pieces:
        shown, text = shown + hiding.feed(piece), text + piece
        held = text.removeprefix(shown)
        assert text == shown + held
        lines = held.translate(str.maketrans("\t", " ", "*_")).split("\n")
        if len(lines) > 1 and lines[0].strip("`~ \r") in ("", "markdown", "md", "text"):
            lines = lines[1:]
        if len(lines) > 1:
            assert lines[0].strip().rstrip(" :\r").upper().endswith("STATE")
        elif held:
            assert re.fullmatch(
                "#{0,4}|#{2,4} +(S|S[Tt]|STA|Sta|STAT|Stat|(STATE|State) *:?[ \r]*)?", lines[0]
            ) or re.fullmatch(
                " {0,3}(`*|~*)|(```+|~~~+) *(m|ma|mar|mark|markd|markdo|markdow|markdown|md|t|te|tex|text)?[ \r]*",
                lines[0].strip(" "),
            )
            assert shown == "" or shown.endswith("\n")


def test_a_stream_shows_each_line_unless_it_may_begin_a_block() -> None:
    hiding = Hiding()
    said = [
        hiding.feed(each) for each in ("Do", "ne", ".\n#", "## ", "Title", "\n##", "# STA", "TE", "\n", "Goal: x\n")
    ]
    assert said == ["Do", "ne", ".\n", "", "### Title", "\n", "", "", "", ""]
    assert hiding.end() == ""


def test_an_interrupted_answer_holds_no_block() -> None:
    hiding = Hiding()
    assert hiding.feed("Done.\n### STATE\nGoal: x") == "Done.\n"
    assert hiding.end(interrupted=True) == "### STATE\nGoal: x"
    hiding = Hiding()
    assert hiding.feed("Done.\n##") == "Done.\n"
    assert hiding.end(interrupted=True) == "##"
