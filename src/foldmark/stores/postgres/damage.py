"""The checks of a PostgreSQL database: its events, its stored sums, its index and the tables beside the log.

PostgreSQL checks its pages by itself (`data_checksums`, `pg_amcheck`). Every event is read once.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import sha256
from typing import Any

import msgspec

from foldmark.core.assembly.wire import weight
from foldmark.core.codec import checksum, count_tokens, decode_data
from foldmark.core.errors import DamagedError
from foldmark.core.events import is_replayed
from foldmark.stores.beside import inbox, lineage, sent
from foldmark.stores.damage import found_by
from foldmark.stores.postgres import search
from foldmark.stores.postgres.appender import facts
from foldmark.stores.postgres.memos import words_of
from foldmark.stores.postgres.snapshot import PostgresSnapshot
from foldmark.stores.rows import Row

_PAGE = 1000
_START = -(2**63)


class _Agent:
    """The state of an agent computed from its events."""

    def __init__(self) -> None:
        self.head = self.messages = self.tokens = self.weights = 0
        self.newest_turn: int | None = None
        self.newest_end = 0
        self.calls: list[int] = []
        self.wrong_sums: int | None = None
        self.wrong_weights: int | None = None

    @property
    def open_turn(self) -> int | None:
        """The turn that has not ended."""
        return self.newest_turn if self.newest_turn is not None and self.newest_turn > self.newest_end else None


class PostgresChecks:
    """The checks of one database, as of one moment."""

    def __init__(self, moment: PostgresSnapshot) -> None:
        self._moment, self._run = moment, moment._run

    def found(self) -> Iterator[str]:
        """Yield a line for each fault; an unreadable part is one of these, and the other checks go on."""
        checks: tuple[Callable[[], Iterator[str]], ...] = (
            self._damaged_events,
            self._damaged_agents,
            partial(search.damage, self._run),
            partial(inbox.damage, self._run),
            partial(sent.damage, self._run),
            self._damaged_texts,
            self._damaged_memos,
            partial(lineage.damage, self._run),
        )
        return found_by(checks)

    def _damaged_events(self) -> Iterator[str]:
        tree = None
        for row in self._pages("all_events", 2, root=_START, id=_START):
            if tree is None or row[0] != tree.root:
                if tree is not None:
                    yield from tree.end()
                tree = _Tree(self._moment, row[0])
            yield from tree.see(row)
        if tree is not None:
            yield from tree.end()

    def _pages(self, name: str, keys: int, **after: Any) -> Iterator[Row]:
        """Yield all rows of a query, page by page; its first columns are the key of a page."""
        while rows := self._run(name, **after, limit=_PAGE):
            yield from rows
            after = dict(zip(after, rows[-1][:keys], strict=True))

    def _damaged_agents(self) -> Iterator[str]:
        for (agent_id,) in self._run("wrong_trees"):
            yield f"agent {agent_id[:8]}: its row says that it has events, but there are none"
        for (agent_id,) in self._run("wrong_directory"):
            yield f"agent {agent_id[:8]}: it is not found by its id or name"

    def _damaged_texts(self) -> Iterator[str]:
        for hash, text in self._pages("wrong_texts", 1, after=""):
            if sha256(text.encode()).hexdigest() != hash:
                yield f"requests: the text stored under the hash {hash[:12]} is another one"
        for *_, sent_id, agent_id, data in self._pages("all_sent", 3, root=_START, agent=_START, id=_START):
            try:
                msgspec.json.decode(data)
            except msgspec.DecodeError:
                yield f"agent {agent_id[:8]}: what request {sent_id} was made of is not readable"

    def _damaged_memos(self) -> Iterator[str]:
        for memo_id, content, tags, line, words in self._run("all_memos"):
            found = words_of(f"{content} {' '.join(tags)}")
            if line != f" {' '.join(found)} " or words != sorted(set(found), key=str.encode):
                yield f"memo {memo_id}: its words in the index are not those of its content and tags"
            for tag in tags:
                if not tag or tag != tag.lower() or tag.split() != [tag]:
                    yield f"memo {memo_id}: its tag {tag!r} is not one that a memo can have"
        for (memo_id,) in self._run("wrong_memo_rows"):
            yield f"memo {memo_id}: it has tags or words, but is not there"


class _Tree:
    """The checks of one conversation and its forks."""

    def __init__(self, moment: PostgresSnapshot, root: int) -> None:
        self.root, self._moment = root, moment
        self._agents: dict[int, _Agent] = defaultdict(_Agent)
        self._answered: set[int] = set()
        self._erased: dict[int, list[Row]] = defaultdict(list)
        for agent, *row in moment._run("tree_erased", root=root):
            self._erased[agent].append(tuple(row))

    def see(self, row: Row) -> Iterator[str]:
        """Check an event."""
        _, id, key, turn, kind, _, _, _, interrupted, _, answers, replayed, tokens, nth, sum, *rest = row
        own_weight, weights, redacted, tool, planning, stateful, stored, content, data = rest
        agent = self._agents[key]
        raw = None if data is None else data.encode()
        if redacted is None and stored is not None and checksum(row[1:11], content.encode(), raw) != stored:
            what = "it is not what its checksum was made of: somebody has changed it"
            yield f"event {id}: {what}; its turn can be read, and erased with `/message remove`"
        try:
            read = decode_data(kind, data)
        except DamagedError:
            read = None
            yield f"event {id}: its data is not readable; its turn can be read, and erased with `/message remove`"
        if bool(replayed) != is_replayed(kind, data):
            marks = "is" if replayed else "is not"
            yield f"event {id}: it {marks} marked as an operation, and its kind says otherwise"
        if redacted is None and (tool, planning, stateful) != facts(kind, read):
            yield f"event {id}: what its row says of its data is not what its data says"
        if answers is not None:
            self._answered.add(answers)
        agent.head = id
        if kind == "turn_ended":
            agent.newest_end = id
        if nth is None:
            return
        if turn is not None and kind not in ("summary", "system"):
            agent.newest_turn = max(turn, agent.newest_turn or 0)
        if kind == "tool_call":
            agent.calls.append(id)
        agent.messages, agent.tokens = agent.messages + 1, agent.tokens + tokens
        weighs = weight(kind, content, read, bool(interrupted), id)
        agent.weights += weighs
        messages, erased_tokens, erased_weight = self._erased_before(key, id)
        counted = (agent.messages + messages, agent.tokens + erased_tokens, count_tokens(content, data))
        if agent.wrong_sums is None and (nth, sum, tokens) != counted:
            agent.wrong_sums = id
        if agent.wrong_weights is None and (own_weight, weights) != (weighs, agent.weights + erased_weight):
            agent.wrong_weights = id

    def _erased_before(self, key: int, id: int) -> tuple[int, int, int]:
        found = (0, 0, 0)
        for event, *sums in self._erased.get(key, ()):
            if event < id:
                found = (sums[0], sums[1], sums[2])
        return found

    def end(self) -> Iterator[str]:
        """Check the rows of the tree's agents, after all its events were seen."""
        for key, agent_id, *said, weights, gone_messages, gone_tokens, waiting in self._moment._run(
            "tree_rows", root=self.root
        ):
            agent, name = self._agents[key], agent_id[:8]
            if agent.wrong_sums is not None:
                yield f"agent {name}: the sums stored with event {agent.wrong_sums} are not what its events give"
            if agent.wrong_weights is not None:
                yield f"agent {name}: the weight stored with event {agent.wrong_weights} is not what its events give"
            gives = [agent.head, agent.messages, agent.tokens, agent.open_turn]
            for what, says, given in zip(("newest event", "messages", "tokens", "open turn"), said, gives, strict=True):
                if says != given:
                    yield f"agent {name}: its row says {what} {says}, its events say {given}"
            erased = self._erased_before(key, 2**63 - 1)
            if (gone_messages, gone_tokens, weights) != (*erased[:2], agent.weights + erased[2]):
                yield f"agent {name}: its row does not say what was erased and what its messages weigh"
            turn = agent.open_turn
            open_calls = {id for id in agent.calls if turn is not None and id >= turn and id not in self._answered}
            if wrong := len(open_calls ^ set(waiting)):
                yield f"agent {name}: {wrong} calls of its open turn are wrongly said to wait, or not to"
