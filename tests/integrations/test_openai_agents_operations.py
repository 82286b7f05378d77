"""A person's operations on a session's conversation between runs, and the agent's view afterwards [SPEC 3, 5.3]."""

from __future__ import annotations

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from sdk_sessions import add, call, now, output, said, session, texts, thinking, user

import foldmark
from foldmark.core import selections
from foldmark.core.errors import CommandError
from foldmark.installation import installs
from foldmark.log.doctor import examine
from foldmark.request.planning import planning
from planning_talk import IN_CHAT
from sampled import DEEP
from stored import connection, stored

if TYPE_CHECKING:
    from foldmark.integrations.openai_agents import FoldmarkSession


def is_open(talk: FoldmarkSession) -> bool:
    """Return True if a turn of the conversation is open."""
    return talk.agent.open_turn is not None


def turn(number: int) -> list[dict[str, Any]]:
    return [user(f"q{number}"), call(f"c{number}"), output(f"c{number}"), said(f"a{number}", number)]


@pytest.fixture
def talk(tmp_path: Path) -> Any:
    """A session with three turns, each a question, a call with its result and an answer."""
    with session("foldmark", tmp_path) as found:
        for number in (1, 2, 3):
            now(found.add_items(turn(number)[:1]))
            now(found.add_items(turn(number)[1:3]))
            now(found.add_items(turn(number)[3:]))
        yield found
        if not found._closed:
            assert list(examine(found.log)) == []


def shown(talk: Any, limit: int | None = None) -> list[Any]:
    return now(talk.get_items(limit))


def gids(talk: Any) -> list[int]:
    return list(dict.fromkeys(event.turn_id for event in talk.agent.context().messages))


def test_clearing_is_an_operation(talk: Any) -> None:
    before = shown(talk)
    now(talk.clear_session())
    (event,) = selections.operations(stored(talk.log), talk.agent.id)
    assert (event.kind, event.actor) == ("clear", "system")
    talk.do(f"/restore {event.id}")
    assert shown(talk) == before


def test_clearing_ends_a_turn_that_waits(talk: Any) -> None:
    now(talk.add_items([user("q"), call("c")]))
    now(talk.clear_session())
    assert talk.agent.open_turn is None
    assert [event.interrupted for event in _all(talk) if event.kind == "turn_ended"] == [False] * 3 + [True]


def test_a_popped_item_comes_back(talk: Any) -> None:
    before = shown(talk)
    for _ in range(4):
        now(talk.pop_item())
    popped = selections.operations(stored(talk.log), talk.agent.id)
    data = [event.data or {} for event in popped]
    assert [(event.kind, event.actor) for event in popped] == [("filter", "system")] * 4
    assert [each["criteria"] for each in data] == ["pop_item"] * 4
    assert [(each["before"], each["after"]) for each in data] == [(12, 11), (11, 10), (10, 9), (9, 8)]
    assert shown(talk) == before[:-4]
    for event in reversed(popped):
        talk.do(f"/restore {event.id}")
    assert shown(talk) == before
    assert "rain" in [m.content for m in talk.agent.context().messages]


def test_thinking_comes_back_once(tmp_path: Path) -> None:
    items = [user("q"), thinking(1), thinking(2), call("c"), output("c"), thinking(3), said("a")]
    with session("foldmark", tmp_path) as talk:
        now(talk.add_items(items))
        for count in range(1, 8):
            for _ in range(count):
                now(talk.pop_item())
            assert shown(talk) == items[:-count]
            for event in reversed(selections.operations(stored(talk.log), talk.agent.id)[-count:]):
                talk.do(f"/restore {event.id}")
            assert shown(talk) == items
        assert now(talk.pop_item()) == said("a")
        now(talk.add_items([user("r")]))
        assert shown(talk) == [*items[:-1], user("r")]


def test_a_result_without_its_call_is_not_given(talk: Any) -> None:
    """Of the pops, only that of the result is restored: without its call, the API would refuse it."""
    for _ in range(3):
        now(talk.pop_item())
    _, result, _ = (event.id for event in selections.operations(stored(talk.log), talk.agent.id))
    talk.do(f"/restore {result}")
    assert shown(talk) == [*turn(1), *turn(2), user("q3")]
    assert shown(talk, 1) == [user("q3")]
    assert now(talk.pop_item()) == user("q3")


def test_a_result_whose_call_was_erased_is_not_given(tmp_path: Path) -> None:
    """The result came in a later turn than its call: one run waited for a person while another one continued."""
    with session("foldmark", tmp_path) as talk:
        now(talk.add_items([user("remove x"), call("c", "remove")]))
        now(talk.add_items([user("something else"), said("fine")]))
        now(talk.add_items([output("c", "removed")]))
        first, second = talk.agent.context().messages[0], talk.agent.context().messages[2]
        assert shown(talk)[-1] == output("c", "removed")
        talk.agent.redact(first.turn_id)
        assert shown(talk) == [user("something else"), said("fine")]
        assert first.turn_id != second.turn_id


def test_a_result_of_an_inherited_call(tmp_path: Path) -> None:
    with session("foldmark", tmp_path) as talk:
        now(talk.add_items([user("remove x"), call("c", "remove")]))
        now(talk.add_items([user("something else"), said("fine")]))
        child = FoldmarkSession(talk.do("/fork").data["child"], talk.log)
        add(child, [output("c", "removed")])
        assert shown(child)[-1] == output("c", "removed")
        talk.agent.redact(gids(talk)[0])
        assert shown(child) == [user("something else"), said("fine")]


def test_ids_stay_where_nothing_is_missing(tmp_path: Path) -> None:
    """An item loses its id only if the thinking of its answer was removed."""
    with session("foldmark", tmp_path) as talk:
        now(talk.add_items([user("q"), thinking(), said("I look", 1), call("c"), output("c"), said("done", 2)]))
        remark = talk.agent.context().messages[1]
        talk.agent.apply_filter("forget", [remark.id])
        without = {key: value for key, value in call("c").items() if key != "id"}
        assert shown(talk) == [user("q"), without, output("c"), said("done", 2)]


def test_forgetting_takes_whole_exchanges(talk: Any) -> None:
    result = next(event for event in talk.agent.context().messages if event.kind == "tool_result")
    at = talk.agent.apply_filter("forget", [result.id])
    assert shown(talk) == [turn(1)[0], turn(1)[3], *turn(2), *turn(3)]
    talk.do(f"/restore {at}")
    talk.agent.apply_filter("remember", [result.id])
    assert shown(talk) == turn(1)[1:3]


def test_marks_undo_drop(talk: Any) -> None:
    talk.do("/mark HERE")
    now(talk.add_items(turn(4)))
    talk.do("/undo")
    assert shown(talk) == [*turn(1), *turn(2), *turn(3)]
    now(talk.add_items(turn(5)))
    talk.do("/rewind HERE")
    talk.do(f"/context drop {gids(talk)[1]}")
    assert shown(talk) == [*turn(1), *turn(3)]
    talk.do(f"/message remove {gids(talk)[0]} --yes")
    assert shown(talk) == turn(3)


def test_a_summary_stands_for_what_it_replaced(talk: Any) -> None:
    talk.do("/mark NEW")
    now(talk.add_items(turn(4)))
    done = talk.do("/summarize NEW")
    items = shown(talk)
    assert items[:-1] == [*turn(1), *turn(2), *turn(3)]
    summary = selections.event(stored(talk.log), done.event_id)
    assert summary is not None
    assert items[-1] == {"role": "assistant", "content": summary.content}
    now(talk.add_items([user("go on")]))
    assert shown(talk)[-1] == user("go on")


def test_notes_and_other_interfaces(talk: Any) -> None:
    """The same conversation may continue in a terminal, and the session shows the messages from there."""
    talk.do("/note Mind the budget.")
    talk.agent.append("user", "And you?")
    talk.agent.append("assistant", "I am fine.")
    talk.agent.end_turn()
    assert shown(talk)[-3:] == [
        user("Mind the budget."),
        user("And you?"),
        {"role": "assistant", "content": "I am fine."},
    ]
    assert now(talk.pop_item()) == {"role": "assistant", "content": "I am fine."}


def test_a_fork_is_a_session_of_its_own(talk: Any) -> None:
    child = FoldmarkSession(talk.do("/fork").data["child"], talk.log)
    assert shown(child) == shown(talk)
    add(child, turn(4))
    for _ in range(5):  # the fifth popped item was inherited
        now(child.pop_item())
    now(talk.add_items(turn(5)))
    assert shown(child) == [*turn(1), *turn(2), *turn(3)[:3]]
    assert shown(talk) == [*turn(1), *turn(2), *turn(3), *turn(5)]
    child.close()
    assert shown(talk), "the log was given, and stays open"
    with pytest.raises(RuntimeError, match="closed"):
        now(child.get_items())


def test_a_result_of_a_call_that_was_cleared(talk: Any) -> None:
    """The runner resumes a run that waited while the conversation was cleared."""
    now(talk.add_items([user("q"), call("late")]))
    talk.do("/clear")
    now(talk.add_items([output("late", "the result"), said("done")]))
    notice, answer = shown(talk)
    assert notice["role"] == "user"
    assert notice["content"].startswith("[Foldmark: Context cleared by the user.")
    assert "the result" in notice["content"]
    assert answer == said("done")
    kept = [event for event in _all(talk) if event.kind == "record"]
    assert [event.data["openai_agents"]["as"]["call_id"] for event in kept] == ["late"], "the item itself is kept"


def _all(talk: Any) -> list[Any]:
    return list(stored(talk.log).events(range(1, talk.agent.standing().newest + 1)))


def test_turns_end(tmp_path: Path) -> None:
    with session("foldmark", tmp_path) as talk:
        now(talk.add_items([user("one"), said("a"), user("two"), user("three"), thinking(), call("c"), output("c")]))
        assert is_open(talk), "the model has not answered yet"
        now(talk.add_items([thinking(2)]))
        assert is_open(talk), "to think is no answer"
        now(talk.add_items([said("b")]))
        assert not is_open(talk)
        now(talk.add_items([user("nobody answers")]))
        now(talk.add_items([user("again"), call("d")]))
        now(talk.add_items([said("while a call waits")]))
        assert is_open(talk)
        now(talk.add_items([call("e")]))
        now(talk.add_items([{"role": "system", "content": "Hm."}, user("and again"), said("c")]))
        ends = [event.interrupted for event in _all(talk) if event.kind == "turn_ended"]
        assert ends == [False, False, True, True, False]
        kinds = [[event.kind for event in _all(talk) if event.turn_id == gid] for gid in gids(talk) if gid]
        assert [kind[0] for kind in kinds] == ["user"] * 5


def test_popping_keeps_turns_as_they_are(tmp_path: Path) -> None:
    with session("foldmark", tmp_path) as talk:
        now(talk.add_items([user("q"), thinking(), said("a")]))
        now(talk.pop_item())
        assert not is_open(talk)
        assert shown(talk) == [user("q"), thinking()]
        now(talk.add_items([user("r"), thinking(2), call("c")]))
        now(talk.pop_item())
        assert is_open(talk)
        assert shown(talk) == [user("q"), thinking(), user("r"), thinking(2)]


@pytest.mark.parametrize(
    ("commands", "expected"),
    [
        ([], [1, 2, 3]),
        (["/context window 2"], [2, 3]),
        (["/context window 1"], [3]),
        (["/context window 2", "/context window 0"], [1, 2, 3]),
        (["/context budget 1000000"], [1, 2, 3]),
        (["/context budget 1"], [3]),
        (["/context window 1", "/pin {0}"], [1, 3]),
        (["/context window 1", "/undo"], [2]),
    ],
)
def test_a_window_of_ones_own(talk: Any, commands: list[str], expected: list[int]) -> None:
    first = {"role": "system", "content": "Be brief."}
    turns = gids(talk)
    talk.agent.append("system", "Be brief.")
    for command in commands:
        talk.do(command.format(*turns))
    items = [item for number in expected for item in turn(number)]
    assert [item for item in shown(talk) if item != first] == items
    assert first in shown(talk)
    assert shown(talk, 2) == shown(talk)[-2:]


def test_instructions_stay_when_the_window_passes_them(tmp_path: Path) -> None:
    with session("foldmark", tmp_path) as talk:
        first = {"role": "developer", "content": "Be brief."}
        now(talk.add_items([first, *turn(1), *turn(2)]))
        talk.do("/context window 1")
        assert shown(talk) == [first, *turn(2)]


def test_a_budget_measures_whole_results(tmp_path: Path) -> None:
    """Foldmark's own request would truncate them, but a session returns them whole."""
    with session("foldmark", tmp_path) as talk:
        now(talk.add_items([user("q1"), call("c1"), output("c1", "word " * 5000), said("a1", 1), *turn(2)]))
        talk.do("/context budget 3000")
        assert shown(talk) == turn(2)


def test_a_window_goes_with_the_conversation(talk: Any) -> None:
    talk.do("/context window 2")
    now(talk.add_items(turn(4)))
    assert shown(talk) == [*turn(3), *turn(4)]
    child = FoldmarkSession(talk.do("/fork").data["child"], talk.log)
    assert shown(child) == shown(talk)
    assert now(talk.pop_item()) == turn(4)[3]


def test_a_budget_that_was_set_for_all_is_no_window(tmp_path: Path) -> None:
    """Items come back unchanged unless a window was set for this conversation."""
    with foldmark.open(tmp_path / "own.db", settings={"sliding_context_tokens": 1}) as log:
        talk = FoldmarkSession("talk", log)
        add(talk, [*turn(1), *turn(2)])
        assert shown(talk) == [*turn(1), *turn(2)]


def test_a_person_among_others(tmp_path: Path) -> None:
    """Concurrent commands and items from two session objects are all applied, one after the other."""
    with session("foldmark", tmp_path) as one, session("foldmark", tmp_path) as two, ThreadPoolExecutor(1) as thread:

        def marks() -> None:
            for number in range(20):
                two.do(f"/mark M{number}")

        marking = thread.submit(marks)
        for number in range(20):
            now(one.add_items(turn(number)))
        marking.result()
        assert shown(one) == [item for number in range(20) for item in turn(number)]
        assert list(one.agent.context().marks) == [f"M{number}" for number in range(20)]


def test_reading_writes_nothing(talk: Any) -> None:
    before = talk.agent.standing().record
    shown(talk)
    shown(talk, 3)
    talk.agent.request("openai_responses", "gpt-5")
    assert talk.agent.standing().record == before


def test_what_reading_costs_follows_the_limit(tmp_path: Path) -> None:
    def steps(talk: Any) -> int:
        count = 0

        def step() -> bool:
            nonlocal count
            count += 1
            return False

        connection(talk.log).set_progress_handler(step, 10)
        shown(talk, 8)
        connection(talk.log).set_progress_handler(None)
        return count

    size = 1000 if DEEP else 200
    with session("foldmark", tmp_path) as talk:
        now(talk.add_items([item for number in range(25) for item in turn(number)]))
        few = steps(talk)
        now(talk.add_items([item for number in range(25, size) for item in turn(number)]))
        assert steps(talk) < 2 * few
        assert texts(shown(talk, 8))[-1] == f"a{size - 1}"


def test_a_wrong_command_says_what_there_is(talk: Any) -> None:
    with pytest.raises(CommandError, match="there is no mark 'NOWHERE'"):
        talk.do("/rewind NOWHERE")
    with pytest.raises(CommandError, match="begins with '/'"):
        talk.do("mark X")
    talk.close()
    with pytest.raises(RuntimeError, match="session 'talk' is closed"):
        talk.do("/mark X")


def test_the_default_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOLDMARK_DB", str(tmp_path / "named.db"))
    with FoldmarkSession("talk") as talk:
        add(talk, [user("hi")])
    with foldmark.open(tmp_path / "named.db", create=False) as log:
        assert [message.content for message in log.agent("talk").context().messages] == ["hi"]
    monkeypatch.delenv("FOLDMARK_DB")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("HOME", str(tmp_path))
    with FoldmarkSession("talk") as talk:
        add(talk, [user("there")])
        assert Path(talk.log.store.address).is_relative_to(tmp_path)


def test_memory(tmp_path: Path) -> None:
    with FoldmarkSession("talk", ":memory:") as one, FoldmarkSession("talk", db_path=":memory:") as two:
        add(one, [user("hi")])
        assert shown(two) == []


def test_a_conversation_that_was_there_before(tmp_path: Path) -> None:
    with foldmark.open(tmp_path / "own.db") as log:
        agent = log.agent("default")
        agent.append("user", "hello")
        for session_id in ("default", agent.id, agent.id.upper()):
            assert shown(FoldmarkSession(session_id, log)) == [user("hello")]
        assert len(log.agents()) == 1
        strange = "01234567-89ab-cdef-0123-456789abcdef"
        add(FoldmarkSession(strange, log), [user("new")])
        assert log.agent(f"session-{strange}").context().messages[0].content == "new"


def test_keys_do_not_reach_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-proj-abcdefghijklmnopqrstuvwxyz")
    with session("foldmark", tmp_path) as talk:
        key = "my key is sk-proj-abcdefghijklmnopqrstuvwxyz"
        now(
            talk.add_items([user(key), said(key), call("a", arguments=f'{{ "k": "{key}"}}'), output("a", [{"x": key}])])
        )
        assert "abcdefghij" not in str(shown(talk))
        assert shown(talk)[0] == user("my key is [OPENAI_API_KEY]")
    assert b"abcdefghijklmnopqrstuvwxyz" not in (tmp_path / "foldmark.db").read_bytes()


def test_nothing_is_made_for_a_session_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "no.db").write_bytes(b"not a database" * 100)
    with pytest.raises(foldmark.StoreError, match="not a Foldmark database"):
        FoldmarkSession("talk", tmp_path / "no.db")
    with pytest.raises(foldmark.StoreError, match="no folder"):
        FoldmarkSession("talk", tmp_path / "none" / "x.db")


def test_without_the_sdk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "agents.memory", None)
    with pytest.raises(CommandError, match=re.escape(installs("openai-agents"))):
        FoldmarkSession("talk", tmp_path / "x.db")
    assert not (tmp_path / "x.db").exists()
    code = "import sys, foldmark.integrations.openai_agents; sys.exit('agents' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0, "importing it does nothing heavy"


def test_an_evicted_result_is_given_as_its_placeholder(talk: Any) -> None:
    before = shown(talk)
    (result, *_) = [event.id for event in talk.agent.context().messages if event.kind == "tool_result"]
    done = talk.do(f"/context evict {result}")
    after = shown(talk)
    changed = [(was, now_is) for was, now_is in zip(before, after, strict=True) if was != now_is]
    assert len(changed) == 1
    was, now_is = changed[0]
    assert was | {"output": ""} == now_is | {"output": ""}
    assert f"WHERE id={result}" in now_is["output"]
    talk.do(f"/restore {done.event_id}")
    assert shown(talk) == before


def test_texts_of_a_coding_agent_are_items_of_a_user(talk: Any) -> None:
    talk.agent.append("client", "A file has changed.")
    assert shown(talk)[-1] == {"role": "user", "content": "A file has changed."}


def test_an_offer_never_enters_the_context(talk: Any) -> None:
    before = shown(talk)
    offer = talk.do("/forget q2").data["offer"]
    assert shown(talk) == before
    talk.do(f"/agree {offer}")
    assert texts(shown(talk)) == texts(before[:4] + before[8:])
    now(talk.add_items([user("q4"), said("a4", 4)]))
    assert texts(shown(talk))[-2:] == ["q4", "a4"]


@pytest.mark.parametrize("step", ["add", "pop", "clear"])
def test_a_planning_conversation_of_a_chat_is_not_given_to_the_agent(talk: Any, step: str) -> None:
    before = shown(talk)
    talk.agent.do("/forget q2", asking=IN_CHAT)
    assert shown(talk) == before
    if step == "add":
        now(talk.add_items([user("yes")]))
        assert shown(talk) == [*before, user("yes")]
        assert not is_planning(talk.agent)
    elif step == "pop":
        assert now(talk.pop_item()) == before[-1]
        assert shown(talk) == before[:-1]
    else:
        now(talk.clear_session())
        assert shown(talk) == []


def is_planning(agent: foldmark.Agent) -> bool:
    with agent.reading() as (moment, at):
        return planning(moment, at) is not None
