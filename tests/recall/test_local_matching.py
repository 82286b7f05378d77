"""The local matcher: the meaning of criteria when no model judges (SPEC 4.2, [S1])."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matching_conversation import CHAT, COLOURS, DEPLOY, LOGIN, PAGING, SCHEMA, TURNS, about, conversation

from foldmark.core.codec import count_tokens
from foldmark.core.errors import CommandError
from foldmark.core.events import Event
from foldmark.recall.matcher import match
from foldmark.text.selection import candidate, numbered, ranges
from planning_talk import Talk
from sampled import DEEP

TALK = conversation()
BY_ID = {message.id: message for message in TALK}


def said(*texts: str, turn: int | None = 0, kind: str = "user") -> list[Event]:
    """Return messages of one kind, with ids from 1 on, each in a separate turn unless `turn` says otherwise."""
    return [
        Event(
            number, "agent", number if turn == 0 else turn, kind, text, None, None, "human", count_tokens(text, None),
            "2026-03-15T09:00:00Z", False,
        )
        for number, text in enumerate(texts, 1)
    ]  # fmt: skip


# Quality


def test_the_conversation_is_large_enough() -> None:
    assert len(TALK) == len(TURNS) >= 60
    assert len({topic for topic, _, _ in TURNS}) == 6


@pytest.mark.parametrize(
    ("criteria", "topic", "precision", "recall"),
    [
        ("messages about tables, columns and migrations", SCHEMA, 1.0, 0.83),
        ("login sessions and tokens", LOGIN, 1.0, 0.75),
        ("deployment", DEPLOY, 1.0, 0.7),
        ("deploying, the pipeline and docker images", DEPLOY, 1.0, 0.85),
        ("themes and contrast", COLOURS, 1.0, 0.9),
        ("paging, rate limits and API errors", PAGING, 0.72, 0.8),
        ("dark mode and colours", COLOURS, 1.0, 0.6),
        # The messages hardly repeat these words for their topic; a matcher without understanding misses the others.
        ("only the final API decisions", PAGING, 1.0, 0.5),
        ("lunch with noodles on Friday", CHAT, 1.0, 0.5),
        ("database schema discussions", SCHEMA, 1.0, 0.33),
        ("the login bug", LOGIN, 1.0, 0.33),
    ],
)
def test_precision_and_recall(criteria: str, topic: str, precision: float, recall: float) -> None:
    """The bounds are the measured values."""
    found, wanted = set(match(criteria, TALK)), about(topic)
    assert len(found & wanted) >= precision * len(found) > 0
    assert len(found & wanted) >= recall * len(wanted)


# What matches


def test_a_matching_user_message_selects_its_whole_turn() -> None:
    turn = [message.id for message in TALK if message.turn_id == 127]
    assert [BY_ID[id].kind for id in turn] == ["user", "tool_call", "tool_result", "assistant"]
    assert set(turn) <= set(match("staging", TALK))


def test_any_other_message_matches_alone() -> None:
    found = match("SessionStore.refresh", TALK)
    assert {BY_ID[id].kind for id in found} == {"tool_result", "assistant"}
    assert match("write_file", TALK) == tuple(m.id for m in TALK if m.kind == "tool_call")


def test_turns_beside_a_match_do_not_match_for_that() -> None:
    messages = said("Fix ticket 3 in billing", "Fix ticket 4 in billing", "ok, go on", "Fix ticket 9 in billing")
    assert match("ticket 3", messages) == (1,)
    assert match("ticket 9", messages) == (4,)


@pytest.mark.parametrize(
    ("criteria", "text"),
    [
        ("databases", "one database is enough"),
        ("caching", "the cache is cold"),
        ("deployments", "we deployed it"),
        ("deploying", "the deployment is done"),
        ("queries", "that query is slow"),
        ("decisions", "we decided on tabs"),
        ("migrations", "migrate it first"),
        ("notes", "I noted that"),
        ("user_session", "the user sessions expire"),
        ("user session", "look at userSession"),
        ("userSession", "see user_session.py"),
        ("oauth", "use OAuth2"),
        ("HTTPServer", "the http server"),
        ("naive", "that is naïve"),
        ("ÜBERSICHT", "die übersicht fehlt"),
        ("ﬁle", "the files are gone"),
        ("关于数据库的讨论", "我们需要一个数据库吗"),
        ("データベース", "このデータベースは遅い"),
        ("데이터베이스", "이 데이터베이스는 느리다"),
        ("फ़ाइल", "यह फ़ाइल कहाँ है"),
        ("port 8080", "it listens on port 8080"),
        ("TICKET7", "see ticket7."),
        ("NEAR(weather dry)", "the weather is fine"),
        ("src/app.py", "in src there is app.py"),
        ("tickets", "ticket7 and ticket8 wait"),
        ("PROJ-12", "proj-12 is open"),
        ("v1.2", "the bug is in v1.2.0"),
        ("decided", "the decision is final"),
        ("deployed", "the deployment is done"),
        ("C", "write it in C, please"),
    ],
)
def test_related_words_match(criteria: str, text: str) -> None:
    if criteria == "C":  # one letter is too little
        with pytest.raises(CommandError):
            match(criteria, said(text))
        return
    assert match(criteria, said("something else entirely", text, "and a third")) == (2,)


@pytest.mark.parametrize(
    ("criteria", "text"),
    [
        ("notes", "do not do that"),
        ("letters", "let me see"),
        ("stations", "it is static"),
        ("data", "what date is it"),
        ("class", "a clash of names"),
        ("数据库", "今天天气很好"),
        ("OAuth2", "oauth is simple"),
        ("ticket7", "ticket8 and ticket77 wait"),
        ("PROJ-12", "PROJ-120 is open, 12 others are not"),
    ],
)
def test_unrelated_words_do_not_match(criteria: str, text: str) -> None:
    assert match(criteria, said("something else entirely", text)) == ()


def test_rarer_words_weigh_more() -> None:
    messages = said(*["the database is fine"] * 9, "the database index is slow", "an index of the book")
    assert match("database index", messages) == (10, 11)


@pytest.mark.parametrize("criteria", ["database schema discussions", "the database schema", "schema of the database"])
def test_one_significant_word_is_enough(criteria: str) -> None:
    messages = said(
        "Let's design the database schema for our notes.",
        "Should the schema have an index?",
        "What is the capital of France?",
        "IMPORTANT: we use port 8080.",
        "How do I deploy this?",
        "Which column types does the schema use?",
        "Please write a poem about the sea.",
    )
    assert match(criteria, messages) == (1, 2, 6)


def test_meaning_counts_with_vectors() -> None:
    messages = said("How do people sign in?", "What is for lunch?", "the authentication of robots")
    near = {1: 0.5, 2: 0.1, 3: 0.6}

    class Near:
        def nearest(self, limit: int) -> list[int]:
            raise AssertionError("a criterion has a threshold, not a number of hits")

        def of(self, ids: Sequence[int]) -> dict[int, float]:
            return {id: near[id] for id in ids}

    assert match("authentication", messages) == (3,)
    assert match("authentication", messages, alike=lambda _: Near()) == (1, 3)
    assert match("authentication", messages, alike=lambda _: None) == (3,)
    assert match("all but authentication", messages, alike=lambda _: Near()) == (2,)
    # An identifier matches only if it occurs literally.
    assert match("ticket7", messages, alike=lambda _: Near()) == ()


def test_a_long_message_needs_a_word_more_often() -> None:
    filler = "lorem ipsum dolor amet " * 200
    once, often = said(f"{filler} schema", f"{filler} {'schema ' * 20}", kind="tool_result", turn=None)
    assert match("schema", [once, often]) == (2,)


def test_a_models_quotes_do_not_match_criteria() -> None:
    (quoting,) = said("You wrote: “the schema is wrong”. That is all.", kind="assistant")
    (speaking,) = said("I wrote the schema.", kind="assistant")
    assert match("schema", [quoting]) == ()
    assert match("schema", [speaking]) == (1,)


def test_clauses_match_separately_and_exceptions_are_left_out() -> None:
    messages = said("the schema", "the naming of the schema", "the login", "lunch", "naming a cat")
    assert match("schema and login", messages) == (1, 2, 3)
    assert match("schema except the naming", messages) == (1,)
    assert match("schema, login, but not naming", messages) == (1, 3)
    assert match("everything except lunch", messages) == (1, 2, 3, 5)
    assert match("everything but lunch and naming", messages) == (1, 3)


def test_numbers_after_the_word_messages_are_ids() -> None:
    messages = said("a cat", "port 3 is open", "a dog", "a bird", "version 4")
    assert match("messages 2-4", messages) == (2, 3, 4)
    assert match("#1 and #3", messages) == (1, 3)
    assert match("1, 3–4", messages) == (1, 3, 4)
    assert match("messages 1 and 4", messages) == match("#1, 4", messages) == match("id 1 and id 4", messages) == (1, 4)
    assert match("messages 4 and port 3", messages) == (2, 4)
    assert match("port 3", messages) == (2,)
    assert match("version 4 and 9", messages) == (5,)
    assert match("messages 1-4 except 2-3", messages) == (1, 4)
    assert match("message 99", messages) == ()


NUMBERED = said(
    "Fix ticket 3 in billing",
    "Fix ticket 4 in billing, it has 3 comments",
    "I closed 3 tickets of 33",
    "see ticket #3 again, or ticket no. 3",
    "tickets 4, 3 and 9 are open",
    "tickets 1-5 wait",
    "ticket33 and ticket 33 and ticket. 3 more",
    "ticket3 is done",
    "the 2024 budget",
    "port 8080 is open",
    "Python 3.11 is out",
    "question 13. 3 others are hard",
)


@pytest.mark.parametrize(
    ("criteria", "ids"),
    [
        ("ticket 3", (1, 4, 5, 6, 8)),
        ("the billing ticket 3", (1, 4, 5, 6, 8)),
        ("ticket #3 please", (1, 4, 5, 6, 8)),
        ("Ticket no. 3", (1, 4, 5, 6, 8)),
        ("ticket 03", (1, 4, 5, 6, 8)),
        ("tickets 4 and 9", (2, 5, 6)),
        ("tickets 7-9", (5,)),
        ("ticket 34", ()),
        ("ticket 3 of sprint 12", ()),
        ("question 3", ()),
        ("question 13", (12,)),
        ("port 8080", (10,)),
        ("port 808", ()),
        ("2024 budget", (9,)),
        ("budget 2024", (9,)),
        ("Python 3", (11,)),
        ("all but ticket 3", (2, 3, 7, 9, 10, 11, 12)),
    ],
)
def test_a_number_beside_a_word_is_part_of_the_name(criteria: str, ids: tuple[int, ...]) -> None:
    assert match(criteria, NUMBERED) == ids


def test_a_name_with_a_number_is_found_in_a_long_prompt() -> None:
    assert match("ticket 3", said("About ticket 3: " + "lorem ipsum dolor amet " * 300, "lunch")) == (1,)


def test_a_bare_number_is_a_word() -> None:
    messages = said("a cat", "port 3 is open", "a dog", "a bird", "version 4")
    assert match("3", messages) == (2,)
    assert match("1", messages) == match("1 and 5", messages) == ()
    assert match("4, 3", messages) == (2, 5)
    assert match("2026-01-02", messages) == match("messages of 2026-01-02", messages) == ()


def test_digits_inside_a_word_are_not_an_id() -> None:
    messages = said("a cat", "a dog", "a bird")
    for criteria in ("v2", "ISSUE2", "2nd", "2x", "issue #2", "messages about v2"):
        assert match(criteria, messages) == ()


@pytest.mark.parametrize("criteria", ["ticket7", "TICKET7", "the ticket7 discussion", "ticket7 please"])
def test_an_identifier_is_matched_whole_among_many_of_its_kind(criteria: str) -> None:
    messages = said(*[f"Please look at ticket{number}, it is about page {number}0." for number in range(1, 21)])
    assert match(criteria, messages) == (7,)
    assert match("ticket77", messages) == match("ISSUE7", messages) == ()
    assert match("tickets", messages) == tuple(range(1, 21))


def test_a_message_without_the_identifier_does_not_match() -> None:
    messages = said("the login of ticket7", "the login of ticket8", "the login", "lunch")
    assert match("login ticket7", messages) == (1,)
    assert match("login ticket9", messages) == ()


def test_system_messages_and_metadata_never_match() -> None:
    assert match("schema", said("the schema", kind="system")) == ()
    assert match("schema", said("the schema", kind="state")) == ()
    assert match("everything except lunch", said("the schema", kind="system")) == ()
    assert match("schema", []) == ()


@pytest.mark.parametrize(
    "criteria",
    [
        "",
        " ",
        "the",
        "messages",
        "only the final discussions",
        "all",
        "everything",
        "about",
        "?!",
        "关于的讨论",
        "the, and",
        "x",
    ],
)
def test_criteria_without_a_subject_are_refused(criteria: str) -> None:
    with pytest.raises(CommandError, match="holds no word to look for; say what the messages are about"):
        match(criteria, TALK)


@given(criteria=st.text(max_size=40), texts=st.lists(st.text(max_size=40), max_size=6))
def test_any_criteria_can_be_applied_to_any_text(criteria: str, texts: list[str]) -> None:
    messages = said(*texts)
    try:
        found = match(criteria, messages)
    except CommandError:
        return
    assert list(found) == sorted({*found})
    assert found == match(criteria, messages)
    assert {*found} <= {message.id for message in messages}


def test_huge_criteria_and_texts_take_linear_time() -> None:
    n = 100_000 if DEEP else 20_000
    messages = said("[" * n, "a" * n, "_" * n, "aB" * (n // 2), "schema " * (n // 2), "字" * n)
    assert match("schema", messages) == (5,)
    assert match("schema " * (n // 5), messages) == (5,)
    assert match("字字", messages) == (6,)


# Ranges and display


def test_ranges_cover_every_match_once() -> None:
    ids = match("database schema, login", TALK)
    found = ranges(map(candidate, TALK), ids, lambda wanted: (BY_ID[id] for id in wanted))
    assert sum(each.count for each in found) == len(ids)
    assert sum(each.tokens for each in found) == sum(BY_ID[id].tokens for id in ids)
    assert all(any(each.first <= id <= each.last for each in found) for id in ids)
    assert [each.title for each in found][:2] == [
        "Let's start with the database schema",
        "Now the login bug: people are thrown out after ten minutes",
    ]


def test_a_model_is_shown_ids_roles_and_texts() -> None:
    assert numbered(TALK[6:9]) == (
        "[107] user: Write the first migration for that.\n"
        '[108] assistant: write_file {"path": "migrations/0001.sql", '
        '"content": "create table notes (id integer primary key)"}\n'
        "[109] tool: wrote migrations/0001.sql, 34 lines"
    )


def test_forget_uses_the_existing_vectors(tmp_path: Path) -> None:
    with Talk(tmp_path / "log.db") as talk:
        sign_in = talk.exchange("How do people sign in?", "With a password.")
        talk.exchange("What is for lunch?", "Noodles.")
        assert talk.forget("authentication")["message_count"] == 0
        talk.agent.do("/cancel")
        talk.log.meanings().bring_up()
        found = talk.forget("authentication")
        assert [message["id"] for message in found["matching_messages"]] == sign_in
