"""Providers' keys reach neither the log nor anything that is shown of it (SPEC 2, 5.6, 9).

All keys are in the environment; then they are put wherever a person, a model, a tool, a provider or a file can put
them. The database's files and all output are searched byte by byte.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import cycle, product
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest
from plan import Answer, Http, Reply, Say, Think, Use
from server import Loopback
from talking import Seen, own_tools
from wire_anthropic import AnthropicWire
from wire_openai import OpenAIWire

import foldmark
from foldmark import Agent, CommandError, Log
from foldmark.core import selections
from foldmark.core.codec import Secrets
from foldmark.core.errors import FoldmarkError, ProviderError
from foldmark.core.request import Kept, ToolSpec
from foldmark.log.doctor import examine
from foldmark.request.recorded import newest_requests
from foldmark.runtime.loop import turn
from foldmark.runtime.supervisor import Supervisor
from foldmark.sending.models import provider
from foldmark.sessions.conversion.importing import import_session
from forked import run
from patience import LIMIT
from planning_talk import IN_CHAT
from sampled import DEEP, sampled
from stored import stored

_RANDOM = Random(20261122)
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


def _key(prefix: str, more: str = "") -> str:
    return prefix + "".join(_RANDOM.choices(_LETTERS, k=24)) + more


KEYS = {
    "ANTHROPIC_API_KEY": _key("sk-ant-api03-", "-AA"),
    "OPENAI_API_KEY": _key("sk-proj-", "_b"),
    "GEMINI_API_KEY": _key("AIza"),
    "GOOGLE_API_KEY": _key("AIza", "-_"),
    "GEMINI_GCA_TOKEN": _key("ya29.", "/+x=="),
    "OPENROUTER_API_KEY": _key("sk-or-v1-"),
    "VLLM_API_KEY": _key('a"b\\c/d'),
    "FOLDMARK_TEST_OWN_KEY": _key("own-"),
}
"""Variable -> key, for every provider; the last key is for a person's own server."""

ALL = " ".join(KEYS.values())
KEY = KEYS["OPENAI_API_KEY"]
ODD = KEYS["VLLM_API_KEY"]


def found_in(shown: str | bytes) -> set[str]:
    """Return the names of the keys in a text: verbatim, as in JSON or a URL, or in lower case, as in an index."""
    raw = (shown.encode("utf-8", "replace") if isinstance(shown, str) else shown).lower()
    return {name for name, key in KEYS.items() for form in _forms(key) if form.lower().encode() in raw}


def _forms(key: str) -> set[str]:
    once = json.dumps(key)[1:-1]
    return {key, once, json.dumps(once)[1:-1], once.replace("/", "\\/"), quote(key, safe="")}


def found_in_files(folder: Path) -> dict[str, set[str]]:
    """Return file -> names of keys, for each file that holds any."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path.name: found for path in files if (found := found_in(path.read_bytes()))}


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, key in KEYS.items():
        monkeypatch.setenv(name, key)
    home = tmp_path / "settings" / "foldmark"
    home.mkdir(parents=True)
    own = '[providers.own]\ndialect = "openai"\nbase_url = "http://127.0.0.1:9/v1"\nkey_env = "FOLDMARK_TEST_OWN_KEY"\n'
    (home / "config.toml").write_text(own)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """The folder of the database."""
    folder = tmp_path / "log"
    folder.mkdir()
    return folder


@pytest.fixture
def log(place: Path) -> Iterator[Log]:
    with foldmark.open(place / "log.db") as log:
        assert set(log.secrets._names.values()) == set(KEYS)
        yield log


def shown_of(agent: Agent) -> Iterator[str]:
    """Yield everything that a person can be shown of an agent."""
    request = agent.request()
    yield request.bytes.decode()
    yield repr(request)
    for name in ("anthropic/claude-opus-5-5", "gemini/gemini-3-pro", "openai_responses/gpt-5"):
        yield repr(agent.request(*name.split("/")))
    newest = agent.standing().newest
    sent = newest_requests(stored(agent.log), agent.id, 100)
    lines = ["context show", "context sent", *(f"context sent {each.number}" for each in sent), "message list", "state"]
    lines += ["scratchpad", "agents", "session list", "config", "system", "memo list", "help", f"context at {newest}"]
    lines += [f"context explain {number}" for number in range(1, newest + 1)]
    for line in lines:
        yield f"{line}: {_done(agent, line)}"
    yield repr(list(agent.context().messages))
    yield repr(agent)


def _done(agent: Agent, line: str) -> str:
    try:
        result = agent.do(f"/{line}")
    except FoldmarkError as error:
        return str(error)
    return f"{result.text} {json.dumps(result.data, default=repr)}"


def clean(log: Log, place: Path) -> None:
    """Check that no key is in the database's files or in anything shown of it, and that the database is not damaged."""
    assert found_in_files(place) == {}
    for agent in log.agents():
        for shown in shown_of(agent):
            assert found_in(shown) == set(), shown[:300]
    assert found_in_files(place) == {}
    assert list(examine(log)) == []


# Replacement of keys


@pytest.mark.parametrize("name", KEYS)
def test_every_form_of_a_key_is_replaced_by_its_name(name: str) -> None:
    secrets = Secrets(KEYS)
    for form in _forms(KEYS[name]):
        assert secrets.hidden(f"<{form}>") == f"<[{name}]>"
        assert secrets.hidden_in({form: [form, {"a": form}]}) == {f"[{name}]": [f"[{name}]", {"a": f"[{name}]"}]}


@pytest.mark.parametrize("name", ["ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_IDENTITY_TOKEN", "OPENAI_ADMIN_KEY"])
def test_a_key_that_an_sdk_takes_from_the_environment_is_hidden(
    place: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, f"{KEY}-other")
    monkeypatch.delenv("OPENAI_API_KEY")
    with foldmark.open(place / "log.db") as log:
        agent = log.agent("default")
        agent.append("user", f"{KEY}-other")
        assert [each.content for each in agent.context().messages] == [f"[{name}]"]
        clean(log, place)


def test_a_key_inside_another_one() -> None:
    secrets = Secrets({"SHORT": "abcdefghij", "LONG": "abcdefghijklmnop"})
    assert secrets.hidden("abcdefghijklmnop abcdefghij") == "[LONG] [SHORT]"


def test_a_short_text_is_not_taken_for_a_key() -> None:
    assert Secrets({"A": "none"}).hidden("none of these") == "none of these"


# Everything that is said and done


def tool(agent: Agent, name: str, **args: Any) -> str:
    return agent.call_tool(name, args)


def spoken(agent: Agent) -> None:
    agent.append("user", f"My keys: {ALL}", data={"note": ALL, ALL: [ALL]})
    agent.append("assistant", f"They are {ALL}.\n\n### STATE\nGoal: {ALL}")
    agent.append(
        "user", "In other forms.", data={"set": {KEY}, "struct": ToolSpec(KEY, ALL, {KEY: (KEY,)}), "some": None}
    )
    agent.append("system", ALL)
    agent.append("tool", ALL)
    agent.end_turn()


def called(agent: Agent) -> None:
    agent.append("user", "go")
    args = {
        "path": ALL,
        ALL: {"deep": [KEY, ODD]},
        "json": json.dumps({"key": ODD}),
        "twice": json.dumps(json.dumps(ODD)),
    }
    agent.append_tool_call("look", args, call_id="c1", dialect="openai", data={"more": ALL})
    agent.append_tool_result("c1", json.dumps({"env": KEYS}), dialect="openai", data={"more": KEYS})
    agent.append_tool_call(f"look_{KEY}", {}, call_id=KEY, dialect="openai")
    agent.append_tool_result(KEY, ALL, dialect="openai", is_error=True)
    agent.end_turn()


def noticed(agent: Agent) -> None:
    """Record a result whose call has left: a notice quotes it."""
    agent.append("user", f"go {ALL}")
    agent.append("assistant", f"I look {ALL}")
    agent.append_tool_call("look", {"at": ALL}, call_id="c1", dialect="openai")
    agent.do("/clear", actor="model")
    agent.append_tool_result("c1", ALL, dialect="openai")
    agent.end_turn()


def kept(agent: Agent) -> None:
    agent.append("user", "go")
    agent.append_pieces(KEY, [Kept({"type": "thinking", "thinking": ALL, "signature": "c2ln"}).block], [], "anthropic")
    agent.end_turn()


def noted(agent: Agent) -> None:
    for line in (
        f"note {ALL}",
        f"scratchpad edit {ALL}",
        f"system edit {ALL}",
        f"memo add #{KEY} {ALL}",
        f"state {ALL}",
    ):
        _done(agent, line)
    agent.record("scratchpad", ALL)
    agent.record("state", ALL)
    agent.record("record", ALL, data={"line": ALL})
    tool(agent, "manage_scratchpad", action="update", content=ALL)
    tool(agent, "save_memo", content=ALL, tags=["keys"])
    with pytest.raises(CommandError, match="invalid tag"):
        tool(agent, "save_memo", content="tagged", tags=[KEY])
    agent.append("user", "What of the keys? " + ALL)
    agent.end_turn()


def mailed(agent: Agent) -> None:
    child = agent.log.agent(agent.do("/fork").data["child"])
    child.do(f"/send {agent.id[:8]} {ALL}", actor="model")
    agent.do("/check-mail", actor="model")
    child.do(f"/send {agent.id[:8]} {ALL} again", actor="model")


def configured(agent: Agent) -> None:
    agent.configure("system", f"The key is {ALL}")
    for line in (f"config set system={ALL}", f"model own/{KEY}", f"config set {KEY}=1", f"config set tools={KEY}"):
        _done(agent, line)
    agent.do("/model offline")
    agent.do("/fork")


def planned(agent: Agent) -> None:
    ids = [agent.append("user", "one"), agent.append("user", "two")]
    agent.end_turn()
    agent.do(f"/forget messages {ids[0]} {ALL}", asking=IN_CHAT)
    tool(agent, "filter_context", action="preview", criteria=f"messages {ids[0]} {ALL}", mode="forget")
    _done(agent, "cancel")
    agent.apply_filter("forget", ids[:1], criteria=ALL)


def marked(agent: Agent) -> None:
    agent.append("user", "one")
    agent.do(f"/mark {KEY}")
    agent.append("user", "two")
    agent.do(f"/fork {KEY}")
    agent.do(f"/clear {KEY}")
    agent.end_turn()


def marked_by_a_model(agent: Agent) -> None:
    agent.append("user", "one")
    tool(agent, "slash", command="mark", args=KEY)
    agent.end_turn()


def named(agent: Agent) -> None:
    agent.log.agent(f"about {KEY}").append("user", "hello")


def renamed(agent: Agent) -> None:
    agent.do(f"/rename {KEY}")


def created(agent: Agent) -> None:
    agent.do(f"/session new {KEY}")


def session(folder: Path, name: str) -> Path:
    """Write a coding agent's session that is full of keys."""
    path = folder / name
    content = [
        {"type": "text", "text": ALL},
        {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": ALL}},
    ]
    result = [{"type": "tool_result", "tool_use_id": "t1", "content": json.dumps(KEYS)}]
    times = {"timestamp": "2025-10-01T10:00:00.000Z", "sessionId": "s", "cwd": f"/home/{KEY}"}
    records = [
        {"type": "summary", "summary": ALL, "leafUuid": "3"},
        {"type": "user", "uuid": "1", "parentUuid": None, "message": {"role": "user", "content": ALL}, **times},
        {
            "type": "assistant",
            "uuid": "2",
            "parentUuid": "1",
            "message": {"role": "assistant", "content": content},
            **times,
        },
        {
            "type": "user",
            "uuid": "3",
            "parentUuid": "2",
            "message": {"role": "user", "content": result},
            "toolUseResult": {"stdout": ALL},
            **times,
        },
        {"type": ALL, "uuid": ALL, ALL: ALL},
    ]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def imported(agent: Agent) -> None:
    import_session(agent.log, session(Path.cwd(), "a.jsonl"))


def imported_by_name(agent: Agent) -> None:
    import_session(agent.log, session(Path.cwd(), f"{KEY}.jsonl"))


def offered(agent: Agent) -> None:
    """Run a turn with a program's or server's tool whose description holds a key."""

    class Own(NamedTuple):
        spec: ToolSpec
        together: bool = False

        def __call__(self, agent: Agent, args: Mapping[str, Any], asking: Any) -> str:
            return ALL

    schema = {"type": "object", "properties": {"at": {"type": "string", "default": KEY}}}
    agent.log.add_tool(Own(ToolSpec("look", f"Looks with {ALL}.", schema)))
    asyncio.run(turn(agent, provider("offline", agent.log.given), "hello", Seen().show))


VECTORS = [
    *(spoken, called, noticed, kept, noted, mailed, configured, planned, marked, marked_by_a_model),
    *(named, renamed, created, imported, imported_by_name, offered),
]


@pytest.mark.parametrize("act", VECTORS, ids=lambda act: act.__name__)
def test_no_key_reaches_the_log(log: Log, place: Path, act: Callable[[Agent], None]) -> None:
    agent = log.agent("default")
    act(agent)
    clean(log, place)


def test_settings_from_outside_hold_a_key(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment's system prompt goes to the model and into the record of sent requests."""
    monkeypatch.setenv("FOLDMARK_SYSTEM", f"Use {KEY}.")
    with foldmark.open(place / "log.db") as log:
        agent = log.agent("default")
        asyncio.run(turn(agent, provider("offline", log.given), "hello", Seen().show))
        clean(log, place)


def test_invalid_json_is_refused_as_it_is_without_keys(log: Log) -> None:
    endless: dict[str, Any] = {}
    endless["again"] = endless
    agent = log.agent("default")
    for data in (endless, {"x": object()}):
        with pytest.raises(CommandError, match="cannot be recorded"):
            agent.append("user", "hello", data=data)
    with pytest.raises(CommandError):
        agent.append_tool_call("look", endless, call_id="c1")
    with pytest.raises(FoldmarkError):
        agent.call_tool("slash", endless)


# Errors that repeat the typed line


@pytest.mark.parametrize(
    "line",
    [
        f"/{KEY}",
        f"/clear {KEY}",
        f"/send {KEY} hello",
        f"/model {KEY}",
        f"/model openai/gpt {KEY}",
        f"/config set {KEY}=1",
        f"/config set sliding_context_tokens={KEY}",
        f"/context at {KEY}",
        f"/mark a {KEY}",
        f"/switch {KEY}",
        f"/memo show {KEY}",
        f"/help {KEY}",
    ],
    ids=lambda line: line.replace(KEY, "KEY"),
)
def test_no_error_on_the_command_line_repeats_a_key(
    place: Path, line: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from foldmark.cli.program import run

    monkeypatch.setenv("FOLDMARK_DB", str(place / "log.db"))
    with foldmark.open(place / "log.db") as log:
        log.agent("default")
    assert run(["do", "default", line]) == 2
    shown = capsys.readouterr()
    assert found_in(shown.err + shown.out) == set()


# A whole chat, with the real SDKs


class Indiscreet:
    """A model that repeats keys everywhere, split across pieces."""

    def __init__(self, wire: AnthropicWire | OpenAIWire) -> None:
        self.wire, self.step = wire, 0

    def __call__(self, body: Any) -> Answer:
        self.step += 1
        assert found_in(json.dumps(body)) == set()
        pieces = tuple(ALL[at : at + 5] for at in range(0, len(ALL), 5))
        uses = (
            Use("c1", "look", {"at": ALL}),
            Use("c2", "slash", {"command": "mark", "args": "M"}),
            Use("c3", f"look{KEY}", {"at": KEY}),
            Use("c4", "slash", {"command": "clear", "args": KEY}),
            Use("c5", "manage_scratchpad", {"action": "update", "content": ALL}),
            Use("c6", "save_memo", {"content": ALL, "tags": [KEY]}),
            Use("c7", "slash", {"command": KEY}),
            Use("c8", "look", {KEY: 1}, raw=f'{{"at": "{KEY}"'),
            Use("c9", "bash", {"command": "env; echo $OPENAI_API_KEY"}),
        )
        if self.step == 1:
            return Reply((Think(ALL, "c2lnbmF0dXJl"), Say(pieces), *uses), "calls")
        return Reply((Say((*pieces, "\n\n### STATE\nGoal: ", *pieces)),))


@pytest.mark.parametrize("wire", [AnthropicWire(), OpenAIWire()], ids=lambda wire: wire.provider)
def test_a_chat_full_of_keys(
    log: Log, place: Path, wire: AnthropicWire | OpenAIWire, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = log.agent("default")
    own_tools(log, {"look": lambda args: f"{json.dumps(dict(os.environ))} {ALL}"})
    agent.do(f"/model {wire.provider}/{wire.model}")
    agent.do("/config set tool_approval=always")
    seen = Seen()
    with Loopback(wire, Indiscreet(wire)) as server:
        monkeypatch.setenv({"openai": "OPENAI_BASE_URL", "anthropic": "ANTHROPIC_BASE_URL"}[wire.provider], server.url)
        model = provider(agent.standing().config.model, log.given)

        async def talk() -> None:
            async with Supervisor(log, lambda name: model) as agents:
                await agents.say(agent, f"Keep these: {ALL}", seen.show)
                await agents.say(agent, "And?", seen.show)

        asyncio.run(talk())
        assert server.refusals == []
        own = KEYS[f"{wire.provider.upper()}_API_KEY"]
        assert all(own in repr(each.headers) for each in server.asked)
    assert len(server.asked) == 3
    clean(log, place)


WIRES = (AnthropicWire(), OpenAIWire())
STATUSES = (400, 401, 403, 404, 413, 429, 500, 0)


@pytest.mark.parametrize(
    ("status", "wire"), list(product(STATUSES, WIRES) if DEEP else zip(sampled(STATUSES, 5), cycle(WIRES)))
)
def test_a_provider_that_repeats_the_keys_in_its_error(
    log: Log, place: Path, wire: AnthropicWire | OpenAIWire, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It also fails a child, whose parent gets the error by mail."""
    agent = log.agent("default")
    agent.do(f"/model {wire.provider}/{wire.model}")
    error = {"type": "error", "error": {"type": f"x {ALL}", "code": KEY, "message": f"{'a' * 560} {ALL} {KEY[:30]}"}}
    answer = Http(status or 200, {"content-type": "application/json", "x-more": KEY}, json.dumps(error).encode())
    raised = list[Exception]()
    with Loopback(wire, lambda body: answer) as server:
        monkeypatch.setenv({"openai": "OPENAI_BASE_URL", "anthropic": "ANTHROPIC_BASE_URL"}[wire.provider], server.url)

        async def talk() -> None:
            async with Supervisor(log, partial(provider, settings=log.given, attempts=1)) as agents:
                agents.attended = agent.id
                agent.do("/mark M")
                with pytest.raises(ProviderError) as caught:
                    await agents.say(agent, "Hello?")
                raised.append(caught.value)
                agent.do("/fork M")
                await asyncio.sleep(0)
                await agents.settled()

        asyncio.run(talk())
    assert len(selections.unread(stored(log), agent.id)) == 1
    assert found_in(f"{raised[0]} {raised[0]!r}") <= set(KEYS) - {f"{wire.provider.upper()}_API_KEY"}
    agent.context()
    agent.do("/check-mail", actor="model")
    clean(log, place)


# As a program, with all logging on


_LOUD = """
import logging, os, sys
os.environ["PYTHONASYNCIODEBUG"] = "1"
logging.basicConfig(level=1, stream=sys.stderr)
from foldmark.cli.program import main
main(sys.argv[1:])
"""


def program(place: Path, *arguments: str, stdin: str = "", env: Mapping[str, str] = {}) -> str:
    """Run a foldmark process with all logging on, and return its output and error output."""
    loud = {"OPENAI_LOG": "debug", "ANTHROPIC_LOG": "debug", "FOLDMARK_DEBUG": "1"}
    loud |= {"FOLDMARK_LOG": "debug", "FOLDMARK_LOG_LEVEL": "DEBUG", "FOLDMARK_DB": str(place / "log.db")}
    developing = ["-X", "dev", "-W", "ignore"] if DEEP else []  # only a newly started Python can have these
    done = run(
        [sys.executable, *developing, "-c", _LOUD, *arguments],
        input=stdin.encode(),
        capture_output=True,
        env={**os.environ, **loud, **env},
        timeout=LIMIT,
    )
    shown: bytes = done.stdout + done.stderr
    return shown.decode()


@pytest.mark.parametrize("wire", [AnthropicWire(), OpenAIWire()], ids=lambda wire: wire.provider)
def test_a_loud_program_shows_no_key(place: Path, wire: AnthropicWire | OpenAIWire) -> None:
    said: list[Answer | Http] = [
        Reply((Say(("Hello ", "there.")),)),
        Http(401, {"content-type": "application/json"}, json.dumps({"error": {"message": f"wrong: {ALL}"}}).encode()),
    ]
    said.append(said[-1])
    with Loopback(wire, said) as server:
        env = {"OPENAI_BASE_URL": server.url, "ANTHROPIC_BASE_URL": server.url}
        model = f"{wire.provider}/{wire.model}"
        shown = program(place, "chat", "--model", model, stdin="Hello\nAnd?\n/context show\n", env=env)
        if DEEP:
            shown += program(place, "do", "default", "/summarize", env=env)
        assert (server.refusals, server.left) == ([], 0 if DEEP else 1)
        assert shown.count("wrong: ") >= 1 + DEEP
        assert "Hello there." in shown
        assert "DEBUG" in shown
    assert found_in(shown) == set(), [line for line in shown.splitlines() if found_in(line)]
    for line in (["context", "show", "default", "--json"], ["do", "default", "/context sent 1", "--json"], ["doctor"]):
        assert found_in(program(place, *line)) == set()
    assert found_in_files(place) == {}
