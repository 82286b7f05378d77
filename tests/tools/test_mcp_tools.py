"""Tools of MCP servers (SPEC 4.1): real servers in processes of their own, over all three transports."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import mcp.client.stdio
import pytest
from request_validators import VALIDATORS

import foldmark
import forked
from foldmark import Agent, CommandError, Log
from foldmark.core.codec import Secrets
from foldmark.installation import installs
from foldmark.operations.effects import NOBODY, Asking, Decision, Permission
from foldmark.sending.interruption import CURRENT, Interruption
from foldmark.tools.mcp.client import Servers
from patience import LIMIT

HERE = Path(__file__).parent
SDK, RAW = HERE / "mcp_server.py", HERE / "mcp_raw_server.py"
TRANSPORTS = ["stdio", "http", "sse"]


class Person:
    """A person who gives every question the same answer; `asked` holds the questions."""

    def __init__(self, answer: Decision) -> None:
        self.asked: list[tuple[str, str]] = []
        self.answer = answer
        self.asking = Asking(approve=self._approve)

    def _approve(self, permission: Permission) -> Decision:
        self.asked.append((permission.tool, permission.question))
        return self.answer


def until(happened: Callable[[], bool]) -> None:
    end = time.monotonic() + LIMIT
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.005)


def write(folder: Path, servers: dict[str, Any]) -> None:
    folder.mkdir(exist_ok=True)
    (folder / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))


def raw(folder: Path, name: str = "raw", **plan: Any) -> dict[str, Any]:
    """Return the settings of a hand-written server that follows a plan."""
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps({"tools": [], "calls": {}, **plan}))
    return {"command": sys.executable, "args": ["-S", "-E", str(RAW), f"{name}.json"]}


def tool(name: str, **about: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object"}, **about}


def text(said: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": said}]}


def running(folder: Path) -> list[int]:
    """Return the process ids of a folder's servers that have not ended."""
    found = []
    for path in folder.glob("pid-*"):
        with suppress(ProcessLookupError):
            os.kill(int(path.name[4:]), 0)
            found.append(int(path.name[4:]))
    return found


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    """Transport -> the folder of a listening server."""
    folders = {transport: tmp_path_factory.mktemp(transport) for transport in ("http", "sse")}
    command = [sys.executable, str(SDK)]
    started = [forked.Popen([*command, name, "port"], cwd=folder) for name, folder in folders.items()]
    for folder in folders.values():
        until((folder / "port").exists)
    yield folders
    for process in started:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def places(
    addresses: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[dict[str, Path], Log, Servers]]:
    """Transport -> the working folder of its server; the log; the servers, with all three connected."""
    folder = tmp_path_factory.mktemp("stdio")
    port = {transport: (at / "port").read_text() for transport, at in addresses.items()}
    write(
        folder,
        {
            "stdio": {"command": sys.executable, "args": [str(SDK)], "env": {"GIVEN": "${HOST:-here}"}},
            "http": {"type": "http", "url": f"http://127.0.0.1:{port['http']}/mcp"},
            "sse": {"type": "sse", "url": f"http://127.0.0.1:{port['sse']}/sse"},
        },
    )
    os.environ["ANTHROPIC_API_KEY"] = "sk-ant-of-ours"
    try:
        with foldmark.open(":memory:") as log, Servers(folder, starting=30) as servers:
            assert servers.connect(log.agent("first"), Person("always").asking) == []
            for each in servers.tools:
                log.add_tool(each)
            yield {"stdio": folder, **addresses}, log, servers
    finally:
        del os.environ["ANTHROPIC_API_KEY"]


@pytest.fixture
def agent(places: tuple[dict[str, Path], Log, Servers], request: pytest.FixtureRequest) -> Agent:
    return places[1].agent(f"{request.node.name[:150]}")


@pytest.fixture
def lone() -> Iterator[Agent]:
    """An agent without servers."""
    with foldmark.open(":memory:") as log:
        yield log.agent("default")


# Tools and results


def test_the_tools_of_all_servers(agent: Agent, places: tuple[dict[str, Path], Log, Servers]) -> None:
    names = [each.spec.name for each in places[2].tools]
    own = ["echo", "note", "add", "fail", "show", "environment", "wait"]
    assert names == [f"mcp__{server}__{name}" for server in TRANSPORTS for name in own]
    (echo, note) = places[2].tools[:2]
    assert echo.spec.description == "Says what it is told."
    assert echo.spec.parameters["properties"]["text"]["type"] == "string"
    assert echo.spec.parameters["required"] == ["text"]
    assert (echo.together, note.together) == (True, False)


@pytest.mark.parametrize("provider", VALIDATORS)
def test_every_provider_takes_them(agent: Agent, provider: str) -> None:
    agent.append("user", "hello")
    body = agent.request(provider, "m").body
    assert VALIDATORS[provider](body) == []
    assert "mcp__http__note" in json.dumps(body)


@pytest.mark.parametrize("server", TRANSPORTS)
def test_calls(agent: Agent, server: str) -> None:
    assert agent.call_tool(f"mcp__{server}__echo", {"text": "hé\n\u2028", "times": 2}) == "hé\n\u2028\nhé\n\u2028"
    assert agent.call_tool(f"mcp__{server}__add", {"first": 1, "second": 2}) == '{"sum":3}'
    with pytest.raises(CommandError, match=r"^it went wrong$"):
        agent.call_tool(f"mcp__{server}__fail", {"text": "it went wrong"})
    with pytest.raises(CommandError, match=f"^mcp__{server}__fail failed without a reason$"):
        agent.call_tool(f"mcp__{server}__fail", {"text": ""})


def test_what_is_no_text_is_described(agent: Agent) -> None:
    assert agent.call_tool("mcp__stdio__show", {}) == (
        "Look:\n"
        "[Image: image/png, 5 bytes; it cannot be shown here.]\n"
        "[Audio: audio/wav\\x1b[2J, 3 bytes; it cannot be shown here.]\n"
        "[Resource: plan, file:///plan.txt, text/plain.]\n"
        "[Resource: file:///a.txt.]\nthe text of a\n"
        f"[Resource: x:{'u' * 198}…, x/y, 2 bytes; it cannot be shown here.]"
    )


def test_a_huge_result_is_cut(agent: Agent) -> None:
    result = agent.call_tool("mcp__stdio__echo", {"text": "x" * 300_000, "times": 2})
    assert result == "x" * 100_000 + "\n[Cut here: 100,000 of 600,001 characters.]"
    with pytest.raises(CommandError) as caught:
        agent.call_tool("mcp__stdio__fail", {"text": "x" * 300_000})
    assert len(str(caught.value)) < 10_100


def test_a_servers_own_error_is_passed_on(agent: Agent) -> None:
    with pytest.raises(CommandError, match="Field required"):
        agent.call_tool("mcp__stdio__echo", {})


@pytest.mark.parametrize("args", [None, [], "x", {1: 2}], ids=repr)
def test_no_object(agent: Agent, args: Any) -> None:
    with pytest.raises(CommandError, match=r"^mcp__stdio__echo takes an object"):
        agent.call_tool("mcp__stdio__echo", args)


def test_half_a_character_and_large_numbers(agent: Agent) -> None:
    assert agent.call_tool("mcp__stdio__echo", {"text": "a\ud800"}) == "a\ufffd"
    assert agent.call_tool("mcp__stdio__add", {"first": 2**70, "second": 1}) == '{"sum":1180591620717411303425}'


def test_a_server_gets_none_of_our_keys(agent: Agent, places: tuple[dict[str, Path], Log, Servers]) -> None:
    found = json.loads(agent.call_tool("mcp__stdio__environment", {}))
    assert "PATH" in found["env"]
    assert found["env"]["GIVEN"] == "here"
    assert "ANTHROPIC_API_KEY" not in found["env"]
    assert Path(found["folder"]).samefile(places[0]["stdio"])


def test_several_at_once(agent: Agent) -> None:
    """Each call gets its own answer, whichever thread it comes from."""
    found: dict[tuple[str, int], str] = {}

    def call(server: str, number: int) -> None:
        found[server, number] = agent.log.call_tool(agent, f"mcp__{server}__echo", {"text": f"{number}"}, NOBODY)

    threads = [threading.Thread(target=call, args=(server, n)) for server in TRANSPORTS for n in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {(server, n): f"{n}" for server in TRANSPORTS for n in range(10)}


# Approval


def test_a_tool_that_may_change_something_asks_once(agent: Agent, places: tuple[dict[str, Path], Log, Servers]) -> None:
    person = Person("yes")
    written = {"text": "a\n\x1b[2J\u202e"}
    assert agent.call_tool("mcp__stdio__note", written, asking=person.asking) == "written"
    question = r'call note of the MCP server stdio with {"text":"a\n\u001b[2J\u202e"}'
    assert person.asked == [("mcp__stdio__note", question)]
    person.answer = "always"
    agent.call_tool("mcp__stdio__note", {"text": "x" * 5000}, asking=person.asking)
    assert person.asked[1][1].endswith("xxx … (5,011 characters in all)")
    assert len(person.asked[1][1]) < 2100
    agent.call_tool("mcp__stdio__note", {"text": "third"}, asking=person.asking)
    agent.call_tool("mcp__stdio__note", {"text": "fourth"})
    agent.call_tool("mcp__stdio__echo", {"text": "read-only"})
    assert len(person.asked) == 2
    with pytest.raises(CommandError, match="nobody is there to ask"):
        agent.call_tool("mcp__http__note", {"text": "another server's"})
    notes = (places[0]["stdio"] / "notes.txt").read_text().splitlines()
    assert notes[-2:] == ["third", "fourth"]
    assert not (places[0]["http"] / "notes.txt").exists()


def test_a_forbidden_tool_does_nothing(agent: Agent, places: tuple[dict[str, Path], Log, Servers]) -> None:
    with pytest.raises(CommandError, match="did not allow"):
        agent.call_tool("mcp__sse__note", {"text": "x"}, asking=Person("no").asking)
    assert not (places[0]["sse"] / "notes.txt").exists()


def test_starting_is_asked_once_for_what_is_started(tmp_path: Path, lone: Agent) -> None:
    write(tmp_path, {"raw": raw(tmp_path, tools=[tool("t")]), "other": {"command": "/nowhere/at\x1b[2Jall"}})
    person = Person("always")

    def connect() -> list[str]:
        with Servers(tmp_path) as servers:
            return servers.connect(lone, person.asking) + [each.spec.name for each in servers.tools]

    gone = "the MCP server other is not there: its program was not found"
    assert connect() == [gone, "mcp__raw__t"]
    start = f"start the MCP server raw in {tmp_path}: {sys.executable} -S -E {RAW} raw.json"
    assert [question for _, question in person.asked] == [
        start,
        f"start the MCP server other in {tmp_path}: '/nowhere/at\\x1b[2Jall'",
    ]
    assert connect() == [gone, "mcp__raw__t"]
    assert len(person.asked) == 2

    write(tmp_path, {"raw": {**raw(tmp_path, tools=[tool("t")]), "env": {"A": "1"}}})
    person.answer = "no"
    (told,) = connect()
    assert told.startswith("the MCP server raw was not started: the person did not allow mcp:raw:")
    assert person.asked[2][1] == f"{start}; with A=1"
    assert person.asked[2][0] != person.asked[0][0]
    assert len(running(tmp_path)) == 0


def test_nobody_is_there(tmp_path: Path, lone: Agent) -> None:
    write(tmp_path, {"raw": raw(tmp_path, tools=[tool("t")])})
    with Servers(tmp_path) as servers:
        (told,) = servers.connect(lone, NOBODY)
        assert servers.tools == []
    assert not [*tmp_path.glob("pid-*")]
    # The suggested command allows it.
    lone.do(f"/config set {told.rpartition('/config set ')[2]}")
    with Servers(tmp_path) as servers:
        assert servers.connect(lone, NOBODY) == []
        assert [each.spec.name for each in servers.tools] == ["mcp__raw__t"]


def test_a_folder_without_a_file_imports_nothing(tmp_path: Path) -> None:
    script = (
        "import sys, foldmark; from pathlib import Path; from foldmark.operations.effects import NOBODY\n"
        "from foldmark.tools.mcp.client import Servers\n"
        "with foldmark.open(':memory:') as log, Servers(Path()) as servers:\n"
        "    assert servers.connect(log.agent('a'), NOBODY) == []\n"
        "    assert not {'mcp', 'anyio', 'jsonschema'} & {*sys.modules}\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", script], cwd=tmp_path, check=True)


def test_without_the_package(tmp_path: Path, lone: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {"a": {"command": "x"}})
    monkeypatch.setitem(sys.modules, "mcp", None)
    person = Person("yes")
    with Servers(tmp_path) as servers:
        (told,) = servers.connect(lone, person.asking)
    assert told == f"the MCP servers a need the package mcp (it is not installed); {installs('mcp')}"
    assert person.asked == []


# Failures


def test_one_that_hangs_holds_up_nobody(tmp_path: Path, lone: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp.client.stdio, "PROCESS_TERMINATION_TIMEOUT", 0.05)
    monkeypatch.setattr(mcp.client.stdio, "FORCE_KILL_TIMEOUT", 0.05)
    write(
        tmp_path,
        {
            "one": raw(tmp_path, "one", silent=True, ignores=True),
            "two": raw(tmp_path, "two", silent=True),
            "dies": {"command": "sh", "args": ["-c", "echo no disk >&2; echo really >&2; exit 3"]},
            "talks": {"command": "sh", "args": ["-c", "echo hello"]},
            "refused": {"type": "http", "url": "http://127.0.0.1:1/mcp"},
            "old": {"type": "sse", "url": "http://127.0.0.1:1/sse"},
            "good": raw(
                tmp_path, "good", tools=[tool("t", annotations={"readOnlyHint": True})], calls={"t": text("ok")}
            ),
        },
    )
    begin = time.monotonic()
    with Servers(tmp_path, starting=5) as servers:
        told = servers.connect(lone, Person("yes").asking)
        assert time.monotonic() - begin < 10  # both hanging servers share one wait
        assert [each.partition(" is not there: ")[::2] for each in told] == [
            ("the MCP server one", "it did not answer within 5 seconds"),
            ("the MCP server two", "it did not answer within 5 seconds"),
            ("the MCP server dies", "it ended, or closed the connection (it said: no disk / really)"),
            ("the MCP server talks", "it ended, or closed the connection"),
            ("the MCP server refused", "All connection attempts failed"),
            ("the MCP server old", "All connection attempts failed"),
        ]
        (good,) = servers.tools
        assert good(lone, {}, NOBODY) == "ok"
    until(lambda: running(tmp_path) == [])


def test_a_crash_in_a_call(tmp_path: Path, lone: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    plan: dict[str, Any] = {
        "tools": [tool(name, annotations={"readOnlyHint": True}) for name in ("echo", "crash")],
        "calls": {"echo": text("back")},
        "says": {"echo": "a former error", "crash": "the disk is full\nno way to go on"},
        "ends": ["crash"],
    }
    write(tmp_path, {"raw": raw(tmp_path, **plan)})
    with Servers(tmp_path) as servers:
        assert servers.connect(lone, Person("yes").asking) == []
        echo, crash = servers.tools
        before = running(tmp_path)
        assert echo(lone, {}, NOBODY) == "back"
        monkeypatch.setattr("foldmark.tools.mcp.connection.MOST_LOGGED", 0)
        with pytest.raises(CommandError) as caught:
            crash(lone, {}, NOBODY)
        assert str(caught.value) == (
            "the MCP server raw disconnected during this call or before it "
            "(it said: the disk is full / no way to go on); it is connected again. Repeat the call if "
            "running it twice does no harm"
        )
        assert echo(lone, {}, NOBODY) == "back"
        until(lambda: len(running(tmp_path)) == 1)
        assert running(tmp_path) != before


def test_a_server_that_does_not_come_back(tmp_path: Path, lone: Agent) -> None:
    read_only = {"readOnlyHint": True}
    write(tmp_path, {"raw": raw(tmp_path, tools=[tool("t", annotations=read_only)], calls={"t": text("ok")})})
    with Servers(tmp_path) as servers:
        assert servers.connect(lone, Person("yes").asking) == []
        (it,) = servers.tools
        assert it(lone, {}, NOBODY) == "ok"
        (tmp_path / "raw.json").rename(tmp_path / "away.json")
        os.kill(running(tmp_path)[0], 9)
        for _ in range(2):
            with pytest.raises(CommandError, match=r"disconnected.* and cannot be connected again: .*raw\.json"):
                it(lone, {}, NOBODY)
        (tmp_path / "away.json").rename(tmp_path / "raw.json")
        assert it(lone, {}, NOBODY) == "ok"
    assert running(tmp_path) == []
    with pytest.raises(CommandError, match="the MCP servers have been disconnected"):
        it(lone, {}, NOBODY)


@pytest.mark.parametrize("server", TRANSPORTS)
def test_a_long_call_ends_with_the_turn(
    agent: Agent, places: tuple[dict[str, Path], Log, Servers], server: str
) -> None:
    folder, told = places[0][server], list[str]()
    interruption = Interruption()

    def call() -> None:
        CURRENT.set(interruption)
        try:
            agent.call_tool(f"mcp__{server}__wait", {})
        except CommandError as error:
            told.append(str(error))

    thread = threading.Thread(target=call)
    thread.start()
    until((folder / "waiting").exists)
    assert thread.is_alive()
    interruption.happen()
    thread.join()
    assert told == [f"the call was interrupted; the MCP server {server} was notified, and may have done a part of it"]
    until((folder / "cancelled").exists)  # the server's tool was cancelled, too
    assert agent.call_tool(f"mcp__{server}__echo", {"text": "on"}) == "on"


def test_a_turn_that_is_over_calls_nothing(agent: Agent) -> None:
    interruption = Interruption()
    interruption.happen()
    token = CURRENT.set(interruption)
    try:
        with pytest.raises(CommandError, match="was interrupted"):
            agent.call_tool("mcp__stdio__wait", {})
    finally:
        CURRENT.reset(token)


def test_a_call_that_takes_too_long(tmp_path: Path, lone: Agent) -> None:
    read_only = {"readOnlyHint": True}
    write(tmp_path, {"raw": raw(tmp_path, tools=[tool("t", annotations=read_only)])})
    with Servers(tmp_path, calling=0.2) as servers:
        assert servers.connect(lone, Person("yes").asking) == []
        with pytest.raises(CommandError, match=r"raw did not answer within 0\.2 seconds; it was told to stop"):
            servers.tools[0](lone, {}, NOBODY)
        until(lambda: "notifications/cancelled" in (tmp_path / "notified.txt").read_text())
    assert running(tmp_path) == []


def test_closing_during_a_call(tmp_path: Path, lone: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even a server that ignores everything except being killed is gone afterwards."""
    monkeypatch.setattr(mcp.client.stdio, "PROCESS_TERMINATION_TIMEOUT", 0.05)
    monkeypatch.setattr(mcp.client.stdio, "FORCE_KILL_TIMEOUT", 0.05)
    tools = [tool("t", annotations={"readOnlyHint": True})]
    write(tmp_path, {"raw": raw(tmp_path, tools=tools, ignores=True)})
    told: list[str] = []

    def call() -> None:
        try:
            servers.tools[0](lone, {}, NOBODY)
        except CommandError as error:
            told.append(str(error))

    before = {*threading.enumerate()}
    with Servers(tmp_path) as servers:
        assert servers.connect(lone, Person("yes").asking) == []
        thread = threading.Thread(target=call)
        thread.start()
        until((tmp_path / "asked").exists)
        assert len(running(tmp_path)) == 1
    thread.join()
    assert told == ["the call was interrupted; the MCP server raw was notified, and may have done a part of it"]
    until(lambda: running(tmp_path) == [])
    assert {*threading.enumerate()} <= before


@pytest.mark.parametrize(
    ("result", "words"),
    [
        ({}, "returned no valid tool result"),
        ({"content": "x"}, "returned no valid tool result"),
        ({"content": [{"type": "hologram"}]}, "returned no valid tool result"),
        ({"content": [], "isError": "very"}, "returned no valid tool result"),
    ],
    ids=range(4),
)
def test_no_result(tmp_path: Path, lone: Agent, result: dict[str, Any], words: str) -> None:
    tools = [tool(name, annotations={"readOnlyHint": True}) for name in ("bad", "good")]
    write(tmp_path, {"raw": raw(tmp_path, tools=tools, calls={"bad": result, "good": text("ok")})})
    with Servers(tmp_path) as servers:
        assert servers.connect(lone, Person("yes").asking) == []
        bad, good = servers.tools
        with pytest.raises(CommandError, match=words):
            bad(lone, {}, NOBODY)
        assert good(lone, {}, NOBODY) == "ok"


def test_keys_are_hidden_in_what_is_said(tmp_path: Path, lone: Agent) -> None:
    write(tmp_path, {"dies": {"command": "sh", "args": ["-c", "echo sk-abcdefghijk >&2"]}})
    with Servers(tmp_path, Secrets({"MY_KEY": "sk-abcdefghijk"})) as servers:
        (told,) = servers.connect(lone, Person("yes").asking)
    assert told.endswith("(it said: [MY_KEY])")


# A server's descriptions of its tools

NESTED: dict[str, Any] = {"type": "object"}
for _ in range(40):
    NESTED = {"type": "object", "properties": {"x": NESTED}}

LEFT_OUT: dict[str, tuple[dict[str, Any], str]] = {
    "invalid": (
        {"properties": {"a": {"type": "strang"}}},
        "its schema is not one of draft 2020-12, at properties.a.type",
    ),
    "required": ({"required": "a"}, "its schema is not one of draft 2020-12, at required"),
    "a property": ({"properties": {"a": 1}}, "its schema is not one of draft 2020-12, at properties.a"),
    "an odd name": ({"properties": {"$filter": {}}}, "its parameter '$filter' has a name that not every model accepts"),
    "deep": (NESTED, "its schema is nested more than 32 levels deep"),
    "wide": ({"properties": {"a": {"anyOf": [{}] * 1000}}}, "its schema has more than 500 parts"),
    "huge": ({"description": "x" * 20_000}, "its schema has 20,034 bytes, more than 16,384"),
    "a number": (
        {"properties": {"a": {"maximum": float("nan")}}},
        "its schema is not one of draft 2020-12, at properties.a.maximum",
    ),
    "elsewhere": (
        {"properties": {"a": {"$ref": "http://169.254.169.254/x"}}},
        "its schema refers to another one, 'http://169.254.169.254/x'",
    ),
    "nowhere": ({"properties": {"a": {"$ref": "#/$defs/b"}}}, "its schema refers to '#/$defs/b', which does not exist"),
    "no anchor": ({"properties": {"a": {"items": {"$ref": "#b"}}}}, "its schema refers to '#b', which does not exist"),
    "inside": ({"properties": {"a": {"$id": "http://x/"}}}, "its schema refers to another one"),
}

TAKEN: dict[str, dict[str, Any]] = {
    "nothing": {},
    "closed": {"additionalProperties": False, "properties": {}},
    "older": {"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"a": {"type": "integer"}}},
    "either": {"oneOf": [{"required": ["a"]}, {"required": ["b"]}], "properties": {"a": {}, "b": {}}},
    "definitions": {
        "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}},
        "properties": {"list": {"$ref": "#/$defs/node"}, "self": {"$ref": "#"}},
    },
    "much": {
        "properties": {
            "a": {"type": ["string", "null"], "enum": ["x", None], "format": "uri", "pattern": "^x+$"},
            "b": {"type": "array", "items": {"anyOf": [{"type": "number", "minimum": 0.5}, {"const": "$ref"}]}},
            "c": {"type": "object", "additionalProperties": {"type": "string"}, "default": {"$ref": "x"}},
            "d": True,
        }
    },
}


def listed(folder: Path, agent: Agent, *tools: dict[str, Any], modern: bool = False) -> tuple[Servers, list[str]]:
    write(folder, {"raw": raw(folder, tools=tools, modern=modern)})
    with Servers(folder) as servers:
        return servers, servers.connect(agent, Person("yes").asking)


def test_schemas(tmp_path: Path, lone: Agent) -> None:
    schemas = {**{name: schema for name, (schema, _) in LEFT_OUT.items()}, **TAKEN}
    tools = [tool(name, inputSchema={"type": "object", **schema}) for name, schema in schemas.items()]
    servers, told = listed(tmp_path, lone, *tools, modern=True)
    assert [each.spec.name for each in servers.tools] == [f"mcp__raw__{name}" for name in TAKEN]
    expected = [f"the tool {name!r} of the MCP server raw is left out: {why}" for name, (_, why) in LEFT_OUT.items()]
    assert [each[: len(why)] for each, why in zip(told, expected, strict=True)] == expected
    for each in servers.tools:
        lone.log.add_tool(each)
    lone.append("user", "hello")
    for provider, violations in VALIDATORS.items():
        request = lone.request(provider, "m")
        assert violations(request.body) == []
        assert all(name in request.bytes.decode() for name in TAKEN)
    lone.do("/config set token_counting=tokenizer")
    assert lone.request("openai", "gpt-5").tokens > 0


def test_names_and_descriptions(tmp_path: Path, lone: Agent) -> None:
    servers, told = listed(
        tmp_path,
        lone,
        *(tool("a b"), tool("a.b"), tool("a/b"), tool("x" * 100), tool("ok"), tool("ok"), tool("")),
        *(tool("long", description="d" * 10_000), tool("titled", title="Title"), tool("\x1b[2J", description=" ")),
    )
    names = [each.spec.name for each in servers.tools]
    assert len(set(names)) == len(names) == 8
    assert all(len(name) <= 64 and name.replace("_", "").isalnum() for name in names)
    assert [name[:14] for name in names[:3]] == ["mcp__raw__a_b_"] * 3
    assert names[4] == "mcp__raw__ok"
    assert told == [
        "the tool 'ok' of the MCP server raw is left out: there are two of that name",
        "the tool '' of the MCP server raw is left out: it has no name",
    ]
    described = [each.spec.description for each in servers.tools]
    assert described[5:] == ["d" * 2047 + "…", "Title", ""]


def test_no_more_than_a_hundred(tmp_path: Path, lone: Agent) -> None:
    write(
        tmp_path,
        {"a": raw(tmp_path, "a", tools=[tool("t")], pages=15), "b": raw(tmp_path, "b", tools=[tool("t")], pages=15)},
    )
    (tmp_path / "b.json").write_text(json.dumps({"tools": [tool(f"t{n}") for n in range(150)], "calls": {}}))
    with Servers(tmp_path) as servers:
        told = servers.connect(lone, Person("yes").asking)
    assert told == ["65 tools of the MCP server b are left out: 100 are allowed"]
    assert [each.spec.name for each in servers.tools][14:16] == ["mcp__a__t14", "mcp__b__t0"]
    assert len(servers.tools) == 100


def test_a_list_that_is_none(tmp_path: Path, lone: Agent) -> None:
    servers, told = listed(tmp_path, lone, tool("good"), {"name": "bad", "inputSchema": {"type": "string"}})
    assert servers.tools == []
    (line,) = told
    assert line.startswith("the MCP server raw is not there: its answer does not follow the protocol: ")
    assert "tools.1.inputSchema.type" in line


def test_only_a_claim_makes_it_read_only(tmp_path: Path, lone: Agent) -> None:
    claims = [{}, {"readOnlyHint": False}, {"destructiveHint": False, "idempotentHint": True}, {"readOnlyHint": True}]
    servers, _ = listed(tmp_path, lone, *(tool(f"t{n}", annotations=claim) for n, claim in enumerate(claims)))
    assert [each.together for each in servers.tools] == [False, False, False, True]


def test_a_list_without_end(tmp_path: Path, lone: Agent) -> None:
    write(tmp_path, {"raw": raw(tmp_path, tools=[tool("t")], pages=10**9)})
    with Servers(tmp_path) as servers:
        assert servers.connect(lone, Person("yes").asking) == []
        assert len(servers.tools) == 20
