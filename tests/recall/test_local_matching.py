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
        ("database schema discussions", SCHEMA, 1.0, 1.0),
        ("messages about tables, columns and migrations", SCHEMA, 1.0, 1.0),
        ("the login bug", LOGIN, 1.0, 1.0),
        ("login sessions and tokens", LOGIN, 1.0, 1.0),
        ("deployment", DEPLOY, 1.0, 0.85),
        ("deploying, the pipeline and docker images", DEPLOY, 1.0, 1.0),
        ("themes and contrast", COLOURS, 1.0, 0.9),
        ("only the final API decisions", PAGING, 1.0, 0.8),
        ("paging, rate limits and API errors", PAGING, 0.75, 1.0),
        # The messages hardly repeat these words for their topic; a matcher without understanding misses some of them.
        ("dark mode and colours", COLOURS, 1.0, 0.8),
        ("lunch with noodles on Friday", CHAT, 1.0, 0.5),
    ],
)
def test_precision_and_recall(criteria: str, topic: str, precision: float, recall: float) -> None:
    """The bounds are the measured values."""
    found, wanted = set(match(criteria, TALK)), about(topic)
    assert len(found & wanted) >= precision * len(found) > 0
    assert len(found & wanted) >= recall * len(wanted)


def test_without_neighbouring_turns_a_subset_is_found() -> None:
    for criteria in ("database schema", "the login bug", "deployment"):
        assert set(match(criteria, TALK, keep_going=False)) < set(match(criteria, TALK))


# What matches


def test_a_matching_user_message_selects_its_whole_turn() -> None:
    turn = [message.id for message in TALK if message.turn_id == 127]
    assert [BY_ID[id].kind for id in turn] == ["user", "tool_call", "tool_result", "assistant"]
    assert set(turn) <= set(match("staging", TALK, keep_going=False))


def test_any_other_message_matches_alone() -> None:
    found = match("SessionStore.refresh", TALK, keep_going=False)
    assert {BY_ID[id].kind for id in found} == {"tool_result", "assistant"}
    assert match("write_file", TALK, keep_going=False) == tuple(m.id for m in TALK if m.kind == "tool_call")


def test_a_turn_that_says_nothing_new_continues_the_topic() -> None:
    messages = said("Where does the schema live?", "ok, and then?", "go on", "What is for lunch?", "go on")
    assert match("schema", messages) == (1, 2, 3)
    assert match("schema", messages, keep_going=False) == (1,)


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
    assert match("database index", messages, keep_going=False) == (10, 11)


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


def test_neighbours_need_a_significant_word() -> None:
    messages = said(
        "We need a good look at the schema of the notes, please take your time.",
        "We need a good name for the cat, please take a look when there is time.",
        "thanks",
        "Write me a poem, take your time.",
    )
    assert match("schema", messages) == (1,)


def test_an_answer_to_a_nod_also_needs_a_significant_word() -> None:
    rows = [
        ("user", "The schema?"),
        ("assistant", "Two tables."),
        ("user", "ok, thanks"),
        ("assistant", "The sea is blue."),
    ]
    messages = [
        each
        for number, (kind, text) in enumerate(rows, 1)
        for each in [Event(number, "a", number - (kind != "user"), kind, text, None, None, "human", 1, "", False)]
    ]
    assert match("schema", messages) == (1, 2)


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
    assert match("port 3", messages, keep_going=False) == (2,)
    assert match("version 4 and 9", messages) == (5,)
    assert match("messages 1-4 except 2-3", messages) == (1, 4)
    assert match("message 99", messages) == ()


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
    assert match("login ticket7", messages, keep_going=False) == (1,)
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


@given(criteria=st.text(max_size=40), texts=st.lists(st.text(max_size=40), max_size=6), going=st.booleans())
def test_any_criteria_can_be_applied_to_any_text(criteria: str, texts: list[str], going: bool) -> None:
    messages = said(*texts)
    try:
        found = match(criteria, messages, keep_going=going)
    except CommandError:
        return
    assert list(found) == sorted({*found})
    assert found == match(criteria, messages, keep_going=going)
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
        "Back to the tables: I want to rename the column body to…",
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
