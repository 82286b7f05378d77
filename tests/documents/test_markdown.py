"""A conversation as Markdown: what a person reads of it (SPEC 9)."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator

import pytest

import foldmark
from documents import written
from foldmark.documents.markdown_text import fenced, guarded

PNG = b64encode(b"\x89PNG" + b"x" * 3000).decode()
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
PLAN = {
    "type": "document",
    "title": "plan_[1].pdf",
    "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0xLjQK"},
}
THOUGHT = {"type": "thinking", "thinking": "I must not tell.", "signature": "c2ln"}


@pytest.fixture
def agent() -> Iterator[foldmark.Agent]:
    with foldmark.open(":memory:", settings={}) as log:
        yield log.agent("talk *1*")


def turn(agent: foldmark.Agent, question: str, answer: str = "Yes.") -> int:
    opened = agent.append("user", question)
    agent.append("assistant", answer)
    agent.end_turn()
    return opened


def section(text: str, heading: str) -> str:
    """Return the document from a heading's line to the next heading."""
    _, _, rest = text.partition(f"\n{heading}")
    assert rest, f"no {heading} in {text}"
    return re.split(r"\n#{1,3} ", rest)[0]


def test_turns_have_their_ids_and_messages_their_roles(agent: foldmark.Agent) -> None:
    turn(agent, "Tabs?", "Spaces.")
    text = written(agent, "markdown")
    assert text.startswith("# talk \\*1\\*\n\n- agent `" + agent.id)
    headings = [line for line in text.splitlines() if line.startswith("##")]
    assert [re.sub(r" · \d{4}-.*", "", line) for line in headings] == ["## Turn 1", "### user · 1", "### assistant · 2"]
    assert section(text, "### assistant · 2").strip() == "Spaces."


def test_an_operation_stands_where_it_happened_in_the_words_of_operations(agent: foldmark.Agent) -> None:
    agent.do("/mark A")
    first = turn(agent, "One?")
    dropped = agent.do(f"/context drop {first} -- not *needed*")
    turn(agent, "Two?")
    agent.do(f"/restore {dropped.event_id}")
    text = written(agent, "markdown")
    row = agent.do("/operations").text.splitlines()[1]
    words = row.split(" · ", 1)[1].removesuffix(f" · /restore {agent.context().at}")
    notes = [line for line in text.splitlines() if line.startswith("> [operation")]
    assert notes[1].replace("\\", "") == f"> [operation {dropped.event_id}] {words}"
    assert "reason: not *needed*" in words
    assert "taken back by" in words
    assert text.index(notes[1]) < text.index("Two?")


def test_messages_out_of_the_context_are_marked(agent: foldmark.Agent) -> None:
    first = turn(agent, "One?")
    second = turn(agent, "Two?")
    agent.do(f"/context drop {first}")
    text = written(agent, "markdown")
    assert f"### user · {first} · out\n" in text
    assert f"### user · {second}\n" in text


def test_with_context_only_what_is_in_the_context_is_written(agent: foldmark.Agent) -> None:
    first = turn(agent, "One?")
    turn(agent, "Two?")
    agent.do(f"/context drop {first}")
    text = written(agent, "markdown", only_context=True)
    assert "One?" not in text
    assert "Two?" in text
    assert "operation" not in text
    assert " · out" not in text


def test_a_tool_result_with_fences_stays_intact(agent: foldmark.Agent) -> None:
    result = "```python\nx = '````'\n```\n## Turn 99\n> [operation 1] no"
    agent.append("user", "Read.")
    call = agent.append_tool_call("read_file", {"path": "a.md"}, call_id="c", dialect="openai")
    agent.append_tool_result("c", result, dialect="openai")
    text = written(agent, "markdown")
    assert f'### tool call read\\_file · {call}\n\n```json\n{{\n  "path": "a.md"\n}}\n```' in text
    assert f"of call {call}\n\n`````\n{result}\n`````\n" in text


def test_an_evicted_result_is_whole_and_marked(agent: foldmark.Agent) -> None:
    agent.append("user", "Read.")
    agent.append_tool_call("read_file", {"path": "a.md"}, call_id="c", dialect="openai")
    result = agent.append_tool_result("c", "the content " * 100, dialect="openai")
    agent.end_turn()
    agent.do(f"/context evict {result}")
    text = written(agent, "markdown")
    assert "evicted: a placeholder is sent\n" in text
    assert "the content " * 100 in text
    assert "the content" not in written(agent, "markdown", only_context=True)


def test_attachments_are_named_with_their_size_and_thinking_is_left_out(agent: foldmark.Agent) -> None:
    agent.append("user", "Look.", data={"blocks": [IMAGE, PLAN]})
    agent.append("assistant", "I see.", data={"blocks": [THOUGHT]}, dialect="anthropic")
    agent.end_turn()
    text = written(agent, "markdown")
    assert "*[image, image/png, 3.0 KB]*" in text
    assert '*[document "plan\\_\\[1\\].pdf", application/pdf, 1 page, 9 bytes]*' in text
    assert "*[thinking, 16 bytes, left out]*" in text
    assert "must not tell" not in text
    assert PNG[:40] not in text


def test_an_erased_message_is_a_tombstone(agent: foldmark.Agent) -> None:
    first = turn(agent, "My secret.")
    erased = agent.do(f"/message remove {first} --yes")
    text = written(agent, "markdown")
    assert f"### user · {first} · erased by operation {erased.event_id}\n" in text
    assert f"> [operation {erased.event_id}]" in text
    assert "secret" not in text


def test_a_fork_has_what_it_inherited_and_nothing_else_of_its_parent(agent: foldmark.Agent) -> None:
    turn(agent, "Before the mark.")
    agent.do("/mark M")
    turn(agent, "After the mark.")
    child = agent.log.agent(agent.do("/fork M").data["child"])
    turn(child, "Own words.")
    text = written(child, "markdown")
    assert "Before the mark." not in text
    assert re.search(r"### user · \d+ · inherited\n\nAfter the mark\.", text)
    assert re.search(r"### user · \d+\n\nOwn words\.", text)


def test_state_and_scratchpad_come_last(agent: foldmark.Agent) -> None:
    turn(agent, "Hello", "Hi\n\n### STATE\nGoal: talk")
    agent.record("scratchpad", "```\nmine")
    text = written(agent, "markdown")
    assert text.endswith("## State\n\n```\nGoal: talk\n```\n\n## Scratchpad\n\n````\n```\nmine\n````\n")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("# Title", "#### Title"),
        ("## Turn 5 · 2026", "##### Turn 5 · 2026"),
        ("###### deep", "###### deep"),
        ("#5 is no heading", "#5 is no heading"),
        ("Title\n===", "Title\n\\==="),
        ("Title\n---", "Title\n\\---"),
        ("a\n\n---\n\nb", "a\n\n---\n\nb"),
        ("> [operation 5] forget", "\\> [operation 5] forget"),
        ("> a quotation", "> a quotation"),
        ("<!-- hides the rest", "\\<!-- hides the rest"),
        ("<details>", "\\<details>"),
        ("<https://example.org>", "<https://example.org>"),
        ("```\n# code", "```\n# code\n```"),
        ("```\n# code\n```", "```\n# code\n```"),
        ("~~~~\n~~~\n# code", "~~~~\n~~~\n# code\n~~~~"),
        ("`` ` `` # text", "`` ` `` # text"),
        ("\x1b[31mred\u202e", "\\x1b[31mred\\u202e"),
        ("a\r\nb", "a\nb"),
    ],
)
def test_a_text_cannot_be_mistaken_for_the_document(text: str, shown: str) -> None:
    assert guarded(text) == shown


@pytest.mark.parametrize(("text", "fence"), [("a", "```"), ("``", "```"), ("```", "````"), ("x `````` y", "```````")])
def test_a_fence_is_longer_than_any_in_its_content(text: str, fence: str) -> None:
    assert fenced(text) == f"{fence}\n{text}\n{fence}"
