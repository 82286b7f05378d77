"""`/memo` (SPEC 4, 7)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import foldmark
from foldmark import Agent, CommandError
from foldmark.commands.memory import tagged
from foldmark.operations.effects import Asking
from stored import stored


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    with foldmark.open(tmp_path / "log.db", settings={}) as log:
        yield log.agent("root")


def test_add_list_show_search(agent: Agent) -> None:
    date = agent.log.clock()[:10]
    assert agent.do("/memo list").text == "No memo yet; `/memo add TEXT #tag` saves one."
    saved = agent.do("/memo add #Infra We deploy with Fly. #arch-decision")
    assert saved.text == "Memo 1 saved [arch-decision, infra]."
    agent.do("/memo add Tabs,\nnever spaces")
    assert agent.do("/memo list").text.splitlines() == [
        f"     2 · {date} · Tabs,",
        f"     1 · {date} [arch-decision, infra] · We deploy with Fly.",
    ]
    assert agent.do("/memo list 1").text.splitlines() == [f"     2 · {date} · Tabs,"]
    head, *text = agent.do("/memo show 2").text.splitlines()
    assert head.startswith("Memo 2, saved by a human in root on ")
    assert text == ["Tabs,", "never spaces"]
    found = agent.do("/memo search how do deployments work")
    assert found.text.splitlines() == [
        "1 memo, the best first: how do deployments work",
        f"     1 · {date} [arch-decision, infra] · We deploy with Fly.",
    ]
    assert found.data is not None
    assert [memo["id"] for memo in found.data["memos"]] == [1]
    assert agent.do("/memo search we").text.splitlines()[1:] == found.text.splitlines()[1:]
    assert agent.do("/memo search zebra").text == "No memo matches: zebra"


def test_the_data_has_all_of_a_memo(agent: Agent) -> None:
    data = agent.do("/memo add text #a").data
    assert data == agent.do("/memo show 1").data
    assert data == {**data, "id": 1, "content": "text", "tags": ["a"], "agent": agent.id, "actor": "human"}
    assert data.keys() == {"id", "content", "tags", "agent", "actor", "created_at"}


@pytest.mark.parametrize(
    ("line", "text", "tags"),
    [
        ("#a #b text", "text", ["#a", "#b"]),
        ("text #a  #b ", "text", ["#a", "#b"]),
        ("#a text #b", "text", ["#a", "#b"]),
        ("#a, #b, text", "text", ["#a", "#b"]),
        ("use #a here", "use #a here", []),
        ("fixes #123", "fixes #123", []),
        ("# heading\ntext", "# heading\ntext", []),
        ("## heading", "## heading", []),
        ("#größe text\n\n#b", "text", ["#größe", "#b"]),
        ("text#a", "text#a", []),
        ("#a", "", ["#a"]),
        ("a #x " * 2000 + "z", "a #x " * 2000 + "z", []),
    ],
)
def test_tags_stand_at_the_beginning_or_the_end(line: str, text: str, tags: list[str]) -> None:
    found = tagged(line)
    assert (found[0].strip(), found[1]) == (text, tags)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("/memo", "/memo needs one of: list, add, show, search, remove"),
        ("/memo add", "TEXT is missing; usage: /memo add TEXT..."),
        ("/memo add #a #b", "a memo needs a text; nothing was saved"),
        ("/memo add x #a;b", "a tag has up to 40 letters"),
        ("/memo add " + "x" * 2001, "at most 2,000 characters, not 2,001"),
        ("/memo show 9", "there is no memo 9; the newest: 1"),
        ("/memo show x", "ID must be a number, not 'x'"),
        ("/memo show " + "9" * 30, "there is no memo"),
        ("/memo remove 9 --yes", "there is no memo 9; the newest: 1"),
        ("/memo list 0", "N is the number of memos to list"),
        ("/memo search ++", "no word to search for"),
    ],
)
def test_wrong_memo_commands_save_nothing(agent: Agent, line: str, says: str) -> None:
    agent.do("/memo add one")
    with pytest.raises(CommandError) as caught:
        agent.do(line)
    assert says in str(caught.value)
    assert len(stored(agent.log).memos(5)) == 1


def test_there_is_none_yet(agent: Agent) -> None:
    with pytest.raises(CommandError, match="there is no memo 1; there is none yet"):
        agent.do("/memo show 1")


def test_remove_asks(agent: Agent) -> None:
    agent.do("/memo add We deploy with Fly.")
    with pytest.raises(CommandError, match=r"Erase memo 1 for good \(We deploy with Fly\.\)\? .* repeat with --yes"):
        agent.do("/memo remove 1")
    with pytest.raises(CommandError, match="not confirmed"):
        agent.do("/memo remove 1", asking=Asking(confirm=lambda _: False))
    assert len(stored(agent.log).memos(5)) == 1
    asked: list[str] = []
    done = agent.do("/memo remove 1", asking=Asking(confirm=lambda question: not asked.append(question)))  # type: ignore[func-returns-value]
    assert done.text == "Memo 1 erased. Messages that speak of it were not searched."
    assert len(asked) == 1
    assert stored(agent.log).memos(5) == []
    assert agent.do("/memo add two").data["id"] == 2


def test_removed_means_gone_from_the_files(agent: Agent) -> None:
    agent.do("/memo add Zanzibar #zanzibar")
    assert agent.do("/memo remove 1 --yes").data["traces"] is False
    folder = Path(agent.log.store.address).parent
    assert b"anzibar" not in b"".join(each.read_bytes() for each in folder.iterdir())


def test_a_model_has_tools_instead(agent: Agent) -> None:
    with pytest.raises(CommandError, match="/memo list is not for a model"):
        agent.do("/memo list", actor="model")


def test_memos_change_no_context(agent: Agent) -> None:
    agent.append("user", "hello")
    before = agent.context().at
    agent.do("/memo add text")
    agent.do("/memo remove 1 --yes")
    assert agent.context().at == before
