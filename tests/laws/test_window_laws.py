"""Laws of the window and of requests (SPEC 5.3, 5.4) on random conversations.

Only the log and the settings determine the request. Its tokens follow from its bytes. The cut is maximal. The low-water
cut never goes back, seldom moves, and keeps the beginning of the request as it was. No message takes more than its
weight. `FOLDMARK_DEEP=1` runs more of everything.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from math import ceil
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import foldmark
from foldmark import Agent, CommandError, Log
from foldmark.core.assembly.media import Accepts
from foldmark.core.assembly.plan import NEAR, sent_weight
from foldmark.core.assembly.window import Units
from foldmark.core.config import Config
from foldmark.core.request import Request, ToolSpec
from foldmark.providers.registry import dialect_of
from foldmark.request.prepare import prepare
from foldmark.request.recorded import SentPlan
from foldmark.request.standing import Standing
from foldmark.tokens.counting import uncalibrated
from sampled import DEEP, sampled
from stored import stored

MODELS = {
    "anthropic": "claude-sonnet-4-5",
    "openai": "gpt-5",
    "openai_responses": "gpt-5",
    "gemini": "gemini-3-pro-preview",
    "gemini_gca": "gemini-2.5-pro",
    "ollama": "deepseek-reasoner",
    "offline": "offline",
}
READ = ToolSpec("read_file", "Reads a file.", {"type": "object", "properties": {"path": {"type": "string"}}})
PROVIDERS = st.sampled_from(sorted(MODELS))
SOME, FEW = settings().max_examples // 2, max(3, settings().max_examples // 6)
FOLDER = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None

CHARACTERS = ["x", "é", '"', "\n", "\x01", "😀", "\\u00e9 "]
TEXTS = st.builds(lambda char, size: char * size, st.sampled_from(CHARACTERS), st.integers(0, 700))
KINDS = [
    "user",
    "assistant",
    "cut short",
    "tool",
    "call",
    "call",
    "result",
    "result",
    "late",
    "foreign",
    "image",
    "end",
]
SAID = st.tuples(st.sampled_from([*KINDS, "end", "end"]), TEXTS, st.just(0))
DONE = st.tuples(
    st.sampled_from(["pin", "forget", "drop", "mark", "rewind", "system", "pad", "state"]),
    st.just(""),
    st.integers(0, 30),
)
STEPS = st.lists(st.one_of(SAID, SAID, SAID, DONE), min_size=1, max_size=50)
CONFIGS = st.builds(
    Config,
    context_policy=st.just("eager"),
    system=st.sampled_from(["", "Be brief.", "Answer in verse. " * 40]),
    sliding_context_tokens=st.integers(1, 4000),
    context_size=st.sampled_from([0, 0, 0, 1, 4]),
    truncate_recent=st.sampled_from([5000, 5]),
    truncate_inactive=st.sampled_from([300, 0, 40]),
    truncate_shape=st.sampled_from(["head", "head-tail"]),
    truncation=st.booleans(),
    isolation=st.booleans(),
)
WATERS = st.sampled_from(
    [{}, {}, *({"context_policy": "steady", "sliding_context_low_water": low} for low in (1.0, 0.5, 0.01))]
)
PLAN = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0xLjQK"}}
PNG = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}


def play(agent: Agent, steps: list[tuple[str, str, int]], *, images: bool = False) -> None:
    """Play the drawn steps; refused ones are skipped."""
    asked: list[str] = []
    for number, (kind, text, pick) in enumerate(steps):
        with suppress(CommandError):
            step(agent, asked, number, kind, text, pick, images=images)


def step(agent: Agent, asked: list[str], number: int, kind: str, text: str, pick: int, *, images: bool) -> None:
    """Play one step; `asked` holds the call ids so far."""
    turns = sorted({m.turn_id for m in agent.context().messages if m.turn_id})
    match kind:
        case "user" | "tool" | "assistant" | "system":
            agent.append(kind, text or f"rule {number}" if kind == "system" else text)
        case "cut short":
            agent.append("user", "Go.")
            agent.append("assistant", text)
            agent.end_turn(interrupted=True)
        case "image" if images:
            agent.append("user", text, data={"blocks": [PNG, PLAN][len(text) % 2 :]})
        case "call" | "foreign":
            asked.append(f"c{number % 9}")
            dialect = ("anthropic", "openai", "gemini")[number % 3] if kind == "foreign" else None
            agent.append_tool_call("mcp.read file", {"text": text}, call_id=asked[-1], dialect=dialect)
        case "result" | "late" if asked:
            agent.append_tool_result(asked[-1 if kind == "result" else 0], text * 3)
        case "end":
            agent.end_turn()
        case "pin" | "drop" if turns:
            agent.do(f"/{'context ' * (kind == 'drop')}{kind} {turns[pick % len(turns)]}")
        case "forget" if turns:
            agent.apply_filter("forget", [m.id for m in list(agent.context().messages)[pick : pick + 3]])
        case "mark":
            agent.do("/mark")
        case "rewind" if agent.context().marks:
            agent.do("/rewind")
        case "pad":
            agent.record("scratchpad", "p" * 20 * pick)
        case "state":
            agent.record("state", f"Goal: {pick}")


def asked(log: Log, at: Standing, config: Config, provider: str, *, tools: bool = True, **more: Any) -> Request:
    with log.store.read() as moment:
        return prepare(moment, at, config, provider, MODELS[provider], tools=[READ] if tools else [], **more)


# Tokens


@given(STEPS, CONFIGS, WATERS, PROVIDERS, st.booleans(), st.sampled_from([0.0, 1.0, 2.7, 9.0]))
def test_tokens_are_the_bytes_over_the_ratio(
    steps: list[tuple[str, str, int]],
    config: Config,
    water: dict[str, Any],
    provider: str,
    tools: bool,
    measured: float,
) -> None:
    calibration = {f"{provider}/{MODELS[provider]}": measured} if measured else {}
    config = msgspec.structs.replace(config, calibration=calibration, **water)
    with foldmark.open(":memory:") as log:
        agent = log.agent("test")
        play(agent, steps)
        request = asked(log, agent.standing(), config, provider, tools=tools)
    assert request.bytes == msgspec.json.encode(request.body)
    assert request.tokens == ceil(len(request.bytes) / (measured or uncalibrated(provider, MODELS[provider])))


# The cut is maximal


def kept_pins(
    log: Log, then: Standing, pins: tuple[int, ...], config: Config, provider: str, budget: int
) -> tuple[int, ...]:
    """Return the pins that fit beside the newest turn, found by trying. The oldest leave first."""
    alone = msgspec.structs.replace(config, sliding_context_tokens=0, context_size=1)
    while pins:
        at = msgspec.structs.replace(then, fold=msgspec.structs.replace(then.fold, pins=pins))
        if asked(log, at, alone, provider).tokens <= budget:
            break
        pins = pins[1:]
    return pins


@settings(max_examples=SOME)
@given(STEPS, CONFIGS, PROVIDERS)
def test_one_more_turn_would_exceed_the_budget(
    steps: list[tuple[str, str, int]], config: Config, provider: str
) -> None:
    """Everything is measured as of the opening of the newest turn, with any number of turns and pins."""
    budget, most = config.sliding_context_tokens, config.context_size
    with foldmark.open(":memory:") as log:
        agent = log.agent("test")
        play(agent, steps)
        # No operation follows: the newest turn is untouched.
        agent.end_turn()
        opener = agent.append("user", "And now?")
        agent.append_tool_call("read_file", {}, call_id="last")
        agent.append_tool_result("last", "r" * 3000)
        agent.record("scratchpad", "p" * 3000)
        at, then = agent.standing(), agent.stood(stored(log), opener)
        request = asked(log, at, config, provider)
        messages = [m for m in agent.context().messages if m.kind != "system"]
        units: list[set[int | None]] = []
        source = Units(reversed(messages))
        while source.reach(len(units) + 1):
            units.append(set(source[len(units)].turns))
        visible = tuple(sorted({m.turn_id for m in messages if m.turn_id in at.fold.pins}))
        pins = kept_pins(log, then, visible, config, provider, budget)
        then = msgspec.structs.replace(then, fold=msgspec.structs.replace(then.fold, pins=pins))
        free = msgspec.structs.replace(config, sliding_context_tokens=0)

        def turns(count: int) -> int:
            return sum(len(unit) for unit in units[:count])

        def fits(count: int) -> bool:
            wide = msgspec.structs.replace(free, context_size=turns(count))
            return asked(log, then, wide, provider).tokens <= budget

        count = 1
        while count < len(units) and turns(count + 1) <= (most or 10**9) and fits(count + 1):
            count += 1
        edge = request.manifest.edge
        assert edge.first == source[count - 1].events[0].id
        stopped = "turns" if count < len(units) and most and turns(count + 1) > most else "budget"
        assert edge.why == (stopped if count < len(units) else None)
        assert edge.before == sum(m.id < (edge.first or 0) for m in messages)
        shown = {part.turn for part in request.manifest.parts if part.layer == "pinned" and part.turn}
        here = set().union(*units[:count])
        missing = {left.turn for left in request.manifest.left_out}
        assert shown <= set(pins) - here
        assert set(pins) - here <= shown | missing
        events = [part.event for part in request.manifest.parts if part.event is not None]
        assert len(events) == len(set(events))


# Deterministic and stateless


ASK = """
import hashlib, sys
import msgspec
import foldmark
from foldmark.request.prepare import prepare
from foldmark.core.config import Config
with foldmark.open(sys.argv[1], create=False) as log:
    for provider, model, settings in msgspec.json.decode(sys.argv[2]):
        agent = log.agent("test")
        config = msgspec.convert({**msgspec.to_builtins(agent.standing().config), **settings}, Config)
        with agent.reading() as (moment, at):
            print(hashlib.sha256(prepare(moment, at, config, provider, model).bytes).hexdigest())
"""
ASKED: list[dict[str, Any]] = [
    *({"sliding_context_tokens": budget, "context_policy": "eager"} for budget in (0, 600, 2500)),
    *({"sliding_context_tokens": 9500, "sliding_context_low_water": low} for low in (0.8, 0.5)),
]
WANTED = [
    (provider, model, settings)
    for number, (provider, model) in enumerate(MODELS.items())
    for index, settings in enumerate(ASKED)
    if DEEP or (number + index) % 3 == 0
]
"""Each model with each of these settings; by default, each model with one or two of them."""


def digests(path: str, backwards: bool = False) -> list[str]:
    """Return digests of all requests of a database; `backwards` makes the requests in reverse order."""
    found = []
    with foldmark.open(path, create=False) as log:
        agent = log.agent("test")
        for provider, model, settings in reversed(WANTED) if backwards else WANTED:
            config = msgspec.convert({**msgspec.to_builtins(agent.standing().config), **settings}, Config)
            request = prepare(stored(log), agent.standing(), config, provider, model)
            found.append(hashlib.sha256(request.bytes).hexdigest())
    return found[::-1] if backwards else found


def calibrate(agent: Agent, ratio: float) -> None:
    names = [f"{provider}/{model}" for provider, model in MODELS.items()]
    agent.record("config", data={"settings": {"calibration": dict.fromkeys(names, ratio)}})


@settings(max_examples=FEW)
@given(STEPS, st.sampled_from([None, 1.5, 6.0]))
def test_the_same_log_gives_the_same_bytes(steps: list[tuple[str, str, int]], ratio: float | None) -> None:
    """This holds after reopening, for a copy, and after any earlier requests."""
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        path, copy = f"{folder}/log.db", f"{folder}/copy.db"
        with foldmark.open(path) as log:
            agent = log.agent("test")
            with agent.batch():
                play(agent, steps, images=True)
            if ratio:
                calibrate(agent, ratio)
            before = [agent.request(provider, model).bytes for provider, model in MODELS.items()]
            first = digests(path)
            assert [agent.request(provider, model).bytes for provider, model in MODELS.items()] == before
        shutil.copy(path, copy)
        assert digests(path, backwards=True) == first
        assert digests(copy) == first


def conversation(path: str) -> None:
    """Record a long conversation with a bit of everything."""
    steps: list[tuple[str, str, int]] = []
    for number in range(40):
        steps += [("user", f"question {number} " * 9, 0), ("assistant", "I look.", 0), ("call", "é" * number, 0)]
        steps += [("result", "line\n" * 100, 0), ("assistant", "done " * number, 0), ("end", "", 0)]
        if number % 7 == 3:
            steps += [("pin", "", number), ("forget", "", number), ("state", "", number), ("pad", "", number)]
    with foldmark.open(path) as log:
        agent = log.agent("test")
        with agent.batch():
            play(agent, steps)
        calibrate(agent, 2.5)


def test_another_process_gives_the_same_bytes(tmp_path: Path) -> None:
    path = str(tmp_path / "log.db")
    conversation(path)
    said = subprocess.run(
        [sys.executable, "-c", ASK, path, msgspec.json.encode(WANTED).decode()],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "12345"},
    )
    here = digests(path)
    assert said.stdout.split() == here
    assert len(set(here)) > len(MODELS)


def test_a_calibration_moves_the_ratio(tmp_path: Path) -> None:
    path = str(tmp_path / "log.db")
    conversation(path)
    with foldmark.open(path) as log:
        agent = log.agent("test")
        agent.append("user", "Next.")
        for provider, model in sampled(list(MODELS.items()), 3):
            calibrate(agent, 2.5)
            before = agent.request(provider, model)
            calibrate(agent, 1.25)
            after = agent.request(provider, model)
            assert after.bytes == before.bytes
            assert (before.tokens, after.tokens) == (ceil(len(before.bytes) / 2.5), ceil(len(before.bytes) / 1.25))
            tight = {"sliding_context_tokens": before.tokens, "context_policy": "eager"}
            config = msgspec.structs.replace(agent.standing().config, **tight)
            narrow = prepare(stored(log), agent.standing(), config, provider, model)
            assert narrow.tokens <= before.tokens < after.tokens
            assert narrow.manifest.edge.why == "budget"


# The low-water cut


def blocks(body: dict[str, Any]) -> list[str]:
    """Return the messages of a request in pieces, each with its role, without cache marks."""
    inner = body.get("request", body)
    key = next(key for key in ("messages", "contents", "input") if key in inner)
    found = []
    for entry in inner[key]:
        if entry.get("role") == "system":
            continue
        content = entry.get("parts", entry.get("content"))
        pieces = content if isinstance(content, list) else [entry]
        for piece in pieces:
            bare = {name: value for name, value in piece.items() if name != "cache_control"}
            found.append(f"{entry.get('role')} {msgspec.json.encode(bare).decode()}")
    return found


def settled(request: Request, marker: str) -> list[str]:
    """Return the pieces before the newest turn, whose opening text contains `marker`, and before the state and the
    scratchpad that precede it."""
    found = blocks(request.body)
    end = next(index for index, piece in enumerate(found) if marker in piece)
    while end and ("### STATE" in found[end - 1] or "### SCRATCHPAD" in found[end - 1]):
        end -= 1
    return found[:end]


BUDGET = 24_000
TURN = st.tuples(
    st.integers(0, 1200),
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 2000)), max_size=2),
    st.sampled_from(CHARACTERS[:4]),
    st.integers(0, 800),
)


@settings(max_examples=FEW)
@given(st.lists(TURN, min_size=20, max_size=60), st.sampled_from([0.5, 0.75, 0.95]), PROVIDERS)
def test_between_steps_the_window_stays_and_the_budget_holds(
    turns: list[tuple[int, list[tuple[int, int]], str, int]], low: float, provider: str
) -> None:
    """A step leaves at most low water, or everything that cannot leave: the newest turn."""
    config = Config(sliding_context_tokens=BUDGET, sliding_context_low_water=low, system="Be brief.")
    dialect, before = dialect_of(provider).recorded, list[SentPlan]()
    previous: tuple[int | None, list[str]] = (None, [])
    with foldmark.open(":memory:") as log:
        agent = log.agent("test")

        def look() -> None:
            nonlocal previous
            request = asked(log, agent.standing(), config, provider, before=lambda *_: before[-1] if before else None)
            first, plan = request.manifest.edge.first, request.manifest.plan
            mine = settled(request, marker)
            assert request.tokens <= BUDGET
            if before and plan.settled == before[-1].plan.settled:
                assert first == previous[0]
                assert mine[: len(previous[1])] == previous[1]
            elif before:
                alone = {part.turn for part in request.manifest.parts if part.layer == "window"} == {agent.open_turn}
                assert request.tokens <= low / NEAR * BUDGET or alone
            previous = first, mine
            before.append(SentPlan(plan, agent.standing().newest, agent.id))

        for number, (asked_for, calls, char, answered) in enumerate(turns):
            marker = f"<turn {number}>"
            agent.append("user", marker + char * asked_for)
            look()
            agent.append("assistant", "I look.")
            for nth, (size, result) in enumerate(calls):
                call_id = f"call-{number}-{nth}"
                agent.append_tool_call("read_file", {"path": char * size}, call_id=call_id, dialect=dialect)
                agent.append_tool_result(call_id, char * result, dialect=dialect)
            agent.record("scratchpad", f"notes {number}")
            agent.record("state", f"Goal: {number}")
            look()
            agent.append("assistant", char * answered or "Done.")
            agent.end_turn()


# Parts and the whole


FREE = Config(sliding_context_tokens=0, context_policy="eager", isolation=False)
ANY = Accepts(recorded="openai")


def weighed(log: Log, agent: Agent) -> int:
    """Return the estimated bytes of all messages in turns that are over."""
    messages = stored(log).select(agent.context().segments)
    return sum(sent_weight(event, FREE, ANY, FREE.truncate_inactive, False, thoughts=False) for event in messages)


@given(STEPS, PROVIDERS)
def test_messages_use_no_more_than_their_weights(steps: list[tuple[str, str, int]], provider: str) -> None:
    """Weights assume turns that are over, in any dialect, so a window chosen by weights fits."""
    with foldmark.open(":memory:") as log:
        agent = log.agent("test")
        empty = len(asked(log, agent.standing(), FREE, provider).bytes)
        play(agent, [each for each in steps if each[0] not in ("state", "pad", "system")], images=True)
        agent.end_turn()
        agent.append("user", "Now.")
        request = asked(log, agent.standing(), FREE, provider)
        assert request.size <= empty + weighed(log, agent) + AROUND


AROUND = 400
"""Bytes of the messages that stand in for others, and of cache marks."""


@pytest.mark.parametrize("provider", MODELS)
def test_a_weight_is_not_far_above_what_a_message_takes(provider: str) -> None:
    with foldmark.open(":memory:") as log:
        agent = log.agent("test")
        empty = len(asked(log, agent.standing(), FREE, provider).bytes)
        for number in range(20):
            agent.append("user", "What about this, and why does it fail where the other one does not? " * 3)
            agent.append_tool_call("read_file", {"path": "src/parser.py"}, call_id=f"toolu_01{number:022}")
            agent.append_tool_result(f"toolu_01{number:022}", "def parse(line):\n    return line.split()\n" * 30)
            agent.append("assistant", "It fails since the line is read twice; the second time it is empty. " * 6)
            agent.end_turn()
        agent.append("user", "Now.")
        taken = asked(log, agent.standing(), FREE, provider).size - empty
        assert 0.75 * weighed(log, agent) < taken < weighed(log, agent) + AROUND
