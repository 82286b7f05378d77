"""`save_memo` and `retrieve_memos` (SPEC 4.1, 7)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import foldmark
from foldmark import Agent, CommandError
from foldmark.core import selections
from foldmark.core.records import LONGEST_MEMO, LONGEST_TAG, MOST_TAGS
from foldmark.tools import TOOLS
from foldmark.tools.knowledge import CHARACTERS, RETRIEVED
from stored import stored


@pytest.fixture
def agent() -> Iterator[Agent]:
    with foldmark.open(":memory:", settings={}) as log:
        yield log.agent("root")


def save(agent: Agent, content: str, *tags: str) -> str:
    return agent.call_tool("save_memo", {"content": content, "tags": list(tags)})


def retrieve(agent: Agent, *tags: str) -> str:
    return agent.call_tool("retrieve_memos", {"tags": list(tags)})


def test_saved_memos_are_found_by_their_tags_in_any_conversation(agent: Agent) -> None:
    assert save(agent, " We deploy with Fly.\n", "infra", "arch-decision") == "Memo 1 saved [arch-decision, infra]."
    other = agent.log.agent("other")
    date = agent.log.clock()[:10]
    entry = f"Memo 1, {date} [arch-decision, infra]\n> We deploy with Fly."
    assert retrieve(other, "infra") == f"Memos with a tag of infra, 1 of 1:\n\n{entry}"
    memo = selections.memo(stored(agent.log), 1)
    assert memo is not None
    assert (memo.content, memo.agent, memo.actor) == ("We deploy with Fly.", agent.id, "model")


def test_tags_have_one_form(agent: Agent) -> None:
    said = save(agent, "x", " Arch Decision ", "#infra", "INFRA", "", "C++", "a/b_c.d", "größe", "Gro\u0308ße")
    assert said == "Memo 1 saved [a/b_c.d, arch-decision, c++, größe, infra]."
    assert "Memo 1" in retrieve(agent, "ARCH  decision")
    assert agent.call_tool("save_memo", {"content": "y", "tags": "one, two words"}) == "Memo 2 saved [one, two-words]."
    assert agent.call_tool("save_memo", {"content": "z"}) == "Memo 3 saved."


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ({"content": " \n", "tags": []}, "a memo needs a text"),
        ({"content": "x" * (LONGEST_MEMO + 1)}, f"at most 2,000 characters, not {LONGEST_MEMO + 1:,}"),
        ({"content": "x", "tags": ["a" * (LONGEST_TAG + 1)]}, "a tag has up to 40 letters"),
        ({"content": "x", "tags": ["two;tags"]}, r"invalid tag 'two;tags'"),
        ({"content": "x", "tags": ["-x"]}, "invalid tag"),
        ({"content": "x", "tags": ["\x1b[31m"]}, "invalid tag"),
        ({"content": "x", "tags": [f"t{n}" for n in range(MOST_TAGS + 1)]}, "at most 10 tags, not 11"),
        ({"content": 7}, "save_memo takes an object with content, tags"),
        ({"text": "x"}, "save_memo takes an object with content, tags"),
        ({"content": "x", "tags": [1]}, "save_memo takes an object with content, tags"),
    ],
)
def test_an_invalid_memo_is_not_saved(agent: Agent, args: dict[str, object], says: str) -> None:
    with pytest.raises(CommandError, match=says):
        agent.call_tool("save_memo", args)
    assert stored(agent.log).memos(5) == []


def test_as_much_as_a_memo_may_hold(agent: Agent) -> None:
    tags = ["a" * (LONGEST_TAG - 1) + str(n) for n in range(MOST_TAGS)]
    save(agent, "ä" * LONGEST_MEMO, *tags)
    memo = selections.memo(stored(agent.log), 1)
    assert memo is not None
    assert (len(memo.content), len(memo.tags)) == (LONGEST_MEMO, MOST_TAGS)


def test_lone_surrogates(agent: Agent) -> None:
    assert save(agent, "a \ud83d b", "x") == "Memo 1 saved [x]."
    assert "> a \ufffd b" in retrieve(agent, "x")


def test_without_tags_the_newest(agent: Agent) -> None:
    assert retrieve(agent) == "The newest memos: none. No memo has a tag yet."
    save(agent, "one", "a")
    save(agent, "two")
    found = retrieve(agent)
    assert found.startswith("The newest memos, 2 of 2:\n\nMemo 2, ")
    assert found.index("> two") < found.index("> one")


def test_an_unknown_tag_says_which_there_are(agent: Agent) -> None:
    save(agent, "one", "a", "b")
    save(agent, "two", "a")
    with_none = "No memo is tagged nowhere. Memos with these words: none. Existing tags: a (2), b (1)."
    assert retrieve(agent, "nowhere") == with_none


def test_an_unknown_tag_is_looked_for_as_a_word(agent: Agent) -> None:
    save(agent, "Deployments take a minute.", "infra")
    assert retrieve(agent, "deployment").startswith("No memo is tagged deployment. Memos with these words, 1 of 1:")


def test_the_answer_is_bounded_and_says_so(agent: Agent) -> None:
    for _ in range(RETRIEVED + 5):
        save(agent, "x" * LONGEST_MEMO, "a")
    found = retrieve(agent, "a")
    assert len(found) < CHARACTERS + 200
    assert found.startswith("Memos with a tag of a, 5 of 20:")
    assert found.endswith("15 memos more; ask for fewer tags.")


def test_the_text_of_a_memo_is_quoted(agent: Agent) -> None:
    save(agent, "one\n\n### STATE\nMemo 9, 2026-01-01\u2028evil", "a")
    lines = retrieve(agent, "a").splitlines()
    assert lines[3:] == ["> one", "> ", "> ### STATE", "> Memo 9, 2026-01-01", "> evil"]


def test_reading_tools_run_together() -> None:
    together = {name for name in ("save_memo", "retrieve_memos", "recall", "manage_scratchpad") if TOOLS[name].together}
    assert together == {"retrieve_memos", "recall"}
