"""Completion of lines: commands, options, and values from the log for a command's arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

import foldmark
from foldmark import Agent
from foldmark.chat.completion import MEANINGS, Completion, complete
from foldmark.chat.lines.keyboard import PROMPT
from foldmark.commands import REGISTRY
from foldmark.commands.registry import Command
from terminal import Terminal


@pytest.fixture
def agent() -> Iterator[Agent]:
    """A conversation with two turns (1, 5), a mark (4), a result (7), a fork (9) and a memo."""
    with foldmark.open(":memory:") as log:
        agent = log.agent("my talk")
        agent.append("user", "How do tags work?")
        agent.append("assistant", "Like this.")
        agent.end_turn()
        agent.do("/mark BEFORE")
        agent.append("user", "And plugins?")
        agent.append_tool_call("Read", {"path": "plugins.py"}, call_id="c1")
        agent.append_tool_result("c1", "import this\n" * 50)
        agent.end_turn()
        agent.do("/pin 1")
        agent.do("/fork")
        agent.do("/memo add Use tabs #style")
        yield agent


def completed(agent: Agent | None, line: str, cursor: int | None = None) -> list[str]:
    """Return the whole lines that result from the completion of `line`."""
    found = complete(REGISTRY, agent, line, cursor).candidates
    return [line[: each.first] + each.text + line[each.last :] for each in found]


def names(command: Command) -> Iterator[str]:
    """Yield the arguments of a command in the form of the table: `mark NAME`, `recall --agent NAME`."""
    yield from (f"{command.name} {word.strip('[].')}" for word in command.usage.split() if "--" not in word)
    yield from (f"{command.name} {option}" for option, _ in command.options if " " in option)


def test_the_meaning_of_every_argument_is_known() -> None:
    used = [name for command in REGISTRY.commands.values() for name in names(command)]
    assert {name if name in MEANINGS else name.rpartition(" ")[2] for name in used} == set(MEANINGS)


def test_commands_by_their_beginning_or_their_second_word(agent: Agent) -> None:
    assert completed(None, "/rew") == ["/rewind "]
    assert completed(None, "/context d") == ["/context drop ", "/context diff "]
    assert completed(None, "/context  dr") == ["/context drop "]
    assert completed(None, "/drop") == ["/context drop "]
    assert completed(None, "/quit") == ["/exit"]
    assert len(completed(None, "/")) == len(REGISTRY.commands)
    assert completed(agent, "a /mark") == completed(agent, "/nothing ") == []


def test_the_usage_shows_the_argument_that_is_typed(agent: Agent) -> None:
    def usage(line: str) -> tuple[str, str, str]:
        return complete(REGISTRY, agent, line).usage

    assert usage("/context drop ") == ("/context drop ", "GID...", " [--preview] [-- REASON]")
    assert usage("/context diff 1 ") == ("/context diff ID ", "[ID2]", "")
    assert usage("/rewind X -- because") == ("/rewind [MARK|GID] [--preview] ", "[-- REASON]", "")
    assert usage("/recall --role ")[1] == "--role ROLE"
    assert complete(REGISTRY, agent, "/recall --limit ").help == "Maximum number of results."


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("/rewind ", ["/rewind BEFORE", "/rewind 5", "/rewind 1"]),
        ("/rewind --p", ["/rewind --preview "]),
        ("/rewind BEFORE ", ["/rewind BEFORE --preview "]),
        ("/recall --visible --f", ["/recall --visible --forgotten "]),
        ("/recall --role us", ["/recall --role user"]),
        ("/recall --agent my", ['/recall --agent "my talk"']),
        ("/recall --tool bas", ["/recall --tool bash"]),
        ("/resume my t", ["/resume my talk"]),
        ('/resume "my t', ["/resume my talk"]),
        ("/rename my", []),
        ("/copy --c", ["/copy --code "]),
        ('/recall --agent "my t', ['/recall --agent "my talk"']),
        ("/session new my", []),
        ("/session list ", ["/session list --all "]),
        ("/pin pl", ["/pin 5"]),
        ("/context drop 1,", ["/context drop 1,5", "/context drop 1,1"]),
        ("/context drop 1-", ["/context drop 1-5", "/context drop 1-1"]),
        ("/context drop 4 -- pl", []),
        ("/context evict ", ["/context evict 7"]),
        ("/restore m", []),
        ("/restore 4", ["/restore 4"]),
        ("/restore before", ["/restore 4"]),
        ("/memo add More #st", ["/memo add More #style"]),
        ("/memo add More st", []),
        ("/memo show ", ["/memo show 1"]),
        ("/config get context_p", ["/config get context_policy"]),
        ("/config set context_policy=e", ["/config set context_policy=eager"]),
        ("/config set model=off", ["/config set model=offline"]),
        ("/config set nothing=", []),
        ("/model off", ["/model offline"]),
        ("/help context dr", ["/help context drop"]),
        ("/unpin ", ["/unpin 1"]),
    ],
)
def test_values_of_the_log(agent: Agent, line: str, wanted: list[str]) -> None:
    assert completed(agent, line) == wanted


def test_agents_with_their_states(agent: Agent) -> None:
    (child,) = agent.children
    found = complete(REGISTRY, agent, f"/switch {child.id[:4]}").candidates
    assert [each.text for each in found] == [child.id[:8]]
    assert found[0].help == f"agent {child.id[:8]} · waits for its first message"
    agent.do(f"/kill {child.id[:8]}")
    assert complete(REGISTRY, agent, f"/switch {child.id[:4]}").candidates[0].help.startswith(f"agent {child.id[:8]} ·")


def test_titles_are_the_help_of_ids(agent: Agent) -> None:
    first, second = complete(REGISTRY, agent, "/message show ").candidates
    assert first[0] == "5"
    assert first[1].startswith("And plugins? · 3 messages, ~")
    assert second[0] == "1"
    assert second[1].startswith("How do tags work? · 2 messages, ~")


def test_in_the_middle_of_a_line(agent: Agent) -> None:
    assert completed(agent, "/rewind BE -- because", len("/rewind BE")) == ["/rewind BEFORE -- because"]
    assert complete(REGISTRY, agent, "/rewind BE", 0) == Completion()


def test_tab_in_the_line_mode(terminal: Callable[..., Terminal], log: foldmark.Log) -> None:
    log.agent("default").do("/mark BEFORE")
    log.agent("default").append("user", "More.")
    with terminal("chat") as program:
        program.until("lists the commands.")
        program.until(PROMPT)
        program.type("/rew\tB\t\r")
        program.until("Rewound to 'BEFORE'.")
        assert program.leave() == 0
