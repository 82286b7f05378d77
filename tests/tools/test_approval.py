"""A person's approval of tool calls (SPEC 4.1): who is asked, how often, and what is remembered for whom."""

from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from msgspec import Struct

import foldmark
from foldmark import Agent, CommandError, Log
from foldmark.core.request import ToolSpec
from foldmark.operations.effects import Asking, Decision, Permission
from foldmark.request import standing
from foldmark.sending.interruption import CURRENT, Interruption
from foldmark.tools.tool import Tool
from patience import LIMIT


class What(Struct):
    what: str


def tool(name: str = "paint") -> Tool:
    """Return a tool that needs a person's approval, except to paint air."""
    parameters = {"type": "object", "properties": {"what": {"type": "string"}}, "required": ["what"]}
    return Tool(
        ToolSpec(name, "Paint something.", parameters),
        What,
        lambda agent, arguments, asking: f"painted {arguments.what}",
        question=lambda agent, arguments: None if arguments.what == "air" else f"paint {arguments.what}",
    )


def opened(path: Path, settings: Any = {}) -> Log:  # noqa: B006 - it is only read
    log = foldmark.open(path, settings=settings)
    for name in ("paint", "burn", "my tool"):
        log.add_tool(tool(name))
    return log


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with opened(tmp_path / "log.db") as log:
        yield log


@pytest.fixture
def agent(log: Log) -> Agent:
    return log.agent("home")


class Person:
    """A person who answers each question with the next of some answers; `asked` holds the questions."""

    def __init__(self, *answers: Any) -> None:
        self.answers, self.asked = list(answers), list[tuple[str, str]]()

    @property
    def asking(self) -> Asking:
        return Asking(approve=self._answer)

    def _answer(self, permission: Permission) -> Decision:
        self.asked.append((permission.tool, permission.question))
        answer: Decision = self.answers.pop(0)
        return answer


def paint(agent: Agent, person: Person | None = None, what: str = "a wall", name: str = "paint") -> str:
    return agent.call_tool(name, {"what": what}, asking=person.asking if person else Asking())


def refused(does: Callable[[], object]) -> str:
    """Return the one-line error of a refused call."""
    with pytest.raises(CommandError) as caught:
        does()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def child_of(agent: Agent) -> Agent:
    return agent.log.agent(agent.do("/fork").data["child"])


def test_yes_is_for_once(agent: Agent) -> None:
    person = Person("yes", "yes", "no")
    assert paint(agent, person) == "painted a wall"
    assert paint(agent, person) == "painted a wall"
    assert refused(lambda: paint(agent, person)).startswith("the person did not allow paint to do this; ask what they")
    assert person.asked == [("paint", "paint a wall")] * 3
    assert agent.standing().config.tool_approval == "ask"


def test_who_asks_for_nothing_needs_nobody(agent: Agent) -> None:
    assert paint(agent, None, "air") == "painted air"


@pytest.mark.parametrize("answer", ["", "Yes", "maybe", None, True])
def test_what_is_no_answer_is_a_no(agent: Agent, answer: object) -> None:
    assert "did not allow" in refused(lambda: paint(agent, Person(answer)))
    assert agent.standing().config.tool_approval == "ask"


def test_always_holds_for_the_tool_in_the_conversation_and_outlasts_the_program(tmp_path: Path, agent: Agent) -> None:
    grandchild = child_of(child_of(agent))
    assert paint(grandchild, Person("always")) == "painted a wall"
    sibling = child_of(agent)
    for each in (agent, grandchild, sibling):
        assert paint(each, Person(), "the sea") == "painted the sea"
    assert "did not allow" in refused(lambda: paint(agent, Person("no"), name="burn"))
    assert "did not allow" in refused(lambda: paint(agent.log.agent("elsewhere"), Person("no")))
    with opened(tmp_path / "log.db") as again:
        assert paint(again.agent("home")) == "painted a wall"
    assert agent.do("/config get tool_approval").text == "tool_approval = ask, paint=always (this agent)"


def test_never_holds_in_the_same_way(agent: Agent) -> None:
    assert "did not allow" in refused(lambda: paint(agent, Person("never")))
    told = refused(lambda: paint(child_of(agent), Person()))
    assert "paint may not do this, and nobody is asked: tool_approval of this conversation says never; go on" in told
    assert paint(agent, None, "air") == "painted air"


def test_a_permanent_answer_keeps_the_other_settings(tmp_path: Path) -> None:
    with opened(tmp_path / "other.db", {"tool_approval": "ask, burn=never"}) as log:
        agent = log.agent("home")
        paint(agent, Person("always"))
        assert agent.standing().settings["tool_approval"] == "ask, burn=never, paint=always"


@pytest.mark.parametrize("setting", ["always", "ask, paint=always", "never, paint=always"])
def test_allowed_by_a_setting(agent: Agent, setting: str) -> None:
    agent.do(f"/config set tool_approval={setting}")
    assert paint(agent) == paint(child_of(agent)) == "painted a wall"


@pytest.mark.parametrize("setting", ["never", "always, paint=never"])
def test_forbidden_by_a_setting(agent: Agent, setting: str) -> None:
    agent.do(f"/config set tool_approval={setting}")
    assert "says never" in refused(lambda: paint(agent, Person()))


def test_a_childs_own_setting_allows_nothing(agent: Agent) -> None:
    child = child_of(agent)
    child.configure("tool_approval", "always")
    assert "nobody is there to ask" in refused(lambda: paint(child))


def test_nobody_there_is_told_the_way_out_which_works(agent: Agent) -> None:
    agent.do("/config set tool_approval=ask, burn=never")
    child = child_of(agent)
    told = refused(lambda: paint(child))
    assert told.startswith("paint needs a person's approval for this, and nobody is there to ask; a person can allow")
    assert "in conversation 'home'" in told
    agent.do(told[told.index("/config") :])
    assert paint(child) == "painted a wall"
    assert "says never" in refused(lambda: paint(child, name="burn"))


def test_a_setting_that_cannot_be_read_asks(agent: Agent) -> None:
    agent.configure("tool_approval", "=always always=")
    assert "nobody is there" in refused(lambda: paint(agent))
    assert paint(agent, Person("always")) == "painted a wall"
    assert agent.standing().config.tool_approval == "ask, paint=always"


def test_a_name_that_no_setting_takes_is_remembered_while_the_log_is_open(tmp_path: Path, agent: Agent) -> None:
    person = Person("always")
    assert [paint(agent, person, name="my tool") for _ in range(2)] == ["painted a wall"] * 2
    assert agent.standing().config.tool_approval == "ask"
    with opened(tmp_path / "log.db") as again:
        assert "nobody is there" in refused(lambda: paint(again.agent("home"), name="my tool"))


def test_somebody_else_has_written_meanwhile(tmp_path: Path, agent: Agent) -> None:
    with opened(tmp_path / "log.db") as other:
        other.agent("home").append("user", "from elsewhere")
        assert paint(agent, Person("always")) == "painted a wall"
    assert agent.standing().config.tool_approval == "ask, paint=always"


# Environment


def test_the_environment_goes_before_what_is_remembered(
    tmp_path: Path, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent.do("/config set tool_approval=always, burn=never")
    monkeypatch.setenv("FOLDMARK_TOOL_APPROVAL", "ask")
    for _ in range(2):
        with opened(tmp_path / "log.db", None) as log:
            home, person, told = log.agent("home"), Person("always", "never"), list[str]()
            assert paint(home, person) == paint(child_of(home), person) == "painted a wall"
            for _ in range(2):
                told.append(refused(lambda: paint(home, person, name="burn")))  # noqa: B023
            assert "did not allow" in told[0]
            assert "the person says never" in told[1]
            said = "(environment FOLDMARK_TOOL_APPROVAL says to ask: always and never hold until Foldmark ends)"
            assert person.asked == [("paint", f"paint a wall\n{said}"), ("burn", f"paint a wall\n{said}")]
    assert agent.standing().config.tool_approval == "always, burn=never"


def test_the_environment_allows_and_forbids(tmp_path: Path, agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    agent.do("/config set tool_approval=never, burn=always")
    monkeypatch.setenv("FOLDMARK_TOOL_APPROVAL", "always, burn=never")
    with opened(tmp_path / "log.db", None) as log:
        assert paint(log.agent("home")) == "painted a wall"
        told = refused(lambda: paint(log.agent("home"), Person(), name="burn"))
        assert "environment FOLDMARK_TOOL_APPROVAL says never" in told
    monkeypatch.setenv("FOLDMARK_TOOL_APPROVAL", "ask, burn=never")
    with opened(tmp_path / "log.db", None) as log:
        told = refused(lambda: paint(log.agent("home")))
        assert told.endswith("environment FOLDMARK_TOOL_APPROVAL would have to say ask, burn=never, paint=always")


# Concurrent questions, and ended agents


def in_thread(does: Callable[[], object], interruption: Interruption | None = None) -> tuple[Thread, list[object]]:
    """Run a function in a thread that works for a turn. Return the thread and a list for the result or error text."""
    came: list[object] = []

    def run() -> None:
        CURRENT.set(interruption or Interruption())
        try:
            came.append(does())
        except CommandError as error:
            came.append(str(error))

    thread = Thread(target=run)
    thread.start()
    return thread, came


def test_one_question_at_a_time_and_one_answer_for_all_who_wait(agent: Agent) -> None:
    first, second, asked = child_of(agent), child_of(agent), list[str]()
    waiting: list[tuple[Thread, list[object]]] = []

    def approve(permission: Permission) -> Decision:
        asked.append(permission.question)
        if not waiting:
            waiting.append(
                in_thread(lambda: second.call_tool("paint", {"what": "two"}, asking=Asking(approve=approve)))
            )
            waiting[0][0].join(0.1)
            assert waiting[0][0].is_alive()
        return "always"

    assert first.call_tool("paint", {"what": "one"}, asking=Asking(approve=approve)) == "painted one"
    waiting[0][0].join()
    assert waiting[0][1] == ["painted two"]
    assert asked == ["paint one"]


def test_conversations_do_not_wait_for_each_other(agent: Agent) -> None:
    other = agent.log.agent("other")

    def approve(permission: Permission) -> Decision:
        thread, came = in_thread(lambda: paint(other, Person("yes")))
        thread.join(LIMIT)
        assert came == ["painted a wall"]
        return "yes"

    assert agent.call_tool("paint", {"what": "one"}, asking=Asking(approve=approve)) == "painted one"


def test_a_wait_for_anothers_question_can_be_interrupted(agent: Agent) -> None:
    interruption = Interruption()

    def approve(permission: Permission) -> Decision:
        thread, came = in_thread(lambda: paint(child_of(agent), Person("yes")), interruption)
        thread.join(0.1)
        assert came == []
        interruption.happen()
        thread.join(LIMIT)
        assert came == ["the turn was interrupted before a person had agreed; nothing was done"]
        return "yes"

    assert agent.call_tool("paint", {"what": "one"}, asking=Asking(approve=approve)) == "painted one"


@pytest.mark.parametrize("answer", ["yes", "always"])
def test_an_answer_that_comes_after_the_interruption_is_none(agent: Agent, answer: Decision) -> None:
    interruption = Interruption()

    def approve(permission: Permission) -> Decision:
        interruption.happen()
        return answer

    asking = Asking(approve=approve)
    thread, came = in_thread(lambda: agent.call_tool("paint", {"what": "one"}, asking=asking), interruption)
    thread.join()
    assert came == ["the turn was interrupted before a person had agreed; nothing was done"]
    assert agent.standing().config.tool_approval == "ask"


def test_the_dead_do_nothing_even_if_killed_while_they_ask(agent: Agent) -> None:
    child = child_of(agent)

    def approve(permission: Permission) -> Decision:
        agent.do(f"/kill {child.id}")
        return "yes"

    told = refused(lambda: child.call_tool("paint", {"what": "one"}, asking=Asking(approve=approve)))
    assert "is dead: killed by" in told
    assert refused(lambda: paint(child, Person())) == told


def test_nothing_is_done_in_a_deleted_conversation(agent: Agent) -> None:
    child = child_of(agent)
    agent.log.agent("elsewhere").do("/session delete home", asking=Asking(confirm=lambda question: True))
    for each in (agent, child):
        assert "was deleted" in refused(lambda: paint(each, Person()))  # noqa: B023


def test_a_failed_question_leaves_the_way_free(agent: Agent) -> None:
    def approve(permission: Permission) -> Decision:
        raise EOFError

    with pytest.raises(EOFError):
        agent.call_tool("paint", {"what": "one"}, asking=Asking(approve=approve))
    assert paint(agent, Person("yes")) == "painted a wall"


def test_an_agreement_on_another_machine_does_not_count(
    agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log may come from someone else, who allowed everything."""
    agent.do("/config set tool_approval=always")
    assert paint(agent) == "painted a wall"
    monkeypatch.setattr(standing, "machine", lambda: "elsewhere")
    assert "nobody is there to ask" in refused(lambda: paint(agent))
    assert agent.do("/config get tool_approval").text == "tool_approval = ask (default)"
    child = child_of(agent)
    assert "nobody is there to ask" in refused(lambda: paint(child))
    monkeypatch.setattr("foldmark.log.log.machine", lambda: "elsewhere")
    agent.do("/config set tool_approval=ask, paint=always")
    assert paint(child) == "painted a wall"
