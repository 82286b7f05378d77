"""Sent requests are recorded as ids and hashes, and rebuilt byte for byte (SPEC 5.6)."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections.abc import AsyncGenerator, Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import structs

import foldmark
import forked
from answering import answered_by
from deeds import OPERATING, SAYING, do, family
from foldmark import Agent, CommandError, Log, StoreError
from foldmark.core.assembly import layers, view
from foldmark.core.assembly.sent import SentRequest
from foldmark.core.assembly.wire import Shortened
from foldmark.core.errors import ContextOverflowError, DamagedError
from foldmark.core.events import Draft, Mark
from foldmark.core.request import Manifest, Piece, Request, Usage
from foldmark.core.segments import END
from foldmark.cost.misses import cached, newest_cached
from foldmark.dialects.openai import chat as openai
from foldmark.log.doctor import examine
from foldmark.operations.effects import Asking
from foldmark.request.recorded import LATE, costs_until, newest_requests, numbered_request
from foldmark.request.sent import truncated
from foldmark.runtime.loop import Shown, turn
from foldmark.runtime.streaming import StreamedAnswer, stream
from foldmark.sending.rebuilding import REDACTED, Rebuilt, rebuilt
from foldmark.sending.status import record_usage
from foldmark.settings.given import Server, Settings
from foldmark.stores.transaction import SqlTransaction
from planning_talk import IN_CHAT
from sampled import DEEP
from scripted import ScriptedProvider
from stored import connection, stored

# Durability is tested elsewhere; here a file system in memory, if there is one, avoids waiting for the disk.
FOLDER = "/dev/shm" if Path("/dev/shm").is_dir() else None
REBUILDER = Path(__file__).parent / "rebuilder.py"
GIVEN = Settings(
    models={"openai/gpt-5": {"window": 3000, "output": 500}},
    providers={"mine": Server("anthropic", "https://example.org", "MINE_KEY")},
)
"""One model with a small window, and a provider that is not built in."""

MODELS = (
    *("offline", "anthropic/claude-sonnet-4-5", "openai/gpt-5", "openai_responses/gpt-5", "gemini/gemini-2.5-pro"),
    *("gemini_gca/gemini-2.5-pro", "google/gemini-2.5-flash", "mine/some-model", "ollama/qwen3"),
)
CHANGES: tuple[tuple[str, Any], ...] = (
    *(("sliding_context_tokens", tokens) for tokens in (0, 600, 900, 9000)),
    ("sliding_context_low_water", 0.5),
    *(("context_policy", policy) for policy in ("eager", "steady")),
    *(("context_size", turns) for turns in (0, 1, 3)),
    *(("truncate_recent", 10), ("truncate_inactive", 20), ("truncate_shape", "head-tail")),
    *(("truncation", False), ("isolation", False), ("thinking", "high"), ("system", "Be brief.")),
)
PLANNING = ("plan", "preview", "preview", "apply", "apply", "cancel")
OTHERS = ("model", "model", "change", "change", "system", "foreign", "image", *PLANNING)
DEEDS = st.lists(
    st.tuples(st.sampled_from((*SAYING, *OPERATING, *OTHERS)), st.integers(0, 60), st.integers(0, 2)),
    min_size=6,
    max_size=25,
)
PNG = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}


class Model(ScriptedProvider):
    """A model that keeps every request and always gives the same answer."""

    def __init__(self, *fails: Exception) -> None:
        self.requests, self._fails = list[Request](), list(fails)

    async def answer(self, request: Request) -> AsyncGenerator[Piece, None]:
        self.requests.append(request)
        if self._fails:
            raise self._fails.pop(0)
        yield "I see."

    def complete(self, request: Request) -> str:
        self.requests.append(request)
        return '["1-5"]'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.db"


@pytest.fixture
def log(path: Path) -> Iterator[Log]:
    with foldmark.open(path, settings={}) as log:
        yield log
        assert list(examine(log)) == []


@pytest.fixture
def agent(log: Log) -> Agent:
    return log.agent("root")


def send(agent: Agent, model: Model) -> None:
    asyncio.run(stream(agent, model, StreamedAnswer(agent.request()), lambda _: None))


def say(agent: Agent, *texts: str) -> list[int]:
    """Run a turn for each text, each answered by a model; return the ids of the turns."""
    show = Shown(lambda _: None, lambda _: None)
    turns = []
    for text in texts:
        asyncio.run(turn(agent, Model(), text, show))
        turns.append(agent.context().messages[-1].turn_id or 0)
    return turns


def all_sent(log: Log) -> list[tuple[int, Rebuilt]]:
    """Return everything that was sent, with its id, oldest first."""
    return sorted(
        (
            (each.id, rebuilt(agent, each.number))
            for agent in log.agents()
            for each in newest_requests(stored(log), agent.id, 1000)
        ),
        key=lambda each: each[0],
    )


def same(manifest: Manifest) -> Any:
    """Return the fields of a manifest that must be equal, so that each part can be shown with its origin."""
    return manifest.parts, manifest.edge, sorted((left.event, left.why) for left in manifest.left_out)


def check(log: Log, requests: list[Request]) -> None:
    found = [each for _, each in all_sent(log)]
    assert [each.verdict for each in found] == ["identical"] * len(requests)
    for each, request in zip(found, requests, strict=True):
        assert each.request.bytes == request.bytes
        assert (each.sent.sha256, each.sent.bytes) == (sha256(request.bytes).hexdigest(), len(request.bytes))
        assert each.request.body == request.body
        assert same(each.request.manifest) == same(request.manifest)
        for name in ("provider", "model", "dialect", "tokens", "purpose", "names"):
            assert getattr(each.request, name) == getattr(request, name)


def more(agent: Agent, deed: str, number: int) -> None:
    """Do one of `OTHERS`."""
    match deed:
        case "model":
            agent.configure("model", MODELS[number % len(MODELS)])
        case "change":
            agent.configure(*CHANGES[number % len(CHANGES)])
        case "system":
            agent.append("system", f"Rule {number}." if number % 3 else " ")
        case "foreign":
            agent.append("user", "look")
            agent.append_tool_call("look", number, call_id="c", dialect=("anthropic", "gemini")[number % 2])
            agent.append_tool_result("c", "seen " * number, dialect=("anthropic", "openai")[number % 2])
        case "image":
            agent.append("user", "" if number % 2 else "see", data={"blocks": [PNG] if number % 5 else [{}]})
        case "plan":
            agent.do(f"/{'remember' if number % 4 == 0 else 'forget'} question {number % 7}", asking=IN_CHAT)
        case "cancel":
            agent.do("/cancel")
        case _:
            if deed == "apply":
                agent.append("user", "Yes, proceed")
            agent.append_tool_call("filter_context", {"action": deed}, call_id="f", dialect="openai")
            found = agent.call_tool("filter_context", {"action": deed}, asking=Asking(confirm=lambda _: True))
            agent.append_tool_result("f", found, dialect="openai")


@settings(max_examples=settings().max_examples // 2)
@given(deeds=DEEDS)
@example(deeds=[*[("say", 0, 0)] * 3, *((deed, 0, 0) for deed in ("preview", "system", "summarize"))])  # a blank rule
def test_every_request_is_rebuilt_byte_for_byte(deeds: list[tuple[str, int, int]]) -> None:
    """Each request is recorded while the conversations continue, and rebuilt twice at their end."""
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        go_on(Path(folder) / "log.db", deeds)


def go_on(path: Path, deeds: list[tuple[str, int, int]]) -> None:
    model = Model()
    with foldmark.open(path, settings=GIVEN) as log:
        answered_by(model.complete)
        root = log.agent("root")
        for deed, number, who in deeds:
            agents = family(root)
            agent = agents[who % len(agents)]
            if deed in OTHERS:
                with suppress(CommandError):
                    more(agent, deed, number)
            else:
                do(agent, deed, number)
            send(agent, model)
        check(log, model.requests)
        assert list(examine(log)) == []
    with foldmark.open(path, settings={}) as log:
        check(log, model.requests)


def test_a_request_is_rebuilt_in_another_process(path: Path) -> None:
    """The other process has none of the given settings."""
    model = Model()
    with foldmark.open(path, settings=GIVEN) as log:
        root = log.agent("root")
        for number, name in enumerate(MODELS):
            root.configure("model", name)
            for deed in ("tools", "state", "open", "mark", "fork", "clear" if number == 4 else "scratchpad"):
                do(root, deed, 2 * number + 1)
                for agent in family(root) if DEEP or deed == "tools" else family(root)[-1:]:
                    send(agent, model)
    done = forked.run([sys.executable, str(REBUILDER), str(path)], capture_output=True, text=True, check=True)
    rows = sorted((int(row[1]), row[2:]) for row in map(str.split, done.stdout.splitlines()))
    assert [row for _, row in rows] == [["identical", sha256(r.bytes).hexdigest()] for r in model.requests]
    assert len(rows) > (100 if DEEP else 60)


def test_requests_of_a_planning_conversation_are_rebuilt(path: Path) -> None:
    """By then, the messages sent for the model's final report have left the context."""
    model = Model()
    with foldmark.open(path, settings=GIVEN) as log:
        agent = log.agent("root")
        answered_by(model.complete)
        agent.configure("model", "openai/gpt-5")
        for number in range(12):
            agent.append("user", f"apples {number} " * 50)
            agent.append("assistant", "bread " * 50)
            agent.end_turn()
        for deed in ("plan", "preview", "apply"):
            more(agent, deed, 1)
            send(agent, model)
        agent.append("assistant", "Done.")
        agent.end_turn()
        assert [request.purpose for request in model.requests] == ["answer", "match", "match", "answer", "answer"]
        assert {each.sent.planning for _, each in all_sent(log)} == {True, False}
        assert any(each.sent.only is not None for _, each in all_sent(log))
        agent.do("/clear")
        check(log, model.requests)


# Where requests are recorded


def test_a_refused_long_request_and_its_smaller_successor_are_rebuilt(log: Log, agent: Agent) -> None:
    for number in range(8):
        do(agent, "say", number)
    model = Model(ContextOverflowError("too long", 2000, 900))
    asyncio.run(turn(agent, model, "hello", Shown(lambda _: None, lambda _: None)))
    assert len(model.requests) == 2
    assert len(model.requests[1].bytes) < len(model.requests[0].bytes)
    check(log, model.requests)


def test_a_failure_to_record_ends_the_turn(log: Log, agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise StoreError("the disk is full: nothing was recorded")

    monkeypatch.setattr(SqlTransaction, "keep_texts", full)
    model = Model()
    with pytest.raises(StoreError, match="disk is full"):
        asyncio.run(turn(agent, model, "hello", Shown(lambda _: None, lambda _: None)))
    assert model.requests == []
    assert agent.open_turn is None
    assert [message.content for message in agent.context().messages] == ["hello"]


def test_questions_of_foldmark_itself_are_recorded_and_rebuilt(log: Log, agent: Agent) -> None:
    model = Model()
    answered_by(model.complete)
    say(agent, "one", "two")
    agent.configure("model", "anthropic/claude-sonnet-4-5")
    agent.do("/summarize")
    with suppress(foldmark.core.errors.FoldmarkError):
        agent.do("/context rebuild")
    assert [request.purpose for request in model.requests] == ["summary", "state"]
    found = [each for _, each in all_sent(log)]
    assert [each.verdict for each in found] == ["identical"] * 4
    assert [each.request.bytes for each in found[2:]] == [request.bytes for request in model.requests]


def test_texts_are_kept_once(log: Log, agent: Agent) -> None:
    say(agent, *map(str, range(5)))
    kept = connection(log).execute("SELECT count(*) FROM texts").fetchall()
    assert kept == [(3,)]  # settings, tools, guidelines
    assert connection(log).execute("SELECT count(*) FROM events WHERE kind = 'request'").fetchall() == [(5,)]


# Erased content


def everything(folder: Path) -> bytes:
    return b"".join(each.read_bytes() for each in folder.iterdir())


def test_erased_content_is_shown_as_redacted(path: Path, log: Log, agent: Agent) -> None:
    first, _ = say(agent, "the SECRET plan", "more")
    agent.do(f"/message remove {first} --yes")
    one, two = (each for _, each in all_sent(log))
    assert (one.verdict, two.verdict) == ("erased", "erased")
    assert "events 1, 3 was erased since" in two.said
    assert [message["content"] for message in two.request.body["messages"][1:]] == [REDACTED, REDACTED, "more"]
    assert [part.text for part in two.request.manifest.parts if part.layer == "window"] == [REDACTED, REDACTED, "more"]
    assert "SECRET" not in repr((one, two))
    assert agent.do(f"/context sent {two.sent.number}").text.count(REDACTED) == 3
    say(agent, "and on")
    assert [each.verdict for _, each in all_sent(log)] == ["erased", "erased", "identical"]


def test_content_erased_before_a_request_is_not_missing_from_it(log: Log, agent: Agent) -> None:
    """This holds even if the content was between the sent messages."""
    first, second = say(agent, "first", "the SECRET plan")
    agent.do(f"/message remove {second} --yes")
    say(agent, "third")
    assert [each.verdict for _, each in all_sent(log)] == ["identical", "erased", "identical"]
    agent.do(f"/message remove {first} --yes")
    assert [each.verdict for _, each in all_sent(log)] == ["erased", "erased", "erased"]
    assert [part.text for part in all_sent(log)[-1][1].request.manifest.parts if part.layer == "window"][-1] == "third"


def test_erasing_moves_no_window(log: Log, agent: Agent) -> None:
    """Messages left out for their size stay out, although there would be room now."""
    agent.configure("tools", "slash, filter_context")
    agent.configure("sliding_context_tokens", 700)
    agent.configure("context_policy", "eager")
    turns = say(agent, *(f"{number} " * 100 for number in range(5)))
    (_, last) = all_sent(log)[-1]
    agent.do(f"/message remove {turns[3]} --yes")
    assert (after := all_sent(log)[-1][1]).verdict == "erased"
    assert after.request.manifest.edge == last.request.manifest.edge
    assert [part.event for part in after.request.manifest.parts] == [part.event for part in last.request.manifest.parts]


def test_every_kind_of_content_can_be_erased(log: Log, agent: Agent) -> None:
    """This includes calls, results, pinned turns, summaries, state and images, in every format."""
    answered_by(lambda _: "What was said: SECRET.")
    agent.append("user", "SECRET", data={"blocks": [PNG]})
    agent.append("assistant", "SECRET")
    agent.append_tool_call("SECRET", {"a": "SECRET"}, call_id="c", dialect="openai")
    agent.append_tool_result("c", "SECRET " * 500, dialect="openai")
    agent.record("state", "Goal: SECRET")
    agent.end_turn()
    pinned = agent.context().messages[0].id
    agent.do(f"/pin {pinned}")
    agent.configure("model", "openai/gpt-5")
    agent.do("/summarize")
    summary = agent.context().messages[-1].id
    agent.append("user", "go on")
    for turns in (0, 1):
        agent.configure("context_size", turns)
        for name in MODELS[:6]:
            agent.configure("model", name)
            send(agent, Model())
            agent.do("/restore " + str(summary)) if not turns and name == MODELS[2] else None
    agent.end_turn()
    for gid in (summary, pinned):
        agent.do(f"/message remove {gid} --yes")
    found = [each for _, each in all_sent(log)]
    assert [each.verdict for each in found] == ["erased"] * 13
    assert all(REDACTED in each.request.bytes.decode() for each in found)
    assert b"SECRET" not in everything(Path(log.store.address).parent)


def test_a_pinned_turn_before_the_window_is_shown_as_erased(log: Log, agent: Agent) -> None:
    first, _ = say(agent, "the SECRET plan", "more")
    agent.do(f"/pin {first}")
    agent.configure("context_size", 1)
    say(agent, "and on")
    agent.do(f"/message remove {first} --yes")
    found = all_sent(log)[-1][1]
    assert found.sent.plan.pins == (first,)
    assert found.verdict == "erased"
    assert [part.text for part in found.request.manifest.parts if part.layer == "pinned"] == [REDACTED] * 2


def test_a_system_message_is_shown_as_erased(log: Log, agent: Agent) -> None:
    first = agent.append("user", "the plan")
    agent.append("system", "a SECRET rule")
    send(agent, Model())
    agent.end_turn()
    agent.do(f"/message remove {first} --yes")
    (found,) = (each for _, each in all_sent(log))
    assert found.verdict == "erased"
    assert [part.text for part in found.request.manifest.parts if part.layer == "system"] == [REDACTED]


def test_a_child_forked_in_an_erased_turn_still_knows_who_it_was(log: Log, agent: Agent) -> None:
    agent.append("user", "the SECRET plan")
    child = log.agent(agent.do("/fork").data["child"])
    agent.end_turn()
    child.append("user", "Do your part.")
    send(child, Model())
    before = rebuilt(child, 1)
    agent.do(f"/message remove {agent.context().messages[0].id} --yes")
    after = rebuilt(child, 1)
    assert (before.verdict, after.verdict) == ("identical", "erased")
    told = [[part.text for part in each.request.manifest.parts if part.layer == "identity"] for each in (before, after)]
    assert told[0] == told[1] != []


def test_a_persons_words_in_a_question_are_erased_with_its_turn(path: Path, log: Log, agent: Agent) -> None:
    """The quoted messages are never recorded as text."""
    model = Model()
    answered_by(model.complete)
    say(agent, "SECRET of the log")
    agent.configure("model", "openai/gpt-5")
    agent.do("/forget all about the SECRET of the criteria", asking=IN_CHAT)
    planned = agent.open_turn
    more(agent, "preview", 0)
    agent.end_turn()
    assert b"SECRET of the criteria" in model.requests[-1].bytes
    (_, question) = all_sent(log)[-1]
    assert (question.verdict, question.request.bytes) == ("identical", model.requests[-1].bytes)
    for gid in (planned, 1):
        agent.do(f"/message remove {gid} --yes")
    (_, question) = all_sent(log)[-1]
    assert question.verdict == "erased"
    assert "the question was erased since" in question.said
    assert b"SECRET" not in everything(path.parent)
    assert b"SECRET" not in question.request.bytes


@pytest.mark.parametrize("meanwhile", ["a message", "a drop", "a setting", "a tool"])
def test_a_request_is_recorded_as_it_was_made(log: Log, agent: Agent, meanwhile: str) -> None:
    """Whatever is recorded between the making and the recording; what it changes is a boundary for the next request."""
    first, _ = say(agent, "a plan", "more")
    agent.append("user", "and on")
    request = agent.request()
    match meanwhile:
        case "a message":
            agent.append("user", "and this")
        case "a drop":
            agent.do(f"/context drop {first}")
        case "a setting":
            agent.configure("system", "Be brief.")
        case "a tool":
            given = log.tools()
            log.tools = lambda: given[:1]  # type: ignore[method-assign]
    agent.append("assistant", "Done.", request=request)
    found = all_sent(log)[-1][1]
    assert (found.verdict, found.sent.sha256) == ("identical", sha256(request.bytes).hexdigest())
    steps = request.manifest.plan.settled != agent.next_request().manifest.plan.settled
    assert steps == (meanwhile != "a message")


def test_an_answer_that_was_rolled_back_still_has_its_request(log: Log, agent: Agent) -> None:
    """A caller whose append fails, for example because the disk is full, appends the same answer again."""
    agent.append("user", "Hello")
    agent.request("anthropic", "claude-sonnet-5-5")
    before = len(newest_requests(stored(log), agent.id, 100))
    with suppress(ZeroDivisionError), agent.batch():
        agent.append("assistant", "Hi.")
        raise ZeroDivisionError
    agent.append("assistant", "Hi.")
    assert len(newest_requests(stored(log), agent.id, 100)) == before + 1


def test_a_request_of_another_agent_is_refused(log: Log, agent: Agent) -> None:
    other = log.agent("other")
    other.append("user", "Hello")
    request = other.request("anthropic", "claude-sonnet-5-5")
    agent.append("user", "Hello")
    with pytest.raises(CommandError, match=f"this request was made for agent {other.id[:8]}"):
        agent.append("assistant", "Hi.", request=request)


def test_what_another_agent_erased_before_a_request_was_recorded_is_shown_as_erased(log: Log, agent: Agent) -> None:
    first, _ = say(agent, "the SECRET plan", "more")
    child = log.agent(agent.do("/fork").data["child"])
    child.append("user", "Do your part.")
    child.request()
    agent.do(f"/message remove {first} --yes")
    child.append("assistant", "Done.")
    assert rebuilt(child, 1).verdict == "erased"


def test_a_deleted_conversation_leaves_nothing_that_it_sent(path: Path, log: Log, agent: Agent) -> None:
    other = log.agent("other")
    other.configure("system", "SECRET instructions")
    other.configure("model", "openai/gpt-5")
    say(other, "one")
    say(log.agent(other.do("/fork").data["child"]), "two")
    say(agent, "three")
    agent.do("/session delete other --yes")
    assert [each.sent.agent for _, each in all_sent(log)] == [agent.id]
    kept = "SELECT count(*) FROM events WHERE kind = 'request' AND data IS NOT NULL"
    assert connection(log).execute(kept).fetchall() == [(1,)]
    assert connection(log).execute("SELECT count(*) FROM texts").fetchall() == [(3,)]
    assert b"SECRET" not in everything(path.parent)


def test_nothing_is_sent_for_an_agent_deleted_meanwhile(log: Log, agent: Agent) -> None:
    other = log.agent("other")
    other.append("user", "hello")
    request = other.request()
    agent.do("/session delete other --yes")
    with pytest.raises(CommandError, match="was deleted on"):
        other.record_sent(request)


# Other versions of Foldmark


def test_a_request_is_rebuilt_with_the_guidelines_of_its_time(
    log: Log, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The guidelines are kept, so the request is identical."""
    say(agent, "hello")
    monkeypatch.setattr(layers, "_HISTORY", "### HISTORY\nRead it well.")
    ((_, found),) = all_sent(log)
    assert found.verdict == "identical"
    assert "with the guidelines of that time, which differ from the present ones" in found.said
    assert "Parts of this conversation may be missing" in found.request.bytes.decode()


def test_a_different_encoder_is_reported(log: Log, agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    say(agent, "hello")
    own = openai.OFFLINE
    changed = structs.replace(own, encode=lambda *what: {**own.encode(*what), "store": False})
    monkeypatch.setattr(openai, "OFFLINE", changed)
    ((_, found),) = all_sent(log)
    assert found.verdict == "differs"
    assert "the same texts, but this version encodes the format of offline differently" in found.said
    assert f"{found.sent.bytes + 14:,} bytes where {found.sent.bytes:,} were sent" in found.said


def test_different_texts_of_foldmark_are_reported(log: Log, agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    agent.append("user", "look")
    agent.append_tool_call("look", {}, call_id="c", dialect="openai")
    send(agent, Model())
    monkeypatch.setattr(view, "NO_RESULT", "[It never came.]")
    ((_, found),) = all_sent(log)
    assert found.verdict == "differs"
    assert found.said.endswith("other texts in window")


def test_different_truncation_is_reported(log: Log, agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    agent.configure("context_policy", "eager")
    do(agent, "tools", 60)
    do(agent, "say", 1)
    send(agent, Model())
    assert truncated(rebuilt(agent, 1).request.manifest.parts) == {5: 300}
    monkeypatch.setattr(view, "shorten", lambda text, limit, *_: Shortened(text[:7], 7))
    found = rebuilt(agent, 1)
    assert found.verdict == "differs"
    assert found.said.endswith("other texts in window")


# Owners, and damage


def test_l6_a_child_rebuilds_only_its_own_requests(log: Log, agent: Agent) -> None:
    """Law L6."""
    say(agent, "one")
    child = log.agent(agent.do("/fork").data["child"])
    say(child, "two")
    agent.do("/clear")
    say(agent, "three")
    assert [each.number for each in newest_requests(stored(log), child.id, 10)] == [1]
    parts = rebuilt(child, 1).request.manifest.parts
    assert [part.text for part in parts if part.layer == "window"] == ["one", "I see.", "two"]
    assert [rebuilt(agent, number).request.manifest.parts[-1].text for number in (1, 2)] == ["one", "three"]
    for who, newest in ((child, "1"), (agent, "2, 1")):
        for number in (0, 3, -1, 10**20):
            with pytest.raises(CommandError, match=rf"no request {number} of this agent; its newest: {newest}$"):
                rebuilt(who, number)


def test_requests_are_numbered_whatever_is_recorded_between_them(log: Log, agent: Agent) -> None:
    other = log.agent("other")
    for number in range(1, 41):
        for _ in range(number % 4):
            other.append("user", "between")
            agent.append("user", "between")
        assert agent.record_sent(agent.request()).number == number
    with log.store.read() as moment:
        found = [numbered_request(moment, agent.id, number) for number in range(42)]
    assert found[0] is found[41] is None
    assert [each.number for each in found[1:41] if each is not None] == list(range(1, 41))


def test_recording_a_request_moves_no_head(log: Log, agent: Agent) -> None:
    """Neither does its usage. Another object of the agent goes on appending."""
    other = log.agent("root")
    agent.append("user", "one")
    before = agent.standing()
    sent = other.record_sent(other.request())
    record_usage(other, sent, Usage(5), None)
    after = agent.standing()
    assert after.record.head == before.record.head
    assert (after.newest, after.last) == (before.newest, sent.id + 1)
    assert agent.timeline.head == after.record.head
    assert agent.append("user", "two") == after.last + 1
    assert agent.operate(lambda *_: Mark("M")).event_id == after.last + 2
    record_usage(other, sent, Usage(6), None)
    preview = agent.do("/clear --preview").data
    done = agent.do("/clear")
    assert done.event_id == after.last + 4
    assert preview["after"] == done.data["after"]


def test_a_record_of_another_version_stops_nothing(path: Path) -> None:
    with foldmark.open(path, settings={}) as log:
        agent = log.agent("root")
        agent.append("user", "one")
        assert agent.record_sent(agent.request()).number == 1
        (event,) = newest_requests(stored(log), agent.id, 1)
        odd = {**(stored(log).events([event.id])[0].data or {}), "number": 2, "edge": "of another shape"}
        with log.store.write() as transaction:
            (wrong,) = transaction.append(
                agent.id, None, [Draft(kind="request", created_at=event.created_at, data=odd)]
            )
        sent = agent.record_sent(agent.request())
        assert (sent.number, rebuilt(agent, 3).verdict, rebuilt(agent, 1).verdict) == (3, "identical", "identical")
        assert [row["id"] for row in agent.do("/context sent").data["sent"]] == [3, 1]
        with pytest.raises(DamagedError, match="record of a request is not readable"):
            rebuilt(agent, 2)
        found = [finding.text for finding in examine(log)]
        assert found == [f"agent {agent.id[:8]}: the record of its request, event {wrong}, is not readable"]


def test_a_cost_is_found_behind_the_next_request(log: Log, agent: Agent) -> None:
    """Another program may ask a question of its own before the answer has come."""
    agent.configure("model", "anthropic/claude-sonnet-4-5")
    agent.append("user", "one")
    sent = [agent.record_sent(agent.request()) for _ in range(2)]
    for each, tokens in zip(sent, (5000, 70), strict=True):
        record_usage(agent, each, Usage(10, cache_write=tokens), None)
    one, (_, listed) = cached(agent, sent[0]), newest_cached(agent, 5)
    assert one is not None
    assert one == listed[sent[0].id]
    assert [each.usage.cache_write for each in listed.values()] == [5000, 70]


def test_a_cost_is_looked_for_behind_a_few_requests_only(log: Log, agent: Agent) -> None:
    """The cost of a look at an old turn does not grow with everything after it."""
    agent.append("user", "one")
    sent = [agent.record_sent(agent.request()) for _ in range(40)]
    with log.store.read() as moment:
        assert costs_until(moment, agent.id, sent[4].id) == sent[4 + LATE].id
        assert costs_until(moment, agent.id, sent[-1].id) == costs_until(moment, agent.id, END) == END
        assert costs_until(moment, agent.id, 1) == 1  # nothing was sent yet


def test_a_cost_belongs_to_the_turn_of_its_request(log: Log, agent: Agent) -> None:
    def asked(text: str) -> SentRequest:
        agent.append("user", text)
        sent = agent.record_sent(agent.request())
        agent.append("assistant", "answer")
        return sent

    first = asked("one")
    agent.record("usage", data={"provider": "openai"})  # without counts
    agent.end_turn()
    second = asked("two")
    record_usage(agent, first, Usage(100, output=3), None)
    record_usage(agent, second, Usage(200, output=3), None)
    agent.end_turn()
    turns = agent.do("/message list").data["turns"]
    assert [turn["snapshot"] for turn in turns] == [103, 203]
    shown = [agent.do(f"/message show {turn['id']}").text for turn in turns]
    assert ["103 tokens" in shown[0], "203 tokens" in shown[1]] == [True, True]


def test_a_fork_shows_no_cost_of_later_turns_of_its_parent(log: Log, agent: Agent) -> None:
    for text, tokens in (("one", 100), ("two", 77_777)):
        agent.append("user", text)
        agent.append("assistant", "answer")
        agent.record("usage", data={"fresh": tokens, "cache_read": 0, "cache_write": 0, "output": 0})
        agent.end_turn()
        if text == "one":
            child = log.agent(agent.do("/fork").data["child"])
    child.append("user", "three")
    child.end_turn()
    (turn, _) = child.do("/message list").data["turns"]
    assert turn["snapshot"] == 100


def test_a_moment_of_metadata_is_that_of_the_timeline(log: Log, agent: Agent) -> None:
    last = agent.append("user", "one")
    usage = agent.record("usage", data={"fresh": 1})
    assert agent.at(usage).at == last
    found = agent.do(f"/context diff {usage}").data
    assert (found["from"], found["to"]) == (last, last)


def test_the_doctor_finds_a_text_that_is_missing(path: Path) -> None:
    with foldmark.open(path, settings={}) as log:
        agent = log.agent("root")
        say(agent, "hello")
        connection(log).execute("DELETE FROM texts WHERE text LIKE '### HISTORY%'")
        found = [finding.text for finding in examine(log)]
        assert found == [f"agent {agent.id[:8]}: its request, event 2, lacks 1 text"]
        with pytest.raises(StoreError, match="run `foldmark doctor`"):
            rebuilt(agent, 1)


def test_recorded_requests_hold_no_text_of_messages(log: Log, agent: Agent) -> None:
    say(agent, "a very particular text")
    rows = connection(log).execute("SELECT data FROM events WHERE kind = 'request'").fetchall()
    texts = connection(log).execute("SELECT text FROM texts").fetchall()
    assert "particular" not in json.dumps([rows, texts])


def test_a_request_without_a_boundary_is_rebuilt() -> None:
    """No operation and no setting has made a boundary yet."""
    with foldmark.open(":memory:", settings={"context_policy": "steady"}) as log:
        agent = log.agent("default")
        for number in range(3):
            agent.append("user", "Look.")
            agent.append_tool_call("look", {}, call_id=f"c{number}")
            agent.append_tool_result(f"c{number}", "seen " * 300)
            agent.append("assistant", "Seen.")
            agent.end_turn()
        assert rebuilt(agent, agent.record_sent(agent.request()).number).verdict == "identical"
