"""The checks that every database has. Each is a named statement that finds the rows with one kind of fault."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from hashlib import sha256
from typing import Any, ClassVar

from foldmark.core.assembly.sent import Owner, is_readable, owners
from foldmark.core.codec import decode_data
from foldmark.core.errors import DamagedError, StoreError
from foldmark.core.events import OPERATION_KINDS
from foldmark.core.wording import count
from foldmark.stores.block import Reading
from foldmark.stores.rows import Row, carried_mail

Check = Callable[[], Iterator[str]]

_PAGE = 1000

_START = -(2**63)

_FAULTS = {
    "wrong_sums": "agent {0:.8}: the sums stored with event {1} do not match its events",
    "wrong_waiting": "agent {0:.8}: {1} calls of its open turn are wrongly recorded as waiting or as answered",
    "wrong_replayed": "event {0}: it {1} marked as an operation, contrary to its kind",
    "wrong_deletions": "agent {0:.8}: it is deleted, but its child {1:.8} is not",
    "wrong_remains": "agent {0:.8}: it is deleted, but {1} of its events still hold text",
    "wrong_names": "agent {0:.8}: its name is '{1}', which its events do not give it",
    "wrong_archive": "agent {0:.8}: it is archived, but not a conversation",
    "wrong_roots": "agent {0:.8}: it is recorded in another tree than its parent's",
}
"""Statement -> the line for each of its rows."""


class SqlChecks:
    """The checks of one database, as far as all databases have them."""

    own_faults: ClassVar[Mapping[str, str]] = {}
    """Further statements, which only this database has."""

    def __init__(self, block: Reading) -> None:
        self._block, self._run = block, block.run

    def found(self) -> Iterator[str]:
        """Yield one line for each fault. An unreadable part gives one line, and the other checks continue."""
        seen = set[str]()
        shared = [partial(self._found_by, name, line) for name, line in {**_FAULTS, **self.own_faults}.items()]
        own = (self._wrong_texts, self._wrong_owners, self._wrong_rows, self._wrong_mail)
        checks: list[Check] = [*self.own_checks(), *shared, *own]
        for check in checks:
            for line in _lines(check):
                if line not in seen:
                    seen.add(line)
                    yield line

    def own_checks(self) -> tuple[Check, ...]:
        """Return the checks that only this database has."""
        return ()

    def _found_by(self, name: str, line: str) -> Iterator[str]:
        for row in self._run(name, kinds=self._block.listed(OPERATION_KINDS)):
            yield line.format(*row)

    def _pages(self, name: str, keys: int, **after: Any) -> Iterator[Row]:
        """Yield all rows of a query, page by page; the first columns are the key of a page."""
        while rows := self._run(name, **after, limit=_PAGE):
            yield from rows
            after = dict(zip(after, rows[-1][:keys], strict=True))

    def _wrong_texts(self) -> Iterator[str]:
        for hash, text in self._pages("all_texts", 1, after=""):
            if sha256(text if isinstance(text, bytes) else text.encode()).hexdigest() != hash:
                yield f"requests: the text stored under hash {hash[:12]} does not match it"

    def _wrong_owners(self) -> Iterator[str]:
        """Compare the stored owners of texts with those that the requests give. The text of a removed memo may be
        missing, and so may the question of an erased turn."""
        stored, gone = set[tuple[int, str, Owner]](), set[tuple[int, str, Owner]]()
        for agent, turn, memo, hash, is_there in self._run("text_owners"):
            (stored if is_there else gone).add((agent, hash, Owner(turn, memo)))
        left = stored | gone
        for _, id, agent, turn, data, is_erased in self._pages("requests", 2, root=_START, id=_START):
            try:
                read = decode_data("request", data)
            except DamagedError:
                read = None
            if not is_readable(read):
                yield f"agent {self._block.id(agent)[:8]}: the record of its request, event {id}, is not readable"
            missing = 0
            for hash, owner in owners(turn, read):
                left.discard((agent, hash, owner))
                missing += (agent, hash, owner) not in stored and not (owner.memo or (owner.turn and is_erased))
            if missing:
                yield f"agent {self._block.id(agent)[:8]}: its request, event {id}, lacks {count(missing, 'text')}"
        for agent, hash, _ in sorted(left):
            whose = self._block.id(agent)[:8]
            yield f"requests: the text with the hash {hash[:12]} belongs to no request of agent {whose}"
        for (hash,) in self._run("texts_of_nobody"):
            yield f"requests: the text with the hash {hash[:12]} belongs to nothing; it should have been erased"

    def _wrong_mail(self) -> Iterator[str]:
        """Compare the unread mail with the mail that no message has carried."""
        sent, unread = dict[int, int](), set[int]()
        for _, id, agent, kind, data, is_erased, is_unread in self._pages("all_mail", 2, root=_START, id=_START):
            if kind == "mail" and not is_erased:
                sent[id] = agent
            if is_unread:
                unread.add(id)
            if kind == "user":
                for carried in carried_mail(data):
                    if sent.pop(carried, agent) != agent:
                        yield f"mail {carried}: event {id} carries it, but not to its recipient"
        for id in sorted(sent.keys() ^ unread):
            yield f"mail {id}: it is {'not ' if id in sent else ''}recorded as unread, contrary to the messages"

    def _wrong_rows(self) -> Iterator[str]:
        for agent_id, *row in self._run("wrong_rows"):
            names = (
                "head",
                "newest event",
                "messages",
                "tokens",
                "open turn",
                "newest request",
                "killed",
                "deleted",
                "archived",
            )
            half = len(row) // 2
            stored, counted = row[:half], row[half:]
            for name, recorded, actual in zip(names, stored, counted, strict=True):
                if recorded != actual:
                    yield f"agent {agent_id[:8]}: its row says {name} {recorded}, its events say {actual}"


def _lines(check: Check) -> Iterator[str]:
    try:
        yield from check()
    except StoreError as error:
        yield f"database: {error}"
