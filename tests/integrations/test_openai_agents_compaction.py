"""The SDK's compaction of a Foldmark session works as for its own sessions. It is one operation, and the copy never
appears together with the originals [SPEC 3, 5.7]."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from sdk_cases import of_kinds
from sdk_sessions import KINDS, add, call, now, output, said, session, texts, thinking, user

import foldmark
from foldmark.core import selections
from foldmark.log.doctor import examine
from sampled import sampled
from stored import stored

if TYPE_CHECKING:
    from agents import SessionSettings
    from agents.memory import OpenAIResponsesCompactionSession

    from foldmark.integrations.openai_agents import FoldmarkSession
    from foldmark.wires.responses import COMPACTION

kinds = pytest.mark.parametrize("kind", KINDS)


class Compacts:
    """A client whose API keeps the person's items and replaces all others with an opaque one. `meanwhile` runs before
    the answer."""

    def __init__(self, meanwhile: Callable[[], Any] | None = None) -> None:
        self.responses, self.asked, self._meanwhile = self, list[Any](), meanwhile

    async def compact(self, *, model: str, input: list[Any]) -> Any:
        self.asked.append(input)
        if self._meanwhile is not None:
            await self._meanwhile()
        kept = [item for item in input if item.get("role") == "user"]
        opaque = {"type": "compaction", "id": f"cmp_{len(self.asked)}", "encrypted_content": f"{len(input)} items"}
        return SimpleNamespace(output=[*kept, opaque], usage=None)


def compacting(talk: Any, **more: Any) -> OpenAIResponsesCompactionSession:
    more = {"client": Compacts(), **more}
    return OpenAIResponsesCompactionSession("talk", talk, compaction_mode="input", **more)


def compact(talk: Any, **more: Any) -> None:
    now(compacting(talk, **more).run_compaction({"force": True}))


def opaque(items: list[Any]) -> list[Any]:
    return [item for item in items if item.get("type") == COMPACTION]


def copies(talk: Any) -> list[foldmark.Event]:
    return [event for event in selections.operations(stored(talk.log), talk.agent.id) if event.kind == "summary"]


FIRST = [user("q1"), thinking(1), call("c1"), output("c1"), said("a1", 1)]
SECOND = [user("q2"), said("a2", 2)]


@kinds
@pytest.mark.parametrize("most", [None, 5, 7])
def test_a_whole_history(kind: str, most: int | None, tmp_path: Path) -> None:
    with session(kind, tmp_path) as talk:
        now(talk.add_items(FIRST))
        compact(talk, max_rollback_items=most)
        once = now(talk.get_items())
        assert [(item.get("type"), item.get("content")) for item in once] == [(None, "q1"), ("compaction", None)]
        now(talk.add_items(SECOND))
        assert now(talk.get_items()) == [*once, *SECOND]
        assert now(talk.get_items(3)) == [once[1], *SECOND]
        compact(talk, max_rollback_items=most)
        twice = now(talk.get_items())
        assert texts(twice) == ["q1", "q2", ""]
        for left in (2, 1, 0):
            assert now(talk.pop_item()) == twice[left]
            assert now(talk.get_items()) == twice[:left]


@kinds
def test_more_than_may_be_rolled_back(kind: str, tmp_path: Path) -> None:
    with session(kind, tmp_path, session_settings=SessionSettings(limit=2)) as talk:
        now(talk.add_items(FIRST))
        with pytest.raises(ValueError, match="exceeds max_rollback_items"):
            compact(talk, max_rollback_items=4)
        assert now(talk.get_items(99)) == FIRST
        compact(talk, max_rollback_items=5)
        assert len(opaque(now(talk.get_items(99)))) == 1


@pytest.mark.parametrize(("kind", "start"), of_kinds(range(len(FIRST + SECOND))))
def test_the_end_of_a_history(kind: str, start: int, tmp_path: Path) -> None:
    copy = [user("kept"), {"type": "compaction", "id": "cmp", "encrypted_content": "x"}]
    with session(kind, tmp_path) as talk:
        now(talk.add_items(FIRST))
        now(talk.add_items(SECOND))
        for limit in (1, 3, 7, 8):
            snapshot = now(talk._get_compaction_snapshot(limit))
            assert (snapshot.items, snapshot.complete) == ((FIRST + SECOND)[-limit:], limit >= 7)
        assert now(snapshot.replace_suffix(start, copy)) is True
        assert now(talk.get_items()) == [*(FIRST + SECOND)[:start], *copy]
        assert now(snapshot.replace_suffix(start, copy)) is False, "it is not what it was"
        # Compact the end of the compacted history again.
        snapshot = now(talk._get_compaction_snapshot(2))
        assert now(snapshot.replace_suffix(1, [*copy, *SECOND])) is True
        assert now(talk.get_items()) == [*(FIRST + SECOND)[:start], copy[0], *copy, *SECOND]
        assert now(now(talk._get_compaction_snapshot(2)).replace_suffix(2, copy)) is False


@kinds
def test_messages_that_come_meanwhile_are_not_lost(kind: str, tmp_path: Path) -> None:
    with session(kind, tmp_path) as talk:
        now(talk.add_items(FIRST))
        snapshot = now(talk._get_compaction_snapshot(9))
        now(talk.add_items(SECOND))
        assert now(snapshot.replace_suffix(0, [user("x")])) is False
        assert now(talk.get_items()) == FIRST + SECOND


@kinds
def test_an_empty_copy_and_an_empty_history(kind: str, tmp_path: Path) -> None:
    with session(kind, tmp_path) as talk:
        compact(talk)
        assert len(now(talk.get_items())) == 1, "the API was asked about nothing, and gave an item"
        now(talk.clear_session())
        now(talk.add_items(FIRST))
        assert now(now(talk._get_compaction_snapshot(9)).replace_suffix(0, [])) is True
        assert now(talk.get_items()) == []
        now(talk.add_items(SECOND))
        assert now(talk.get_items()) == SECOND


def test_a_copy_is_one_operation(tmp_path: Path) -> None:
    with session("foldmark", tmp_path) as talk:
        now(talk.add_items(FIRST))
        compact(talk)
        (copy,) = copies(talk)
        assert selections.operations(stored(talk.log), talk.agent.id) == [copy]
        assert (copy.actor, copy.content.splitlines()[0]) == ("system", "user: q1")
        assert "only its own models can read" in copy.content
        talk.do(f"/restore {copy.id}")
        assert now(talk.get_items()) == FIRST
        talk.do(f"/restore {selections.operations(stored(talk.log), talk.agent.id)[-1].id}")
        assert len(opaque(now(talk.get_items()))) == 1
        assert list(examine(talk.log)) == []


class Plain:
    """A foreign wrapper around a session, with only the methods that every session has."""

    def __init__(self, inner: Any) -> None:
        self.session_id, self.session_settings = inner.session_id, inner.session_settings
        for name in ("get_items", "add_items", "pop_item", "clear_session"):
            setattr(self, name, getattr(inner, name))


def compacted(talk: Any, plain: bool) -> None:
    """Add two turns with a compaction after each, then pop an item, add a third turn and compact again."""
    for turn in (FIRST, SECOND):
        now(talk.add_items(turn))
        compact(Plain(talk) if plain else talk)
    now(talk.pop_item())
    now(talk.add_items([user("q3"), said("a3")]))
    compact(Plain(talk) if plain else talk)


@pytest.mark.parametrize("plain", [False, True])
def test_originals_and_copy_are_never_given_together(plain: bool, tmp_path: Path) -> None:
    """No message appears twice, in whatever order the copies are restored and those restores undone."""
    with session("foldmark", tmp_path) as talk:
        compacted(talk, plain)
        last = now(talk.get_items())
        assert [item["content"] for item in last[:-1]] == ["q1", "q2", "q3"]
        made = [event.id for event in copies(talk)]
        for order in sampled([*permutations(made)], 3):
            taken = []
            for number, id in enumerate(order, 1):
                talk.do(f"/restore {id}")
                taken.append(selections.operations(stored(talk.log), talk.agent.id)[-1].id)
                items = now(talk.get_items())
                said_so = [text for text in texts(items) if text]
                assert len(said_so) == len(set(said_so)), order[:number]
                in_context = "\n".join(m.content for m in talk.agent.context().messages)
                assert in_context.count("q1") == 1, order[:number]
            assert said_so == ["q1", "a1", "q2", "a2", "q3", "a3"], "all of them taken back"
            for id in reversed(taken):
                talk.do(f"/restore {id}")
            assert now(talk.get_items()) == last
        assert list(examine(talk.log)) == []


def test_clearing_is_taken_back_with_the_copy(tmp_path: Path) -> None:
    """If a wrapper clears and adds, the clear alone can no longer be restored."""
    with session("foldmark", tmp_path) as talk:
        now(talk.add_items(FIRST))
        compact(Plain(talk))
        clear, _, copy = selections.operations(stored(talk.log), talk.agent.id)
        assert (clear.kind, copy.kind) == ("clear", "summary")
        with pytest.raises(foldmark.CommandError):
            talk.do(f"/restore {clear.id}")
        talk.do(f"/restore {copy.id}")
        assert now(talk.get_items()) == FIRST


def test_a_person_who_cleared_began_anew(tmp_path: Path) -> None:
    with session("foldmark", tmp_path) as talk:
        now(talk.add_items(FIRST))
        talk.do("/clear")
        now(talk.add_items([user("q"), {"type": "compaction", "id": "cmp", "encrypted_content": "x"}]))
        assert [event.kind for event in selections.operations(stored(talk.log), talk.agent.id)] == ["clear", "summary"]
        assert len(now(talk.get_items())) == 2


@kinds
def test_a_persons_item_and_a_compaction_come_back_as_they_were(kind: str, tmp_path: Path) -> None:
    items = [user("first"), {"type": "compaction", "id": "cmp_1", "encrypted_content": "x"}]
    with session(kind, tmp_path) as talk:
        now(talk.add_items(items))
        assert now(talk.get_items()) == items
        assert now(talk.pop_item()) == items[1]
        assert now(talk.get_items()) == items[:1]


def test_a_compaction_in_the_midst_of_a_run_stands_for_all_before_it(tmp_path: Path) -> None:
    """The API makes such a compaction automatically (`context_management`). Nothing appears twice, and Foldmark's own
    requests contain the compaction too."""
    made = {"type": "compaction", "id": "cmp_1", "encrypted_content": "b3BhcXVl"}
    with session("foldmark", tmp_path) as talk:
        now(talk.add_items(FIRST))
        now(talk.add_items([user("q2")]))
        now(talk.add_items([thinking(2), said("I look.", 2), made, said("a2", 3)]))
        assert now(talk.get_items()) == [made, said("a2", 3)]
        talk.agent.append("user", "And now?")
        own = talk.agent.request("openai_responses", "gpt-5").body["input"]
        assert own[0] == made
        for other in (("openai", "gpt-5"), ("anthropic", "claude-opus-4-8")):
            body = talk.agent.request(*other).bytes.decode()
            assert [body.count(each) for each in ("q1", "a1", "q2", "a2", "compaction")] == [1, 1, 1, 1, 0]
        now(talk.pop_item())
        now(talk.pop_item())
        assert now(talk.pop_item()) == made
        assert now(talk.get_items()) == [*FIRST, user("q2"), thinking(2), said("I look.", 2)]
        assert list(examine(talk.log)) == []


def test_a_fork_compacts_what_it_inherited(tmp_path: Path) -> None:
    with session("foldmark", tmp_path) as talk:
        now(talk.add_items(FIRST))
        compact(talk)
        child = FoldmarkSession(talk.do("/fork").data["child"], talk.log)
        before = now(child.get_items())
        assert now(child.pop_item()) == before[-1]
        assert now(child.get_items()) == before[:-1]
        child.do(f"/restore {copies(child)[0].id}")
        assert now(child.get_items()) == before
        add(child, SECOND)
        compact(child)
        assert texts(now(child.get_items())) == ["q1", "q2", ""]
        assert now(talk.get_items()) == before


def test_a_session_that_gives_other_items_is_not_gone_past(tmp_path: Path) -> None:
    class Own(FoldmarkSession):
        pass

    with Own("talk", tmp_path / "own.db") as talk:
        assert now(talk._get_compaction_snapshot(9)) is None


@kinds
@pytest.mark.parametrize("wrong", [{"limt": 3}, {"limit": 3, "order": "asc"}, 5, "limit"])
def test_unknown_settings_are_refused(kind: str, wrong: Any, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"[Ss]ession"), session(kind, tmp_path, session_settings=wrong):
        pass
    with session(kind, tmp_path) as talk:
        talk.session_settings = wrong
        with pytest.raises(TypeError, match=r"[Ss]ession"):
            now(talk.get_items())
