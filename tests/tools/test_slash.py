"""`slash` (S0, SPEC 3, 4, 4.1): a model's six commands, and the effect of its operations on its own turn."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from typing import Any

import pytest

import foldmark
from cases import case
from foldmark import Agent, CommandError, Log
from foldmark.commands import REGISTRY
from foldmark.core import selections
from foldmark.core.request import Piece, Request, ToolCall
from foldmark.log.doctor import examine
from foldmark.runtime.loop import Shown, turn
from foldmark.tools import TOOLS
from planning_talk import IN_CHAT
from scripted import ScriptedProvider
from stored import stored

SIX = ["mark", "clear", "fork", "send", "check-mail", "kill"]


@pytest.fixture
def log() -> Iterator[Log]:
    with foldmark.open(":memory:") as log:
        yield log
        assert list(examine(log)) == []


@pytest.fixture
def agent(log: Log) -> Agent:
    return log.agent("default")


def slash(agent: Agent, command: str, args: str | None = None) -> str:
    given = {"command": command} if args is None else {"command": command, "args": args}
    return agent.call_tool("slash", given)


def texts(agent: Agent) -> list[str]:
    return [message.content for message in agent.context().messages]


def kinds(agent: Agent) -> list[str]:
    return [message.kind for message in agent.context().messages]


def no_orphan(agent: Agent) -> None:
    """Check that each result in the context and in the request follows its call."""
    messages = list(agent.context().messages)
    ids = {message.id for message in messages}
    assert all(message.answers in ids for message in messages if message.kind == "tool_result")
    called: set[str] = set()
    for message in agent.request("openai", "gpt-5").body["messages"]:
        called |= {call["id"] for call in message.get("tool_calls") or []}
        assert message["role"] != "tool" or message["tool_call_id"] in called


# The tool


def test_the_schema_is_the_seeds() -> None:
    spec = TOOLS["slash"].spec
    assert {"name": spec.name, "description": spec.description, "parameters": spec.parameters} == {
        "name": "slash",
        "description": "Execute a slash command",
        "parameters": {
            "type": "object",
            "properties": {
                "command": {"type": "string", "enum": SIX, "description": "The command to execute"},
                "args": {"type": "string", "description": "Command arguments as a single string"},
            },
            "required": ["command"],
        },
    }
    assert list(spec.parameters["properties"]["command"]["enum"]) == SIX  # in this order


def test_the_schema_is_made_from_the_registry() -> None:
    assert [name for name, command in REGISTRY.commands.items() if "model" in command.who] == SIX


def test_the_request_carries_it(agent: Agent) -> None:
    agent.append("user", "hello")
    (tool,) = [each for each in agent.request("openai", "gpt-5").body["tools"] if each["function"]["name"] == "slash"]
    assert tool["function"]["parameters"] == TOOLS["slash"].spec.parameters


def test_the_seven_calls_of_the_seed(log: Log, agent: Agent) -> None:
    """The child's uuid replaces abc123."""
    agent.append("user", "A")
    slash(agent, "mark", "CHECKPOINT")
    agent.append("user", "B")
    assert slash(agent, "mark", "TASK_START") == "Checkpoint 'TASK_START' created."
    goal = agent.append("user", "Compare two ways. Report.")
    forked = slash(agent, "fork", "TASK_START")
    (child,) = agent.children
    assert forked.splitlines() == [
        f"Forked. Child: {child.id[:8]} (from TASK_START)",
        f"It waits to be run: a chat that is open now runs it; otherwise /run {child.id[:8]} does.",
    ]
    assert [message.id for message in child.context().messages] == [goal]
    short = child.id[:6]
    assert "Sent to" in slash(agent, "send", f"{short} task complete")
    assert "No mail" in slash(agent, "check-mail")
    slash(child, "send", f"{agent.id} all is done")
    assert "1 message" in slash(agent, "check-mail")
    assert texts(agent)[-1].endswith("all is done")
    assert "1 message" in slash(child, "check-mail")
    assert texts(child)[-1].endswith("task complete")
    assert slash(agent, "clear", "CHECKPOINT") == "Rewound to 'CHECKPOINT'."
    assert texts(agent) == ["A"]
    assert slash(agent, "clear") == "Context cleared."
    assert texts(agent) == []
    assert "Killed" in slash(agent, "kill", short)
    with pytest.raises(CommandError, match=child.id[:8]):
        slash(agent, "send", f"{short} are you there?")


def test_the_actor_is_the_model(log: Log, agent: Agent) -> None:
    agent.append("user", "A")
    for command, args in (("mark", "M"), ("fork", "M"), ("clear", "M"), ("clear", None)):
        slash(agent, command, args)
    events = selections.operations(stored(log), agent.id)
    assert [(event.kind, event.actor) for event in events] == [
        *(("mark", "model"), ("fork", "model"), ("rewind", "model"), ("clear", "model"))
    ]
    result = agent.do("/mark N", actor="model")
    assert result.data["actor"] == "model"
    event = selections.event(stored(log), result.event_id or 0)
    assert event is not None
    assert event.actor == "model"


def test_the_mark_needs_no_name(agent: Agent) -> None:
    assert slash(agent, "mark") == "Checkpoint 'mark-1' created."
    assert slash(agent, "mark", "") == "Checkpoint 'mark-2' created."
    assert slash(agent, "mark", "  X  ") == "Checkpoint 'X' created."


FOR_PEOPLE = sorted(name for name, command in REGISTRY.commands.items() if "model" not in command.who)


def test_a_model_cannot_run_commands_for_people(log: Log, agent: Agent) -> None:
    agent.append("user", "A")
    before = agent.standing().record.head
    wanted = "is not for a model; available: /mark, /clear, /fork, /send, /check-mail, /kill"
    for command in FOR_PEOPLE:
        with case(command), pytest.raises(CommandError, match=wanted):
            slash(agent, command, "1")
        assert agent.standing().record.head == before, command


WRONG: list[Any] = [
    *(None, [], "mark", {}, {"args": "X"}, {"command": None}, {"command": 1}, {"command": ["mark"]}),
    *({"command": "mark", "args": None}, {"command": "mark", "args": ["X"]}, {"command": "mark", "x": 1}),
    *(
        {"command": ""},
        {"command": "/mark"},
        {"command": "MARK"},
        {"command": " "},
        {"command": "", "args": "mark X"},
    ),
    *({"command": "nope"}, {"command": "mark\nX Y"}, {"command": "\ud800"}, {"command": "x" * 100_000}),
    *(
        {"command": "mark", "args": "A B"},
        {"command": "mark", "args": "x" * 201},
        {"command": "mark", "args": "\x00"},
    ),
    *(
        {"command": "clear", "args": "NOWHERE"},
        {"command": "fork", "args": "NOWHERE"},
        {"command": "fork", "args": "A B"},
    ),
    *({"command": "send"}, {"command": "send", "args": "abc123"}, {"command": "send", "args": "zzzz hello"}),
    *({"command": "check-mail", "args": "now"}, {"command": "kill"}, {"command": "kill", "args": "zzzz"}),
]


def test_what_is_wrong_writes_nothing(log: Log, agent: Agent) -> None:
    agent.append("user", "A")
    before = agent.standing().record.head, len(log.agents())
    for args in WRONG:
        with case(args):
            with pytest.raises(CommandError) as caught:
                agent.call_tool("slash", args)
            assert "\n" not in str(caught.value)
            assert len(str(caught.value)) < 1500
            assert (agent.standing().record.head, len(log.agents())) == before


def test_a_mark_of_half_a_character(agent: Agent) -> None:
    """Text that UTF-8 cannot encode becomes U+FFFD."""
    agent.append("user", "A")
    slash(agent, "mark", "A\ud800")
    slash(agent, "fork")
    assert list(agent.context().marks) == ["A\ufffd"]


# During the model's own turn


class Scripted(ScriptedProvider):
    """A model that plays its steps: texts and calls."""

    name, window = "offline", 200_000

    def __init__(self, *steps: list[str | ToolCall]) -> None:
        self.steps, self.requests = list(steps), list[Request]()

    async def answer(self, request: Request) -> AsyncGenerator[Piece, None]:
        self.requests.append(request)
        for piece in self.steps.pop(0):
            yield piece


def run(agent: Agent, text: str | None, *steps: list[str | ToolCall]) -> Scripted:
    provider = Scripted(*steps)
    asyncio.run(turn(agent, provider, text, Shown(lambda _: None, lambda _: None)))
    no_orphan(agent)
    assert agent.open_turn is None
    assert provider.steps == []
    return provider


def call(call_id: str, command: str, args: str = "") -> ToolCall:
    return ToolCall(call_id, "slash", {"command": command, "args": args})


def test_a_rewind_to_a_mark_of_the_same_turn(agent: Agent) -> None:
    run(
        agent,
        "Try something",
        ["First a mark.", call("c1", "mark", "X")],
        ["Now an experiment."],
    )
    provider = run(agent, "Go on", ["That failed.", call("c2", "clear", "X")], ["I am back."])
    # The mark is in a closed exchange, after its result.
    assert kinds(agent) == ["user", "assistant", "tool_call", "tool_result", "user", "assistant"]
    notice, done = list(agent.context().messages)[-2:]
    assert (notice.kind, notice.actor, notice.turn_id) == ("user", "system", done.turn_id)
    assert "Rewound to 'X' at your request." in notice.content
    assert notice.content.split("\n")[1:] == [
        "> Rewound to 'X'.",  # the result of the call itself
        "[Foldmark: With that call you had said:]",
        "> That failed.",
        "[Foldmark: The user's message of this turn, gone as well, begins:]",
        "> Go on",
    ]
    assert done.content == "I am back."
    sent = provider.requests[-1].body["messages"]
    assert sent[-1] == {"role": "user", "content": notice.content}
    assert "Go on" not in [message["content"] for message in sent]


def test_a_mark_and_a_rewind_in_one_batch(agent: Agent) -> None:
    """The mark is in an open exchange, so the rewind goes back to before its calls and the text of that response."""
    run(agent, "Try", ["I mark and go back.", call("c1", "mark", "X"), call("c2", "clear", "X")], ["Back."])
    assert kinds(agent) == ["user", "user", "assistant"]
    assert texts(agent)[0] == "Try"
    assert "Rewound to 'X' at your request." in texts(agent)[1]


def test_going_back_to_the_same_place_again_is_counted(agent: Agent) -> None:
    run(agent, "Mark", [call("m", "mark", "X")], ["Marked."])
    again: list[list[str | ToolCall]] = [[f"Attempt {n} failed.", call(f"c{n}", "clear", "X")] for n in (1, 2, 3)]
    run(agent, "Try", *again, ["Done."])
    (told,) = [each.content for each in agent.context().messages if (each.kind, each.actor) == ("user", "system")]
    assert told.startswith("[Foldmark: Rewound to 'X' at your request, 3 times in this turn now: try something else.")
    assert "> Attempt 3 failed." in told
    assert "> Try" in told


def test_a_clear_in_the_middle_of_the_turn(agent: Agent) -> None:
    provider = run(agent, "Start anew", ["I clear.", call("c1", "clear")], ["Cleared."])
    assert kinds(agent) == ["user", "assistant"]
    assert "Context cleared at your request." in texts(agent)[0]
    assert [message["role"] for message in provider.requests[-1].body["messages"]] == ["system", "user"]


def test_the_notice_keeps_what_the_other_calls_of_the_batch_answered(log: Log, agent: Agent) -> None:
    run(agent, "Mark", [call("m", "mark", "X")], ["Marked."])
    agent.do("/memo add The port is 8080. #net")
    batch = [
        call("c1", "clear", "X"),
        ToolCall("c2", "manage_scratchpad", {"action": "update", "content": "tried"}),
        call("c3", "mark", "Y"),
        ToolCall("c4", "query_db", {"sql": "SELECT 'é' || 'ß' || 'ä' AS found"}),
    ]
    run(agent, "Try", ["I go back.", *batch], ["Done."])
    notices = [each.content for each in agent.context().messages if (each.kind, each.actor) == ("user", "system")]
    first, second = notices
    assert first.startswith("[Foldmark: Rewound to 'X' at your request. The result of call c1, which stood before that")
    assert "[Foldmark: The result of call c2, gone as well, begins:]\n> " in first
    assert "[Foldmark: The result of call c4, gone as well, begins:]\n> " in first
    assert first.count("éßä") == 1
    assert "The result of call c3" in second
    assert "Checkpoint 'Y' created." in second
    assert "gone as well" not in second
    no_orphan(agent)


def test_a_persons_clear_while_the_tool_runs(log: Log, agent: Agent) -> None:
    agent.append("user", "go")
    agent.append_tool_call("read", {}, call_id="c1", dialect="openai")
    agent.do("/clear")
    agent.append_tool_result("c1", "text", dialect="openai")
    (notice,) = agent.context().messages
    assert "Context cleared by the user." in notice.content
    no_orphan(agent)


def test_the_quoted_result_is_cut(agent: Agent) -> None:
    agent.append("user", "go")
    agent.do("/mark X")
    agent.append_tool_call("read", {}, call_id="c1", dialect="openai")
    agent.do("/clear X", actor="model")
    agent.append_tool_result("c1", "ä" * 5000, dialect="openai")
    notice = agent.context().messages[-1]
    assert notice.kind == "user"
    assert notice.content.count("ä") == 1000
    no_orphan(agent)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("/undo", "Turn 1 was taken out of the context by the user."),
        ("/context drop 1", "Turn 1 was taken out of the context by the user."),
        ("/message remove 1 --yes", "The call has left the context."),
    ],
)
def test_a_notice_names_the_operation(agent: Agent, line: str, words: str) -> None:
    assert agent.append("user", "go") == 1
    agent.append_tool_call("read", {}, call_id="c1", dialect="openai")
    agent.do(line)
    agent.append_tool_result("c1", "text", dialect="openai")
    assert words in texts(agent)[-1]
    no_orphan(agent)


def test_a_notice_of_a_filter(agent: Agent) -> None:
    agent.append("user", "go")
    called = agent.append_tool_call("read", {}, call_id="c1", dialect="openai")
    agent.apply_filter("forget", [called], actor="model")
    agent.do("/mark LATER")
    agent.append_tool_result("c1", "text", dialect="openai")
    assert "A part of the context was removed (/forget) at your request." in texts(agent)[-1]


def test_slash_calls_of_a_batch_run_last_and_in_order(agent: Agent) -> None:
    shown: list[str] = []
    provider = Scripted(
        [
            *(call("s1", "mark", "A"), ToolCall("t1", "nope", {}), call("s2", "mark", "B")),
            *(ToolCall("t2", "filter_context", {"action": "preview"}), call("s3", "mark", "A")),
        ],
        ["Done."],
    )
    show = Shown(lambda _: None, lambda each: shown.append(each.call_id))
    asyncio.run(turn(agent, provider, "go", show))
    assert shown == ["t1", "t2", "s1", "s2", "s3"]
    messages = list(agent.context().messages)
    called = {message.id: message.call_id for message in messages if message.kind == "tool_call"}
    assert list(called.values()) == ["s1", "t1", "s2", "t2", "s3"]
    results = [(called[m.answers], m.content) for m in messages if m.kind == "tool_result" and m.answers is not None]
    assert [call_id for call_id, _ in results] == shown
    assert [text for _, text in results[2:]] == [
        *("Checkpoint 'A' created.", "Checkpoint 'B' created.", "Checkpoint 'A' moved.")
    ]
    # On the wire the results are in the order of the calls.
    sent = [m["tool_call_id"] for m in provider.requests[-1].body["messages"] if m["role"] == "tool"]
    assert sent == ["s1", "t1", "s2", "t2", "s3"]


def test_a_rewind_among_other_calls_leaves_no_orphan(agent: Agent) -> None:
    run(agent, "Mark", [call("m", "mark", "X")], ["Marked."])
    before = texts(agent)[:-1]  # the mark is after the result and before the answer
    run(
        agent,
        "Much at once",
        ["All of it.", call("s1", "clear", "X"), ToolCall("t1", "nope", {}), call("s2", "mark", "Y")],
        ["And on."],
    )
    assert texts(agent)[: len(before)] == before
    notices = texts(agent)[len(before) : -1]
    assert ["Rewound to 'X' at your request." in text for text in notices] == [True, True]
    assert [text.split("\n")[1] for text in notices] == ["> Rewound to 'X'.", "> Checkpoint 'Y' created."]
    quoted = ["> All of it." in text and "> Much at once" in text for text in notices]
    assert quoted == [True, False]  # once is enough
    assert set(agent.context().marks) == {"X", "Y"}


def test_a_fork_in_the_middle_of_the_turn(log: Log, agent: Agent) -> None:
    """The child does not inherit the open exchange or its text."""
    run(agent, "Delegate", ["I fork.", call("c1", "fork")], ["It is born."])
    (child,) = agent.children
    assert texts(child) == ["Delegate"]
    assert kinds(agent) == ["user", "assistant", "tool_call", "tool_result", "assistant"]
    no_orphan(child)


def test_a_wrong_command_is_an_error_result(agent: Agent) -> None:
    provider = run(agent, "go", [call("c1", "exit"), call("c2", "clear", "NOWHERE")], ["Sorry."])
    results = [message for message in agent.context().messages if message.kind == "tool_result"]
    assert [(message.data or {}).get("is_error") for message in results] == [True, True]
    assert results[0].content.startswith("Error: /exit is not for a model; available: /mark")
    assert results[1].content.startswith("Error: there is no mark 'NOWHERE'")
    assert [m["content"] for m in provider.requests[-1].body["messages"] if m["role"] == "tool"] == [
        message.content for message in results
    ]


def test_a_clear_in_the_batch_of_the_filter_leaves_no_orphan(agent: Agent) -> None:
    first = agent.append("user", "Which tables?")
    agent.end_turn()
    agent.do(f"/forget messages {first}", asking=IN_CHAT)
    agent.call_tool("filter_context", {"action": "preview"})
    agent.end_turn()
    apply = ToolCall("f1", "filter_context", {"action": "apply"})
    agent.append("user", "yes")  # bypasses the runtime, which would apply the filter itself
    run(agent, None, [apply, call("s1", "clear")], ["Cleared."])
    assert kinds(agent) == ["user", "assistant"]
    assert "Context cleared at your request." in texts(agent)[0]


def test_model_commands_narrows_what_a_model_may_run(agent: Agent) -> None:
    agent.do("/config set model_commands=mark fork")
    slash(agent, "mark", "A")
    with pytest.raises(CommandError, match=r"^/clear is not for a model; available: /mark, /fork$"):
        slash(agent, "clear")
    agent.do("/clear")
    agent.do("/config set model_commands=")
    with pytest.raises(CommandError, match=r"^there is no tool 'slash'; available: filter_context, "):
        slash(agent, "mark", "B")
    with pytest.raises(CommandError, match=r"^model_commands must be 'all', 'none' or any of mark, .*, not 'undo'$"):
        agent.do("/config set model_commands=mark, undo")
