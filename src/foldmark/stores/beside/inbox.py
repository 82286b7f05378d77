"""Mail, ends and the archive of agents (see `foldmark.core.agents`)."""

from collections.abc import Iterator

from foldmark.core.agents import End, Fate, Mail
from foldmark.stores.reader import Run, SqlReader, SqlWriter


class SqlInboxView(SqlReader):
    """Reads mail, ends and the archive."""

    def unread(self, agent_id: str) -> list[Mail]:
        return [Mail(*row) for row in self._run("unread_mail", **self._of(agent_id))]

    def unread_count(self, agent_id: str) -> int:
        ((number,),) = self._run("unread_count", **self._of(agent_id))
        return int(number)

    def end(self, agent_id: str) -> End | None:
        return next((End(agent_id, *row) for row in self._run("end_of_agent", **self._of(agent_id))), None)

    def fates(self, agent_id: str) -> dict[str, Fate]:
        self._settle()
        return dict(self._run("fates", **self._of(agent_id)))

    def archived(self, agent_id: str) -> str | None:
        return next((str(at) for (at,) in self._run("archived", **self._of(agent_id))), None)


class SqlInbox(SqlInboxView, SqlWriter):
    """Writes mail, ends and the archive."""

    def send(self, sender: str, recipient: str, content: str, actor: str, sent_at: str) -> int:
        each = {"sender": self._key(sender), "actor": actor, "sent_at": sent_at, "content": content}
        ((mail_id,),) = self._run("send_mail", **self._of(recipient), **each)
        return int(mail_id)

    def carried(self, mail_id: int, event_id: int) -> None:
        self._write("carried", event=event_id, mail=mail_id)

    def kill(self, agent_id: str, killer: str, actor: str, died_at: str) -> None:
        self._write("kill", **self._of(agent_id), killer=self._key(killer), actor=actor, died_at=died_at)

    def delete(self, agent_id: str, actor: str, deleted_at: str) -> None:
        agent = self._of(agent_id)
        with self.whole():
            self._write("delete_agent", **agent, actor=actor, deleted_at=deleted_at)
            self._name(agent_id, None)
            self._write("erase_unread", **agent)
            self._write("unarchive", **agent)

    def rename(self, agent_id: str, name: str) -> None:
        self._name(agent_id, name)

    def _name(self, agent_id: str, name: str | None) -> None:
        """Set an agent's name, or remove it. Raises StoreError if another one has it."""
        self._write("rename_agent", **self._of(agent_id), name=name)

    def archive(self, agent_id: str, archived_at: str | None) -> None:
        if archived_at is None:
            self._write("unarchive", **self._of(agent_id))
        else:
            self._write("archive", **self._of(agent_id), archived_at=archived_at)


def damage(run: Run) -> Iterator[str]:
    """Yield the faults of mail, ends and the archive."""
    for mail_id, event_id in run("wrong_mail"):
        yield f"mail {mail_id}: event {event_id}, which is said to have carried it, is no message to its recipient"
    for agent_id, child in run("wrong_deletions"):
        yield f"agent {agent_id[:8]}: it is deleted, but its child {child[:8]} is not"
    for agent_id, events in run("wrong_remains"):
        yield f"agent {agent_id[:8]}: it is deleted, but {events} of its events still hold text"
    for agent_id, name in run("wrong_names"):
        yield f"agent {agent_id[:8]}: it is deleted, but still named '{name}'"
    for (agent_id,) in run("wrong_archive"):
        yield f"agent {agent_id[:8]}: it is archived, but not a conversation"
