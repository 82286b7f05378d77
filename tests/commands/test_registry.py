"""The registry (SPEC 4): a line becomes a call, each command is defined once, and actors call only their own."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import foldmark
from cases import case
from foldmark import Agent, CommandError, Log, Result
from foldmark.commands import REGISTRY
from foldmark.commands.registry import ANYBODY, HUMAN, Command, CommandCall, Registry
from foldmark.core import selections
from foldmark.core.config import MODEL_COMMANDS
from foldmark.core.events import ACTORS
from stored import stored


def echo(call: CommandCall) -> Result:
    return Result("", None, {"arguments": dict(call.arguments), "actor": call.actor})


SAMPLE = Registry(
    (
        Command("none", "", "Takes nothing.", echo),
        Command("one", "NAME", "Takes one.", echo, ANYBODY),
        Command("maybe", "[NAME]", "Takes one or none.", echo),
        Command("both", "ID [NAME]", "Takes one or two.", echo),
        Command("say", "TEXT...", "Takes the rest.", echo, ANYBODY),
        Command("send", "UUID TEXT...", "Takes one and the rest.", echo, ANYBODY),
        Command("note", "[TEXT...]", "Takes the rest, if any.", echo),
        Command("rename", "NAME NEW...", "Takes two names.", echo),
        Command("memo add", "TEXT...", "Two words.", echo),
        Command("memo list", "[N]", "Two words.", echo),
        Command("memory", "", "Begins like another.", echo, frozenset({"model"})),
    )
)


@pytest.fixture
def log() -> Iterator[Log]:
    with foldmark.open(":memory:") as log:
        yield log


@pytest.fixture
def agent(log: Log) -> Agent:
    return log.agent("default")


def refused(agent: Agent, line: str, actor: str = "human", registry: Registry = SAMPLE) -> str:
    """Assert that a line is refused and writes nothing; return the message."""
    before = agent.context().at
    with pytest.raises(CommandError) as caught:
        registry(agent, line, actor)
    assert agent.context().at == before
    assert "\n" not in str(caught.value)
    return str(caught.value)


# Parsing and the grammar of usage


@pytest.mark.parametrize(
    ("line", "arguments"),
    [
        ("/none", {}),
        ("  /none  \n", {}),
        ("/one X", {"NAME": "X"}),
        ("/one   X  ", {"NAME": "X"}),
        ("/one\tX", {"NAME": "X"}),
        ("/one /two", {"NAME": "/two"}),
        ("/one [X]", {"NAME": "[X]"}),
        ("/one 'a", {"NAME": "'a"}),
        ("/maybe", {}),
        ("/maybe X", {"NAME": "X"}),
        ("/both 5", {"ID": "5"}),
        ("/both  5   X ", {"ID": "5", "NAME": "X"}),
        ("/say hello", {"TEXT": "hello"}),
        ("/say  two  spaces,\ttab and\nline ", {"TEXT": "two  spaces,\ttab and\nline"}),
        ("/send abc  hello  you", {"UUID": "abc", "TEXT": "hello  you"}),
        ("/note", {}),
        ("/note 'quoted \"text\"' \\n", {"TEXT": "'quoted \"text\"' \\n"}),
        ("/memo add a  b", {"TEXT": "a  b"}),
        ("/memo   add\ta", {"TEXT": "a"}),
        ("/memo list", {}),
        ("/memo list 5", {"N": "5"}),
        ("/one 你好", {"NAME": "你好"}),
        ('/one "two words"', {"NAME": "two words"}),
        ('/one ""', {"NAME": ""}),
        ('/one "open', {"NAME": '"open'}),
        ('/one ""quoted""', {"NAME": '"quoted"'}),
        ('/both "5" "two words" ', {"ID": "5", "NAME": "two words"}),
        ('/send "my talk" "hello" you', {"UUID": "my talk", "TEXT": '"hello" you'}),
        ('/say "hello"', {"TEXT": '"hello"'}),
        ("/rename a two words", {"NAME": "a", "NEW": "two words"}),
        ('/rename "my talk" "two words"', {"NAME": "my talk", "NEW": "two words"}),
        ('/rename "my talk" "two" words"', {"NAME": "my talk", "NEW": '"two" words"'}),
        ('/rename "a"  two', {"NAME": "a", "NEW": "two"}),
    ],
)
def test_lines_and_their_arguments(agent: Agent, line: str, arguments: dict[str, str]) -> None:
    assert SAMPLE(agent, line).data == {"arguments": arguments, "actor": "human"}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "a command begins with '/'; /help lists them"),
        ("   ", "a command begins with '/'; /help lists them"),
        ("/", "a command begins with '/'; /help lists them"),
        ("/ one X", "a command begins with '/'; /help lists them"),
        ("one X", "a command begins with '/', as in /one NAME; /help lists them"),
        ("/one", "NAME is missing; usage: /one NAME"),
        ("/one  ", "NAME is missing; usage: /one NAME"),
        ("/both", "ID is missing; usage: /both ID [NAME]"),
        ("/say", "TEXT is missing; usage: /say TEXT..."),
        ("/send abc", "TEXT is missing; usage: /send UUID TEXT..."),
        ("/memo add", "TEXT is missing; usage: /memo add TEXT..."),
        ("/none X", "unexpected argument 'X'; usage: /none"),
        ("/one X Y  Z", "unexpected argument 'Y  Z'; usage: /one NAME"),
        ("/both 5 X Y", "unexpected argument 'Y'; usage: /both ID [NAME]"),
        ("/memo list 5 6", "unexpected argument '6'; usage: /memo list [N]"),
        (f"/none {'x' * 500}", f"unexpected argument '{'x' * 40}'; usage: /none"),
        ("/memo", "/memo needs one of: add, list"),
        ("/memo remove", "/memo needs one of: add, list"),
        ("/memo ADD x", "/memo needs one of: add, list; did you mean /memo add?"),
    ],
)
def test_lines_that_are_refused(agent: Agent, line: str, message: str) -> None:
    assert refused(agent, line) == message


@pytest.mark.parametrize("line", ["/nope", "/NONE", "/nonesuch x", "/list", "/add", "/memo-add", "/none/", "/no ne"])
def test_an_unknown_command_lists_no_others(agent: Agent, line: str) -> None:
    message = refused(agent, line)
    assert message.startswith(f"there is no command {line.split()[0]}; ")
    assert message.endswith("/help lists the commands")
    assert sum(f"/{name}" in message.partition(";")[2] for name in SAMPLE.commands if name != "none") <= 1


@pytest.mark.parametrize(
    ("line", "near"),
    [
        ("/mabye", "maybe"),
        ("/MEMO add x", "memo add"),
        ("/meno add x", "memo add"),
        ("/mmo", "memo"),
        ("/memo lst", "memo list"),
    ],
)
def test_an_unknown_command_suggests_the_nearest(agent: Agent, line: str, near: str) -> None:
    assert f"did you mean /{near}?" in refused(agent, line)


def test_nothing_is_suggested_where_nothing_is_near(agent: Agent) -> None:
    assert "did you mean" not in refused(agent, "/zzz")


def test_a_model_is_told_its_own_commands(agent: Agent) -> None:
    for line in ("/nope", "/memo", "/zzz 1"):
        assert refused(agent, line, "model").endswith("; available: /one, /say, /send, /memory")
    six = refused(agent, "/rewnd", "model", REGISTRY)
    assert six == "there is no command /rewnd; available: /mark, /clear, /fork, /send, /check-mail, /kill"


@pytest.mark.parametrize("text", ["", "x", "-1", "+1", "1.0", "1e3", "٣", "²", "1_000", "0x1", "1 ", "9" * 5000])
def test_an_argument_that_is_no_number_is_refused(agent: Agent, text: str) -> None:
    with pytest.raises(CommandError, match=r"^ID must be a number, not '") as caught:
        CommandCall(agent, {"ID": text}, "human", SAMPLE).number("ID")
    assert len(str(caught.value)) < 80


@pytest.mark.parametrize("text", ["0", "7", "007", "9" * 18])
def test_an_argument_is_read_as_a_number(agent: Agent, text: str) -> None:
    assert CommandCall(agent, {"ID": text}, "human", SAMPLE).number("ID") == int(text)


# Permissions


def test_each_actor_calls_only_the_commands_allowed_to_it(agent: Agent) -> None:
    for actor in ACTORS:
        for name, command in SAMPLE.commands.items():
            line = f"/{name} 1 2" if "..." in command.usage else f"/{name} {'1' if command.usage else ''}"
            if actor in command.who:
                assert SAMPLE(agent, line, actor).data["actor"] == actor
            else:
                message = refused(agent, line, actor)
                assert message.startswith(f"/{name} is not for a {actor}; available: ")
                allowed = message.partition("available: ")[2].split(", ")
                assert allowed == [
                    f"/{each}" for each, other in SAMPLE.commands.items() if actor in other.who
                ] or allowed == [""]


def test_a_command_that_is_not_theirs_comes_before_wrong_arguments(agent: Agent) -> None:
    assert "is not for a model" in refused(agent, "/memo list 1 2 3", "model")


def test_an_unknown_actor_may_nothing(agent: Agent) -> None:
    for name in REGISTRY.commands:
        assert "is not for a stranger" in refused(agent, f"/{name}", "stranger", REGISTRY)


def test_a_model_may_call_its_six_commands_only(agent: Agent) -> None:
    six = {"mark", "clear", "fork", "send", "check-mail", "kill"}
    for name, command in REGISTRY.commands.items():
        assert ("model" in command.who) == (name in six)
        assert "human" in command.who
        if name not in six:
            assert f"/{name} is not for a model; available: /mark" in refused(agent, f"/{name} 1", "model", REGISTRY)
    assert agent.do("/mark X", actor="model").data["actor"] == "model"
    event = selections.event(stored(agent.log), agent.context().marks["X"])
    assert event is not None
    assert event.actor == "model"


# Every command


def test_every_command_is_complete() -> None:
    for name, command in REGISTRY.commands.items():
        assert command.name == name == " ".join(name.split())
        assert 1 <= len(name.split()) <= 2
        assert name == name.lower()
        assert command.help.endswith(".")
        assert command.help[0].isupper()
        assert len(command.help) <= 80
        assert command.who in (HUMAN, ANYBODY)
        assert command.synopsis == f"/{name} {command.usage}".strip() + " [-- REASON]" * command.reason
        assert not (command.reason and "TEXT" in command.usage), "a reason would be a part of the text"
        assert not command.lists or f"[{command.lists}]" in command.usage
        words = [word for word in command.usage.split() if not word.startswith("[--")]
        assert all(flag.strip("[]").islower() for flag in command.usage.split() if flag not in words)
        optional = [word.startswith("[") for word in words]
        assert optional == sorted(optional), "what is required comes first"
        for word in words:
            assert word.strip("[].").isupper()
            assert word.startswith("[") == word.endswith("]")
        assert not any("..." in word for word in words[:-1]), "only the last may take the rest"


def test_names_do_not_hide_each_other() -> None:
    for name in REGISTRY.commands:
        family, _, second = name.partition(" ")
        if second and family in REGISTRY.commands:
            assert not REGISTRY.commands[family].usage, "its argument could be the second word"
        command, rest = REGISTRY.parse(f"/{name} X  Y")
        assert (command.name, rest.strip()) == (name, "X  Y")


def test_missing_and_surplus_arguments(agent: Agent) -> None:
    for name, command in REGISTRY.commands.items():
        words = [word for word in command.usage.split() if not word.startswith("[--")]
        with case(name):
            if words and not words[0].startswith("["):
                message = refused(agent, f"/{name}", registry=REGISTRY)
                assert message == f"{words[0].strip('.')} is missing; usage: {command.synopsis}"
            if not (words and words[-1].rstrip("]").endswith("...")):
                line = " ".join([f"/{name}", *("1" for _ in words), "SURPLUS more"])
                wanted = f"unexpected argument 'SURPLUS more'; usage: {command.synopsis}"
                assert refused(agent, line, registry=REGISTRY) == wanted


# Help


def test_help_lists_exactly_the_registry(agent: Agent) -> None:
    result = agent.do("/help")
    commands = [command for command in REGISTRY.commands.values() if "human" in command.who]
    lines = result.text.splitlines()
    assert len(lines) == len(commands) == len(REGISTRY.commands)
    for line, command in zip(lines, commands, strict=True):
        assert line.startswith(f"{command.synopsis} ")
        assert line.endswith(f"  {command.help}")
    assert len({line.index(command.help) for line, command in zip(lines, commands, strict=True)}) == 1
    assert result.data == {
        "commands": [
            {"usage": each.synopsis, "help": each.help, **({"options": dict(each.options)} if each.options else {})}
            for each in commands
        ]
    }
    assert result.event_id is None


def test_help_explains_one_command_or_a_family(agent: Agent) -> None:
    for name, command in REGISTRY.commands.items():
        for asked in (name, f"/{name}"):
            if not any(other.startswith(f"{name} ") for other in REGISTRY.commands):
                first, *options = agent.do(f"/help {asked}").text.splitlines()
                assert first == f"{command.synopsis}  {command.help}"
                assert [line.split("  ")[1] for line in options] == [option for option, _ in command.options]
    family = [name for name in REGISTRY.commands if name.startswith("context ")]
    assert len(agent.do("/help context").text.splitlines()) == len(family) > 1
    message = refused(agent, "/help nope", registry=REGISTRY)
    assert message == "there is no command /nope; did you mean /note? /help lists the commands"


# One registry for every interface


def test_the_setting_that_narrows_knows_the_models_commands() -> None:
    assert {*MODEL_COMMANDS} == {name for name, command in REGISTRY.commands.items() if "model" in command.who}


def test_the_library_runs_what_the_registry_holds(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    probe = Command("probe", "NAME", "Test.", lambda call: Result(f"{call.actor}: {call.get('NAME')}"), ANYBODY)
    monkeypatch.setitem(REGISTRY.commands, "probe", probe)
    assert agent.do("/probe x").text == "human: x"
    assert agent.call_tool("slash", {"command": "probe", "args": "x"}) == "model: x"


def constants(node: ast.AST) -> Iterator[Any]:
    return (each.value for each in ast.walk(node) if isinstance(each, ast.Constant))


def test_no_interface_knows_a_command_by_name() -> None:
    """No interface compares, looks up or matches a command's name; it asks the registry."""
    names = {f"{slash}{name}" for name in REGISTRY.commands for slash in ("", "/")}
    package = Path(foldmark.__file__).parent
    paths = [path for room in ("cli", "chat", "mcp", "terminal") for path in (package / room).rglob("*.py")]
    assert paths
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text())):
            tested: list[Any] = []
            if isinstance(node, ast.Compare | ast.match_case):
                tested += constants(node if isinstance(node, ast.Compare) else node.pattern)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "startswith":
                tested += constants(node)
            found = {each for each in tested if isinstance(each, str)} & names
            assert not found, f"{path.name}:{getattr(node, 'lineno', '?')}: {found}"
