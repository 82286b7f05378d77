"""Forgetting and remembering as seen in `foldmark chat`: the two dialogues of S1 with the offline model."""

import json
import re
from collections.abc import Callable

import pytest
from command_line import Cli, Outcome, events

import foldmark
from foldmark.core import selections
from foldmark.log.doctor import examine
from stored import stored
from terminal import CTRL_D, Terminal

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
"""The turns that each dialogue concerns, as indices into `HISTORY`."""


@pytest.fixture
def history(log: foldmark.Log) -> list[list[int]]:
    """The message ids of each turn."""
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
    """Return the output without the meter, empty lines and the greeting."""
    assert (talk.code, talk.err) == (0, "")
    return [line.rstrip() for line in talk.lines[1:] if line.strip() and not line.startswith("Context: ")]


def size(ids: list[int]) -> str:
    """Return a pattern such as `4 messages (~62 tokens)`."""
    return rf"{len(ids)} messages \(~[0-9]+ tokens\)"


def test_forget_as_in_the_seed(cli: Cli, log: foldmark.Log, history: list[list[int]]) -> None:
    """Foldmark itself shows the ranges and acts on the yes; the model's text is an addition."""
    lines = ("/forget database schema discussions", "Show me what you'll forget first", "Yes, proceed")
    before = size(flat(history))
    shown = "\n".join(talked(cli("chat", stdin="\n".join(lines))))
    left = flat([turn for index, turn in enumerate(history) if index not in SCHEMA])
    found = flat(history)[2:6]
    matched = size(found)
    in_range = matched.replace(r"messages \(", r"\(4 messages, ").replace("4 ", "", 1)
    preview = (
        rf"Forget {matched} about “database schema discussions”\?\n"
        rf"  1\. Message {found[0]}-{found[-1]}: Let's design the database schema.* {in_range}\n"
        rf"  Context: {before} before, {size(left)} after\n"
        r"  Next request ~[0-9,]+ tokens instead of ~[0-9,]+( \(any edit .*\))?\n"
        r"Nothing has changed yet\. Answer yes, no, or say what else to look for\. Any other answer changes nothing\."
        r"\n"
    )
    assert re.fullmatch(
        rf"> /forget database schema discussions\n"
        r"Planning what to forget\. Nothing changes before you agree; /cancel ends it\.\n"
        r"\[filter_context .*preview.*\]\n"
        r"I found 4 messages about database schema discussions\. Should I proceed to forget these\?\n"
        rf"{preview}"
        rf"forget 4 messages\? > Show me what you'll forget first\n"
        r"I am the offline model.*\n"
        rf"{preview}"
        r"forget 4 messages\? > Yes, proceed\n"
        r"Done\. 4 messages about “database schema discussions” left the context\.\n"
        r"  event [0-9]+ .*",
        shown,
    ), shown
    line, context = re.findall(r"  1\. Message .*|  Context: .*", shown)[:2]
    (own,), (all_tokens, kept) = (re.findall(r"~([0-9]+) tokens", each) for each in (line, context))
    assert 0 < int(own) == int(all_tokens) - int(kept)
    assert there(log) == left


def test_remember_as_in_the_seed(cli: Cli, log: foldmark.Log, history: list[list[int]]) -> None:
    lines = ("/remember only the final implementation and API decisions", "Yes")
    shown = "\n".join(talked(cli("chat", stdin="\n".join(lines))))
    kept = size(flat([history[index] for index in FINAL]))
    assert re.fullmatch(
        r"> /remember only the final implementation and API decisions\n"
        r"Planning what to remember\. Nothing changes before you agree; /cancel ends it\.\n"
        r"\[filter_context .*preview.*\]\n"
        r"I found 4 messages containing only the final implementation and API decisions\. "
        r"Everything else \(10 messages\) will be forgotten\. Should I proceed\?\n"
        rf"Keep {kept} containing “only the final implementation and API decisions”, "
        r"and forget everything else \(10 messages\)\?\n"
        r"(  [0-9]\. Message .*\n)+"
        rf"  Context: .* before, {kept} after\n"
        r"  Next request ~[0-9,]+ tokens instead of ~[0-9,]+( \(any edit .*\))?\n"
        r"Nothing has changed yet.*\n"
        r"remember 4 messages\? > Yes\n"
        r"Done\. Context reduced to 4 messages containing “only the final implementation and API decisions”\.\n"
        r"  event [0-9]+ .*",
        shown,
    ), shown
    assert there(log) == flat([history[index] for index in FINAL])


def test_each_line_in_a_separate_program(program: Cli, log: foldmark.Log, history: list[list[int]]) -> None:
    """No part of a planning conversation is kept in memory."""
    asked = program("chat", stdin="/forget database schema\n")
    assert "Should I proceed to forget these?" in asked.out
    again = program("chat", stdin="Show me again\n").out
    assert "forget 4 messages? > Show me again" in again
    assert "Forget 4 messages (" in again
    assert "Done. 4 messages about “database schema” left" in program("chat", stdin="Yes, proceed\n").out
    assert there(log) == flat([turn for index, turn in enumerate(history) if index not in SCHEMA])
    done = program("chat", stdin="Hello again\n")
    assert "You wrote 2 words" in done.out
    assert len(there(log)) == 12


def test_operations_are_listed_and_taken_back(cli: Cli, log: foldmark.Log, history: list[list[int]]) -> None:
    cli("chat", stdin="/forget database schema\nyes\n")
    (event,) = [event for event in events(log) if event.kind == "filter"]
    assert (event.actor, (event.data or {})["criteria"]) == ("human", "database schema")
    talk = cli("chat", stdin=f"/restore {event.id}\n")
    assert (talk.code, talk.err) == (0, "")
    back = there(log)
    assert flat(history) == [id for id in back if id in flat(history)]
    assert [message.content for message in log.agent("default").context().messages][-1] == "yes"
    again = cli("chat", stdin="/cancel\n")
    assert again.code == 2
    assert "no planning conversation is open" in again.err


WORK = "let us leave that; IMPORTANT: we use port 8080"


def test_work_ends_planning_and_stays(cli: Cli, log: foldmark.Log, history: list[list[int]]) -> None:
    """A later yes to something else applies nothing, and the messages in between are in the context."""
    shown = talked(cli("chat", stdin=f"/forget database schema\n{WORK}\nyes\n"))
    assert shown.count("Planning has ended; nothing was forgotten.") == 1
    assert any("You wrote 9 words" in line for line in shown)  # an ordinary answer
    left = there(log)
    assert left[: len(flat(history))] == flat(history)
    texts = [message.content for message in log.agent("default").context().messages][len(flat(history)) :]
    assert (texts[0], texts[2], len(texts)) == (WORK, "yes", 4)
    (ended,) = [event for event in events(log) if event.kind == "filter"]
    first, last = (ended.data or {})["planning"]
    assert (ended.actor, (ended.data or {})["ranges"]) == ("system", [[ended.agent_id, first, left[-4] - 1]])
    assert first < last < left[-4]
    again = cli("chat", stdin=f"/restore {ended.id}\nyes\n")
    assert (again.code, again.err) == (0, "")
    assert {*left} < {*there(log)}
    assert [event.id for event in events(log) if event.kind == "filter"] == [ended.id]


def three(history: list[list[int]]) -> str:
    """Return criteria for the turns 0, 3 and 6, which are not adjacent."""
    return ", ".join(f"messages {history[index][0]}-{history[index][1]}" for index in (0, 3, 6))


def test_a_choice_of_the_ranges(cli: Cli, log: foldmark.Log, history: list[list[int]]) -> None:
    talk = cli("chat", stdin=f"/forget {three(history)}\nonly 7\nall but 2\n")
    assert "there is no range 7; the ranges are 1 to 3. The offer is still open" in talk.err
    assert "Answer yes, no, all but 2, only 1 3, or say what else to look for." in talk.out
    assert there(log) == flat(history[1:6])


def test_a_person_may_keep_less_than_was_offered(cli: Cli, log: foldmark.Log, history: list[list[int]]) -> None:
    talked(cli("chat", stdin=f"/remember {three(history)}\nonly 2\n"))
    assert there(log) == history[3]


def test_each_run_of_matches_is_a_line(cli: Cli, log: foldmark.Log, history: list[list[int]]) -> None:
    """What stands between two matches stays, so it is inside no line."""
    criteria = f"messages {history[0][0]}-{history[1][0]}, message {history[3][0]}"
    talk = cli("chat", stdin=f"/forget {criteria}\nno\n/remember {criteria}\nno\n")
    spans = [f"{history[0][0]}-{history[1][0]}", f"{history[3][0]}"]
    assert re.findall(r"^  \d\. Message ([0-9-]+):", talk.out, re.MULTILINE) == spans * 2


def test_a_message_is_left_out_by_its_id(cli: Cli, log: foldmark.Log, history: list[list[int]]) -> None:
    talked(cli("chat", stdin=f"/forget database schema\nexcept messages {history[2][0]}-{history[2][1]}\n"))
    assert there(log) == flat([turn for index, turn in enumerate(history) if index != 1])


def test_a_result_that_is_left_out_keeps_its_call(cli: Cli, log: foldmark.Log) -> None:
    agent = log.agent("default")
    asked = agent.append("user", "Read the schema.")
    call = agent.append_tool_call("read", {"path": "schema.sql"}, call_id="c", dialect="openai")
    result = agent.append_tool_result("c", "CREATE TABLE schema", dialect="openai")
    answer = agent.append("assistant", "The schema has one table.")
    agent.end_turn()
    cli("chat", stdin=f"/forget messages {asked}-{answer}\nall but message {result}\n")
    assert there(log) == [call, result]


def test_a_doubtful_answer_asks_once_and_is_said_by_foldmark(
    cli: Cli, log: foldmark.Log, history: list[list[int]]
) -> None:
    lines = "/forget database schema\nfine, but keep the first one\nYes, forget these 4 messages\n"
    talk = cli("chat", stdin=lines)
    assert "that is neither a plain yes nor a plain no" in talk.out
    assert "about “database schema”, as it was shown: yes or no?" in talk.out
    assert there(log) == flat([turn for index, turn in enumerate(history) if index not in SCHEMA])


def test_without_tools_words_decide_in_the_chat(cli: Cli, log: foldmark.Log, history: list[list[int]]) -> None:
    log.agent("default").configure("tools", "none")
    shown = talked(cli("chat", stdin="/forget database schema\nwhich ones?\nsure, go\n"))
    assert shown.count("(matched by words: the model has no tools)") == 1
    assert any("or /forget with other words. Any other answer changes nothing." in line for line in shown)
    assert not any(line.startswith("[filter_context") for line in shown)
    assert there(log) == flat([turn for index, turn in enumerate(history) if index not in SCHEMA])


@pytest.mark.parametrize("no", ["no", "No, stop"])
def test_a_no_changes_nothing(cli: Cli, log: foldmark.Log, history: list[list[int]], no: str) -> None:
    shown = talked(cli("chat", stdin=f"/forget database schema\n{no}\n"))
    assert any(line.startswith("Cancelled. Nothing was forgotten") for line in shown)
    assert there(log) == flat(history)
    assert "no planning conversation is open" in cli("chat", stdin="/cancel\n").err


@pytest.mark.parametrize(
    ("line", "left"),
    [
        ('call filter_context {"action": "preview", "criteria": "Friday"}', [0, 1, 2, 4, 5, 6]),
        ("/forget Friday", [0, 1, 2, 4, 5, 6]),
        ("no, I mean Friday", [0, 1, 2, 3, 4, 5, 6]),
    ],
)
def test_other_criteria(cli: Cli, log: foldmark.Log, history: list[list[int]], line: str, left: list[int]) -> None:
    """The offline model previews again for a call or a command. Other criteria in words end planning."""
    shown = talked(cli("chat", stdin=f"/forget database schema\n{line}\nyes\n"))
    found = "I found 2 messages about Friday. Should I proceed to forget these?" in shown
    assert found is (len(left) < len(HISTORY))
    assert ("Planning has ended; nothing was forgotten." in shown) is not found
    assert there(log)[: 2 * len(left)] == flat([history[index] for index in left])


def test_no_match_makes_no_offer(cli: Cli, log: foldmark.Log, history: list[list[int]]) -> None:
    shown = talked(cli("chat", stdin="/forget zebras\nyes\n"))
    assert "Nothing matches “zebras”, and nothing has changed. Try other words." in shown
    assert "> yes" in shown  # the prompt asks no question
    assert "Planning has ended; nothing was forgotten." in shown
    assert there(log)[:-2] == flat(history)
    assert [message.content for message in log.agent("default").context().messages][-2] == "yes"


def test_a_yes_out_of_the_blue(cli: Cli, log: foldmark.Log, history: list[list[int]]) -> None:
    shown = talked(cli("chat", stdin="yes, proceed\n"))
    assert "You wrote 2 words: “yes, proceed” (user)" in shown[-1]
    assert len(there(log)) == len(flat(history)) + 2


def test_a_second_one_replaces_the_first(cli: Cli, log: foldmark.Log, history: list[list[int]]) -> None:
    talk = cli("chat", stdin="/forget database schema\n/forget eating on Friday\n/fork\nyes\n")
    assert talk.code == 2
    (error,) = talk.err.splitlines()
    assert "a planning conversation is open" in error
    assert there(log) == flat([turn for index, turn in enumerate(history) if index != 3])


def test_an_empty_conversation(cli: Cli, log: foldmark.Log) -> None:
    shown = talked(cli("chat", stdin="/forget everything about tables\n/cancel\n"))
    assert any(line.startswith("I found no messages") for line in shown)
    assert there(log) == []


def test_do_offers_and_a_chat_agrees(cli: Cli, log: foldmark.Log, history: list[list[int]]) -> None:
    begun = cli("do", "default", "/forget database schema")
    assert (begun.code, begun.err) == (0, "")
    assert begun.out.startswith("Forget 4 messages (~")
    assert "Done. 4 messages about “database schema” left" in cli("chat", stdin="Yes, proceed\n").out
    assert there(log) == flat([turn for index, turn in enumerate(history) if index not in SCHEMA])


def test_do_offers_and_a_chat_answers(cli: Cli, log: foldmark.Log, history: list[list[int]]) -> None:
    cli("do", "default", "/forget database schema")
    shown = talked(cli("chat", stdin="also Friday\nyes\n"))
    assert "Nothing has changed: that is neither a plain yes nor a plain no." in shown
    assert any(line.endswith("/forget with other words looks again.") for line in shown)
    assert there(log) == flat([turn for index, turn in enumerate(history) if index not in SCHEMA])


# A script


def test_a_script_agrees_to_an_offer_by_its_id(cli: Cli, log: foldmark.Log, history: list[list[int]]) -> None:
    made = json.loads(cli("do", "default", "/forget database schema", "--json").out)
    data = made["data"]
    found = flat([history[index] for index in SCHEMA])
    assert (data["mode"], data["criteria"], data["ids"]) == ("forget", "database schema", found)
    assert (data["messages"], data["before"]["messages"], data["after"]["messages"]) == (4, 14, 10)
    (only,) = data["ranges"]
    assert (only["number"], only["first"], only["last"], only["count"]) == (1, found[0], found[-1], 4)
    event = selections.event(stored(log), data["offer"])
    assert event is not None
    assert (event.kind, event.content) == ("command", "preview")
    assert there(log) == flat(history)  # nothing but the offer is recorded

    wrong = cli("do", "default", f"/agree {data['offer'] + 1}", "--json")
    assert (wrong.code, wrong.out) == (2, "")
    assert f"offer {data['offer'] + 1} is not open, but {data['offer']} is: `/agree {data['offer']}`" in wrong.err
    done = json.loads(cli("do", "default", f"/agree {data['offer']}", "--json").out)
    assert done["data"]["operation"] == "filter"
    assert (done["data"]["actor"], done["data"]["before"]["messages"]) == ("human", 14)
    assert there(log) == [id for id in flat(history) if id not in found]
    again = cli("do", "default", f"/agree {data['offer']}")
    assert again.code == 2
    assert f"offer {data['offer']} is not open" in again.err


def test_a_script_agrees_at_once_or_to_a_part(cli: Cli, log: foldmark.Log, history: list[list[int]]) -> None:
    done = json.loads(cli("do", "default", "/forget database schema", "--yes", "--json").out)
    assert done["data"]["operation"] == "filter"
    left = [id for id in flat(history) if id not in flat([history[index] for index in SCHEMA])]
    assert there(log) == left
    offer = json.loads(cli("do", "default", f"/forget {three(history)}", "--json").out)["data"]["offer"]
    refused = cli("do", "default", f"/agree {offer} some of it")
    assert "'some of it' names no ranges" in refused.err
    assert cli("do", "default", f"/agree {offer} only 2").code == 0
    assert there(log) == [id for id in left if id not in history[6]]


def test_a_script_that_finds_nothing_leaves_nothing_open(cli: Cli, log: foldmark.Log, history: list[list[int]]) -> None:
    made = json.loads(cli("do", "default", "/forget zebras", "--yes", "--json").out)
    assert made["data"]["offer"] is None
    assert made["text"].startswith("Nothing matches “zebras”")
    wrong = cli("do", "default", "/forget the")
    assert wrong.code == 2
    assert "holds no word to look for" in wrong.err
    assert there(log) == flat(history)
    assert "no planning conversation is open" in cli("do", "default", "/cancel").err


@pytest.mark.parametrize("step", ["/note Something else", "/forget Friday", "/undo", "/mark A\n/rewind A"])
def test_what_ends_an_offer(cli: Cli, log: foldmark.Log, history: list[list[int]], step: str) -> None:
    offer = json.loads(cli("do", "default", "/forget database schema", "--json").out)["data"]["offer"]
    for line in step.splitlines():
        assert cli("do", "default", line).code == 0
    refused = cli("do", "default", f"/agree {offer}")
    assert refused.code == 2
    assert f"offer {offer} is not open" in refused.err
    assert {*flat(history[:-1] if step == "/undo" else history)} <= {*there(log)}


def test_without_the_configured_model_words_decide(cli: Cli, log: foldmark.Log, history: list[list[int]]) -> None:
    log.agent("default").configure("model", "openai/gpt-5")
    made = json.loads(cli("do", "default", "/forget database schema", "--json").out)
    assert made["data"]["matched_locally"] is True
    assert "(matched by words: " in made["text"]
    assert made["data"]["ids"] == flat([history[index] for index in SCHEMA])


def test_a_full_context_can_be_planned_about(cli: Cli, log: foldmark.Log, history: list[list[int]]) -> None:
    """`/clear` is never forced (SPEC 4.2), even when other text is refused (SPEC 5.5)."""
    agent = log.agent("default")
    long = [agent.append("user", "About zebras: " + "stripes " * 105_000), agent.append("assistant", "I see.")]
    agent.end_turn()
    talk = cli("chat", stdin=f"Hello\n/forget messages {long[0]}-{long[1]}\nyes\nHello again\n")
    assert talk.out.count("⚠️  Context full. Use /clear to continue.") == 1
    assert "Done. 2 messages about" in talk.out
    assert there(log)[:-2] == flat(history)


def test_a_program_killed_before_the_yes(terminal: Start, log: foldmark.Log, history: list[list[int]]) -> None:
    with terminal("chat") as one:
        one.until("> ")
        one.type("/forget database schema\n")
        one.until("Should I proceed to forget these?")
        one.until("⚪\nforget 4 messages? > ")
        one.kill()
    with terminal("chat") as two:
        two.until("forget 4 messages? > ")
        two.type("Yes, proceed\n")
        two.until("Done. 4 messages about “database schema” left the context.")
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
        screen.until("(interrupted; the text so far is kept)")
        screen.until("⚪\n> ")
        screen.type(CTRL_D)
        assert screen.end() == 0
    assert [event.interrupted for event in events(log) if event.kind in ("assistant", "turn_ended")][-2:] == [True] * 2
    assert there(log) == flat(history)
