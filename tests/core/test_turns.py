"""Turns and exchanges (SPEC 1, 3), case by case.

A conversation is written in short form: `u1` is a user message with id 1, `a` an assistant message, `s` a system
message, `m` a summary, `c` a tool call, `r5>3` the result with id 5 of call 3; `r5` is a result of no call.
"""

from collections.abc import Iterator

import pytest

from foldmark.core.events import KINDS, MESSAGE_KINDS, OUTSIDE_KINDS, Event
from foldmark.core.turns import Exchange, Message, Turn, exchange_of, newest_turns, place, settle, whole

LETTERS = {"u": "user", "a": "assistant", "s": "system", "m": "summary", "c": "tool_call", "r": "tool_result"}


def messages(text: str) -> list[Message]:
    found = []
    for word in text.split():
        id, _, answers = word[1:].partition(">")
        found.append(Message(int(id), "me", 1, LETTERS[word[0]], int(answers) if answers else None))
    return found


def short(exchange: Exchange) -> str:
    """Return an exchange in short form: `2:3,4>5?4` has text 2, calls 3 and 4 and result 5; call 4 has no result."""
    text = f"{exchange.text}:" if exchange.text else ""
    missing = f"?{','.join(map(str, exchange.unanswered))}" if exchange.unanswered else ""
    return f"{text}{','.join(map(str, exchange.calls))}>{','.join(map(str, sorted(exchange.results)))}{missing}"


def exchange(text: str) -> Exchange:
    response, _, rest = text.rpartition(":")
    rest, _, missing = rest.partition("?")
    calls, results, unanswered = (
        tuple(int(id) for id in part.split(",") if id) for part in (*rest.split(">"), missing)
    )
    return Exchange(int(response) if response else None, calls, results, unanswered)


@pytest.mark.parametrize("kind", sorted(set(MESSAGE_KINDS) - {"system", "summary"}))
def test_a_message_opens_a_turn_or_joins_it(kind: str) -> None:
    """SPEC 2: a GID is the id of the event that opened the turn."""
    assert place(kind, 7, None) == (7, 7)
    assert place(kind, 7, 3) == (3, 3)


@pytest.mark.parametrize("kind", sorted(KINDS - {*MESSAGE_KINDS, *OUTSIDE_KINDS, "turn_ended"}))
def test_metadata_joins_the_open_turn_and_opens_none(kind: str) -> None:
    assert place(kind, 7, None) == (None, None)
    assert place(kind, 7, 3) == (3, 3)


@pytest.mark.parametrize("kind", OUTSIDE_KINDS)
def test_what_others_record_belongs_to_no_turn(kind: str) -> None:
    assert place(kind, 7, None) == (None, None)
    assert place(kind, 7, 3) == (None, 3)


@pytest.mark.parametrize(
    ("kind", "open_turn", "result"),
    [
        ("turn_ended", 3, (3, None)),
        ("turn_ended", None, (None, None)),
        ("summary", None, (7, None)),
        ("summary", 3, (7, 3)),
        ("system", None, (None, None)),
        ("system", 3, (3, 3)),
    ],
)
def test_an_end_closes_the_turn_and_a_summary_is_its_own_turn(
    kind: str, open_turn: int | None, result: tuple[int | None, int | None]
) -> None:
    """SPEC 3, summary: it is a separate turn and leaves the open turn open."""
    assert place(kind, 7, open_turn) == result


@pytest.mark.parametrize(
    ("before", "run", "results", "found"),
    [
        ("", "c2", "r3>2", "2>3"),
        ("a2", "c3", "r4>3", "2:3>4"),
        # Parallel calls are one exchange, whatever the order of their results; ids need not be consecutive.
        ("a2", "c3 c4", "r5>3 r6>4", "2:3,4>5,6"),
        ("a2", "c3 c4", "r5>4 r6>3", "2:3,4>5,6"),
        ("u1", "c2 c9", "r10>2 r11>9", "2,9>10,11"),
        # Only the model's message directly before the calls is the text of its response.
        ("r2>1", "c3", "r4>3", "3>4"),
        ("u2", "c3", "r4>3", "3>4"),
        ("m2", "c3", "r4>3", "3>4"),
        # Open exchanges, and results that answer another call or none.
        ("a2", "c3", "", "2:3>?3"),
        ("", "c2 c3", "r4>3", "2,3>4?2"),
        ("", "c2 c3", "r9>3 r10>77 r11", "2,3>9?2"),
        # A client may send another result in place of one.
        ("", "c2", "r3>2 r4>2", "2>3,4"),
    ],
)
def test_an_exchange_is_a_run_of_calls_with_all_results(before: str, run: str, results: str, found: str) -> None:
    """SPEC 1: a maximal run of consecutive calls of one turn with all their results."""
    result = exchange_of(messages(run), next(iter(messages(before)), None), messages(results))
    assert short(result) == found
    assert set(result.members) == {*result.calls, *result.results}


def test_the_text_of_another_turn_does_not_belong_to_the_response() -> None:
    before = Message(2, "me", 2, "assistant", None)
    assert exchange_of(messages("c3"), before, []).text is None


@pytest.mark.parametrize(
    ("position", "found", "still_open", "result"),
    [
        (5, [], [], 5),
        # Inside a closed exchange: after its last result. The text is not inside.
        (2, ["2:3,4>5,6"], [], 2),
        (3, ["2:3,4>5,6"], [], 6),
        (5, ["2:3,4>5,6"], [], 6),
        (6, ["2:3,4>5,6"], [], 6),
        (9, ["2:3,4>5,6"], [], 9),
        # Inside an open exchange: before its first call and the text of that response.
        (3, ["2:3,4>5?4"], ["2:3,4>5?4"], 1),
        (99, [], ["2:3,4>5?4"], 1),
        (3, [], ["3>?3"], 2),
        (2, [], ["2:3,4>5?4"], 2),
        # Once its turn has ended, a missing result no longer counts: after the results that came.
        (3, ["2:3,4>5?4"], [], 5),
        (5, ["2:3,4>5?4"], [], 5),
        (3, ["3>?3"], [], 3),
        (9, ["3>?3"], ["6:7>?7"], 5),
        # A late result stands inside another exchange: the cut moves after that one as well.
        (4, ["3>10", "9>12"], [], 12),
        (4, ["9>12", "3>10"], [], 12),
        (9, ["3>10", "9>12", "11>14", "20>21"], [], 14),
        (15, ["3>10", "9>12"], [], 15),
        # Nested: the later exchange lies within the earlier.
        (6, ["3>20", "5>7"], [], 20),
    ],
)
def test_a_cut_moves_to_the_edge_of_an_exchange(
    position: int, found: list[str], still_open: list[str], result: int
) -> None:
    """SPEC 3: the position of a cut inside an exchange."""
    assert settle(position, [exchange(each) for each in found], [exchange(each) for each in still_open]) == result


@pytest.mark.parametrize(("text", "first"), [("2:3,4>5,6", 2), ("3,4>5,6", 3)])
def test_an_exchange_begins_with_the_text_of_its_response(text: str, first: int) -> None:
    assert exchange(text).first == first


@pytest.mark.parametrize(
    ("ids", "found", "added"),
    [
        ([], ["2:3,4>5,6"], []),
        ([1, 7], ["2:3,4>5,6"], []),
        ([3], ["2:3,4>5,6"], [4, 5, 6]),
        ([6, 4], ["2:3,4>5,6"], [3, 5]),
        ([2], ["2:3,4>5,6"], []),  # the text may leave alone
        ([5], ["2:3,4>5?4"], [3, 4]),
        ([10], ["3>10", "9>12", "11>14"], [3]),
        ([10, 9], ["3>10", "9>12", "11>14"], [3, 12]),
    ],
)
def test_a_selection_is_widened_to_whole_exchanges(ids: list[int], found: list[str], added: list[int]) -> None:
    """SPEC 3: a selection is widened to whole exchanges; only the added messages are returned."""
    assert whole(ids, [exchange(each) for each in found]) == set(added)


def event(id: int, turn: int | None) -> Event:
    return Event(id, "me", turn, "user", f"text {id}", None, None, "human", 2, "2026-01-01T00:00:00.000000Z", False)


EVENTS = [event(1, None), event(2, 2), event(3, 2), event(5, 5), event(7, 7), event(8, 7)]


@pytest.mark.parametrize(
    ("count", "turns"),
    [
        (0, []),
        (1, [(7, [7, 8])]),
        (2, [(5, [5]), (7, [7, 8])]),
        (3, [(2, [2, 3]), (5, [5]), (7, [7, 8])]),
        (4, [(None, [1]), (2, [2, 3]), (5, [5]), (7, [7, 8])]),
        (99, [(None, [1]), (2, [2, 3]), (5, [5]), (7, [7, 8])]),
    ],
)
def test_the_newest_turns_are_returned_in_order(count: int, turns: list[tuple[int | None, list[int]]]) -> None:
    found = newest_turns(reversed(EVENTS), count)
    assert all(isinstance(turn, Turn) for turn in found)
    assert [(turn.id, [message.id for message in turn.messages]) for turn in found] == turns
    assert newest_turns([], count) == []


def test_newest_turns_reads_only_one_message_too_many() -> None:
    """L3: the cost grows with the window only."""
    read = []

    def reading() -> Iterator[Event]:
        for each in reversed(EVENTS):
            read.append(each.id)
            yield each

    newest_turns(reading(), 1)
    assert read == [8, 7, 5]
