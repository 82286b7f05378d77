"""The handoff: the summary and the prompt that contains it (SPEC 8, S4)."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldmark.sessions.rollover.handoff import LONGEST, Continuation, SearchHint, SummaryError, handoff, prompt

GOOD = """### Current Task
Issue #7: the parser. Half done.

### Key Decisions
- SQLite: no server needed

### Modified Files
- src/parser.py: reads tabs

### Immediate Next Steps
1. Run the tests
2. Write the docs

### Critical Context
`make test` needs port 5433."""

SEARCH = SearchHint("indexed in episodic-memory", 'mcp__episodic-memory__search with query: "what you need to find"')

S4 = """## Session Continuation

This is session #3 for issue 7.
Previous session rolled over at 76% context to preserve quality.

### Handoff Summary

{summary}

### Retrieving Details

The full previous session is indexed in episodic-memory. For details not in
the summary above, search with:

```
mcp__episodic-memory__search with query: "what you need to find"
```

Example queries:
- "decision about [topic]"
- "error in [component]"
- "changes to [filename]"

### Lineage

Parent session: /path/to/parent.jsonl
Worker ID: 42

---

Continue from the handoff summary. Your next step is in "Immediate Next Steps" above."""


def told(text: str = GOOD, **more: object) -> str:
    given = {"number": 3, "parent_file": "/path/to/parent.jsonl", "search": SEARCH, **more}
    return prompt(Continuation(handoff=handoff(text), **given))  # type: ignore[arg-type]


def headings(text: str) -> list[str]:
    """Return the headings of level 1 to 3 and the lines of dashes outside code blocks, as a plain reader finds them."""
    found, fence = [], ""
    for line in text.split("\n"):
        mark = re.match(r" {0,3}(`{3,}|~{3,})", line)
        if fence:
            fence = "" if mark and mark[1].startswith(fence) and not line[mark.end() :].strip() else fence
        elif mark and not (mark[1][0] == "`" and "`" in line[mark.end() :]):
            fence = mark[1]
        elif re.match(r" {0,3}#{1,3}(\s|$)|-{2,}\s*$", line):
            found.append(line.strip())
    assert not fence
    return found


# -- the prompt -----------------------------------------------------------------------------------------------


def test_the_prompt_is_that_of_s4() -> None:
    assert told(percent=76, issue="issue 7", worker=42) == S4.format(summary=GOOD)


def test_lines_without_a_value_are_left_out() -> None:
    plain = told()
    assert "This is session #3.\nPrevious session rolled over to preserve quality.\n" in plain
    assert "### Lineage\n\nParent session: /path/to/parent.jsonl\n\n---\n" in plain
    assert told(percent=0, worker=0).count("rolled over at 0% context") == 1
    assert "Worker ID: 0\n" in told(worker=0)
    assert plain.endswith(
        '\n---\n\nContinue from the handoff summary. Your next step is in "Immediate Next Steps" above.'
    )
    assert told("Just go on.").endswith("\n---\n\nContinue from the handoff summary.")


def test_without_a_search_tool_the_prompt_names_the_file() -> None:
    plain = told(search=None)
    assert "Example queries" not in plain
    assert "### Retrieving Details\n\nThe full previous session is in the file that is named below." in plain


@pytest.mark.parametrize("field", ["issue", "parent_file", "worker"])
def test_values_are_escaped_to_one_line(field: str) -> None:
    text = told(**{field: "x\n\n## Forged\u2028\x1b[2J"})
    assert "x\\n\\n## Forged\\u2028\\x1b[2J" in text
    assert headings(text) == headings(told())


# -- requirements of a summary --------------------------------------------------------------------------------


def test_a_good_summary_stays_as_it_is() -> None:
    assert (handoff(GOOD).text, handoff(GOOD).warnings) == (GOOD, ())
    assert handoff(f"\ufeff\n\n{GOOD}\r\n\r\n").text == GOOD
    assert handoff(GOOD.replace("\n", "\r\n")).text == handoff(GOOD.replace("\n", "\r")).text == GOOD


@pytest.mark.parametrize("text", ["", " \n\t\r\n", "\ufeff\n", "\x00\x1b", "---\n***", "\ud800"])
def test_an_empty_summary_is_an_error(text: str) -> None:
    with pytest.raises(SummaryError, match="the summary is empty; nothing was written") as caught:
        handoff(text)
    assert caught.value.exit_code == 2
    assert "### Immediate Next Steps" in str(caught.value)


def test_an_invalid_summary_is_an_error() -> None:
    with pytest.raises(SummaryError, match="1,048,577 characters"):
        handoff("x" * (LONGEST + 1))


@pytest.mark.parametrize(("words", "warned"), [(500, False), (501, True)])
def test_more_than_500_words_warn(words: int, warned: bool) -> None:
    text = GOOD + " word" * (words - len(GOOD.split()))
    assert [each for each in handoff(text).warnings if f"has {words} words" in each] == (
        ["the summary has 501 words, more than 500; the new session begins with all of them"] if warned else []
    )


def test_missing_headings_warn() -> None:
    (warning,) = handoff("Go on.").warnings
    assert warning.startswith(
        "the summary lacks ### Current Task, ### Key Decisions, ### Modified Files, ### Immediate"
    )
    assert handoff(GOOD.replace("### Key Decisions", "Key Decisions")).warnings == (
        "the summary lacks ### Key Decisions",
    )
    in_code = GOOD.replace("### Key Decisions", "```\n### Key Decisions\n```")
    assert handoff(in_code).warnings == ("the summary lacks ### Key Decisions",)
    other_forms = GOOD.replace("### Key Decisions", "#### **key decisions:** ##").replace("### Current", "###\tCurrent")
    assert handoff(other_forms).warnings == ()


# -- a summary stays in its section ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("## Session Continuation", "#### Session Continuation"),
        ("# All", "### All"),
        ("  ## Notes ##", "### Notes"),
        ("#", "### "),
        ("### Lineage", "#### Lineage"),
        ("### retrieving  details", "#### retrieving  details"),
        ("#### Lineage", "#### Lineage"),
        ("### Lineage:", "#### Lineage:"),
        ("Lineage\n=======", "#### Lineage"),
        ("---", "* * *"),
        ("  - - -  ", "* * *"),
        ("Lineage\n---", "Lineage\n* * *"),
        ("#hashtag", "#hashtag"),
        ("    ## code", "    ## code"),
        ("a | b\n--- | ---", "a | b\n--- | ---"),
        ("- a\n- b", "- a\n- b"),
        ("***", "***"),
        ("```sh\n# comment\n---\n```", "```sh\n# comment\n---\n```"),
        ("```\n~~~\n# in it\n```", "```\n~~~\n# in it\n```"),
        ("````\n```\n# in it\n````", "````\n```\n# in it\n````"),
        ("```\n# in it", "```\n# in it\n```"),
        ("~~~~ x\n~~~\n## in it", "~~~~ x\n~~~\n## in it\n~~~~"),
        ("```in line``` \n## out", "```in line``` \n### out"),
        ("a\x1b[31mb\x00\x9b\u202ec\ud800", "a[31mbc"),
        ("a\u2028## b\x85## c\x0c## d", "a\n### b\n### c\n### d"),
        ("tab\there", "tab\there"),
    ],
)
def test_a_summary_stays_in_its_section(before: str, after: str) -> None:
    found = handoff(f"{GOOD}\n\n{before}\n")
    assert found.text == f"{GOOD}\n\n{after}".rstrip()
    assert bool(found.warnings) is (before != after)


def test_changes_to_the_summary_are_reported() -> None:
    warnings = handoff(f"{GOOD}\n# One\n## Lineage\n---\n\x1b\x1b\n```\n").warnings
    assert warnings == (
        "headings of the summary were lowered, so that they do not pass for the prompt's own: 'One', 'Lineage'",
        "1 line of dashes in the summary became '* * *': one like it ends the prompt",
        "the last code block of the summary had no end; it has one now",
        "2 control characters in the summary were left out",
    )


PIECES = st.sampled_from(
    [*"#`~-=\n \t", "\n## ", "\n### Lineage", "\n---\n", "```", "~~~", "====", "text", "\r", "\u2028", "\n    ", "> "]
)


@given(st.lists(PIECES, max_size=30).map("".join))
def test_no_summary_forges_a_section(text: str) -> None:
    plain = headings(told("x"))
    prompted = told(f"x\n{text}")
    inside = prompted.partition("### Handoff Summary\n\n")[2].rpartition("\n\n### Retrieving Details\n\n")[0]
    assert all(each.startswith("### ") or each == "###" for each in headings(inside))
    assert not {"### Lineage", "### Retrieving Details", "### Handoff Summary"} & set(headings(inside))
    assert [each for each in headings(prompted) if each in plain] == plain
    assert handoff(f"x\n{text}").text == handoff(handoff(f"x\n{text}").text).text
