"""Records are taken from other stores as the oracle takes them, whole or in parts, there and back."""

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from foldmark.copying import copy, steps
from foldmark.core.errors import CommandError, StoreError
from foldmark.testing.compared import CHANCE, UNORDERED, ComparedStore, ask_all
from foldmark.testing.histories import EVERY_DEED, EVERY_STEP, EXCHANGES, History, Step
from foldmark.testing.memory import MemoryStore
from foldmark.testing.suite import Harness, Suite, append, draft, examples, root

REMOVED: list[Step] = [(0, "memo", 0), (0, "remove memo", 1)]
"""Memos whose ids no other memo may get."""


def _without_late_mail(steps: list[Step], pick: int) -> list[Step]:
    """Leave out mail or its delivery: a copy does not yet erase mail that it brought unread and that its source has
    erased with a later turn."""
    return [each for each in steps if each[1] != ("mail", "carry")[pick % 2]]


@contextmanager
def _empty(harness: Harness) -> Iterator[Any]:
    """Open a new store beside an oracle, and check it for damage at the end. Copied agents get their places among all
    agents only if these are free."""
    with closing(harness.fresh()) as store:
        yield ComparedStore(store, oracle := MemoryStore(), (*UNORDERED, "agents", "overview"))
        assert sorted(store.damage()) == sorted(oracle.damage())


class CopyingTests(Suite):
    """A copy calls both stores, and each call is compared with the same call of the oracles."""

    @pytest.fixture(autouse=True)
    def _small_pages(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(steps, "EVENTS", 4)
        monkeypatch.setattr(steps, "AT_ONCE", 2)

    @settings(examples, max_examples=min(25, examples.max_examples))
    @example(first=[*EVERY_DEED, *REMOVED], then=[REMOVED[0], *EVERY_DEED[::-1]], chance=Random(1))
    @example(first=EXCHANGES, then=[(2, "conversation", 3)], chance=Random(1))  # two names are exchanged
    @given(first=st.lists(EVERY_STEP, max_size=16), then=st.lists(EVERY_STEP, max_size=16), chance=CHANCE)
    def test_copies_go_there_and_back(
        self, harness: Harness, first: list[Step], then: list[Step], chance: Random
    ) -> None:
        """Each database goes on with what the other has copied into it, first one conversation and then all."""
        with ExitStack() as stack:
            here, there = (stack.enter_context(_empty(harness)) for _ in range(2))
            history = History(here)
            for some in (first, then, []):
                history.play(here, _without_late_mail(some, len(first)))
                # A conversation that depends on another one is not copied alone. Nor is one that erased a text which
                # another one has asked with again: the copy refuses this at its end.
                with suppress(CommandError, StoreError):
                    copy(here, there, [chance.choice(history.agents)])
                copy(here, there)
                with there.read() as moment:
                    ask_all(moment, history.agents, chance, is_copy=True)
                here, there = there, here

    @settings(examples, max_examples=min(25, examples.max_examples))
    @example(first=EVERY_DEED, then=EVERY_DEED[::-1], chance=Random(1))
    @given(first=st.lists(EVERY_STEP, max_size=16), then=st.lists(EVERY_STEP, max_size=16), chance=CHANCE)
    def test_a_database_in_use_takes_conversations_with_other_ids(
        self, harness: Harness, first: list[Step], then: list[Step], chance: Random
    ) -> None:
        with ExitStack() as stack:
            here, there = (stack.enter_context(_empty(harness)) for _ in range(2))
            history, own = History(here), root(there)
            for some in (first, then, []):
                append(there, own, draft(), draft("turn_ended", ""))
                # A name that another conversation has got meanwhile is not given up.
                history.play(here, [each for each in _without_late_mail(some, len(first)) if each[1] != "conversation"])
                with here.read() as moment:
                    names = [each.id for each in moment.agents() if each.parent is None]
                copy(here, there, names)
                with there.read() as moment:
                    ask_all(moment, [each.id for each in moment.agents()], chance, is_copy=True)
