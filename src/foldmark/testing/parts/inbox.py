"""Records about an agent by other agents and runtimes: mail, leases, its end, its name [SPEC 2, 6]."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier
from typing import Any
from uuid import uuid4

from foldmark.core import selections
from foldmark.core.agents import MODEL, Lease
from foldmark.core.codec import timestamp, utc
from foldmark.core.ports import Store
from foldmark.testing.suite import Harness, Suite, draft, root, send, texts_of

SECONDS = 30.0
"""Seconds until a lease in these tests expires."""


def later(moment: str, seconds: float) -> str:
    """Return the time `seconds` after a moment."""
    return timestamp(utc(moment) + timedelta(seconds=seconds))


def deliver(store: Store, agent: str) -> list[str]:
    """Carry all unread mail into the agent's log with one event, and return the texts."""
    with store.write() as writing:
        mail = selections.unread(writing, agent)
        if not mail:
            return []
        data = {"mail": [{"id": each.id} for each in mail]}
        writing.append(agent, None, [draft("user", "\n".join(each.content for each in mail), data=data)])
        return [each.content for each in mail]


def take(store: Store, agent: str, holder: str, own_clock: float) -> bool:
    """Take the lease of an agent if it is free or has expired by the database's clock; return True if it was taken.
    `own_clock` is the number of seconds by which the runtime's own clock, the source of its event times, is ahead."""
    with store.write() as writing:
        now = writing.now()
        old = writing.lease(agent)
        if old is not None and old.holder != holder and old.until > now:
            return False
        writing.lend(agent, Lease(agent, holder, "host", 1, MODEL, now, later(now, SECONDS)))
        writing.append(agent, None, [draft("record", holder, data={"at": later(now, own_clock)})])
        return True


def race(*acts: Callable[[], Any]) -> list[Any]:
    """Run these functions at the same time, each in its own thread."""
    barrier = Barrier(len(acts))

    def run(act: Callable[[], Any]) -> Any:
        barrier.wait()
        return act()

    with ThreadPoolExecutor(len(acts)) as pool:
        return list(pool.map(run, acts))


class InboxTests(Suite):
    """Mail, leases and ends are stored beside the log and written in the same transactions."""

    # Mail

    def test_mail_is_carried_exactly_once(self, store: Store, other: Store) -> None:
        """Two connections deliver at the same time, while a third thread sends more."""
        sender, recipient = root(store), root(store)
        texts = [f"mail {number}" for number in range(60)]
        for at in range(0, len(texts), 20):
            send(store, sender, recipient, *texts[at : at + 10])
            more = texts[at + 10 : at + 20]
            race(
                lambda: deliver(store, recipient),
                lambda: deliver(other, recipient),
                lambda: [str(id) for id in send(store, sender, recipient, *more)],  # noqa: B023
            )
        deliver(other, recipient)
        lines = [line for content in texts_of(store, recipient) for line in content.split("\n")]
        assert lines == texts
        with store.read() as moment:
            assert selections.unread(moment, recipient) == []

    # Leases

    def test_the_clock_is_the_databases(self, store: Store, other: Store, harness: Harness) -> None:
        """All connections read the same clock, right or wrong, and its times have the form of event times."""

        def now(each: Store) -> str:
            with each.write() as writing:
                return writing.now()

        first, second, third = now(store), now(other), now(store)
        assert first <= second <= third
        assert timestamp(first) == first
        for seconds in (3600.0, -3600.0):
            with harness.move_clock(store, seconds):
                moved = [now(store), now(other), now(store)]
            assert moved == sorted(moved)
            assert moved[0] >= later(third, seconds)
            assert moved[2] <= later(now(other), seconds)

    def test_only_one_of_two_runtimes_takes_a_lease(
        self, store: Store, agent: str, other: Store, harness: Harness
    ) -> None:
        """One clock is an hour ahead, the other an hour behind. Neither runtime takes a lease that is in force. Both
        try to take an expired one, and one of them gets it."""
        ahead, behind = str(uuid4()), str(uuid4())
        takes: list[Callable[[], bool]] = [
            lambda: take(store, agent, ahead, 3600.0),
            lambda: take(other, agent, behind, -3600.0),
        ]
        for number in range(5):
            with harness.move_clock(store, number * 2 * SECONDS):
                won = race(*takes)
                assert sorted(won) == [False, True]
                holder = (ahead, behind)[won.index(True)]
                with store.read() as moment:
                    lease = moment.lease(agent)
                    assert lease is not None
                    assert lease.holder == holder
                loser = takes[won.index(False)]
                assert not loser()
        with store.read() as moment:
            assert moment.head(agent).record.own == (0, 0)
