"""Foldmark's plugins in the real Claude Code (SPEC 8); skipped without a version that loads mods."""

import time
from pathlib import Path

import pytest
from mod_session import ModSession, client, contents

import foldmark
from sampled import DEEP

FREE, BOUND = "claude-sonnet-4-6", "claude-fable-5-1"


@pytest.fixture(autouse=True)
def _client() -> None:
    client()


def _turn(session: ModSession, text: str) -> int:
    found = next(each.turn_id for each in session.events() if text in each.content)
    assert found is not None
    return found


def _drop_and_restore(session: ModSession) -> None:
    """Drop one of three turns, and take that back, with a prompt behind each."""
    for text in ("first ONE", "second READ 2 TWO", "third READ 4 THREE"):
        session.prompt(text)
    session.fm("")
    session.fm(f"drop {_turn(session, 'TWO')}")
    session.prompt("fourth FOUR")
    assert all("TWO" not in text for _, text in session.context())
    session.fm(f"restore {session._operations()[-1]}")
    session.prompt("fifth FIVE")


@pytest.mark.parametrize("model", [FREE, BOUND])
def test_each_edit_reaches_the_next_request(tmp_path: Path, model: str) -> None:
    with ModSession(tmp_path / "session", model=model) as session:
        _drop_and_restore(session)
        (*_, result) = [each.id for each in session.events() if each.kind == "tool_result"]
        session.fm(f"evict {result}")
        session.prompt("sixth SIX")
        session.fm(f"restore {session._operations()[-1]}")
        session.prompt("seventh READ 1 SEVEN")
        session.fm("mark HERE")
        session.prompt("eighth EIGHT")
        session.fm("clear HERE")
        session.prompt("ninth NINE")
        session.compact()
        session.prompt("tenth TEN")
        session.fm("undo")
        session.restart()
        session.prompt("eleventh ELEVEN")
        session.fm("clear")
        session.prompt("twelfth TWELVE")
        session.check()
        assert session.compared == 9


def test_edits_while_the_agent_works_and_behind_an_interruption(tmp_path: Path) -> None:
    with ModSession(tmp_path / "session") as session:
        for text in ("first ONE", "second READ 2 TWO", "third THREE"):
            session.prompt(text)
        session.fm("")
        session.screen.enter("fourth FOUR WAIT 6")
        session._until(session._works, "the turn")
        session.fm("undo")
        assert "the agent is at work" in session.reply
        session.fm(f"drop {_turn(session, 'TWO')}")
        assert "this takes effect when its turn ends" in session.reply
        assert session.boundaries() == 0
        session._until(lambda: not session._works() and session.boundaries() == 1, "the edit")
        session.prompt("fifth READ 1 FIVE")
        session.screen.enter("sixth WAIT 8")
        session._until(session._works, "the turn")
        session.screen.press("Escape")
        session._until(lambda: not session._works(), "the interruption")
        session.screen.press("C-u")
        session.fm(f"drop {_turn(session, 'ONE')}")
        session.prompt("seventh SEVEN")
        assert next(text for kind, text in session.context() if kind == "user") == "third THREE"
        session.check()


def test_the_model_of_the_session_summarizes(tmp_path: Path) -> None:
    with ModSession(tmp_path / "session") as session:
        session.prompt("first ONE")
        session.fm("mark HERE")
        session.prompt("second READ 2 TWO")
        session.prompt("third THREE")
        session.found = "Two and three were read."
        session.fm("summarize HERE")
        session.prompt("fourth FOUR")
        assert ("assistant", "Two and three were read.") in session.context()
        session.fm(f"restore {session._operations()[-1]}")
        session.prompt("fifth FIVE")
        assert all("were read" not in text for _, text in session.context())
        session.check()


def test_a_session_behind_clear_is_edited(tmp_path: Path) -> None:
    with ModSession(tmp_path / "session") as session:
        session.prompt("first ONE")
        session.fm("")
        session.screen.enter("/clear")
        session._until(lambda: "ONE" not in session.screen.text, "the empty session")
        time.sleep(2)  # the service is asked about a session without messages
        for text in ("second TWO", "third THREE"):
            session.screen.enter(text)
            session._until(lambda: not session._works() and "Answer" in session.screen.text, "the answer")
        time.sleep(1)
        session.screen.enter("/fm undo")
        session._until(lambda: "left the context" in session.screen.text, "the receipt")
        assert "not loaded" not in session.screen.text
        session.screen.press("Escape")
        time.sleep(1)
        session.screen.enter("fourth FOUR")
        session._until(lambda: any("FOUR" in str(each) for each in session._bodies()), "the request")
        sent = [text for kind, text in contents(session._bodies()[-1]["messages"]) if kind == "user"]
        assert sent == ["second TWO", "fourth FOUR"]
        with foldmark.open(session.folder / "live.db", settings={}) as log:
            assert [each.name.partition(" ")[0] for each in log.agents() if each.name] == ["work", "work"]


def test_an_edit_of_another_program_reaches_the_next_prompt(tmp_path: Path) -> None:
    with ModSession(tmp_path / "session") as session:
        session.prompt("first ONE")
        session.prompt("second TWO")
        session.fm("")
        session.do(f"/context drop {_turn(session, 'ONE')}")
        time.sleep(3)
        session.prompt("third THREE")
        assert all("ONE" not in text for _, text in session.context())
        session.check()


def test_the_same_pane_edits_a_session_under_a_gateway(tmp_path: Path) -> None:
    with ModSession(tmp_path / "session", live=True) as session:
        _drop_and_restore(session)
        assert session.boundaries() == 0
        session.check()


@pytest.mark.parametrize("seed", range(20 if DEEP else 1))
def test_random_sequences(tmp_path: Path, seed: int) -> None:
    with ModSession(tmp_path / "session", seed, BOUND if seed % 4 == 3 else FREE) as session:
        session.play(30 if DEEP else 8)
        session.check()
