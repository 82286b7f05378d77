"""Every answer of the port is that of the oracle, the store in memory, to which the same has happened [SPEC 2, 3, L3].

`foldmark.testing.compared` compares each call, so these tests assert little themselves.
"""

from contextlib import closing, suppress
from itertools import product
from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from foldmark.core.errors import StoreError
from foldmark.core.events import ACTORS, DIALECTS, Draft
from foldmark.core.ports import Store
from foldmark.core.search import SearchScope, TermQuery
from foldmark.core.segments import END, Segment
from foldmark.testing.compared import CHANCE, ComparedStore, ask_all, terms_of
from foldmark.testing.histories import EVERY_DEED, EVERY_STEP, EXCHANGES, TEXTS, WORDS, History, Step
from foldmark.testing.memory import MemoryStore
from foldmark.testing.suite import HARD, NOW, Harness, Suite, add_root, append, draft, examples

_TEXTS = st.one_of(st.just(HARD), st.text(max_size=20))
_NUMBERS = st.one_of(st.integers(-(2**70), 2**70), st.sampled_from([2**53 + 1, 2**63, -(2**63) - 1, 2**70]))
_VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), _NUMBERS, st.floats(allow_nan=False, allow_infinity=False), _TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_TEXTS, inner, max_size=3)),
    max_leaves=6,
)
DRAFTS = st.builds(
    Draft,
    kind=st.sampled_from(("user", "assistant", "system", "tool", "state", "scratchpad", "usage", "record")),
    created_at=st.sampled_from((NOW, "0001-01-01T00:00:00.000000Z", "9999-12-31T23:59:59.999999Z")),
    content=_TEXTS,
    data=st.none() | st.dictionaries(_TEXTS.filter(lambda key: key != "$v"), _VALUES, min_size=1, max_size=3),
    dialect=st.none() | st.sampled_from(DIALECTS),
    actor=st.sampled_from(ACTORS),
    interrupted=st.booleans(),
)


class Answers(Suite):
    """A store answers as the oracle does, to which the same has happened."""

    @pytest.fixture
    def compared(self, store: Store) -> ComparedStore:
        """The store beside the oracle."""
        return ComparedStore(store, MemoryStore())

    @settings(examples, max_examples=min(2 * examples.max_examples, 400))
    @example(steps=EVERY_DEED, chance=Random(1))
    @example(steps=EXCHANGES, chance=Random(1))
    @given(steps=st.lists(EVERY_STEP, min_size=10, max_size=60), chance=CHANCE)
    def test_random_histories_are_answered_as_by_the_oracle(
        self, harness: Harness, steps: list[Step], chance: Random
    ) -> None:
        """Two connections write in turns, and both are asked."""
        with closing(harness.fresh()) as store, closing(harness.open(store.address)) as other:
            here, there = ComparedStore(store, oracle := MemoryStore()), ComparedStore(other, MemoryStore(oracle))
            history, cursors = History(here), here.cursors()

            def look(moment: Any) -> None:
                ask_all(moment, history.agents, chance, nobody=("nobody", *history.lost))

            def look_inside(writing: Any) -> None:
                look(writing)
                with suppress(StoreError):  # uncommitted events are no changes
                    writing.changes(None, 1)

            history.play(here, steps, there, look_inside)
            for each in (here, there):
                with each.read() as moment:
                    look(moment)
                each.changes(cursors, chance.choice((1, 2, 100)))
            assert sorted(store.damage()) == sorted(oracle.damage())

    @examples
    @example(drafts=[draft(content=HARD, data={HARD: [2**70, -(2**70), 2**53 + 1, 0.1, {"b": None, "a": True}]})])
    @given(drafts=st.lists(DRAFTS, min_size=1, max_size=5))
    def test_any_event_is_read_as_it_was_stored(self, compared: ComparedStore, drafts: list[Draft]) -> None:
        """With the order of its keys, its numbers of any size and any Unicode."""
        with compared.write() as writing:
            ids = writing.append(add_root(writing), None, drafts)
        with compared.read() as moment:
            events = moment.events(ids)
        for event, appended in zip(events, drafts, strict=True):
            assert repr((event.content, event.data)) == repr((appended.content, appended.data))
            assert not event.damaged

    @pytest.mark.parametrize("count", [0, 1, 255, 256, 257, 700])
    def test_long_logs_are_read_in_pages(self, compared: ComparedStore, count: int) -> None:
        """Two agents append alternately, so a page of one agent spans events of the other; a range may be empty."""
        with compared.write() as writing:
            agent, neighbour = add_root(writing), add_root(writing)
            for at in range(0, count, 50):
                writing.append(agent, None, [draft(content=str(n)) for n in range(at, min(at + 50, count))])
                writing.append(neighbour, None, [draft()])
        with compared.read() as moment:
            apart = tuple(Segment(agent, id, id + 1) for id in range(1, 90, 3))
            for segments in ((Segment(agent, 1, END),), apart, (Segment(agent, 100, 50), Segment(agent, 51, 111))):
                for newest_first, expected in product((False, True), (0, 8, 512)):
                    moment.select(segments, newest_first=newest_first, expected=expected)
                moment.locate(segments, newest_first=True)
                moment.size(segments)

    # Search

    def test_every_word_is_found(self, compared: ComparedStore) -> None:
        """In messages and memos: stems, parts of names in code, scripts without spaces; no word is syntax."""
        with compared.write() as writing:
            agent = add_root(writing)
            writing.append(agent, None, [draft(content=text) for text in (*TEXTS, *WORDS)])
            for text in (*TEXTS, *WORDS):
                writing.save_memo(text, (), agent, "human", NOW)
            writing.save_memo("nothing of it", ("api-design", "größe"), None, "human", NOW)
        with compared.read() as moment:
            for word in (*WORDS, *TEXTS[3:], "连接", "design", "session_user"):
                moment.memos_with([((word,), END), (tuple(word.split()), END)], 1000)
                if any(map(str.isalnum, word)):
                    index, terms = moment.index(SearchScope()), terms_of(word)
                    index.counted(terms)
                    index.best([TermQuery("all", terms), TermQuery("any", terms)], 10_000)

    def test_only_the_newest_part_may_be_searched(self, store: Store, agent: str) -> None:
        ids = append(store, agent, *(draft(content="quartz") for _ in range(40)))
        terms = terms_of("quartz")
        with store.read() as moment:
            index = moment.index(SearchScope())
            found = [sorted(index.best([TermQuery("any", terms, share)], 1000)) for share in (1.0, 0.5, 0.1)]
            assert found[0] == ids
            assert len(ids) > len(found[1]) > len(found[2]) > 0
            assert all(each == ids[-len(each) :] for each in found)
            both = index.best([TermQuery("any", terms, 0.1), TermQuery("all", terms)], 1000)
            assert sorted(both) == sorted([*found[2], *ids])
