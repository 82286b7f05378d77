"""Isolation, pairing repair and truncation, rule by rule [S2, SPEC 5.2]."""

from __future__ import annotations

import re
import unicodedata

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_logs import DIALECTS, GIF, JPEG, NO_IMAGES, PNG, REDACTED, THINKING, call, image, logs, message, result

from foldmark.core.assembly import wire
from foldmark.core.assembly.media import LARGEST
from foldmark.core.assembly.view import (
    HIDDEN_RESULT,
    Calls,
    View,
    ViewMessage,
    active_from,
    isolate,
    pair,
    view,
)
from foldmark.core.assembly.wire import HINT, INTERRUPTED, NO_OUTPUT, NO_RESULT, TOOL_MESSAGE, after, before, shorten
from foldmark.core.config import Config
from foldmark.core.events import Event
from foldmark.core.turns import Message, exchange_of
from foldmark.dialects.dialect import dialect_named
from foldmark.dialects.openai.chat import CHAT

WHOLE = Config(truncation=False)


def shown(*events: Event, dialect: str = "openai", config: Config = WHOLE, window: int = 0) -> View:
    return view(events, dialect_named(dialect), config, window)


def left(made: View) -> dict[int, str]:
    return {each.event: each.why for each in made.left_out}


def calls_of(made: View) -> list[list[tuple[str, str]]]:
    return [[(used.call_id, used.result) for used in step.calls] for step in made.steps if isinstance(step, Calls)]


# Isolation


@pytest.mark.parametrize(
    ("written", "active", "seen"),
    [
        ("openai", "openai", True),
        ("openai", "anthropic", False),
        ("anthropic", "gemini", False),
        ("gemini", "gemini_gca", True),
        ("gemini_gca", "gemini", True),
        ("gemini", "openai", False),
        (None, "anthropic", True),
    ],
)
def test_tools_are_seen_in_their_own_dialect(written: str | None, active: str, seen: bool) -> None:
    events = [message(1, "user"), call(2, dialect=written), result(3, 2, dialect=written)]
    events.append(message(4, "tool", "note", dialect=written))
    made = shown(*events, dialect=active)
    assert left(made) == ({} if seen else dict.fromkeys((2, 3, 4), "isolation"))
    assert len(made.steps) == (3 if seen else 1)


@pytest.mark.parametrize("kind", ["user", "assistant", "summary"])
def test_text_crosses_dialects(kind: str) -> None:
    assert shown(message(1, kind, dialect="anthropic"), dialect="openai").left_out == ()


def test_a_result_of_another_dialect_is_listed_as_such() -> None:
    made = shown(message(1, "user"), call(2, dialect="openai"), result(3, 2, dialect="anthropic"))
    assert calls_of(made) == [[("c1", HIDDEN_RESULT)]]
    assert left(made) == {3: "isolation"}
    assert "another dialect" in made.parts[-1].detail


def test_a_result_of_a_hidden_call_is_left_out() -> None:
    made = shown(call(2, dialect="anthropic"), result(3, 2))
    assert (made.steps, left(made)) == ((), {2: "isolation", 3: "pairing"})


def test_a_tool_message_is_sent_as_user_text() -> None:
    made = shown(message(1, "tool", "note"))
    assert made.steps == (ViewMessage("user", TOOL_MESSAGE + "note"),)
    assert (made.parts[0].kind, made.parts[0].event) == ("tool", 1)
    assert "user" in made.parts[0].detail


@pytest.mark.parametrize("blank", ["", " ", "\n\t\u2028"])
@pytest.mark.parametrize("kind", ["user", "assistant", "summary", "tool"])
def test_messages_without_text_are_left_out(kind: str, blank: str) -> None:
    made = shown(message(1, "user", "a"), message(2, kind, blank))
    assert (made.steps, left(made)) == ((ViewMessage("user", "a"),), {2: "empty"})


# Pairing


def test_adjacent_calls_are_sent_with_the_text_before_them() -> None:
    made = shown(message(1, "assistant", "I look."), call(2), call(3, "c2"), result(4, 3, "B"), result(5, 2, "A"))
    (step,) = made.steps
    assert isinstance(step, Calls)
    assert (step.text, calls_of(made)) == ("I look.", [[("c1", "A"), ("c2", "B")]])
    assert [part.event for part in made.parts] == [1, 2, 3, 5, 4]


def test_consecutive_calls_stay_two_exchanges() -> None:
    made = shown(call(2), result(3, 2, "A"), call(4, "c2"), result(5, 4, "B"))
    assert calls_of(made) == [[("c1", "A")], [("c2", "B")]]


def test_text_of_another_turn_or_a_summary_is_not_joined_to_calls() -> None:
    made = shown(
        message(1, "assistant", "Done."), call(2, turn=2), message(3, "summary", "All.", 3), call(4, "c2", turn=2)
    )
    assert [type(step) for step in made.steps] == [ViewMessage, Calls, ViewMessage, Calls]


def test_calls_of_two_turns_are_not_joined() -> None:
    assert calls_of(shown(call(1), call(2, "c2", turn=2))) == [[("c1", NO_RESULT)], [("c2", NO_RESULT)]]


def test_a_late_result_is_moved_to_its_call() -> None:
    made = shown(call(1), message(2, "user", "Well?", 2), result(3, 1, "late", 2))
    assert calls_of(made) == [[("c1", "late")]]
    assert made.steps[1:] == (ViewMessage("user", "Well?"),)
    assert made.left_out == ()


def test_a_call_without_a_result_gets_a_synthetic_one_that_says_so() -> None:
    made = shown(call(1), message(2, "user", "Well?", 2))
    (step, _) = made.steps
    assert isinstance(step, Calls)
    assert (step.calls[0].result, step.calls[0].failed) == (NO_RESULT, True)
    assert [(part.event, part.how, part.kind) for part in made.parts[:2]] == [
        (1, "whole", "tool_call"),
        (None, "synthetic", "tool_result"),
    ]


def test_results_without_a_call_and_second_results_are_left_out() -> None:
    made = shown(call(1), result(2, 1, "first"), result(3, 1, "second"), result(4, None), result(5, 99))
    assert calls_of(made) == [[("c1", "first")]]
    assert left(made) == dict.fromkeys((3, 4, 5), "pairing")


def test_left_out_messages_do_not_split_an_exchange() -> None:
    made = shown(message(1, "assistant", "I look."), result(2, 99), call(3), result(4, 98), call(5, "c2"))
    assert [len(step.calls) for step in made.steps if isinstance(step, Calls)] == [2]


def test_interrupted_answers_are_marked() -> None:
    made = shown(message(1, "assistant", "I was", interrupted=True), message(2, "user", "x", interrupted=True))
    assert made.steps == (ViewMessage("assistant", "I was" + INTERRUPTED), ViewMessage("user", "x"))
    assert [part.how for part in made.parts] == ["interrupted", "whole"]


def test_an_empty_result_is_sent_as_no_output() -> None:
    made = shown(call(1), result(2, 1, " \n"))
    assert calls_of(made) == [[("c1", NO_OUTPUT)]]
    assert "empty" in made.parts[-1].detail


def test_a_repeated_call_id_is_renamed_in_the_call_and_its_result() -> None:
    made = shown(call(1), result(2, 1, "A"), call(3), result(4, 3, "B"), call(5), result(6, 5, "C"))
    ((first, _),), ((second, _),), ((third, _),) = calls_of(made)
    assert first == "c1"
    assert len({first, second, third}) == 3
    assert calls_of(made) == calls_of(
        shown(call(1), result(2, 1, "A"), call(3), result(4, 3, "B"), call(5), result(6, 5, "C"))
    )
    assert f"call id sent as {second}" in made.parts[2].detail


@pytest.mark.parametrize("odd", ["", "a b", "call:1", "é", "x" * 41, "c1\n"])
def test_call_ids_that_no_provider_accepts_are_replaced(odd: str) -> None:
    (sent,) = wire.call_ids([odd])
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,40}", sent)
    assert sent == wire.call_ids(["other", odd])[1]


@given(st.lists(st.sampled_from(["a", "b", "", "é", wire.call_ids([""])[0], wire.call_ids(["a", "a"])[1]])))
def test_call_ids_are_unique_and_valid_ones_stay(own: list[str]) -> None:
    sent = wire.call_ids(own)
    assert len(set(sent)) == len(sent) == len(own)
    assert all(sent[own.index(good)] == good for good in ("a", "b") if good in own)


@pytest.mark.parametrize("odd", ["", "9a", "-a", "a.b", "ä", "n" * 65, "a\n"])
def test_tool_names_that_no_provider_accepts_are_replaced(odd: str) -> None:
    sent = wire.tool_name(odd)
    assert re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]{0,63}", sent)
    assert sent != wire.tool_name(odd + "!")
    assert wire.tool_name("n" * 64) == "n" * 64


@pytest.mark.parametrize(
    ("args", "sent"),
    [
        ('{"a":1}', {"a": 1}),
        ("[1,2]", {"value": [1, 2]}),
        ("null", {"value": None}),
        ('"x"', {"value": "x"}),
        ("{broken", {"value": "{broken"}),
        ("", {"value": ""}),
        ('{"n":123456789012345678901234567890}', {"n": 123456789012345678901234567890}),
    ],
)
def test_arguments_are_an_object(args: str, sent: object) -> None:
    assert msgspec.json.decode(wire.arguments(args)) == sent
    made = shown(call(1, args=args))
    assert ("wrapped" in made.parts[0].detail) == (wire.arguments(args) != args)


def test_arguments_that_are_nested_too_deeply_are_sent_as_text() -> None:
    fine = "[" * (wire.DEEPEST - 1) + "]" * (wire.DEEPEST - 1)
    assert wire.arguments(f'{{"a":{fine}}}') == f'{{"a":{fine}}}'
    for levels in (wire.DEEPEST, 100_000):
        deep = '{"a":' + "[" * levels + "]" * levels + "}"
        assert msgspec.json.decode(wire.arguments(deep)) == {"value": deep}


@given(logs())
def test_isolation_and_pairing_lose_nothing(events: list[Event]) -> None:
    kept, isolated = isolate(events, CHAT)
    groups, unpaired = pair(kept)
    found = [each.event for each in (*isolated, *unpaired)]
    for group in groups:
        if isinstance(group, Event):
            found.append(group.id)
        else:
            found += [group.text.id] if group.text else []
            found += [event.id for both in group.calls for event in both if event is not None]
    assert sorted(found) == [event.id for event in events]


# Images


def images_of(made: View) -> list[list[str]]:
    """Return the media type or URL of each image, step by step; for calls, the images of their results."""
    found = []
    for step in made.steps:
        held = [i for used in step.calls for i in used.media] if isinstance(step, Calls) else step.media
        found.append([getattr(each, "url", "") or getattr(each, "media", "") for each in held])
    return found


def details(made: View) -> dict[int, str]:
    return {part.event: part.detail for part in made.parts if part.event is not None}


@pytest.mark.parametrize("dialect", ["anthropic", "openai", "gemini", "gemini_gca"])
def test_user_images_are_always_sent_and_in_every_dialect(dialect: str) -> None:
    events = [message(1, "user", "Look.", blocks=[image(), image(JPEG)], dialect="openai"), message(2, "user", turn=2)]
    made = shown(*events, dialect=dialect, config=Config())
    assert images_of(made) == [[PNG, JPEG], []]
    assert details(made) == {1: "with 2 images", 2: ""}


@pytest.mark.parametrize(("dialect", "sent"), [("openai", [PNG, GIF]), ("gemini", [PNG]), ("gemini_gca", [PNG])])
def test_gemini_gets_no_gif(dialect: str, sent: list[str]) -> None:
    made = shown(message(1, "user", "Look.", blocks=[image(), image(GIF)]), dialect=dialect)
    assert images_of(made) == [sent]
    assert ("without 1 block that cannot be sent" in details(made)[1]) == (len(sent) == 1)
    alone = shown(message(1, "user", "", blocks=[image(GIF)]), dialect="gemini")
    assert (alone.steps, alone.left_out[0].detail) == ((), "without 1 block that cannot be sent")


@pytest.mark.parametrize("truncation", [True, False])
def test_result_images_leave_when_their_turn_ends_if_truncation_is_on(truncation: bool) -> None:
    events = [
        message(1, "user"),
        call(2),
        result(3, 2, blocks=[image()]),
        call(4, "c2"),
        result(5, 4, "", blocks=[image()]),
    ]
    config = Config(truncation=truncation)
    assert images_of(shown(*events, config=config)) == [[], [PNG], [PNG]]
    over = shown(*events, message(9, "user", turn=9), config=config)
    assert images_of(over) == [[], [], [], []] if truncation else [[], [PNG], [PNG], []]
    texts = [text for ((_, text),) in calls_of(over)]
    said = "1 image not sent: the turn is over" if truncation else "with 1 image"
    assert [text.lower() for text in texts] == ["done", f"[{said}.]"]
    assert (details(over)[3], details(over)[5]) == (said, said)


def test_the_images_of_a_pinned_result_are_not_sent() -> None:
    events = [
        message(1, "user", blocks=[image()]),
        call(2),
        result(3, 2, blocks=[image()]),
        message(9, "summary", turn=9),
    ]
    assert images_of(shown(*events, config=Config(), window=9)) == [[PNG], [], []]
    assert images_of(shown(*events, config=WHOLE, window=9)) == [[PNG], [PNG], []]


@pytest.mark.parametrize("blocks", [*([each] for each in NO_IMAGES), "x", {}, 7, [7], [None, [image()]]])
def test_invalid_images_are_left_out_and_counted(blocks: object) -> None:
    made = shown(message(1, "user", "Look.", blocks=blocks), call(2), result(3, 2, blocks=blocks))
    assert images_of(made) == [[], []]
    others = len(blocks) if isinstance(blocks, list) else 0
    expected = f"without {others} block{'s' * (others != 1)} that cannot be sent" if others else ""
    assert details(made) == {1: expected, 2: "", 3: expected}
    assert left(shown(message(1, "user", "", blocks=blocks))) == {1: "empty"}


def test_images_have_a_maximum_size() -> None:
    largest = image(data="A" * LARGEST)
    assert images_of(shown(message(1, "user", blocks=[largest]))) == [[PNG]]
    assert images_of(shown(message(1, "user", blocks=[image(data="A" * (LARGEST + 4))]))) == [[]]


def test_only_images_of_users_and_results_are_sent() -> None:
    for kind in ("assistant", "tool", "summary"):
        assert images_of(shown(message(1, kind, blocks=[image()], dialect="openai"))) == [[]]
    for kind in ("tool", "summary"):
        assert left(shown(message(1, kind, "", blocks=[image()]))) == {1: "empty"}


# Kept blocks


def kept_of(made: View) -> list[int]:
    return [len(step.kept) for step in made.steps]


@pytest.mark.parametrize(
    ("written", "active", "sent"),
    [
        ("anthropic", "anthropic", True),
        ("gemini", "gemini_gca", True),
        ("gemini_gca", "gemini", True),
        ("openai", "anthropic", False),
        ("gemini", "openai", False),
        (None, "anthropic", False),
    ],
)
@pytest.mark.parametrize("isolation", [True, False])
def test_kept_blocks_are_sent_in_their_own_dialect(
    written: str | None, active: str, sent: bool, isolation: bool
) -> None:
    thought = message(2, "assistant", "I think.", dialect=written, blocks=[THINKING, REDACTED, 7])
    made = shown(message(1, "user"), thought, dialect=active, config=Config(isolation=isolation))
    assert made.steps[1].kept == ((THINKING, REDACTED) if sent else ())
    assert details(made)[2] == ("with 2 blocks" if sent else f"without 2 blocks of {written or 'another format'}")
    alone = shown(message(2, "assistant", " ", dialect=written, blocks=[THINKING]), dialect=active)
    assert left(alone) == ({} if sent else {2: "empty"})


def test_kept_blocks_are_sent_while_their_turn_is_active() -> None:
    events = [message(1, "user"), message(2, "assistant", "So.", blocks=[THINKING], dialect="openai")]
    events += [message(3, "assistant", "", blocks=[THINKING], dialect="openai"), call(4), result(5, 4)]
    assert kept_of(shown(*events)) == [0, 1, 1]
    assert kept_of(shown(*events, message(6, "user"))) == [0, 1, 1, 0], "a note joins the turn"
    assert kept_of(shown(*events, message(6, "summary", turn=6))) == [0, 1, 1, 0], "no user opened another"
    for config in (Config(), WHOLE):
        over = shown(*events, message(6, "user", turn=6), config=config)
        assert kept_of(over) == [0, 0, 0]
        assert left(over) == {3: "empty"}
        assert details(over)[2] == over.left_out[0].detail == "without 1 block: the turn is over"


def test_kept_blocks_of_a_pinned_turn_are_not_sent() -> None:
    events = [message(1, "user"), message(2, "assistant", "So.", blocks=[THINKING], dialect="openai")]
    assert kept_of(shown(*events, message(9, "summary", turn=9), window=9)) == [0, 0, 0]


@pytest.mark.parametrize("text", ["", " \n", "I look."])
def test_kept_blocks_before_calls_are_sent_with_them(text: str) -> None:
    events = [
        message(2, "assistant", text, blocks=[THINKING], dialect="openai"),
        call(3),
        call(4, "c2"),
        result(5, 4, "B"),
    ]
    made = shown(message(1, "user"), *events)
    _, step = made.steps
    assert isinstance(step, Calls)
    assert (step.kept, len(step.calls)) == ((THINKING,), 2)
    assert [part.event for part in made.parts] == [1, 2, 3, 4, None, 5]
    first = [Message(event.id, "a", event.turn_id, event.kind, event.answers) for event in events]
    exchange = exchange_of(first[1:3], first[0], first[3:])
    assert (exchange.first, exchange.members) == (2, (3, 4, 5)), "and a cut before the calls takes them along"


def test_a_response_recorded_in_pieces_is_sent_in_pieces() -> None:
    """An import records each block as its own message."""
    events = [message(2, "assistant", "", blocks=[THINKING], dialect="openai"), message(3, "assistant", "I look.")]
    made = shown(message(1, "user"), *events, call(4), result(5, 4))
    assert [(type(step), step.text, len(step.kept)) for step in made.steps] == [
        (ViewMessage, "text", 0),
        (ViewMessage, "", 1),
        (Calls, "I look.", 0),
    ]


def test_calls_of_another_dialect_leave_with_the_blocks_before_them() -> None:
    events = [message(1, "user"), message(2, "assistant", "", blocks=[THINKING], dialect="anthropic")]
    made = shown(*events, call(3, dialect="anthropic"), result(4, 3, dialect="anthropic"), dialect="openai")
    assert (made.steps, left(made)) == ((ViewMessage("user", "text"),), {2: "empty", 3: "isolation", 4: "isolation"})


def test_interrupted_answers_keep_their_blocks() -> None:
    made = shown(message(1, "assistant", "", blocks=[THINKING], dialect="openai", interrupted=True))
    assert made.steps == (ViewMessage("assistant", INTERRUPTED, (), (THINKING,)),)
    assert made.parts[0].how == "interrupted"


@pytest.mark.parametrize("blocks", ["x", {}, 7, [], [7, None, [THINKING]]])
def test_invalid_blocks_are_not_kept(blocks: object) -> None:
    made = shown(message(1, "assistant", "So.", blocks=blocks, dialect="openai"))
    assert (kept_of(made), details(made)) == ([0], {1: ""})
    assert left(shown(message(1, "assistant", "", blocks=blocks, dialect="openai"))) == {1: "empty"}


def test_call_signatures_are_sent_unchanged_or_not_at_all() -> None:
    events = [call(1, signature="c2ln"), call(2, "c2", signature=7), call(3, "c3", signature=["x"])]
    (step,) = shown(*events, dialect="gemini").steps
    assert isinstance(step, Calls)
    assert [used.signature for used in step.calls] == ["c2ln", None, None]


# Settled steps


def settled(*events: Event, window: int = 0) -> tuple[int, int, int]:
    """Return the number of steps, of settled steps, and of those that were settled a turn ago."""
    made = shown(*events, window=window)
    return len(made.steps), made.settled, made.earlier


def turn(id: int, calls: int = 0) -> list[Event]:
    """Return a user's question, `calls` calls one after the other, and an answer: 2 steps and one for each call."""
    events = [message(id, "user", turn=id)]
    for number in range(id + 1, id + 1 + 2 * calls, 2):
        events += [call(number, f"c{number}", turn=id), result(number + 1, number, turn=id)]
    return [*events, message(id + 9, "assistant", turn=id)]


def test_only_turns_before_the_active_one_are_settled() -> None:
    assert settled() == (0, 0, 0)
    assert settled(*turn(10)) == (2, 0, 0)
    assert settled(*turn(10), *turn(20)) == (4, 2, 0)
    assert settled(*turn(10), *turn(20, 2), *turn(30, 1)) == (9, 6, 2)
    assert settled(*turn(10), message(20, "user", turn=20)) == (3, 2, 0)


def test_a_notice_or_a_reminder_belongs_to_its_turn_and_settles_nothing() -> None:
    notice = message(31, "user", "[Foldmark: rewound.]", turn=30, actor="system")
    assert settled(*turn(10), *turn(20), message(30, "user", turn=30), notice) == (6, 4, 2)
    assert settled(*turn(10), *turn(20), notice) == (5, 4, 2), "of a turn whose beginning has left the context"


def test_a_summary_or_an_answer_that_opens_a_turn_settles_nothing() -> None:
    summary = message(21, "summary", turn=21)
    assert settled(*turn(10), summary) == (3, 0, 0)
    assert settled(*turn(10), summary, *turn(30)) == (5, 3, 2)
    assert settled(*turn(10), message(21, "assistant", turn=21)) == (3, 0, 0)
    assert settled(summary, *turn(30), *turn(40)) == (5, 3, 1)


def test_a_message_without_a_turn_is_settled() -> None:
    assert settled(message(1, "assistant", turn=None), *turn(10)) == (3, 1, 0)


def test_interleaved_turns_are_settled_up_to_the_first_step_of_the_active_one() -> None:
    late = [message(1, "user", turn=1), message(2, "user", turn=2), message(3, "assistant", turn=1)]
    assert settled(*late) == (3, 1, 0)
    assert settled(*late, *turn(10)) == (5, 3, 2)
    asked = [
        message(1, "user"),
        call(2),
        message(5, "user", turn=5),
        result(6, 2, turn=5),
        message(7, "assistant", turn=5),
    ]
    assert settled(*asked) == (4, 2, 0), "a late result stands with its call"


def test_pinned_turns_before_the_window_are_settled() -> None:
    assert settled(*turn(10), *turn(50), window=50) == (4, 2, 0)
    assert settled(*turn(10), *turn(20), *turn(50), window=50) == (6, 4, 2)
    assert settled(*turn(10), *turn(20), *turn(50), *turn(60), window=50) == (8, 6, 4)
    assert settled(*turn(10), message(50, "summary", turn=50), window=50) == (3, 2, 0)
    assert settled(*turn(10), window=50) == (2, 2, 0), "nothing of the window is sent"


def test_with_an_active_turn_without_text_all_others_are_settled() -> None:
    assert settled(*turn(10), *turn(20), message(30, "user", " ", turn=30)) == (4, 4, 2)
    wordless = message(30, "user", "", turn=30, blocks=[image()])
    assert settled(*turn(10), *turn(20), wordless) == (5, 4, 2)
    hidden = call(31, turn=30, dialect="anthropic")
    assert settled(*turn(10), message(30, "user", " ", turn=30), hidden) == (2, 2, 0)


@given(logs(), st.sampled_from(["user", "assistant"]), st.sampled_from(DIALECTS[1:]))
def test_settled_messages_stay_as_they_are_while_the_turn_goes_on(events: list[Event], kind: str, dialect: str) -> None:
    made = shown(*events, dialect=dialect, config=Config())
    assert 0 <= made.earlier <= made.settled <= len(made.steps)
    if events:
        more = message(events[-1].id + 1, kind, turn=active_from(events) or events[-1].turn_id)
        after = shown(*events, more, dialect=dialect, config=Config())
        assert after.steps[: made.settled] == made.steps[: made.settled]
        assert after.settled == made.settled or not made.steps


# Truncation


def hint(id: int) -> str:
    return f'... [TRUNCATED. Use query_db(sql="SELECT content FROM messages WHERE id={id}") to see full output]'


def test_results_are_cut_by_age() -> None:
    old = [message(1, "user"), call(2), result(3, 2, "o" * 6000)]
    new = [message(10, "user", turn=10)]
    for id in range(11, 25, 2):
        new += [call(id, f"c{id}", turn=10), result(id + 1, id, "n" * 6000, 10)]
    made = shown(*old, *new, config=Config())
    texts = [text for ((_, text),) in calls_of(made)]
    assert texts[0] == "o" * 300 + hint(3)
    assert texts[1:] == ["n" * 1000 + hint(12), "n" * 1000 + hint(14)] + [
        "n" * 5000 + hint(i) for i in range(16, 25, 2)
    ]
    cut = next(part for part in made.parts if part.event == 3)
    assert (cut.how, cut.kept, cut.of, cut.detail) == ("truncated", 300, 6000, "")
    assert cut.about == "300 of 6,000 characters"
    assert all((part.kept, part.of) == (0, 0) for part in made.parts if part.how != "truncated")


def test_nothing_is_cut_up_to_the_limit_or_with_truncation_off() -> None:
    assert calls_of(shown(call(1), result(2, 1, "x" * 5000), config=Config())) == [[("c1", "x" * 5000)]]
    assert calls_of(shown(call(1), result(2, 1, "x" * 9000), config=WHOLE)) == [[("c1", "x" * 9000)]]


def test_limits_are_settings() -> None:
    config = Config(truncate_recent=20, truncate_recent_count=1, truncate_active=10, truncate_inactive=0)
    events = [call(2), result(3, 2, "a" * 50), message(4, "user", turn=4)]
    events += [call(5, "c2", turn=4), result(6, 5, "b" * 50, 4), call(7, "c3", turn=4), result(8, 7, "c" * 50, 4)]
    assert [text for ((_, text),) in calls_of(shown(*events, config=config))] == [
        hint(3),
        "b" * 10 + hint(6),
        "c" * 20 + hint(8),
    ]


def test_only_results_are_cut() -> None:
    events = [message(1, "user", "u" * 9000), message(2, "assistant", "a" * 9000), message(3, "tool", "t" * 9000)]
    assert [len(step.text) for step in shown(*events, config=Config()).steps if isinstance(step, ViewMessage)][:2] == [
        9000
    ] * 2


def test_a_turn_is_active_until_a_user_opens_another() -> None:
    used = [message(1, "user"), call(2), result(3, 2, "x" * 900)]
    summary = message(5, "summary", "All of it.", 5)
    late = [call(6, "c2", turn=6), result(7, 6, "y" * 900, 6)]
    assert [len(t) for ((_, t),) in calls_of(shown(*used, summary, *late, config=Config()))] == [900, 900]
    closed = shown(*used, summary, *late, message(8, "user", turn=8), config=Config())
    assert all(text.startswith(("x" * 300 + "...", "y" * 300 + "...")) for ((_, text),) in calls_of(closed))
    assert active_from([*used, summary, *late]) == 1
    assert active_from(late) == 0
    assert active_from([message(9, "assistant", turn=8)]) == 8


def test_pinned_turns_before_the_window_are_never_active() -> None:
    used = [message(1, "user"), call(2), result(3, 2, "x" * 900)]
    made = shown(*used, message(9, "summary", "All.", 9), config=Config(), window=9)
    assert calls_of(made)[0][0][1] == "x" * 300 + hint(3)
    assert [part.layer for part in made.parts] == ["pinned", "pinned", "pinned", "window"]


def test_head_tail_keeps_a_fifth_from_the_start_and_the_rest_from_the_end() -> None:
    text = "".join(chr(ord("a") + index % 26) for index in range(1000))
    assert shorten(text, 300, "head-tail", 7) == (text[:60] + hint(7) + "\n" + text[-240:], 300)


def test_text_that_looks_like_the_marker_is_data() -> None:
    text = hint(3) * 100
    assert shorten(text, 300, "head", 9) == (text[:300] + hint(9), 300)
    assert shorten(hint(3), 300, "head", 9).text == hint(3)


@pytest.mark.parametrize(
    "cluster",
    [
        "e\u0301\u0323",
        "👩\u200d👩\u200d👧\u200d👦",
        "👍🏽",
        "🇩🇪",
        "\r\n",
        "각",
        "\u1112\u1161\u11ab",
        "क्षि",
        "❤\ufe0f",
        "1\ufe0f\u20e3",
        "🏴\U000e0067\U000e0062\U000e007f",
        "\\n",
        "\\u00e9",
        "\\ud83d\\ude00",
        "\\\\",
        "\\x1b",
        "\x1b[31;1m",
        "\x1b]0;title\x07",
    ],
)
def test_a_cut_never_falls_inside_a_grapheme_or_an_escape(cluster: str) -> None:
    text = "ab" + cluster * 3 + "cd"
    places = {0, 1, 2, *(2 + n * len(cluster) for n in (1, 2, 3)), len(text) - 1, len(text)}
    for index in range(len(text) + 1):
        assert before(text, index) == max(place for place in places if place <= index)
        assert after(text, index) == min(place for place in places if place >= index)


def test_flags_are_counted_in_pairs() -> None:
    assert [before("🇩🇪🇫🇷x", index) for index in range(5)] == [0, 0, 2, 2, 4]


@pytest.mark.parametrize("begin", ["", "a", "ab", "abc"])
def test_backslashes_are_counted_in_pairs_however_many_there_are(begin: str) -> None:
    text = begin + "\\" * 300 + "z"
    for index in range(len(begin), len(begin) + 301):
        assert (before(text, index) - len(begin)) == (index - len(begin)) // 2 * 2


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=80), st.integers(0, 80), st.booleans())
def test_the_kept_part_comes_from_the_text_and_is_within_the_limit(text: str, limit: int, middle: bool) -> None:
    sent, kept = shorten(text, limit, "head-tail" if middle else "head", 5)
    if len(text) <= limit:
        assert sent == text
        return
    head, _, tail = sent.partition(HINT.format(id=5))
    assert text.startswith(head)
    assert text.endswith(tail.removeprefix("\n"))
    assert kept == len(head) + len(tail.removeprefix("\n")) <= limit
    rest = text[len(head) :]
    assert not (head and unicodedata.combining(rest[0]))


def test_hostile_texts_are_cut_in_linear_time() -> None:
    for text in ("\u0301" * 200_000, "\\" * 200_001, "\x1b[" + "1" * 200_000, "🇩" * 200_000, "\u200d" * 200_000):
        for shape in ("head", "head-tail"):
            assert shorten(text, 5000, shape, 1).kept <= 5000
