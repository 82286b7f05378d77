"""Records about an agent by other agents and runtimes: mail, leases, its end, its name [SPEC 2, 6]."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier
from typing import TypeVar
from uuid import uuid4

import pytest
from msgspec.structs import replace

from foldmark.core.agents import MODEL, TOOLS, End, Lease, Mail, archived, deleted, killed, renamed, unarchived
from foldmark.core.codec import timestamp, utc
from foldmark.core.errors import CommandError
from foldmark.core.ports import Store, Transaction
from foldmark.core.segments import END, Segment
from foldmark.request.standing import end_of
from foldmark.testing.parts.transactions import contents, head_and_texts, texts_of
from foldmark.testing.suite import HARD, NOW, Harness, Suite, append, call, draft, erase, fork, roll_back, root, send

Answer = TypeVar("Answer")

SECONDS = 30.0
"""Seconds until a lease in these tests expires."""


def later(moment: str, seconds: float) -> str:
    """Return the time `seconds` after a moment."""
    return timestamp(utc(moment) + timedelta(seconds=seconds))


def deliver(store: Store, agent: str) -> list[str]:
    """Carry all unread mail into the agent's log with one event, and return the texts."""
    with store.write() as writing:
        mail = writing.unread(agent)
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
        writing.lend(Lease(agent, holder, "host", 1, MODEL, now, later(now, SECONDS)))
        writing.append(agent, None, [draft("record", holder, data={"at": later(now, own_clock)})])
        return True


def race(*acts: Callable[[], Answer]) -> list[Answer]:
    """Run these functions at the same time, each in its own thread."""
    barrier = Barrier(len(acts))

    def run(act: Callable[[], Answer]) -> Answer:
        barrier.wait()
        return act()

    with ThreadPoolExecutor(len(acts)) as pool:
        return list(pool.map(run, acts))


class InboxTests(Suite):
    """Mail, leases and ends are stored beside the log and written in the same transactions."""

    # Mail

    def test_unread_mail_is_kept_in_order_and_changes_no_log(self, store: Store, other: Store) -> None:
        sender, recipient = root(store), root(store)
        before = head_and_texts(store, recipient)
        first, second = send(store, sender, recipient, HARD, "two")
        (third,) = send(other, recipient, recipient, "three")
        with store.read() as moment:
            assert moment.unread(recipient) == [
                Mail(first, sender, recipient, "human", NOW, HARD),
                Mail(second, sender, recipient, "human", NOW, "two"),
                Mail(third, recipient, recipient, "human", NOW, "three"),
            ]
            assert moment.unread(sender) == []
        assert first < second < third
        head, said = head_and_texts(store, recipient)
        assert head.beside == {"mail"}
        record = replace(head.record, last=before[0].record.last)
        assert (head._replace(record=record, beside=frozenset()), said) == before

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
            assert moment.unread(recipient) == []

    def test_a_failed_delivery_leaves_the_mail_unread(self, store: Store, other: Store) -> None:
        sender, recipient = root(store), root(store)
        send(store, sender, recipient, "mail")

        def carry(writing: Transaction) -> None:
            (mail,) = writing.unread(recipient)
            writing.append(recipient, None, [draft("user", "mail", data={"mail": [{"id": mail.id}]})])
            assert writing.unread(recipient) == []

        roll_back(store, carry)
        assert deliver(other, recipient) == ["mail"]
        assert deliver(store, recipient) == []

    # Leases

    def test_a_lease_is_read_as_it_was_stored(self, store: Store, other: Store) -> None:
        first, second = root(store), root(store)
        holder, stranger = str(uuid4()), str(uuid4())
        lease = Lease(first, holder, f"host {HARD}", 2**31, MODEL, NOW, later(NOW, SECONDS))
        with store.write() as writing:
            writing.lend(lease)
            writing.lend(Lease(second, stranger, "host", 1, TOOLS, NOW, NOW))
        with other.write() as writing:
            assert writing.lease(first) == lease
            until = later(NOW, 2 * SECONDS)
            renewed = Lease(first, holder, lease.host, lease.process, MODEL, NOW, until)
            assert writing.renew(holder, until) == [renewed]
            writing.give_back(first, stranger)
            assert writing.lease(first) == renewed, "only the holder gives a lease back"
            writing.lend(replace(renewed, state=TOOLS, interrupt=True))
        with store.write() as writing:
            assert writing.lease(first) == Lease(first, holder, lease.host, 2**31, TOOLS, NOW, until, True)
            writing.lend(lease)
            assert writing.lease(first) == lease, "a new lease carries no request to interrupt"
            writing.give_back(first, holder)
            assert writing.lease(first) is None
            assert writing.lease(second) == Lease(second, stranger, "host", 1, TOOLS, NOW, NOW)

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

    # Ends, names, the archive

    def test_a_killed_agent_accepts_no_new_messages(self, store: Store, other: Store) -> None:
        parent = root(store)
        child, waits = fork(store, parent), fork(store, parent)
        (opener, asked) = append(store, child, draft(), call("c1"))
        with store.write() as writing:
            writing.append(child, None, [killed(parent, "model", NOW)])
        with other.read() as moment:
            assert end_of(moment, child) == End(child, "model", NOW, parent)
            assert end_of(moment, parent) is None
            assert moment.fates(parent) == {child: "killed", waits: "waits"}
            assert moment.fates(child) == {}
        # Its open turn can still be closed, with the answer so far.
        said = append(store, child, draft("assistant", "so far"), draft("turn_ended", ""))
        for refused in (draft(), draft("assistant"), draft("mark", "", data={"name": "M"})):
            with pytest.raises(CommandError, match="dead"):
                append(other, child, refused)
        with store.read() as moment:
            assert moment.head(child).record.head == said[-1]
            assert [event.id for event in moment.messages((Segment(child, 1, END),))] == [opener, asked, said[0]]

    def test_a_deleted_agent_is_only_found_by_its_uuid(self, store: Store, other: Store) -> None:
        agent, neighbour = root(store, "gone"), root(store)
        send(store, neighbour, agent, "never read")
        with store.write() as writing:
            writing.append(agent, None, [archived("human", NOW)])
            erase(writing, agent, 0)
            writing.append(agent, None, [deleted("human", NOW)])
        with other.read() as moment:
            assert moment.named("gone") is None
            record = moment.agent(agent)
            assert record is not None
            assert (bool(record.deleted), record.name) == (True, None)
            assert end_of(moment, agent) == End(agent, "human", NOW)
            assert moment.unread(agent) == []
            assert record.archived == 0
        with pytest.raises(CommandError, match="deleted"):
            append(other, agent, draft())
        root(other, "gone")

    def test_names_and_the_archive(self, store: Store, other: Store) -> None:
        agent = root(store, "old")
        with store.write() as writing:
            writing.append(agent, None, [renamed(f"new {HARD}", "human", NOW)])
            writing.append(agent, None, [archived("human", NOW)])
        with other.read() as moment:
            assert moment.named("old") is None
            found = moment.named(f"new {HARD}")
            assert found is not None
            assert found.id == agent
            assert moment.events([found.archived])[0].created_at == NOW
            assert [(each.record.id, each.archived, each.last_used) for each in moment.overview()] == [
                (agent, NOW, NOW)
            ]
        with other.write() as writing:
            writing.append(agent, None, [unarchived("human", NOW)])
        with store.read() as moment:
            back = moment.agent(agent)
            assert back is not None
            assert (back.archived, contents(moment, agent)) == (0, [])
