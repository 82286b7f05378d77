"""A damaged database remains usable, and its own check finds the damage [SPEC 2]."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foldmark.app import open_over
from foldmark.core.errors import DamagedError, FoldmarkError
from foldmark.core.ports import Store
from foldmark.core.segments import END, Segment
from foldmark.log.doctor import examine
from foldmark.testing.histories import STEPS, History, Step
from foldmark.testing.suite import Damage, Harness, Suite, append, draft, erase, examples, root

COUNTED = (Damage.SIZE, Damage.SUM, Damage.COUNT, Damage.CONTENT)
"""Damage that makes stored sums disagree with the events."""


def two_agents(store: Store) -> tuple[str, str, list[int]]:
    """Create two agents that append alternately, so that every stored sum has neighbours. Return both, and the ids of
    the first one's messages."""
    agent, neighbour = root(store), root(store)
    ids: list[int] = []
    for number in range(6):
        data = {"blocks": [{"type": "text", "text": "quartz"}]}
        ids += append(store, agent, draft(content=f"quartz {number}", data=data), draft("turn_ended", ""))
        append(store, neighbour, draft(content="fjord"))
    return agent, neighbour, ids[::2]


class Damaged(Suite):
    """Planted damage is found, and everything else can still be read."""

    @pytest.mark.parametrize("damage", list(Damage), ids=lambda damage: damage.name.lower())
    def test_planted_damage_is_found(self, harness: Harness, damage: Damage) -> None:
        store = harness.fresh()
        agent, neighbour, ids = two_agents(store)
        # An event in the middle is neither the first nor the last of any sum.
        assert list(store.damage()) == []
        harness.plant(store, damage, ids[3])
        lines = [finding.text for finding in examine(open_over(store))]
        assert lines
        assert all(line and "\n" not in line for line in lines)
        # Another connection reads the rest and appends.
        other = harness.open(store.address)
        assert list(examine(open_over(other)))
        with other.read() as moment:
            assert [event.content for event in moment.select((Segment(neighbour, 1, END),))] == ["fjord"] * 6
            found = {event.id: event for event in moment.events(ids)}
            assert list(found) == ids
            wrong = [event for event in found.values() if event.content != f"quartz {ids.index(event.id)}"]
            assert [event.id for event in wrong] == ([ids[3]] if damage is Damage.CONTENT else [])
            unread = [event.id for event in found.values() if event.data is None]
            assert unread == ([ids[3]] if damage is Damage.DATA else [])
            assert found[ids[3]].damaged == (damage is Damage.DATA)
            if damage is Damage.FOLD:
                with pytest.raises(FoldmarkError):
                    moment.head(agent)
            else:
                assert moment.head(agent).record.id == agent
            if damage in (Damage.CONTENT, Damage.DATA):
                with pytest.raises(DamagedError, match=f"event {ids[3]} .* is not as it was recorded"):
                    list(moment.copied_events({agent: 0}))
            outlines = moment.outlines([agent, neighbour])
            assert (outlines[agent].fold is None) == (damage is Damage.FOLD)
            assert outlines[neighbour].fold is not None
        append(other, neighbour, draft())
        other.close()
        store.close()

    @settings(examples, max_examples=min(20, examples.max_examples))
    @given(steps=st.lists(STEPS, min_size=3, max_size=20), damage=st.sampled_from(COUNTED), pick=st.integers(0, 50))
    def test_wrong_stored_sums_are_found(self, harness: Harness, steps: list[Step], damage: Damage, pick: int) -> None:
        """L3 relies on stored sums, so every wrong sum must be found, in any place."""
        store = harness.fresh()
        history = History(store)
        history.play(store, [*steps, (0, "user", 1)])
        assert list(store.damage()) == []
        harness.plant(store, damage, (said := history.messages(store))[pick % len(said)].id)
        assert list(store.damage())
        store.close()

    @pytest.mark.parametrize("damage", [Damage.CONTENT, Damage.DATA])
    def test_a_damaged_event_can_be_erased(self, harness: Harness, damage: Damage) -> None:
        store = harness.fresh()
        agent, _, ids = two_agents(store)
        harness.plant(store, damage, ids[3])
        with store.write() as writing:
            erase(writing, agent, ids[3])
        assert list(store.damage()) == []
        with store.read() as moment:
            assert [event.id for event in moment.select((Segment(agent, 1, END),))] == [*ids[:3], *ids[4:]]
        store.close()
