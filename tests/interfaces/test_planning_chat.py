"""Forgetting and remembering as a person at `foldmark chat` sees it: the two dialogues of S1 with the offline model."""

import re
from collections.abc import Callable

import pytest
from command_line import Cli, Outcome, events
from terminal import CTRL_D, Terminal

import foldmark
from foldmark.conversation.doctor import examine

Start = Callable[..., Terminal]

HISTORY = (
    ("Good morning. What did we leave open?", "The look of the settings page and the price of the train."),
    ("Let's design the database schema: which tables do we need?", "Two tables: notes and tags."),
    ("Is one schema for both databases enough?", "Yes, the database schema is small: one file."),
    ("Where shall we eat on Friday?", "There is a ramen place two streets away."),
    ("What is the final implementation of paging?", "The final implementation pages by cursor, 50 notes at a time."),
    ("And the API decisions?", "API decisions: JSON only, errors as problem details, no versions in paths."),
    ("Is the train cheaper on Sunday?", "Half the price before noon."),
)
SCHEMA, FINAL = (1, 2), (4, 5)
"""The turns that each dialogue is about."""


@pytest.fixture
def history(log: foldmark.Log) -> list[list[int]]:
    """The ids of each turn."""
    agent = log.agent("default")
    ids = []
    for user, answer in HISTORY:
        ids.append([agent.append("user", user), agent.append("assistant", answer)])
        agent.end_turn()
    return ids


def there(log: foldmark.Log) -> list[int]:
    agent = log.agent("default")
    assert agent.open_turn is None
    assert list(examine(log)) == []
    return [message.id for message in agent.context().messages]


def flat(turns: list[list[int]]) -> list[int]:
    return [each for turn in turns for each in turn]


def talked(talk: Outcome) -> list[str]:
    """What was shown, without the meter, empty lines and the greeting."""
    assert (talk.code, talk.err) == (0, "")
    return [line.rstrip() for line in talk.lines[1:] if line.strip() and not line.startswith("Context: ")]


def test_forget_as_in_the_seed(cli: Cli, log: foldmark.Log, history: list[list[int]]) -> None:
    lines = ("/forget database schema discussions", "Show me what you'll forget first", "Yes, proceed")
    shown = "\n".join(talked(cli("chat", stdin="\n".join(lines))))
    left = [turn for index, turn in enumerate(history) if index not in SCHEMA]
    first, last = history[1][0], history[2][1]
    tokens = sum(message.tokens for message in map(log.store.event, flat(history)[2:6]) if message is not None)
    preview = (
        r"\[filter_context .*preview.*\]\n"
        r"I found 4 messages about database schema discussions:\n"
        rf"- Message {first}-{last}: Let's design the database schema.* \(4 messages, ~{tokens} tokens\)\n"
        rf"Total: 4 messages, ~{tokens} tokens\n"
        r"Should I proceed to forget these\?\n"
    )
    assert re.fullmatch(
        rf"> /forget database schema discussions\n"
        r"Planning what to forget\. Nothing changes before you agree; /cancel ends it\.\n"
        rf"{preview}"
        rf"> Show me what you'll forget first\n"
        rf"{preview}"
        r"> Yes, proceed\n"
        r"\[filter_context .*apply.*\]\n"
        r"4 messages forgotten\.\n  event \d+ · .*\n"
        r"Done\. I've forgotten those 4 messages about database schema discussions\.",
        shown,
    ), shown
    assert there(log) == flat(left)


def test_remember_as_in_the_seed(cli: Cli, log: foldmark.Log, history: list[list[int]]) -> None:
    lines = ("/remember only the final implementation and API decisions", "Yes")
    shown = "\n".join(talked(cli("chat", stdin="\n".join(lines))))
    assert re.fullmatch(
        r"> /remember only the final implementation and API decisions\n"
        r"Planning what to remember\. Nothing changes before you agree; /cancel ends it\.\n"
        r"\[filter_context .*preview.*\]\n"
        r"I found 4 messages containing final implementation and API decisions:\n"
        r"(- Message .*\n)+"
        r"Everything else \(10 messages\) will be forgotten\. Should I proceed\?\n"
        r"> Yes\n"
        r"\[filter_context .*apply.*\]\n"
        r"10 messages left out, all but what was to be remembered\.\n  event \d+ · .*\n"
        r"Done\. Context reduced to 4 messages\.",
        shown,
    ), shown
    assert there(log) == flat([history[index] for index in FINAL])


def test_each_line_in_a_program_of_its_own(program: Cli, log: foldmark.Log, history: list[list[int]]) -> None:
    """Nothing of a planning conversation is kept in memory."""
    asked = program("chat", stdin="/forget database schema\n")
    assert "Should I proceed to forget these?" in asked.out
    assert "4 messages about database schema" in program("chat", stdin="Show me again\n").out
    assert "I've forgotten those 4 messages" in program("chat", stdin="Yes, proceed\n").out
    assert there(log) == flat([turn for index, turn in enumerate(history) if index not in SCHEMA])
    done = program("chat", stdin="Hello again\n")
    assert "You wrote 2 words" in done.out
    assert len(there(log)) == 12


def test_what_happened_can_be_seen_and_taken_back(cli: Cli, log: foldmark.Log, history: list[list[int]]) -> None:
    cli("chat", stdin="/forget database schema\nyes\n")
    (event,) = [event for event in events(log) if event.kind == "filter"]
    assert (event.actor, (event.data or {})["criteria"]) == ("model", "database schema")
    talk = cli("chat", stdin=f"/restore {event.id}\n")
    assert (talk.code, talk.err) == (0, "")
    back = there(log)
    assert flat(history) == [id for id in back if id in flat(history)]
    assert "Done. I've forgotten those 4 messages about database schema." in [
        message.content for message in log.agent("default").context().messages
    ]
    again = cli("chat", stdin="/cancel\n")
    assert again.code == 2
    assert "no planning conversation is open" in again.err


def test_one_after_the_other(cli: Cli, log: foldmark.Log, history: list[list[int]]) -> None:
    cli("chat", stdin="/forget database schema\nyes\n/forget eating on Friday\nok\nHello\n")
    kept = [turn for index, turn in enumerate(history) if index not in (*SCHEMA, 3)]
    assert there(log)[:-2] == flat(kept)


@pytest.mark.parametrize("no", ["no", "No, stop"])
def test_a_no_changes_nothing(cli: Cli, log: foldmark.Log, history: list[list[int]], no: str) -> None:
    shown = talked(cli("chat", stdin=f"/forget database schema\n{no}\n/cancel\n"))
    assert any(line.startswith("Nothing was changed. /cancel ends this") for line in shown)
    assert any(line.startswith("Cancelled. Nothing was forgotten") for line in shown)
    assert there(log) == flat(history)


def test_other_words_are_other_criteria(cli: Cli, log: foldmark.Log, history: list[list[int]]) -> None:
    shown = talked(cli("chat", stdin="/forget database schema\nno, Friday\nyes\n"))
    assert "I found 2 messages about Friday:" in shown
    assert there(log) == flat([turn for index, turn in enumerate(history) if index != 3])


def test_nothing_found(cli: Cli, log: foldmark.Log, history: list[list[int]]) -> None:
    shown = talked(cli("chat", stdin="/forget zebras\nyes\n/cancel\n"))
    assert sum(line.startswith("I found no messages about zebras.") for line in shown) == 2
    assert there(log) == flat(history)


def test_a_yes_out_of_the_blue(cli: Cli, log: foldmark.Log, history: list[list[int]]) -> None:
    shown = talked(cli("chat", stdin="yes, proceed\n"))
    assert "You wrote 2 words: “yes, proceed” (user)" in shown[-1]
    assert len(there(log)) == len(flat(history)) + 2


def test_a_second_one_is_refused(cli: Cli, log: foldmark.Log, history: list[list[int]]) -> None:
    talk = cli("chat", stdin="/forget database schema\n/remember Friday\n/fork\nyes\n")
    errors = talk.err.splitlines()
    assert talk.code == 2
    assert "a planning conversation is open since message" in errors[0]
    assert "a planning conversation is under way" in errors[1]
    assert there(log) == flat([turn for index, turn in enumerate(history) if index not in SCHEMA])


def test_an_empty_conversation(cli: Cli, log: foldmark.Log) -> None:
    shown = talked(cli("chat", stdin="/forget everything about tables\nyes\n/cancel\n"))
    assert any(line.startswith("I found no messages") for line in shown)
    assert there(log) == []


def test_do_begins_one_and_a_chat_goes_on(cli: Cli, log: foldmark.Log, history: list[list[int]]) -> None:
    begun = cli("do", "default", "/forget database schema")
    assert (begun.code, begun.err) == (0, "")
    assert "Should I proceed to forget these?" in begun.out
    assert "I've forgotten those 4 messages" in cli("chat", stdin="Yes, proceed\n").out
    assert there(log) == flat([turn for index, turn in enumerate(history) if index not in SCHEMA])


def test_a_full_context_can_be_planned_about(cli: Cli, log: foldmark.Log, history: list[list[int]]) -> None:
    """`/clear` is never forced (SPEC 4.2), also where other text is refused (SPEC 5.5)."""
    agent = log.agent("default")
    long = [agent.append("user", "About zebras: " + "stripes " * 105_000), agent.append("assistant", "I see.")]
    agent.end_turn()
    talk = cli("chat", stdin=f"Hello\n/forget messages {long[0]}-{long[1]}\nyes\nHello again\n")
    assert talk.out.count("⚠️  Context full. Use /clear to continue.") == 1
    assert "Done. I've forgotten those 2 messages" in talk.out
    assert there(log)[:-2] == flat(history)


def test_a_program_killed_before_the_yes(terminal: Start, log: foldmark.Log, history: list[list[int]]) -> None:
    with terminal("chat") as one:
        one.until("> ")
        one.type("/forget database schema\n")
        one.until("Should I proceed to forget these?")
        one.until("⚪\n> ")
        one.kill()
    with terminal("chat") as two:
        two.until("> ")
        two.type("Yes, proceed\n")
        two.until("Done. I've forgotten those 4 messages about database schema.")
        two.until("⚪\n> ")
        two.type(CTRL_D)
        assert two.end() == 0
    assert there(log) == flat([turn for index, turn in enumerate(history) if index not in SCHEMA])


def test_cancelling_while_the_model_plans(terminal: Start, log: foldmark.Log, history: list[list[int]]) -> None:
    with terminal("chat", delay=0.1) as screen:
        screen.until("⚪\n> ")
        screen.type("/forget database schema\r")
        screen.until("I found ")
        screen.type("/cancel\r")
        screen.until("Cancelled. Nothing was forgotten")
        screen.until("(interrupted; what had been said is kept)")
        screen.until("⚪\n> ")
        screen.type(CTRL_D)
        assert screen.end() == 0
    assert [event.interrupted for event in events(log) if event.kind in ("assistant", "turn_ended")][-2:] == [True] * 2
    assert there(log) == flat(history)


def test_a_program_killed_while_it_says_done(terminal: Start, log: foldmark.Log, history: list[list[int]]) -> None:
    """The filter holds; the next program closes the turn, and the planning conversation with it."""
    left = flat([turn for index, turn in enumerate(history) if index not in SCHEMA])
    with terminal("chat") as one:
        one.until("> ")
        one.type("/forget database schema\n")
        one.until("⚪\n> ")
        one.type(CTRL_D)
        assert one.end() == 0
    with terminal("chat", delay=5.0) as two:
        two.until("> ")
        two.type("Yes, proceed\n")
        two.until("Done.")
        two.kill()
    agent = log.agent("default")
    assert agent.open_turn is not None
    assert [message.id for message in agent.context().messages] == left
    with terminal("chat") as three:
        three.until("The last turn was cut off; what was recorded of it is kept.")
        three.type("Hello\n")
        three.until("You wrote 1 word")
        three.until("⚪\n> ")
        three.type(CTRL_D)
        assert three.end() == 0
    assert there(log)[:-2] == left
    assert len(there(log)) == len(left) + 2
