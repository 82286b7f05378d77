"""`/context window | budget`, `/config`, `/model`, `/system`, `/state`, `/scratchpad` (SPEC 4, 7, 10)."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import foldmark
from answering import answered_by
from foldmark import Agent, CommandError, FoldmarkError, Log
from foldmark.core import selections
from foldmark.core.config import KEYS, Config
from foldmark.core.errors import ProviderError
from foldmark.installation import installs
from foldmark.rendering import result_text
from foldmark.settings.given import Settings, Value
from planning_talk import IN_CHAT
from stored import stored


@pytest.fixture
def agent(log: Log) -> Agent:
    return log.agent("root")


def said(agent: Agent, *texts: str) -> list[int]:
    """Append one turn for each text and return the ids of the turns."""
    turns = []
    for text in texts:
        turns.append(agent.append("user", text))
        agent.append("assistant", f"about {text}")
        agent.end_turn()
    return turns


def sent(agent: Agent) -> list[int | None]:
    """Return the ids of the messages that would be sent."""
    return [part.event for part in agent.request().manifest.parts if part.layer == "window" and part.event]


# The window


@pytest.mark.parametrize(
    ("line", "text", "turns"),
    [
        ("/context window 1", "The request holds the newest 1 turn.", 1),
        ("/context window 2", "The request holds the newest 2 turns.", 2),
        ("/context window 0", "The request holds all turns that fit.", 3),
        ("/context window 1000000000", "The request holds the newest 1,000,000,000 turns.", 3),
        ("/context budget 0", "The request has no budget.", 3),
        ("/context budget 5000", "The request holds up to 5,000 tokens.", 3),
        ("/context budget 1", "The request holds up to 1 tokens.", 1),
    ],
)
def test_window_and_budget(agent: Agent, line: str, text: str, turns: int) -> None:
    said(agent, "one", "two", "three")
    visible = [message.id for message in agent.context().messages]
    result = agent.do(line)
    assert result.text == text
    assert result.data["back"] == f"/restore {result.event_id}"
    assert result.data["request"]["after"] == agent.request().tokens
    assert sent(agent) == visible[-2 * turns :]
    assert [message.id for message in agent.context().messages] == visible
    assert agent.do(line).text.startswith("Nothing was changed: ")
    agent.do(f"/restore {result.event_id}")
    assert agent.request().tokens == result.data["request"]["before"]
    agent.do("/context window 0")
    agent.do("/context budget 0")
    assert sent(agent) == visible


# Any setting


def test_every_setting_has_a_default(agent: Agent) -> None:
    result = agent.do("/config get")
    assert [line.partition(" = ")[0] for line in result.text.splitlines()] == list(KEYS)
    assert result.data["settings"] == {key: getattr(Config(), key) for key in KEYS}
    for key in KEYS:
        assert agent.do(f"/config get {key}").text == next(
            line for line in result.text.splitlines() if line.startswith(f"{key} =")
        )


@pytest.mark.parametrize(
    ("typed", "key", "value"),
    [
        ("sliding_context_tokens=5", "sliding_context_tokens", 5),
        ("SLIDING_CONTEXT_TOKENS=200000", "sliding_context_tokens", 200_000),
        ("FOLDMARK_SLIDING_CONTEXT_TOKENS=7", "sliding_context_tokens", 7),
        ("IKIGAI_SLIDING_CONTEXT_TOKENS=8", "sliding_context_tokens", 8),
        ("context_size = 3", "context_size", 3),
        ("sliding_context_low_water=0.5", "sliding_context_low_water", 0.5),
        ("truncate_shape=head-tail", "truncate_shape", "head-tail"),
        ("truncation=off", "truncation", False),
        ("truncation=on", "truncation", True),
        ("system=be brief = be good", "system", "be brief = be good"),
        ("system=", "system", ""),
        ("model=openai/gpt-5", "model", "openai/gpt-5"),
        ("context_size=007", "context_size", 7),
    ],
)
def test_setting(agent: Agent, typed: str, key: str, value: object) -> None:
    agent.do("/system edit before")
    result = agent.do(f"/config set {typed}")
    assert result.data["value"] == value
    assert getattr(agent.standing().config, key) == value
    event = selections.event(stored(agent.log), result.data["event"])
    assert event is not None
    assert (event.kind, event.actor) == ("config", "human")
    # The shown value, without its source, can be typed again.
    shown, source = agent.do(f"/config get {key}").text.rsplit(" (", 1)
    assert source == "this agent)"
    agent.do(f"/config set {shown}")
    assert getattr(agent.standing().config, key) == value


def test_settings_are_an_agents_own(log: Log, agent: Agent) -> None:
    """A fork inherits them; afterwards each agent has its own (SPEC 3)."""
    agent.do("/context window 3")
    agent.do("/model gemini/gemini-2.5-pro")
    child = log.agent(agent.do("/fork").data["child"])
    agent.do("/context window 4")
    child.do("/model openai/gpt-5")
    assert (agent.standing().config.context_size, agent.standing().config.provider) == (4, "gemini")
    assert (child.standing().config.context_size, child.standing().config.model) == (3, "openai/gpt-5")
    assert log.agent("other").standing().config == Config()


def test_the_environment_overrides_the_settings() -> None:
    said = {"context_size": Value(5, "environment FOLDMARK_CONTEXT_SIZE"), "system": Value("a\nb", "command line")}
    with foldmark.open(":memory:", settings=Settings(overrides=said)) as log:
        agent = log.agent("root")
        told = "Kept for this agent, but environment FOLDMARK_CONTEXT_SIZE overrides it: context_size = 5"
        for line in ("/config set context_size=4", "/context window 3"):
            result = agent.do(line)
            assert result.text == told
            assert result.data["overridden"] == {"value": 5, "source": "environment FOLDMARK_CONTEXT_SIZE"}
            assert agent.standing().config.context_size == 5
        assert agent.standing().settings == {"context_size": 3}
        result = agent.do("/system edit c")
        assert result.text == "Kept for this agent, but command line overrides it: another system"
        assert "overridden" not in agent.do("/config set truncate_recent=5").data
        assert agent.do("/config get context_size").text == "context_size = 5 (environment FOLDMARK_CONTEXT_SIZE)"
        sources = agent.do("/config get").data["sources"]
        assert list(sources) == list(KEYS)
        assert (sources["system"], sources["truncate_recent"], sources["model"]) == (
            "command line",
            "this agent",
            "default",
        )


def test_the_model_of_the_environment() -> None:
    said = {"model": Value("openai/gpt-5", "environment FOLDMARK_MODEL")}
    with foldmark.open(":memory:", settings=Settings(overrides=said)) as log:
        agent = log.agent("root")
        assert agent.do("/model").text == "Model: openai/gpt-5 (environment FOLDMARK_MODEL)"
        told = "Kept for this agent, but environment FOLDMARK_MODEL overrides it: model = openai/gpt-5"
        assert agent.do("/model offline").text == told
        assert agent.request().provider == "openai"


def test_settings_outlast_clear_and_rewind(agent: Agent) -> None:
    agent.do("/mark M")
    agent.do("/context window 3")
    agent.do("/rewind M")
    agent.do("/clear")
    assert agent.standing().config.context_size == 3


# The model and the system prompt


def test_the_model(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    assert agent.do("/model").text == "Model: offline (default)"
    assert agent.do("/model anthropic/claude-sonnet-4-5").text == "Model: anthropic/claude-sonnet-4-5"
    assert agent.do("/model").text == "Model: anthropic/claude-sonnet-4-5 (this agent)"
    assert agent.do("/model").data == {"model": "anthropic/claude-sonnet-4-5", "source": "this agent"}
    request = agent.request()
    assert (request.provider, request.model, request.dialect) == ("anthropic", "claude-sonnet-4-5", "anthropic")
    agent.do("/model gemini_gca/a/b")
    assert agent.request().model == "a/b"


@pytest.mark.parametrize("line", ["/model {}", "/model {} --preview", "/config set model={}"])
def test_a_model_without_its_key_or_sdk_says_so(agent: Agent, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    told = agent.do(line.format("openai/gpt-5")).text
    assert "\n  It cannot be asked yet. There is no key for openai. Set OPENAI_API_KEY." in told
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    assert "It cannot be asked" not in agent.do(line.format("openai/gpt-5")).text
    monkeypatch.setitem(sys.modules, "openai", None)
    told = agent.do(line.format("openai/gpt-5")).text
    assert f"\n  It cannot be asked yet. The SDK for openai is not installed; {installs('openai')}" in told


@pytest.mark.parametrize("line", ["/model {}", "/config set model={}", "/config set MODEL = {}"])
def test_an_unknown_model_is_refused(agent: Agent, line: str) -> None:
    for name in ("foo", "openai", "openai/", "/gpt-5", "foo/bar", "OPENAI/gpt-5"):
        wanted = (
            f"a model must be 'offline' or PROVIDER/MODEL( with one of .*)?, not '{name}'; (did you mean|for example) "
        )
        with pytest.raises(CommandError, match=wanted):
            agent.do(line.format(name))
        assert agent.standing().newest == 0
        assert agent.request().provider == "offline"


def test_the_system_prompt(agent: Agent) -> None:
    assert agent.do("/system").text == "No system prompt."
    agent.do("/system edit Answer\n  in verse. ")
    assert agent.do("/system").text == "Answer\n  in verse."
    assert agent.request().body["messages"][0]["content"].startswith("Answer\n  in verse.")
    edit = agent.do("/system edit").data["edit"]
    assert edit == {"text": "Answer\n  in verse.", "command": "/system edit", "clear": "/system clear"}
    agent.do(edit["clear"])
    assert agent.standing().config.system == ""
    agent.do(f"{edit['command']} {edit['text']}")


# The state block and the scratchpad


def test_the_state_block(agent: Agent) -> None:
    assert agent.do("/state").text == "No state block yet."
    turn = agent.append("user", "hello")
    agent.record("state", "Goal: sing")
    agent.end_turn()
    assert agent.do("/state").text == "Goal: sing"
    agent.do(f"/context drop {turn}")
    assert agent.do("/state").data == {"state": None}


def test_a_fresh_state_block(agent: Agent) -> None:
    said(agent, "sing in src/song.py")
    result = agent.do("/context rebuild")
    assert result.text.startswith("### STATE\nGoal: ")
    event = selections.event(stored(agent.log), result.data["event"])
    assert event is not None
    assert (event.kind, event.actor, event.content) == ("state", "model", result.data["state"])
    assert agent.do("/state").text == result.data["state"]
    assert "Goal: " in agent.request().bytes.decode()


@pytest.mark.parametrize("answer", ["", "   ", "I would rather not."])
def test_no_fresh_state_block(log: Log, agent: Agent, answer: str) -> None:
    said(agent, "sing")
    agent.record("state", "Goal: sing")
    newest = agent.standing().newest
    answered_by(lambda request: answer)
    with pytest.raises(FoldmarkError, match=r"nothing was changed|the last one is kept. It said: I would rather not\."):
        agent.do("/context rebuild")
    assert agent.standing().newest == newest
    assert agent.do("/state").text == "Goal: sing"


@pytest.mark.parametrize("line", ["/context rebuild", "/summarize"])
def test_a_model_that_cannot_be_asked(agent: Agent, line: str) -> None:
    said(agent, "sing")
    agent.do("/model openai/gpt-5")
    newest = agent.standing().newest
    with pytest.raises(ProviderError, match="OPENAI_API_KEY"):
        agent.do(line)
    assert agent.standing().newest == newest


@pytest.mark.parametrize("command", ["/scratchpad", "/session scratchpad"])
def test_the_scratchpad(agent: Agent, command: str) -> None:
    assert agent.do(command).text == "The scratchpad is empty."
    edit = agent.do(f"{command} edit").data["edit"]
    assert edit == {"text": "", "command": "/scratchpad edit", "clear": "/scratchpad clear"}
    assert agent.do(f"{command} edit  first\n  second ").text == "Scratchpad changed."
    assert agent.do(command).text == agent.do(f"{command} read").text == "first\n  second"
    assert agent.do(f"{command} edit").data["edit"]["text"] == "first\n  second"
    agent.append("user", "Now.")
    assert "first\\n  second" in agent.request().bytes.decode()
    agent.append("assistant", "Well.")
    assert agent.do(command).data == {"scratchpad": "first\n  second"}
    assert agent.do(f"{command} clear").text == "Scratchpad cleared."
    assert agent.do(command).text == "The scratchpad is empty."
    agent.end_turn()
    agent.append("user", "And now.")
    assert "### SCRATCHPAD\\n(empty)" in agent.request().bytes.decode()
    agent.do("/clear")
    assert "SCRATCHPAD" not in agent.request().bytes.decode()


def test_a_full_fork_hands_the_scratchpad_down(log: Log, agent: Agent) -> None:
    said(agent, "one")
    agent.do("/mark M")
    agent.do("/scratchpad edit mine")
    full, cut = (log.agent(agent.do(line).data["child"]) for line in ("/fork", "/fork M"))
    assert full.do("/scratchpad").text == "mine"
    assert cut.do("/scratchpad").text == "The scratchpad is empty."
    full.do("/scratchpad edit its own")
    assert agent.do("/scratchpad").text == "mine"
    agent.do("/scratchpad clear")
    assert full.do("/scratchpad").text == "its own"


# Summaries and pins


def test_a_summary_takes_the_place(log: Log, agent: Agent) -> None:
    (one,) = said(agent, "one")
    agent.record("state", "Goal: sing")
    agent.do("/mark M")
    said(agent, "two", "three")
    seen = []
    answered_by(lambda request: seen.append(request) or " the gist ")  # type: ignore[func-returns-value]
    result = agent.do("/summarize M")
    assert "A summary replaces everything after 'M'" in result.text
    (request,) = seen
    assert request.purpose == "summary"
    body = request.bytes.decode()
    assert "about two" in body
    assert "about one" not in body
    summary = agent.context().messages[-1]
    assert (summary.kind, summary.content, summary.turn_id) == ("summary", "the gist", summary.id)
    assert [message.id for message in agent.context().messages] == [one, one + 1, summary.id]
    assert (result.data["left"]["messages"], result.data["summary"]) == (4, "the gist")
    back = f"`/restore {summary.id}` brings back the messages that it replaces"
    with pytest.raises(CommandError, match=f"the newest turn is a summary; {back}"):
        agent.do("/undo")
    agent.do(f"/restore {summary.id}")
    assert [message.content for message in agent.context().messages][-1] == "about three"
    assert agent.do("/state").text == "Goal: sing"


def test_a_summary_of_all_keeps_the_state(agent: Agent) -> None:
    said(agent, "one")
    agent.record("state", "Goal: sing")
    agent.do("/summarize")
    assert agent.do("/state").text == "Goal: sing"
    agent.do("/undo") if agent.context().messages[-1].kind != "summary" else None
    assert agent.context().size.messages == 1


def test_the_model_says_nothing(log: Log, agent: Agent) -> None:
    said(agent, "one")
    answered_by(lambda request: " \n")
    newest = agent.standing().newest
    with pytest.raises(FoldmarkError, match="offline gave an empty answer; nothing was changed"):
        agent.do("/summarize")
    assert agent.standing().newest == newest


def test_messages_during_a_summary_are_not_lost(log: Log, agent: Agent) -> None:
    """The summary replaces only the messages that the model was shown, not those that arrived during its request."""
    said(agent, "one")

    def complete(request: object) -> str:
        said(agent, "meanwhile")
        return "the gist"

    answered_by(complete)
    agent.do("/summarize")
    assert [message.content for message in agent.context().messages] == ["meanwhile", "about meanwhile", "the gist"]


def test_pins(agent: Agent) -> None:
    one, two, three = said(agent, "one", "two", "three")
    agent.do("/context window 1")
    result = agent.do(f"/pin {one}")
    assert result.text == f"Turn {one} is pinned: it stays in the request when the window passes it."
    assert result.data["before"] == result.data["after"]
    agent.do(f"/pin {two}")
    assert agent.context().pins == (one, two)
    parts = agent.request().manifest.parts
    assert [part.event for part in parts if part.layer == "pinned"] == [one, one + 1, two, two + 1]
    assert sent(agent) == [three, three + 1]
    assert agent.do(f"/unpin {one}").text == f"Turn {one} is unpinned."
    assert [part.turn for part in agent.request().manifest.parts if part.layer == "pinned"] == [two, two]
    clear = agent.do("/clear").event_id
    assert agent.context().pins == (two,)
    assert not [part for part in agent.request().manifest.parts if part.layer == "pinned"]
    agent.do(f"/restore {clear}")
    assert [part.turn for part in agent.request().manifest.parts if part.layer == "pinned"] == [two, two]


def test_what_tools_may_do_is_the_conversations(tmp_path: Path) -> None:
    with foldmark.open(tmp_path / "log.db", settings={}) as log:
        root = log.agent("default")
        child = log.agent(root.do("/fork").data["child"])
        told = child.do("/config set tool_approval=ask, bash=always").text
        assert told.endswith("(for conversation 'default', which this agent belongs to)")
        assert root.standing().config.tool_approval == "ask, bash=always"
        for agent, source in ((root, "this agent"), (child, "conversation 'default'")):
            assert agent.do("/config get tool_approval").text == f"tool_approval = ask, bash=always ({source})"
        child.do("/config set context_size=3")
        assert root.do("/config get context_size").text == "context_size = 0 (default)"


def test_the_setting_tools_selects_the_offered_tools(tmp_path: Path) -> None:
    with foldmark.open(tmp_path / "log.db", settings={}) as log:
        agent = log.agent("default")
        everything = [spec.name for spec in agent.tools()]
        # Tools of a server or of a program may be available at another time.
        told = agent.do("/config set tools=slash, mcp__files__read").text
        assert told.startswith(
            "tools = slash, mcp__files__read (mcp__files__read: not available now; available: slash, "
        )
        agent.do("/config set tools=grep, slash")
        assert [spec.name for spec in agent.tools()] == ["slash", "grep"]
        with pytest.raises(CommandError, match="there is no tool 'bash'; available: slash, grep"):
            agent.call_tool("bash", {"command": "true"})
        agent.append("user", "About tabs.")
        agent.end_turn()
        agent.do("/forget tabs", asking=IN_CHAT)
        # Without it, nobody could preview or apply the planned filter.
        assert [spec.name for spec in agent.tools()] == ["slash", "filter_context", "grep"]
        agent.do("/cancel")
        agent.do("/config set model_commands=mark, clear")
        (slash,) = [spec for spec in agent.tools() if spec.name == "slash"]
        assert slash.parameters["properties"]["command"]["enum"] == ["mark", "clear"]
        agent.do("/config set model_commands=none")
        agent.end_turn()
        assert [spec.name for spec in agent.tools()] == ["grep"]
        agent.do("/config set tools=all")
        assert [spec.name for spec in agent.tools()] == [name for name in everything if name not in ("slash", "evict")]


def test_config_set_takes_several_pairs(log: Log) -> None:
    agent = log.agent("default")
    result = agent.do("/config set context_size=3 SLIDING_CONTEXT_TOKENS=5000 truncation=off")
    assert result.text.splitlines() == ["context_size = 3", "sliding_context_tokens = 5000", "truncation = off"]
    config = agent.standing().config
    assert (config.context_size, config.sliding_context_tokens, config.truncation) == (3, 5000, False)


def test_several_pairs_are_set_all_or_none(log: Log) -> None:
    agent = log.agent("default")
    with pytest.raises(CommandError, match="context_size must be a number"):
        agent.do("/config set sliding_context_tokens=5000 context_size=many")
    assert agent.standing().settings == {}


@pytest.mark.parametrize("value", ["You know colour=red and a=b.", "model what you see", "size=3 model"])
def test_a_value_with_spaces_is_one_value(log: Log, value: str) -> None:
    agent = log.agent("default")
    agent.do(f"/config set system={value}")
    assert agent.standing().config.system == value


def test_another_providers_model_says_what_it_is_not_sent(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    for provider in ("ANTHROPIC", "OPENAI"):
        monkeypatch.setenv(f"{provider}_API_KEY", "k")
    agent.do("/model anthropic/claude-sonnet-4-5")
    agent.append("user", "Read it.")
    for number in range(3):
        agent.append_tool_call("read", {"path": "a"}, call_id=f"c{number}", dialect="anthropic")
        agent.append_tool_result(f"c{number}", "text " * 500, dialect="anthropic")
    agent.append("assistant", "Read.")
    agent.end_turn()
    before = agent.request().tokens
    done = agent.do("/model openai/gpt-5")
    after = agent.request().tokens
    assert done.text.split("\n") == [
        "Model: openai/gpt-5",
        "  6 messages in the form of anthropic: not sent to this model. A model of anthropic gets them",
        f"  next request ~{after:,} tokens instead of ~{before:,}",
    ]
    assert (done.data["tokens"], done.data["before"], done.data["isolated"]) == (after, before, 6)
    assert after < before / 2
    back = agent.do("/model anthropic/claude-sonnet-4-5")
    assert "6 messages: sent again, since this model reads their form" in back.text
    assert back.data["returned"] == 6
    assert agent.do("/model anthropic/claude-opus-4-5").text == "Model: anthropic/claude-opus-4-5"


@pytest.mark.parametrize("name", ["openai/gpt-5", "gemini/gemini-2.5-pro", "anthropic/claude-opus-4-5", "offline"])
def test_the_preview_of_a_model_says_what_will_be_sent(agent: Agent, name: str) -> None:
    agent.do("/model anthropic/claude-sonnet-4-5")
    for turn in range(4):  # old results are shortened at the boundary
        agent.append("user", f"Read it {turn}.")
        agent.append_tool_call("read", {"path": "a"}, call_id=f"c{turn}", dialect="anthropic")
        agent.append_tool_result(f"c{turn}", "text " * 500, dialect="anthropic")
        agent.append("assistant", "Read.")
        agent.end_turn()
    before, newest = agent.request(), agent.standing().newest
    preview = agent.do(f"/model {name} --preview")
    assert agent.standing().newest == newest
    assert agent.request().bytes == before.bytes
    assert preview.text.startswith(f"Preview: model {name}. Nothing was changed.\n")
    agent.do(f"/model {name}")
    assert (preview.data["tokens"], preview.data["before"]) == (agent.request().tokens, before.tokens)
    assert f"next request ~{preview.data['tokens']:,} tokens instead of ~{before.tokens:,}" in preview.text


# Receipts and the way back


@pytest.mark.parametrize(
    ("line", "before", "after"),
    [
        ("/context window 1", "/config get context_size", "/config get context_size"),
        ("/config set context_size=1 truncation=off", "/config get", "/config get"),
        ("/model openai/gpt-5", "/config get model", "/model"),
        ("/system edit Be brief.", "/system", "/system"),
        ("/scratchpad edit notes", "/scratchpad", "/scratchpad"),
    ],
)
def test_a_change_goes_back_and_forth(agent: Agent, line: str, before: str, after: str) -> None:
    said(agent, "one", "two")
    was, body = agent.do(before).text, agent.request().bytes
    result = agent.do(line)
    now, changed = agent.do(after).text, agent.request().bytes
    assert result.data["request"]["after"] == agent.request().tokens
    assert result_text(result).splitlines()[-1].endswith(f" · /restore {result.event_id}")
    back = agent.do(f"/restore {result.event_id} -- not that -- after all")
    assert (agent.do(before).text, agent.request().bytes) == (was, body)
    assert back.data["reason"] == "not that -- after all"
    with pytest.raises(CommandError, match=f"already taken back; `/restore {back.event_id}` brings it back"):
        agent.do(f"/restore {result.event_id}")
    agent.do(f"/restore {back.event_id}")
    assert (agent.do(after).text, agent.request().bytes) == (now, changed)
    rows = agent.do("/operations").data["operations"]
    assert [(row["id"], row["in_force"]) for row in rows][:2] == [(result.event_id, True), (back.event_id, False)]
    assert "by a human" in agent.do(f"/context explain {result.event_id}").text


def test_a_preview_of_a_way_back_changes_nothing(agent: Agent) -> None:
    done = agent.do("/context window 1")
    newest = agent.standing().newest
    shown = agent.do(f"/restore {done.event_id} --preview")
    assert shown.text == (
        f"Preview: restore of operation {done.event_id} (context_size = 1). Nothing was changed.\n"
        "  then context_size = 0 (default)"
    )
    assert agent.standing().newest == newest


def test_a_consent_never_comes_back(agent: Agent) -> None:
    event_id = agent.do("/config set tool_approval=always").data["event"]
    agent.do("/config set tool_approval=ask")
    with pytest.raises(CommandError, match="is a config, not an operation"):
        agent.do(f"/restore {event_id}")
    both = agent.do("/config set tool_approval=always context_size=1")
    assert [row["key"] for row in both.data["settings"]] == ["tool_approval", "context_size"]
    agent.do(f"/restore {both.event_id}")
    config = agent.standing().config
    assert (config.tool_approval, config.context_size) == ("always", 0)


def test_a_child_keeps_what_its_parent_takes_back(agent: Agent) -> None:
    done = agent.do("/context window 1")
    child = agent.log.agent(agent.do("/fork").data["child"])
    agent.do(f"/restore {done.event_id}")
    assert child.standing().config.context_size == 1
    with pytest.raises(CommandError, match="belongs to another agent"):
        child.do(f"/restore {done.event_id}")
    changed = child.do("/context window 2")
    child.do(f"/restore {changed.event_id}")
    assert child.standing().config.context_size == 1


def test_settings_that_exclude_each_other_do_not_come_back_together(agent: Agent) -> None:
    agent.do("/config set provider_compaction=on")
    off = agent.do("/config set provider_compaction=off").event_id
    agent.do("/config set provider_editing=clear_tool_uses")
    with pytest.raises(CommandError, match="exclude each other"):
        agent.do(f"/restore {off}")
    assert not agent.standing().config.provider_compaction


def test_a_scratchpad_of_the_model_goes_back(agent: Agent) -> None:
    agent.do("/scratchpad edit mine")
    agent.call_tool("manage_scratchpad", {"action": "update", "content": "the model's"})
    mine, other = agent.do("/operations").data["operations"]
    assert [(row["actor"], row["words"]) for row in (mine, other)] == [
        ("human", "scratchpad changed"),
        ("model", "scratchpad changed"),
    ]
    agent.do(other["back"])
    assert agent.do("/scratchpad").text == "mine"


def test_foldmarks_own_settings_are_not_listed(agent: Agent) -> None:
    agent.configure("model", "openai/gpt-5", actor="system")
    assert agent.do("/operations").data["operations"] == []
