"""Changes of settings and of the scratchpad, and restores of them in any order (SPEC 3, L5; SPEC 4)."""

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import foldmark
from foldmark import CommandError
from foldmark.log.doctor import examine
from sampled import DEEP

LINES = [
    "/context window 1",
    "/context window 2",
    "/context window 3",
    "/context budget 3000",
    "/config set context_size=3 truncation=off",
    "/system edit Be brief.",
    "/system clear",
    "/scratchpad edit one",
    "/scratchpad edit two",
    "/scratchpad clear",
]
OTHERS = ["/mark M", "/rewind M", "/undo", "/clear"]
KEYS = ("context_size", "sliding_context_tokens", "truncation", "system", "scratchpad")
DEFAULTS: dict[str, Any] = {
    "context_size": 0,
    "sliding_context_tokens": 100_000,
    "truncation": True,
    "system": "",
    "scratchpad": "",
}

STEPS = st.lists(st.one_of(st.sampled_from(LINES), st.sampled_from(OTHERS), st.integers(0, 30)), max_size=14)


def values_of(line: str) -> dict[str, Any]:
    match line.split(" ", 2):
        case ["/context", "window", number]:
            return {"context_size": int(number)}
        case ["/context", "budget", number]:
            return {"sliding_context_tokens": int(number)}
        case ["/config", *_]:
            return {"context_size": 3, "truncation": False}
        case [name, "edit", text]:
            return {name[1:]: text}
        case [name, _]:
            return {name[1:]: ""}
    raise AssertionError(line)


def counted(done: list[tuple[int, dict[str, Any] | int]]) -> dict[str, Any]:
    """Return the values: those of the changes that were not taken back, in their order. The naive definition."""
    found = dict(DEFAULTS)
    for event_id, what in done:
        if isinstance(what, dict) and event_id not in taken(done):
            found |= what
    return found


@settings(max_examples=1500 if DEEP else 25, deadline=None)
@given(STEPS)
@example(["/context window 1", "/context window 2", 0, 1, 2, 3])
@example(["/context window 3", "/config set context_size=3 truncation=off", 0])
@example(["/scratchpad edit one", "/mark M", "/scratchpad edit two", 1, "/rewind M", 0, 2])
def test_a_change_that_was_taken_back_counts_as_if_it_had_never_been_made(steps: list[str | int]) -> None:
    done: list[tuple[int, dict[str, Any] | int]] = []
    with foldmark.open(":memory:", settings={}) as log:
        agent = log.agent("default")
        for number, step in enumerate(steps):
            before = counted(done)
            if isinstance(step, int):
                if not done:
                    continue
                target = done[step % len(done)][0]
                if target in taken(done):
                    with pytest.raises(CommandError, match="already taken back"):
                        agent.do(f"/restore {target}")
                    continue
                result = agent.do(f"/restore {target}")
                assert result.event_id is not None
                done.append((result.event_id, target))
            elif step in OTHERS:
                agent.append("user", f"question {number}")
                agent.end_turn()
                try:
                    agent.do(step)
                except CommandError:
                    continue
            else:
                result = agent.do(step)
                changes = {**before, **values_of(step)} != before
                # A setting may be recorded for this agent, although its default is the same.
                assert result.event_id is not None or not changes
                if result.event_id is not None:
                    done.append((result.event_id, values_of(step)))
                    assert result.data["back"] == f"/restore {result.event_id}"
                else:
                    assert result.text.startswith("Nothing was changed")
            at = agent.standing()
            now = {key: getattr(at.config, key) for key in KEYS if key != "scratchpad"}
            assert {**now, "scratchpad": at.scratchpad or ""} == counted(done)
        rows = agent.do("/operations 100").data["operations"]
        listed = {row["id"]: row["in_force"] for row in rows if row["operation"] in ("config", "scratchpad")}
        assert listed == {event_id: event_id not in taken(done) for event_id, _ in done}
        assert list(examine(log)) == []


def taken(done: list[tuple[int, dict[str, Any] | int]]) -> set[int]:
    back: set[int] = set()
    for event_id, what in reversed(done):
        if isinstance(what, int) and event_id not in back:
            back.add(what)
    return back
