"""What others write towards an agent, in SQLite (see `foldmark.core.inbox`): a part of `SqliteStore`."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import apsw

from foldmark.core.errors import StoreError
from foldmark.core.inbox import End, Mail


class SqliteTowards:
    """The methods of `Towards`, over the connection of the store that it is a part of."""

    _db: apsw.Connection
    _sharing = False
    """Whether a `writing` block is open with no batch under way in it."""

    def _run(self, name: str, *bindings: Any) -> list[tuple[Any, ...]]:
        raise NotImplementedError

    def _key(self, agent_id: str) -> int:
        raise NotImplementedError

    def _transaction(self) -> AbstractContextManager[None]:
        raise NotImplementedError

    def exclusive(self) -> AbstractContextManager[object]:
        raise NotImplementedError

    @property
    def _in_transaction(self) -> bool:
        raise NotImplementedError

    @contextmanager
    def writing(self) -> Iterator[None]:
        with self.exclusive():
            if self._in_transaction:
                yield
                return
            with self._transaction():
                self._sharing = True
                try:
                    yield
                finally:
                    self._sharing = False

    @contextmanager
    def _batching(self) -> Iterator[None]:
        """The transaction of one batch: its own, or that of `writing`, in which one batch may follow another."""
        if self._in_transaction and not self._sharing:
            raise StoreError("a batch is under way for another agent; append to this one when it has ended")
        if not self._sharing:
            with self._transaction():
                yield
            return
        self._sharing = False
        try:
            yield
        finally:
            self._sharing = True

    def send(self, sender: str, recipient: str, content: str, actor: str, sent_at: str) -> int:
        ((mail_id,),) = self._run("send_mail", self._key(sender), self._key(recipient), actor, sent_at, content)
        return int(mail_id)

    def unread(self, agent_id: str) -> list[Mail]:
        return [Mail(*row) for row in self._run("unread_mail", self._key(agent_id))]

    def unread_count(self, agent_id: str) -> int:
        ((number,),) = self._run("unread_count", self._key(agent_id))
        return int(number)

    def carried(self, mail_id: int, event_id: int) -> None:
        self._run("carried", event_id, mail_id)

    def kill(self, agent_id: str, killer: str, actor: str, died_at: str) -> None:
        self._run("kill", self._key(agent_id), self._key(killer), actor, died_at)

    def end(self, agent_id: str) -> End | None:
        return next((End(agent_id, *row) for row in self._run("end_of_agent", self._key(agent_id))), None)

    def killed_children(self, agent_id: str) -> list[str]:
        return [str(child) for (child,) in self._run("killed_children", self._key(agent_id))]

    def delete(self, agent_id: str, actor: str, deleted_at: str) -> None:
        key = self._key(agent_id)
        with self.writing():
            self._run("delete_agent", key, actor, deleted_at)
            self._run("rename_agent", None, key)
            self._run("erase_unread", key)
            self._run("unarchive", key)

    def rename(self, agent_id: str, name: str) -> None:
        self._run("rename_agent", name, self._key(agent_id))

    def archive(self, agent_id: str, archived_at: str | None) -> None:
        if archived_at is None:
            self._run("unarchive", self._key(agent_id))
        else:
            self._run("archive", self._key(agent_id), archived_at)

    def archived(self, agent_id: str) -> str | None:
        return next((str(at) for (at,) in self._run("archived", self._key(agent_id))), None)

    def _damaged_towards(self) -> Iterator[str]:
        for mail_id, event_id in self._run("wrong_mail"):
            yield f"mail {mail_id}: event {event_id}, which is said to have carried it, is no message to its recipient"
        for agent_id, child in self._run("wrong_deletions"):
            yield f"agent {agent_id[:8]}: it is deleted, but its child {child[:8]} is not"
        for agent_id, events in self._run("wrong_remains"):
            yield f"agent {agent_id[:8]}: it is deleted, but {events} of its events still hold text"
        for agent_id, name in self._run("wrong_names"):
            yield f"agent {agent_id[:8]}: it is deleted, but still named '{name}'"
        for (agent_id,) in self._run("wrong_archive"):
            yield f"agent {agent_id[:8]}: it is archived, but not a conversation"
