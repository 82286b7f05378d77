"""Every scenario with every provider, through its real SDK, against a server on the loopback interface (SPEC 5, 6)."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from functools import cache
from math import ceil
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plan import Answer, Broken, Fail, Http, Reply, Say, Stalled, Think, Use, Wire
from scenarios import (
    ANSWERS,
    COST,
    EVERY,
    FAILURES,
    NONSENSE,
    PART,
    REQUESTS,
    TALKS,
    THINKING,
    TOOLS,
    Answered,
    Failed,
    Sent,
    Talk,
    calls,
    says,
)
from server import Loopback
from talking import (
    ALL,
    KEY,
    Heard,
    Seen,
    arrived,
    connect,
    conversation,
    events,
    listen,
    messages,
    missing,
    sent,
    shape_of,
)

from foldmark.core.errors import ContextOverflowError, ProviderError
from foldmark.core.request import Request, Usage, Waiting
from foldmark.providers.retrying import RetryingProvider
from foldmark.runtime.loop import turn
from patience import LIMIT
from sampled import DEEP, sampled

_S = TypeVar("_S", Answered, Failed, Sent, Talk)

every_wire = pytest.mark.parametrize("wire", ALL, ids=lambda wire: wire.provider)


def cases(scenarios: Sequence[_S]) -> pytest.MarkDecorator:
    """Parametrize a test with each scenario and the wires that it applies to. By default each gets two of them, which
    take turns; the first and the last scenario get all. `gemini_gca` wraps the requests of `gemini`, and its answers,
    so it gets a third of the scenarios at most."""
    wrapped = sampled(scenarios, ceil(len(scenarios) / 3))
    pairs = []
    for at, each in enumerate(scenarios):
        heard = [wire for wire in ALL if wire.provider in getattr(each, "providers", EVERY)]
        if not DEEP:
            heard = [wire for wire in heard if wire.provider != "gemini_gca" or each in wrapped]
        if not DEEP and 0 < at < len(scenarios) - 1:
            heard = [wire for number, wire in enumerate(heard) if (number - at) % len(heard) in (0, 2)]
        pairs += [(wire, each) for wire in heard]
    return pytest.mark.parametrize(
        ("wire", "scenario"), pairs, ids=[f"{wire.provider}-{each.name}" for wire, each in pairs]
    )


class Spelled:
    """A wire whose events are written with all of JSON's escapes or with none."""

    def __init__(self, wire: Wire, spelling: str) -> None:
        self._wire, self._escaped = wire, spelling == "escaped"

    def __getattr__(self, name: str) -> Any:
        return getattr(self._wire, name)

    def stream(self, reply: Reply, body: dict[str, Any]) -> Iterator[bytes]:
        for event in self._wire.stream(reply, body):
            yield b"\n".join(self._line(line) for line in event.split(b"\n"))

    def _line(self, line: bytes) -> bytes:
        head, brace, rest = line.partition(b"{")
        if not brace or head.strip() != b"data:":
            return line
        return (
            head
            + json.dumps(json.loads(brace + rest), ensure_ascii=self._escaped).encode()
            + rest[len(rest.rstrip()) :]
        )


class Ended:
    """A wire that omits the end of every answer and closes the connection cleanly."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def __getattr__(self, name: str) -> Any:
        return getattr(self._wire, name)

    def stream(self, reply: Reply, body: dict[str, Any]) -> Iterator[bytes]:
        return self._wire.unfinished(reply.parts, body)


def request_of(wire: Wire) -> Request:
    """Return a plain request to the wire's model."""
    return _request(ALL.index(wire))


@cache
def _request(index: int) -> Request:
    with conversation(ALL[index]) as agent:
        agent.append("user", "Hi")
        return agent.request()


def heard(wire: Wire, server: Loopback, request: Request | None = None) -> Heard:
    """Send a request and return the answer. The request must arrive unchanged and be accepted."""
    request = request or request_of(wire)
    found = asyncio.run(listen(connect(wire, server.url), request))
    assert server.refusals == []
    assert [arrived(each) for each in server.asked] == [sent(request)]
    return found


# Answers


@cases(ANSWERS)
def test_an_answer_is_received_whole(wire: Wire, scenario: Answered) -> None:
    spoken = Spelled(wire, scenario.spelling) if scenario.spelling else wire
    with Loopback(spoken, [scenario.reply], split=scenario.split) as server:
        found = heard(wire, server)
    assert found.error is None
    assert found.shape == shape_of(scenario.reply.parts, wire)
    assert found.stops == [scenario.reply.stop]
    assert found.usage == [scenario.reply.usage]
    asked = [part.call_id for part in scenario.reply.parts if isinstance(part, Use)]
    ids = [call.call_id for call in found.calls]
    assert ids == asked or wire.provider.startswith("gemini")
    assert all(ids)
    assert len(set(ids)) == len(ids)


@every_wire
def test_text_is_received_as_it_comes(wire: Wire) -> None:
    """The first piece arrives while the server still holds back the rest."""
    with Loopback(wire, [Stalled(PART)]) as server:

        async def first() -> tuple[Any, bool]:
            async with aclosing(connect(wire, server.url).answer(request_of(wire))) as answer:
                async for piece in answer:
                    if isinstance(piece, str) and piece:
                        return piece, server.gone.is_set()
            raise AssertionError("nothing was said")

        assert asyncio.run(first()) == ("It be", False)


@pytest.mark.parametrize("wire", [w for w in ALL if w.provider in THINKING], ids=lambda wire: wire.provider)
def test_thinking_with_its_signature_is_kept(wire: Wire) -> None:
    reply = Reply((Think("Let me see.", "c2lnbmVk"), Use("c1", "look", {}, signature="c2lnbmVk")), "calls")
    with Loopback(wire, [reply]) as server:
        found = heard(wire, server)
    signatures = [*(call.signature for call in found.calls), json.dumps(found.kept)]
    assert any("c2lnbmVk" in (signature or "") for signature in signatures)


# Failures


@cases(FAILURES)
def test_a_failure_says_what_it_is(wire: Wire, scenario: Failed) -> None:
    with Loopback(wire, [scenario.answer]) as server:
        found = heard(wire, server)
    assert found.error is not None
    assert (found.error.kind, found.error.retry_after) == (scenario.kind, scenario.retry_after)
    assert found.error.passes == (scenario.kind in ("rate", "busy", "network"))
    parts = scenario.answer.parts if isinstance(scenario.answer, Broken) else ()
    assert found.shape == shape_of(parts, wire)
    assert found.stops == []
    text = str(found.error)
    assert 10 < len(text) < 1000
    assert "Traceback" not in text
    assert "object at 0x" not in text


@every_wire
def test_an_overload_in_the_middle_of_an_answer(wire: Wire) -> None:
    with Loopback(wire, [Broken(PART, event=True)]) as server:
        found = heard(wire, server)
    assert found.text == "It began"
    assert found.error is not None
    assert found.error.kind == ("network" if wire.error_event() is None else "busy")


@every_wire
def test_too_long_with_its_numbers(wire: Wire) -> None:
    with Loopback(wire, [Fail("overflow", tokens=250_001, limit=200_000)]) as server:
        error = heard(wire, server).error
    assert isinstance(error, ContextOverflowError)
    told = (None, None) if wire.provider == "openai_responses" else (250_001, 200_000)
    assert (error.tokens, error.limit) == told


@every_wire
def test_an_answer_without_an_end_is_a_failure(wire: Wire) -> None:
    with Loopback(Ended(wire), [Reply(PART)]) as server:
        found = heard(wire, server)
    assert found.text == "It began"
    assert found.error is not None
    assert found.error.kind in ("network", "answer")


@every_wire
def test_a_call_without_an_end_is_not_made(wire: Wire) -> None:
    with Loopback(wire, [Broken((Use("c1", "look", {"at": "a"}),))]) as server:
        found = heard(wire, server)
    assert found.error is not None
    assert found.calls == []


@every_wire
def test_an_unreachable_server_is_a_network_error(wire: Wire) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, but not listening
        provider = connect(wire, f"http://127.0.0.1:{taken.getsockname()[1]}")
        found = asyncio.run(listen(provider, request_of(wire)))
    assert found.error is not None
    assert (found.error.kind, found.pieces) == ("network", [])


@every_wire
def test_a_failure_is_reported_without_another_attempt(wire: Wire) -> None:
    """Retrying is not the SDK's decision."""
    with Loopback(wire, [Fail("busy", 503), says("Hello.")]) as server:
        found = heard(wire, server)
        assert (len(server.requests), server.left) == (1, 1)
    assert found.error is not None


def _nonsense() -> list[tuple[str, Wire]]:
    """Return each invalid answer with two wires, which take turns, or with all wires in a deep run."""
    return [
        (name, wire)
        for at, name in enumerate(NONSENSE)
        for number, wire in enumerate(ALL)
        if DEEP or (number - at) % len(ALL) in (0, 2)
    ]


@pytest.mark.parametrize(("name", "wire"), _nonsense())
def test_an_invalid_answer_is_an_error_of_its_kind(wire: Wire, name: str) -> None:
    answer, kinds = NONSENSE[name]
    with Loopback(wire, [answer]) as server:
        found = heard(wire, server)
    assert found.pieces == []
    assert found.error is not None
    assert found.error.kind in kinds
    assert found.error.retry_after is None
    text = str(found.error)
    assert 10 < len(text) < 1000
    assert "<html" not in text


@every_wire
def test_a_key_that_is_repeated_is_not_shown(wire: Wire) -> None:
    """Some servers quote the refused key, anywhere in their message; `listen` checks that it is not shown."""
    for before in ("", "x" * 385, "x" * 585):
        refused = wire.failure(Fail("key", 401))
        said = re.sub(rb'"message": ?"', f'"message": "{before} {KEY} is no key. '.encode(), refused.body)
        assert KEY.encode() in said
        with Loopback(wire, [refused._replace(body=said)]) as server:
            found = heard(wire, server)
        assert found.error is not None
        assert found.error.kind == "key"
        assert KEY[:12] not in str(found.error)
    quoted = Http(200, {"content-type": "text/event-stream"}, f'data: "{KEY}"\n\n'.encode())
    with Loopback(wire, [quoted]) as server:
        assert heard(wire, server).error is not None


@every_wire
def test_a_key_does_not_go_elsewhere(wire: Wire) -> None:
    """No redirect is followed: no other server gets the key or the conversation."""
    with Loopback(wire) as other:
        away = Http(307, {"location": f"{other.url}/elsewhere"}, b"")
        with Loopback(wire, [away]) as server:
            assert heard(wire, server).error is not None
        assert other.requests == []


@every_wire
def test_halves_of_a_character_do_no_harm(wire: Wire) -> None:
    """Some servers cut a text between the two halves of a surrogate pair."""
    with Loopback(Halved(wire), [says("a", "FIRST", "SECOND", "b", "FIRST", "c")]) as server:
        found = heard(wire, server)
    assert found.error is None
    assert (found.text[0], found.text[-1]) == ("a", "c")
    assert "\ufffd" in found.text
    found.text.encode()


class Halved:
    """A wire that replaces FIRST and SECOND in its texts with the two halves of a character."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def __getattr__(self, name: str) -> Any:
        return getattr(self._wire, name)

    def stream(self, reply: Reply, body: dict[str, Any]) -> Iterator[bytes]:
        for event in self._wire.stream(reply, body):
            yield event.replace(b"FIRST", b"\\ud83d").replace(b"SECOND", b"\\ude00")


REPLACEMENTS: tuple[Any, ...] = (None, True, -1, 1e300, "", "x", [], [None], ["x"], {}, {"x": {}})


class Twisted:
    """A wire that replaces or removes one value in each answer, the `at`-th of the whole answer."""

    def __init__(self, wire: Wire, at: int, value: Any, *, gone: bool) -> None:
        self._wire, self._at, self._value, self._gone = wire, at, value, gone

    def __getattr__(self, name: str) -> Any:
        return getattr(self._wire, name)

    def stream(self, reply: Reply, body: dict[str, Any]) -> Iterator[bytes]:
        lines = b"".join(self._wire.stream(reply, body)).split(b"\n")
        documents = {n: [json.loads(line[6:])] for n, line in enumerate(lines) if line.startswith(b"data: {")}
        places = [place for document in documents.values() for place in _places(document)]
        holder, key = places[self._at % len(places)]
        if self._gone:
            del holder[key]
        else:
            holder[key] = self._value
        for number, document in documents.items():
            lines[number] = (
                b"data: " + json.dumps(document[0]).encode() + b"\r" * lines[number].endswith(b"\r")
                if document
                else b""
            )
        yield b"\n".join(lines)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the place of each value inside `value`, at any depth: (holder, key or index)."""
    for key in range(len(value)) if isinstance(value, list) else list(value):
        yield value, key
        if isinstance(value[key], dict | list):
            yield from _places(value[key])


RICH = Reply((Think("Hm.", "c2ln"), Say(("Hel", "lo")), Use("c1", "look", {"at": "a"}, "c2ln")), "calls")


@every_wire
@settings(max_examples=settings().max_examples // 4)
@given(at=st.integers(0, 400), value=st.sampled_from(REPLACEMENTS), gone=st.booleans())
def test_any_change_to_an_answer_gives_an_answer_or_an_error(wire: Wire, at: int, value: Any, gone: bool) -> None:
    with Loopback(Twisted(wire, at, value, gone=gone), [RICH]) as server:
        found = heard(wire, server)  # raises anything but a ProviderError
    assert found.error is not None or len(found.stops) == 1
    assert all(isinstance(call.name, str) and isinstance(call.call_id, str) for call in found.calls)
    assert found.error is None or found.error.kind in (
        "answer",
        "network",
        "busy",
        "request",
        "rate",
        "key",
        "overflow",
    )


@every_wire
@settings(max_examples=settings().max_examples // 4)
@given(
    fail=st.sampled_from((Fail("rate", 429, 7), Fail("busy", 503), Fail("request", 400), Fail("overflow"))),
    at=st.integers(0, 40),
    value=st.sampled_from(REPLACEMENTS),
    gone=st.booleans(),
)
def test_any_change_to_a_refusal_still_gives_an_error(wire: Wire, fail: Fail, at: int, value: Any, gone: bool) -> None:
    refused = wire.failure(fail)
    document = [json.loads(refused.body)]
    places = list(_places(document))
    holder, key = places[at % len(places)]
    if gone:
        del holder[key]
    else:
        holder[key] = value
    with Loopback(wire, [refused._replace(body=json.dumps(document[0]).encode() if document else b"")]) as server:
        error = heard(wire, server).error
    assert error is not None
    assert error.retry_after is None or 0 <= error.retry_after < 10**6
    assert error.passes == (fail.kind in ("rate", "busy"))


# Requests


@cases(REQUESTS)
def test_a_request_is_accepted_and_holds_what_it_should(wire: Wire, scenario: Sent) -> None:
    with conversation(wire) as agent, Loopback(wire, [says("Hello.")]) as server:
        scenario.build(agent)
        assert heard(wire, server, agent.request()).text == "Hello."
        body = server.asked[0].body
    assert missing(wire.texts(body), scenario.wanted) is None
    assert [text for text in scenario.never if text in json.dumps(body)] == []


@every_wire
def test_the_layers_precede_the_messages(wire: Wire) -> None:
    with conversation(wire, TOOLS) as agent, Loopback(wire, [says("Hello.")]) as server:
        agent.configure("context_policy", "eager")  # which puts all layers into the system field
        REQUESTS[1].build(agent)
        heard(wire, server, agent.request())
        body = server.asked[0].body
    texts = wire.texts(body)
    front = "\n".join(text for kind, text in texts if kind == "system")
    places = [front.find(text) for text in ("Be brief.", "From an import.", "### HISTORY", "Goal: greet", "to do: all")]
    assert -1 not in places
    assert places == sorted(places)
    written = json.dumps(body)
    assert [name for name in ("slash", "filter_context", "look", "echo") if f'"{name}"' not in written] == []
    assert "Runs look." in written
    assert '"at": {"type": "string"}' in written


@every_wire
def test_counting(wire: Wire) -> None:
    request = request_of(wire)
    with Loopback(wire, tokens=4321) as server:
        provider = connect(wire, server.url)
        if wire.provider == "openai":
            with pytest.raises(ProviderError) as caught:
                asyncio.run(provider.count(request))
            assert (caught.value.kind, caught.value.passes, server.requests) == ("request", False, [])
        else:
            assert asyncio.run(provider.count(request)) == 4321
            assert (server.asked, server.refusals) == ([], [])


@every_wire
def test_one_provider_serves_many_requests(wire: Wire) -> None:
    request = request_of(wire)
    with Loopback(wire, [says("One."), Fail("busy", 503), Broken(PART), says("Four.")]) as server:

        async def four() -> list[str]:
            provider = connect(wire, server.url)
            return [(await listen(provider, request)).text for _ in range(4)]

        assert asyncio.run(four()) == ["One.", "", "It began", "Four."]


@every_wire
def test_answers_at_the_same_time(wire: Wire) -> None:
    request = request_of(wire)
    with Loopback(wire, [says(*"abc") for _ in range(8)]) as server:

        async def together() -> list[Heard]:
            provider = connect(wire, server.url)
            return await asyncio.gather(*(listen(provider, request) for _ in range(8)))

        assert [each.text for each in asyncio.run(together())] == ["abc"] * 8


# Whole turns


@cases(TALKS)
def test_a_conversation(wire: Wire, scenario: Talk) -> None:
    answers = [answer for _, each in scenario.turns for answer in each]
    with conversation(wire, TOOLS) as agent, Loopback(wire, answers) as server:
        provider = connect(wire, server.url)
        if scenario.never:
            agent.configure("context_policy", "eager")  # which removes the thinking of older turns

        async def talk() -> None:
            for text, _ in scenario.turns:
                await turn(agent, provider, text, Seen().show)

        asyncio.run(talk())
        assert (server.refusals, server.left) == ([], 0)
        bodies = [each.body for each in server.asked]
        assert len(bodies) == len(answers)
        for number, body in enumerate(bodies):
            wanted = scenario.sent[number] if number < len(scenario.sent) else ()
            wanted = tuple(each for each in wanted if each[0] != "thinking" or wire.provider in THINKING)
            assert missing(wire.texts(body), wanted) is None, number
            assert [text for text in scenario.never.get(number, ()) if text in json.dumps(body)] == []
        there = [each for each in messages(agent) if each != ("assistant", "")]  # these carry blocks but no text
        assert [kind for kind, _ in there] == [kind for kind, _ in scenario.messages]
        assert missing(there, scenario.messages) is None
        assert agent.open_turn is None


@pytest.mark.parametrize("wire", [w for w in ALL if w.provider.startswith("gemini")], ids=lambda wire: wire.provider)
def test_the_signature_of_a_call_is_sent_back_with_it(wire: Wire) -> None:
    """Without it the model forgets the reason for the call; nothing else in this answer carries a signature."""
    answers = [calls(Use("c1", "look", {"at": "a"}, signature="Q0FMTEVE")), says("It is there.")]
    with conversation(wire, TOOLS) as agent, Loopback(wire, answers) as server:
        asyncio.run(turn(agent, connect(wire, server.url), "See a.", Seen().show))
        assert server.refusals == []
        assert "Q0FMTEVE" in json.dumps(server.asked[1].body)


@every_wire
def test_a_turn_shows_its_pieces_as_they_come(wire: Wire) -> None:
    answers = [calls(Use("c1", "look", {"at": "a"}), before="I look."), says("It is ", "there.")]
    seen = Seen()
    with conversation(wire, TOOLS) as agent, Loopback(wire, answers) as server:
        asyncio.run(turn(agent, connect(wire, server.url), "See a.", seen.show))
        costs = [event.data or {} for event in events(agent) if event.kind == "usage"]
    parts = ("fresh", "cache_read", "cache_write", "output")
    assert [[cost[part] for part in parts] for cost in costs] == [[100, 40, 0, 20]] * 2
    assert seen.text == "I look.It is there."
    assert [(call.name, call.args) for call in seen.calls] == [("look", {"at": "a"})]
    assert [each for each in seen.others if isinstance(each, Usage)] == [COST] * 2


@every_wire
@pytest.mark.parametrize("first", [Fail("rate", 429, 3), Broken(())], ids=["rate", "cut"])
def test_a_repeated_request_doubles_nothing(wire: Wire, first: Fail | Broken) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    seen = Seen()
    answers: list[Answer] = [first, says("Hello.")]
    with conversation(wire) as agent, Loopback(wire, answers) as server:
        provider = RetryingProvider(connect(wire, server.url), sleep=sleep, random=lambda: 0.5)
        asyncio.run(turn(agent, provider, "Hi", seen.show))
        assert (server.refusals, len(server.asked), server.left) == ([], 2, 0)
        assert server.asked[0].body == server.asked[1].body
        assert messages(agent) == [("user", "Hi"), ("assistant", "Hello.")]
    assert seen.text == "Hello."
    assert len(waits) == 1
    assert waits[0] >= (3 if isinstance(first, Fail) else 0)
    assert [each.seconds for each in seen.others if isinstance(each, Waiting)] == waits


@every_wire
def test_a_failure_ends_the_turn_and_keeps_what_was_said(wire: Wire) -> None:
    answers: list[Answer] = [calls(Use("c1", "look", {"at": "a"})), Broken(PART), says("Hello.")]
    with conversation(wire, TOOLS) as agent, Loopback(wire, answers) as server:
        provider = connect(wire, server.url)

        async def talk() -> None:
            with pytest.raises(ProviderError) as caught:
                await turn(agent, provider, "See a.", Seen().show)
            assert caught.value.kind == "network"
            assert agent.open_turn is None
            await turn(agent, provider, "Again?", Seen().show)

        asyncio.run(talk())
        assert server.refusals == []
        texts = wire.texts(server.asked[2].body)
        wanted = (("user", "See a."), ("call", "look"), ("result", "seen a"), ("assistant", "It began"))
        assert missing(texts, (*wanted, ("user", "Again?"))) is None
        assert [text for kind, text in messages(agent) if kind == "assistant"] == ["It began", "Hello."]
        assert [m.interrupted for m in agent.context().messages if m.kind == "assistant"] == [True, False]


@every_wire
def test_too_long_is_asked_again_with_less(wire: Wire) -> None:
    with conversation(wire) as agent:
        for number in range(20):
            agent.append("user", f"Question {number}. " + "words " * 300)
            agent.append("assistant", f"Answer {number}.")
            agent.end_turn()
        with Loopback(wire, [Fail("overflow", tokens=10_000, limit=5_000), says("Hello.")]) as server:
            asyncio.run(turn(agent, connect(wire, server.url), "And now?", Seen().show))
            assert server.refusals == []
            first, second = (json.dumps(each.body) for each in server.asked)
        assert len(second) < len(first)
        assert "Question 0." in first
        assert "Question 0." not in second
        assert "And now?" in second
        assert messages(agent)[-1] == ("assistant", "Hello.")


# Clients that leave during an answer


async def _until_text(answer: Any, wanted: str) -> None:
    text = ""
    async for piece in answer:
        text += piece if isinstance(piece, str) else ""
        if text == wanted:
            return


@pytest.mark.usefixtures("collected")
@every_wire
def test_closing_the_answer_ends_the_request(wire: Wire) -> None:
    with Loopback(wire, [Stalled(PART)]) as server:

        async def leave() -> None:
            async with aclosing(connect(wire, server.url).answer(request_of(wire))) as answer:
                await _until_text(answer, "It began")
                assert not server.gone.is_set()
            assert await asyncio.to_thread(server.gone.wait, LIMIT)

        asyncio.run(leave())


@pytest.mark.usefixtures("collected")
@every_wire
def test_cancelling_ends_the_request(wire: Wire) -> None:
    with Loopback(wire, [Stalled(PART)]) as server:

        async def leave() -> None:
            begun = asyncio.Event()

            async def hear() -> None:
                async with aclosing(connect(wire, server.url).answer(request_of(wire))) as answer:
                    await _until_text(answer, "It began")
                    begun.set()
                    await _until_text(answer, "which never comes")

            task = asyncio.create_task(hear())
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await asyncio.to_thread(server.gone.wait, LIMIT)

        asyncio.run(leave())


@pytest.mark.usefixtures("collected")
@every_wire
def test_cancelling_a_turn_keeps_what_was_said(wire: Wire) -> None:
    with conversation(wire) as agent, Loopback(wire, [Stalled(PART), says("Hello.")]) as server:
        seen = Seen()

        async def leave() -> None:
            provider = connect(wire, server.url)
            task = asyncio.create_task(turn(agent, provider, "Hi", seen.show))
            while seen.text != "It began":
                await asyncio.sleep(0.001)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await asyncio.to_thread(server.gone.wait, LIMIT)
            await turn(agent, provider, "Again.", seen.show)

        asyncio.run(leave())
        assert server.refusals == []
        assert [text for _, text in messages(agent)] == ["Hi", "It began", "Again.", "Hello."]
        assert [m.interrupted for m in agent.context().messages] == [False, True, False, False]
