"""The model of a provider's prompt cache: tokens billed as fresh, as written and as read [SPEC 5.3]."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from caches import Sent, blocks
from foldmark.core.assembly import media
from foldmark.core.assembly.caching import Bill, Rules

ANTHROPIC = Rules(100, look=20)
OLDER = Rules(1024, step=128)
NEWER = Rules(100, last=True, lifetime=1800.0)

MARK: dict[str, Any] = {"cache_control": {"type": "ephemeral"}}


def text(length: int, letter: str = "x", **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": letter * length, **more}


def body(*parts: dict[str, Any], system: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    """Return an Anthropic request of one user message with these parts."""
    return {"model": "m", "system": system or [], "messages": [{"role": "user", "content": list(parts)}]}


def chat(*texts: str) -> dict[str, Any]:
    """Return an OpenAI request of user messages."""
    return {"model": "m", "messages": [{"role": "user", "content": each} for each in texts]}


def bills(rules: Rules, dialect: str, *bodies: dict[str, Any], tokens: int = 1000) -> list[Bill]:
    """Return the bills of requests sent one second apart."""
    sent = Sent(rules)
    return [sent.bill(dialect, each, tokens, float(second)) for second, each in enumerate(bodies)]


# The order of a request


def test_anthropic_reads_tools_then_system_then_messages() -> None:
    request = {
        "model": "m",
        "max_tokens": 10,
        "system": [text(1, "s", **MARK), text(1, "t")],
        "tools": [{"name": "read_file", "input_schema": {}}],
        "messages": [
            {"role": "user", "content": "hello"},
            {"role": "assistant", "content": [text(1, "a"), {"type": "tool_use", "id": "c", "name": "f", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "r", **MARK}]},
        ],
    }
    found = blocks("anthropic", request)
    assert [block.data.split(b"{")[0] for block in found] == [
        b"tools",
        b"system",
        b"system",
        b"user",
        b"assistant",
        b"assistant",
        b"user",
    ]
    assert [block.marked for block in found] == [False, True, False, False, False, False, True]
    assert [block.kind for block in found][-2:] == ["tool_use", "tool_result"]
    assert not any(b"cache_control" in block.data for block in found)


def test_a_breakpoint_for_the_whole_request_is_on_its_last_block() -> None:
    assert [block.marked for block in blocks("anthropic", {**body(text(1), text(2)), **MARK})] == [False, True]


def test_openai_reads_tools_first_in_either_of_its_forms() -> None:
    tool = {"type": "function", "function": {"name": "f"}}
    completions = {"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "U"}], "tools": [tool]}
    responses = {"input": [{"role": "user", "content": "U"}], "instructions": "S", "tools": [tool]}
    for request in (completions, responses):
        order = [block.data for block in blocks("openai", request)]
        assert [b"function" in order[0], b"S" in order[1], b"U" in order[2]] == [True, True, True]


def test_parts_of_an_openai_message_can_be_marked() -> None:
    parts = [
        {"type": "text", "text": "a", "prompt_cache_breakpoint": {"mode": "explicit"}},
        {"type": "text", "text": "b"},
    ]
    found = blocks("openai", {"messages": [{"role": "user", "content": parts}]})
    assert [block.marked for block in found] == [True, False]


@pytest.mark.parametrize("wrapped", [False, True])
def test_geminis_wrapping_does_not_change_the_blocks(wrapped: bool) -> None:
    request: dict[str, Any] = {
        "contents": [{"role": "user", "parts": [{"text": "U"}, {"text": "V"}]}],
        "tools": [{"functionDeclarations": []}],
        "systemInstruction": {"parts": [{"text": "S"}]},
    }
    found = blocks("gemini_gca" if wrapped else "gemini", {"request": request} if wrapped else request)
    assert [block.data[:4] for block in found] == [b"syst", b"tool", b"user", b"user"]


def test_an_image_counts_by_its_estimate_and_differs_from_another() -> None:
    def image(letter: str) -> dict[str, Any]:
        source = {"type": "base64", "media_type": "image/png", "data": letter * 400_000}
        return {"type": "image", "source": source}

    one, other = (blocks("anthropic", body(image(letter)))[0].data for letter in "ab")
    assert len(one) == len(other) < media.TOKENS * 5
    assert one != other


# Marked beginnings


def test_the_next_request_reads_what_the_last_one_wrote() -> None:
    first = body(text(3000, **MARK))
    second = body(text(3000), text(1000, "y", **MARK))
    third = body(text(3000), text(1000, "y"), text(1000, "z"))
    one, two, three = bills(ANTHROPIC, "anthropic", first, second, third)
    assert one == Bill(0, 1000, 0)
    assert two.read > 700
    assert two == Bill(0, 1000 - two.read, two.read)
    # Without a breakpoint, nothing is looked up.
    assert three == Bill(1000, 0, 0)


def test_one_changed_byte_costs_everything_after_it() -> None:
    def request(letter: str) -> dict[str, Any]:
        return body(text(3000), text(1, letter), text(3000, **MARK), system=[text(3000, "s", **MARK)])

    one, two = bills(ANTHROPIC, "anthropic", request("a"), request("b"))
    assert one.write == 1000
    assert 300 < two.read < 340
    assert (two.fresh, two.write) == (0, 1000 - two.read)


def test_twenty_places_are_checked_including_the_breakpoint() -> None:
    start = [text(3000)]
    for added, hit in ((19, True), (20, False)):
        longer = [*start, *(text(10, str(number)) for number in range(added))]
        longer[-1] = {**longer[-1], **MARK}
        _, two = bills(ANTHROPIC, "anthropic", body({**start[0], **MARK}), body(*longer))
        assert bool(two.read) is hit, added


def test_consecutive_calls_are_one_place_and_so_are_results() -> None:
    calls = [{"type": "tool_use", "id": f"c{number}", "name": "f", "input": {}} for number in range(15)]
    results = [{"type": "tool_result", "tool_use_id": call["id"], "content": "r"} for call in calls]
    results[-1] = {**results[-1], **MARK}
    second = body(text(3000))
    second["messages"] += [{"role": "assistant", "content": calls}, {"role": "user", "content": results}]
    _, two = bills(ANTHROPIC, "anthropic", body(text(3000, **MARK)), second)
    assert two.read


def test_an_earlier_breakpoint_finds_a_beginning_out_of_reach_of_the_last() -> None:
    many = [text(10, "m", number=number) for number in range(40)]
    _, two = bills(
        ANTHROPIC,
        "anthropic",
        body(text(3000, **MARK)),
        body(text(3000, **MARK), *many[:-1], {**many[-1], **MARK}),
    )
    assert two.read


def test_only_the_last_four_breakpoints_count() -> None:
    parts = [text(3000, letter) for letter in "abcde"]
    marked = [{**part, **MARK} for part in parts]
    _, two = bills(ANTHROPIC, "anthropic", body(*marked), body(marked[0], text(10)))
    assert two.read == 0
    _, two = bills(ANTHROPIC, "anthropic", body(*marked), body(*marked[:2], text(10)))
    assert two.read


def test_a_beginning_that_is_too_short_is_not_kept() -> None:
    request = body(text(300, **MARK), text(3000))
    one, two = bills(ANTHROPIC, "anthropic", request, request)
    assert one == two == Bill(1000, 0, 0)
    longer = body(text(3000, **MARK), text(300))
    one, two = bills(ANTHROPIC, "anthropic", longer, longer)
    assert (one.read, two.write) == (0, 0)
    assert one.write == two.read > 0


def test_an_entry_lives_five_minutes_after_its_last_use() -> None:
    cache, request = Sent(ANTHROPIC), body(text(3000, **MARK))
    at = [0.0, 300.0, 600.0, 901.0]
    assert [bool(cache.bill("anthropic", request, 1000, now).read) for now in at] == [False, True, True, False]


def test_newer_openai_models_keep_the_end_at_any_distance() -> None:
    long = [f"message {number}" * 10 for number in range(100)]
    _, two, three = bills(NEWER, "openai", chat(long[0] * 5), chat(long[0] * 5, *long), chat("other", *long))
    assert two.read
    assert two.fresh == 0
    assert three == Bill(0, 1000, 0)


def test_newer_openai_models_keep_nothing_before_a_changing_end() -> None:
    stable = "s" * 4000
    _, two = bills(NEWER, "openai", chat(stable, "a"), chat(stable, "b"))
    assert two == Bill(0, 1000, 0)


# Stepped beginnings


def test_older_openai_models_keep_every_128_tokens_from_1024_on_and_charge_no_write() -> None:
    def asked(shared: int) -> Bill:
        first, second = chat("s" * shared + "a" * 8000), chat("s" * shared + "b" * 8000)
        tokens = (shared + 8035) // 4
        return bills(OLDER, "openai", first, second, tokens=tokens)[1]

    assert asked(3600).read == 0
    for shared in (4700, 5200, 9000):
        found = asked(shared)
        assert found.write == 0
        assert shared / 4 - 128 <= found.read <= shared / 4 + 10


def test_a_system_field_is_read_up_to_a_change_at_its_end() -> None:
    _, two = bills(
        OLDER,
        "openai",
        chat("s" * 8000 + "old state", "u" * 8000),
        chat("s" * 8000 + "new", "u" * 8000),
        tokens=4000,
    )
    assert 1800 < two.read < 2010


# Laws


def pieces() -> st.SearchStrategy[list[dict[str, Any]]]:
    piece = st.tuples(st.sampled_from("abc"), st.integers(1, 400), st.booleans())
    return st.lists(piece.map(lambda p: text(p[1], p[0], **(MARK if p[2] else {}))), max_size=8)


@given(
    requests=st.lists(st.tuples(pieces(), st.integers(0, 5000), st.floats(0, 1000)), max_size=8),
    rules=st.sampled_from([None, ANTHROPIC, OLDER, NEWER, Rules(0, step=1)]),
    dialect=st.sampled_from(["anthropic", "openai"]),
)
def test_every_token_is_billed_once(
    requests: list[tuple[list[dict[str, Any]], int, float]], rules: Rules | None, dialect: str
) -> None:
    cache, now = Sent(rules), 0.0
    for parts, tokens, pause in requests:
        now += pause
        bill = cache.bill(dialect, body(*parts), tokens, now)
        assert bill.tokens == tokens
        assert min(bill) >= 0


@given(parts=pieces(), tokens=st.integers(0, 5000))
def test_the_same_request_again_writes_nothing(parts: list[dict[str, Any]], tokens: int) -> None:
    cache = Sent(ANTHROPIC)
    one, two = (cache.bill("anthropic", body(*parts), tokens, 0.0) for _ in "ab")
    assert two == Bill(one.fresh, 0, one.write)


def test_blocks_marked_for_an_hour_outlive_a_pause() -> None:
    """Writing costs 1.6 times as much, and the blocks survive a pause that others do not."""
    hour: dict[str, Any] = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
    for mark, kept in ((MARK, False), (hour, True)):
        cache, asked = Sent(ANTHROPIC), body(text(100, **mark))
        first, again = cache.bill("anthropic", asked, 1000, 0.0), cache.bill("anthropic", asked, 1000, 3600.0)
        assert first == Bill(0, 1000, 0, 1000 if kept else 0)
        assert first.written == (1600 if kept else 1000)
        assert again.read == (1000 if kept else 0)
        assert cache.bill("anthropic", asked, 1000, 7201.0).read == 0
