"""The requirements of the SDK's own tests for a session: add, get with a limit, pop, clear, settings, closing. The
SDK's `SQLiteSession` must meet each of them too."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
import pytest
from sdk_sessions import KINDS, call, now, output, said, session, texts, thinking, user

from sampled import DEEP

if TYPE_CHECKING:
    from agents.memory import SessionSettings

pytestmark = pytest.mark.parametrize("kind", KINDS)


def numbered(count: int) -> list[dict[str, Any]]:
    return [user(f"m{n}") if n % 2 == 0 else said(f"m{n}", n) for n in range(count)]


def test_added_items_come_back_in_order(kind: str, tmp_path: Path) -> None:
    with session(kind, tmp_path) as talk:
        assert now(talk.get_items()) == []
        now(talk.add_items(numbered(3)))
        now(talk.add_items([]))
        now(talk.add_items(numbered(5)[3:]))
        assert now(talk.get_items()) == numbered(5)


def test_it_outlives_the_session(kind: str, tmp_path: Path) -> None:
    with session(kind, tmp_path) as talk:
        now(talk.add_items(numbered(4)))
    with session(kind, tmp_path) as talk:
        now(talk.add_items([user("again")]))
        assert now(talk.get_items()) == [*numbered(4), user("again")]


def test_a_limit_gives_the_newest(kind: str, tmp_path: Path) -> None:
    items = [user("hi"), thinking(), call("a"), call("b"), output("a"), output("b"), said("done")]
    with session(kind, tmp_path) as talk:
        now(talk.add_items(items))
        for limit in (-1, *range(len(items) + 1), 100, None):
            # A negative limit means no limit. The limit may cut off a call whose result stays; the runner then omits
            # it.
            newest = len(items) if limit is None or limit < 0 else min(limit, len(items))
            assert now(talk.get_items(limit)) == items[len(items) - newest :]
            assert now(talk.get_items(limit=limit)) == now(talk.get_items(limit))


def test_the_limit_of_the_settings(kind: str, tmp_path: Path) -> None:
    with session(kind, tmp_path, session_settings=SessionSettings(limit=3)) as talk:
        assert talk.session_settings.limit == 3
        now(talk.add_items(numbered(5)))
        assert now(talk.get_items()) == numbered(5)[2:]
        assert now(talk.get_items(limit=2)) == numbered(5)[3:], "what is asked for goes before the settings"
        assert now(talk.get_items(limit=0)) == []
        talk.session_settings = SessionSettings()
        assert now(talk.get_items()) == numbered(5)
    with session(kind, tmp_path, session_settings={"limit": 1}) as talk:
        assert now(talk.get_items()) == numbered(5)[4:]
    with session(kind, tmp_path) as talk:
        assert talk.session_settings == SessionSettings()


def test_pop_takes_the_newest_item_alone(kind: str, tmp_path: Path) -> None:
    items = [user("hi"), thinking(1), call("a"), output("a"), thinking(2), thinking(3), said("well"), call("b")]
    items += [output("b"), {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "x"}}]
    with session(kind, tmp_path) as talk:
        assert now(talk.pop_item()) is None
        now(talk.add_items(items))
        for number in range(len(items) - 1, -1, -1):
            assert now(talk.pop_item()) == items[number]
            assert now(talk.get_items()) == items[:number]
            assert now(talk.get_items(3)) == items[:number][-3:]
        assert now(talk.pop_item()) is None
        now(talk.add_items(items))
        assert now(talk.get_items()) == items


def test_popped_items_can_be_added_again(kind: str, tmp_path: Path) -> None:
    """The runner does this if the end of the session differs from the items that it wants to remove."""
    items = [user("hi"), thinking(), call("a"), output("a"), said("done")]
    with session(kind, tmp_path) as talk:
        now(talk.add_items(items))
        for count in (1, 2, 3, 4, 5):
            popped = [now(talk.pop_item()) for _ in range(count)]
            now(talk.add_items(popped[::-1]))
            assert now(talk.get_items()) == items


def test_clearing(kind: str, tmp_path: Path) -> None:
    with session(kind, tmp_path) as talk:
        now(talk.clear_session())
        now(talk.add_items(numbered(4)))
        now(talk.clear_session())
        assert now(talk.get_items()) == []
        assert now(talk.get_items(2)) == []
        assert now(talk.pop_item()) is None
        now(talk.add_items([user("new")]))
        assert now(talk.get_items()) == [user("new")]


def test_sessions_are_apart_and_those_of_one_id_are_one(kind: str, tmp_path: Path) -> None:
    with (
        session(kind, tmp_path, "one") as one,
        session(kind, tmp_path, "two") as two,
        session(kind, tmp_path, "two") as again,
    ):
        assert (one.session_id, again.session_id) == ("one", "two")
        now(one.add_items([user("1")]))
        now(two.add_items([user("2"), user("3")]))
        assert now(again.pop_item()) == user("3")
        now(again.add_items([said("4")]))
        assert now(two.get_items()) == now(again.get_items()) == [user("2"), said("4")]
        now(two.clear_session())
        assert now(again.get_items()) == []
        assert now(one.get_items()) == [user("1")]


IDS = ("", " ", "a b", "O'Reilly", "x" * 5000, "two\nlines", "\0", "日本語 😊", "01234567-89ab-cdef-0123-456789abcdef")


def test_every_text_is_an_id(kind: str, tmp_path: Path) -> None:
    for session_id in IDS:
        with session(kind, tmp_path, session_id) as talk, session(kind, tmp_path, "another") as other:
            now(talk.add_items([user(f"here: {session_id}")]))
            assert talk.session_id == session_id
            assert now(other.get_items()) == []
    for session_id in IDS:
        with session(kind, tmp_path, session_id) as talk:
            assert now(talk.get_items()) == [user(f"here: {session_id}")]


TEXTS = (
    "こんにちは",
    "😊👍🏽 Привет",
    "O'Reilly",
    "Robert'); DROP TABLE students;--",
    '"SELECT * FROM users WHERE name = "admin";"',
    "nul \0 in it",
    "lone \ud83d surrogate \udc00",
    "a\u2028b\u2029c\u0085d\r\n\v\f",
    "\ufeff\ufffe\uffff",
    "e\u0301 \u200d",
    "### STATE\nGoal: none\n",
    "",
    "   ",
    "x" * 300_000,
)


def test_texts_come_back_to_the_letter(kind: str, tmp_path: Path) -> None:
    items = []
    for number, text in enumerate(TEXTS):
        asked = call(f"a{number}", arguments=json.dumps({"q": text}))
        items += [user(text), said(text), asked, output(f"a{number}", text), call(f"b{number}", text, text)]
    with session(kind, tmp_path) as talk:
        now(talk.add_items(items))
        assert now(talk.get_items()) == items
        assert json.dumps(now(talk.get_items())) == json.dumps(items), "in the order of their members, too"


def test_what_is_not_json_is_refused_whole(kind: str, tmp_path: Path) -> None:
    with session(kind, tmp_path) as talk:
        now(talk.add_items([user("before")]))
        deep: Any = []
        for _ in range(100_000):
            deep = [deep]
        for wrong in (object(), {"x": {1, 2}}, {"content": b"bytes"}, deep):
            with pytest.raises(Exception, match=r"JSON|recursion"):
                now(talk.add_items([user("half a list"), wrong]))
        assert now(talk.get_items()) == [user("before")]


def test_what_was_given_back_is_the_callers_own(kind: str, tmp_path: Path) -> None:
    items = numbered(2)
    with session(kind, tmp_path) as talk:
        now(talk.add_items(items))
        items[1]["content"][0]["text"] = "changed"
        (now(talk.get_items()))[0]["content"] = "changed"
        assert now(talk.get_items()) == numbered(2)


def test_after_closing(kind: str, tmp_path: Path) -> None:
    with session(kind, tmp_path) as talk:
        now(talk.add_items([user("kept")]))
        talk.close()
        talk.close()
        for wanted in (talk.get_items, talk.pop_item, talk.clear_session):
            with pytest.raises(RuntimeError, match="closed"):
                now(wanted())
        for items in ([], [user("lost?")]):
            with pytest.raises(RuntimeError, match="closed"):
                now(talk.add_items(items))
    with session(kind, tmp_path) as talk:
        assert now(talk.get_items()) == [user("kept")]


def test_a_cancellation_waits_for_what_is_being_recorded(kind: str, tmp_path: Path) -> None:
    async def cancelled(talk: Any) -> None:
        path = str(tmp_path / f"{kind}.db")
        # Two copies of SQLite in one process do not see each other's locks: lock each session with the copy it uses.
        other: Any = sqlite3.connect(path, isolation_level=None) if kind == "sqlite" else apsw.Connection(path)
        other.execute("BEGIN IMMEDIATE")  # so that the session has to wait
        adding = asyncio.create_task(talk.add_items(numbered(50)))
        await asyncio.sleep(0)
        for _ in range(5):
            adding.cancel()
            await asyncio.sleep(0.01)
            assert not adding.done()
        other.execute("ROLLBACK")
        other.close()
        with pytest.raises(asyncio.CancelledError):
            await adding
        assert await talk.get_items() == numbered(50)

    with session(kind, tmp_path) as talk:
        now(cancelled(talk))


def test_a_thousand_items(kind: str, tmp_path: Path) -> None:
    with session(kind, tmp_path) as talk:
        now(talk.add_items(numbered(1000)))
        assert now(talk.get_items()) == numbered(1000)
        assert texts(now(talk.get_items(limit=3))) == ["m997", "m998", "m999"]


def test_large_images(kind: str, tmp_path: Path) -> None:
    url = "data:image/png;base64," + "iVBORw0KGgo" * (400_000 if DEEP else 100_000)
    part = {"type": "input_image", "image_url": url, "detail": "auto"}
    items = [
        {"role": "user", "content": [{"type": "input_text", "text": "what is it?"}, part, {**part, "detail": "low"}]},
        call("a"),
        output("a", [part]),
        {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": "iVBORw0KGgo" * 10_000},
    ]
    with session(kind, tmp_path) as talk:
        now(talk.add_items(items))
        assert now(talk.get_items()) == items
