"""Erase content for good in PostgreSQL (see `foldmark.core.ports.Transaction.erase`): a part of `PostgresTransaction`.

Erased content is gone from every row. Earlier versions of rows remain in the files until VACUUM has run.
"""

from itertools import groupby

from foldmark.core.agents import Size
from foldmark.core.codec import without_content
from foldmark.stores.postgres.appender import PostgresAppender
from foldmark.stores.postgres.connection import Ints, PostgresSession, Texts
from foldmark.stores.postgres.memos import PostgresMemos
from foldmark.stores.postgres.words import unindex_words
from foldmark.stores.reader import Bindings
from foldmark.stores.rows import Row


class Erasing(PostgresMemos):
    """Erases inside a transaction."""

    _session: PostgresSession

    def _appender(self, agent_id: str) -> PostgresAppender:
        """Return the appender of an agent in this transaction."""
        raise NotImplementedError

    def settle(self) -> None:
        """Write pending changes."""
        raise NotImplementedError

    def erase(self, owner: str, turn: int, last: int, by: int) -> None:
        agent, appender = self._of(owner), self._appender(owner)
        with self.whole():
            self.settle()
            rows = self._run("to_erase", **agent, turn=turn, last=last)
            messages = [row for row in rows if row[2] is not None]
            gone = Size(len(messages), sum(row[4] for row in messages))
            calls = Ints(id for id, kind, *_ in messages if kind == "tool_call")
            if calls:
                self._write("answered", **agent, calls=calls)
            unindex_words(self._session, agent["root"], [row[0] for row in messages])
            datas = Texts(without_content(kind, data, handed_down=turn > 0) for _, kind, _, data, *_ in rows)
            self._write("erase", root=agent["root"], by=by, ids=Ints(row[0] for row in rows), datas=datas)
            if turn:
                self._write("erase_questions", root=agent["root"], turn=turn)
                self._write("lower_totals", **agent, messages=gone.messages, tokens=gone.tokens)
                self._note_erased(agent, messages)
            else:
                found = self._run("erase_sent", **agent)
                self._erase_texts({hash for (hashes,) in found for hash in hashes})
                self._write("forget_totals", **agent)
                self._write("forget_erased_sums", **agent)
            appender.lose(gone, whole=not turn)

    def _note_erased(self, agent: Bindings, messages: list[Row]) -> None:
        """Record the sizes of erased messages, so that no sum stored with a later message has to change."""
        # Neighbours have neighbouring counts; one row for each run of them hides the length of each message.
        for _, each in groupby(enumerate(messages), lambda item: item[1][2] - item[0]):
            run = [message for _, message in each]
            last, sums = run[-1][0], (len(run), sum(row[4] for row in run), sum(row[5] for row in run))
            before = next(iter(self._run("erased_up_to", **agent, event=last)), (0, 0, 0))
            names = ("messages", "tokens", "weight")
            self._write("add_erased", **agent, event=last, **dict(zip(names, sums, strict=True)))
            after = (a + b for a, b in zip(before, sums, strict=True))
            self._write("note_erased", **agent, event=last, **dict(zip(names, after, strict=True)))
