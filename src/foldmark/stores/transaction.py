"""One transaction of the log in any database (see `foldmark.core.ports.Transaction`)."""

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from itertools import groupby

import msgspec
from msgspec import structs

from foldmark.core.agents import AgentRecord, Changes, End, Lease, Size, refused
from foldmark.core.codec import outlives, without_content
from foldmark.core.errors import CommandError, ConflictError, StoreError
from foldmark.core.events import METADATA_KINDS, Draft, is_replayed
from foldmark.core.ports import NOTHING
from foldmark.core.records import CopiedEvent, CopiedMemo
from foldmark.core.replay import Fold
from foldmark.stores.block import Writing
from foldmark.stores.queries import listed
from foldmark.stores.rows import Bindings, Row, carried_mail
from foldmark.stores.snapshot import SqlSnapshot, lease_of


class SqlTransaction(SqlSnapshot):
    """The writes of one block, which the store begins and ends."""

    def __init__(self, block: Writing) -> None:
        super().__init__(block)
        self.block: Writing = block

    def changes(self, after: str | None, limit: int) -> Changes:
        raise StoreError("changes are committed events; read them outside of the transaction")

    def append(
        self, agent_id: str, expected: int | None, drafts: Sequence[Draft], *, key: str | None = None
    ) -> list[int]:
        block = self.block
        appender = block.appender(agent_id)
        # The key is checked first, because a repeated append still expects the head of the first attempt.
        if key is not None:
            for (before,) in block.run("append_ids", **block.for_agent(agent_id), key=key):
                return msgspec.json.decode(before, type=list[int])
        if expected not in (None, appender.head) and not (drafts and all(d.kind in METADATA_KINDS for d in drafts)):
            raise ConflictError(agent_id, expected, appender.head)
        if not drafts:
            return []
        ids = []
        with block.atomic():
            for draft in drafts:
                if appender.ended and (why := refused(self._end(appender.ended), draft, appender.open_turn)):
                    raise CommandError(why)
                if draft.kind in ("renamed", "deleted"):
                    block.rename(agent_id, draft.content or None)
                ids.append(appender.add(draft))
            if key is not None:
                block.write("keep_append", **block.for_agent(agent_id), key=key, ids=listed(ids))
        return ids

    def _end(self, event_id: int) -> End:
        """Return the end that an event of this database records."""
        (event,) = self.events([event_id])
        return End.of(event)

    def erase(self, owner: str, turn: int, last: int, by: int, *, mail: Sequence[int] = ()) -> None:
        block = self.block
        write, agent, appender = block.write, block.for_agent(owner), block.appender(owner)
        with block.atomic():
            # Pending words could not be removed from the index.
            block.settle()
            rows = block.run("to_erase", **agent, turn=turn, last=last)
            if turn:
                named = [*mail, *(id for _, kind, _, data, _ in rows if kind == "user" for id in carried_mail(data))]
                rows = [row for row in rows if not outlives(row[1], row[3])]
                # Mail that was read belongs to the turn. A message may name other events, which are not erased.
                own = [each for each in self.events(named) if each.kind == "mail" and each.agent_id == owner]
                rows += [(each.id, "mail", None, None, 0) for each in own if each.erased_by is None]
                appender.carry([each.id for each in own])
            else:
                write("forget_unread", **agent)
            messages = [row for row in rows if row[2] is not None]
            gone = Size(len(messages), sum(row[4] for row in messages))
            ids = [row[0] for row in messages]
            with block.unindexed(ids):
                for name in block.index_tables:
                    write(name, **agent, ids=block.listed(ids))
                if calls := [id for id, kind, *_ in messages if kind == "tool_call"]:
                    write("erase_waiting", **agent, calls=block.listed(calls))
                remains = [(id, without_content(kind, data, handed_down=turn > 0)) for id, kind, _, data, *_ in rows]
                write("erase", **agent, by=by, **block.with_data(remains))
            if turn:
                self._erase_texts([hash for (hash,) in block.run("disown_turn", **agent, turn=turn)])
                write("lower_totals", **agent, **gone._asdict())
                self._note_erased(agent, messages)
            else:
                self._erase_texts([hash for (hash,) in block.run("disown_agent", **agent)])
                write("forget_totals", **agent)
                write("forget_erased_sums", **agent)
            appender.lose(gone, whole=not turn)

    def _note_erased(self, agent: Bindings, messages: Sequence[Row]) -> None:
        """Record the sizes of erased messages. The sums stored with later messages do not change."""
        # Adjacent messages have adjacent counts; one row per run of them hides the length of each message.
        for _, each in groupby(enumerate(messages), lambda item: item[1][2] - item[0]):
            run = [message for _, message in each]
            last, tokens = run[-1][0], sum(row[4] for row in run)
            for name in ("add_erased", "note_erased"):
                self.block.write(name, **agent, event=last, messages=len(run), tokens=tokens)

    def keep_texts(self, texts: Mapping[str, str]) -> None:
        with self.block.atomic():
            self.block.hold_texts(to_erase=False)  # also without a text to add: the ones that are there must stay
            for sha256, text in sorted(texts.items()):
                self.block.write("keep_text", hash=sha256, text=text)

    def _erase_texts(self, hashes: Sequence[str]) -> None:
        """Erase those of these texts that nothing owns any more."""
        if hashes:
            self.block.hold_texts(to_erase=True)
            self.block.write("erase_texts", hashes=self.block.listed(sorted(set(hashes))))

    # Agents

    def create_agent(
        self, record: AgentRecord, born: Fold | None = None, start: Size = NOTHING, *, at: int | None = None
    ) -> None:
        with self.block.atomic():
            self.block.create(record, at)
            if born is not None:
                self.save_fold(born, start)

    def save_fold(self, fold: Fold, beside: Size) -> None:
        body = msgspec.json.encode(fold).decode()
        agent = self.block.for_agent(fold.agent)
        self.block.fold_saved(
            fold, beside, partial(self.block.write, "save_fold", **agent, body=body, **beside._asdict())
        )

    def lend(self, agent_id: str, lease: Lease | None) -> None:
        agent = self.block.for_agent(agent_id)
        if lease is None:
            self.block.write("give_back", **agent)
            return
        names = ("holder", "host", "process", "state", "taken_at", "until")
        fields = {name: getattr(lease, name) for name in names}
        self.block.write("lend", **agent, **fields, interrupt=int(lease.interrupt))

    def renew(self, holder: str, until: str) -> list[Lease]:
        self.block.write("renew", until=until, holder=holder)
        return list(map(lease_of, self.block.run("held", holder=holder)))

    # Memos

    def save_memo(self, content: str, tags: Sequence[str], agent_id: str | None, actor: str, created_at: str) -> int:
        agent = None if agent_id is None else self.block.key(agent_id)
        with self.block.atomic():
            row = {"agent": agent, "actor": actor, "created_at": created_at, "content": content}
            memo_id = self.block.save_memo(row)
            self._mark_memo(memo_id, content, sorted(set(tags)))
        return memo_id

    def _mark_memo(self, memo_id: int, content: str, tags: Sequence[str]) -> None:
        """Add the tags and words of a memo."""
        for tag in tags:
            self.block.write("tag_memo", tag=tag, memo=memo_id)
        self.block.index_memo(memo_id, content, " ".join(tags))

    def remove_memo(self, memo_id: int) -> None:
        with self.block.atomic():
            # First: whoever records a request with this memo is either done before it is removed, or finds it removed.
            self.block.hold_texts(to_erase=True)
            for name in ("untag_memo", "unindex_memo", "erase_memo"):
                self.block.write(name, memo=memo_id)
            self._erase_texts([hash for (hash,) in self.block.run("disown_memo", memo=memo_id)])

    # Records copied from another store

    def take_events(self, events: Sequence[CopiedEvent]) -> None:
        block = self.block
        block.settle()
        with block.atomic():
            block.take_ids(events)
            calls = {event.id for event in events if event.kind == "tool_call"}
            answered = calls.intersection(event.answers for event in events if event.answers is not None)
            for event in events:
                block.appender(event.agent).take(event, answered)
                if event.kind == "deleted":
                    block.rename(event.agent, None)
            block.settle()
            for agent in sorted({event.agent for event in events if is_replayed(event.kind, event.data)}):
                block.write("forget_fold", **block.for_agent(agent))

    def take_names(self, names: Mapping[str, str | None]) -> None:
        with self.block.atomic():
            for agent in names:
                self.block.rename(agent, None)
            for agent, name in names.items():
                if name is not None:
                    self.block.rename(agent, name)

    def take_erased(self, agent: str, event_ids: Sequence[int], by: int) -> None:
        with self.block.atomic():
            self.block.appender(agent).name_eraser(event_ids, by)

    def take_memos(self, memos: Sequence[CopiedMemo]) -> None:
        with self.block.atomic():
            for memo in memos:
                if not memo.is_removed:
                    agent = None if memo.agent is None else self.block.key(memo.agent)
                    self.block.take_memo({**structs.asdict(memo), "agent": agent})
                    self._mark_memo(memo.id, memo.content, memo.tags)
            self.block.reserve_memos(max((memo.id for memo in memos), default=0))

    def disown(self, agent: str, hashes: Collection[str]) -> None:
        with self.block.atomic():
            self.block.settle()  # what a request of this transaction owns is written before
            agent_rows = self.block.for_agent(agent)
            self.block.write("disown_texts", **agent_rows, hashes=self.block.listed(sorted(hashes)))
            self._erase_texts(list(hashes))
