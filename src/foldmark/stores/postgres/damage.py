"""The checks that only a PostgreSQL database needs: each single event, the index of words, names, memos.

PostgreSQL checks its own pages (`data_checksums`, `pg_amcheck`). Every event is read once.
"""

from collections.abc import Iterator

from foldmark.core.codec import checksum, count_tokens, decode_data
from foldmark.core.errors import DamagedError
from foldmark.stores.damage import Check, SqlChecks
from foldmark.stores.postgres.appender import facts, message_words
from foldmark.stores.postgres.reading import memo_words
from foldmark.stores.rows import Row

_START = -(2**63)


class PostgresChecks(SqlChecks):
    """The checks of one database, as of the moment of a block."""

    own_faults = {  # noqa: RUF012 - a ClassVar in the base
        "wrong_directory": "agent {0:.8}: it is not found by its id or name",
        "wrong_totals": "agent {0:.8}: its row does not match the erased messages",
        "wrong_memo_rows": "memo {0}: it has tags or words, but does not exist",
    }

    def own_checks(self) -> tuple[Check, ...]:
        return (
            self._damaged_events,
            self._damaged_index,
            self._damaged_memos,
        )

    def _damaged_events(self) -> Iterator[str]:
        for row in self._pages("all_events", 2, root=_START, id=_START):
            yield from self._event_faults(row)

    def _event_faults(self, row: Row) -> Iterator[str]:
        _, id, key, _, kind, *_, nth, tokens, redacted = row[:14]
        tool, planning, stateful, stored, content, data = row[14:]
        if redacted is None and stored is not None and checksum(row[1:11], content, data) != stored:
            problem = "it does not match its checksum: it was changed from outside of Foldmark"
            yield f"event {id}: {problem}; its turn can be read, and erased with `/message remove`"
        try:
            read = decode_data(kind, data)
        except DamagedError:
            read = None
            yield f"event {id}: its data is not readable; its turn can be read, and erased with `/message remove`"
        if redacted is not None:
            return
        if (tool, planning, stateful) != facts(kind, read):
            yield f"event {id}: its row does not agree with its data"
        if nth is not None and tokens != count_tokens(content, data):
            yield f"agent {self._block.id(key)[:8]}: the sums stored with event {id} do not match its events"

    def _damaged_index(self) -> Iterator[str]:
        missing = wrong = 0
        for _, _, kind, content, tool, length, words in self._pages("words_of_messages", 2, root=-1, id=-1):
            entry = message_words(kind, content, tool)
            missing += words is None
            wrong += words is not None and entry is not None and (entry.length, entry.words) != (length, words)
        ((surplus,),) = self._run("words_of_nothing")
        if missing or wrong or surplus:
            yield (
                f"search: {missing} messages are not in the index, {surplus} of its rows belong to no message, {wrong} "
                "hold other words than their messages; searches miss these messages, which are otherwise sound"
            )

    def _damaged_memos(self) -> Iterator[str]:
        for memo_id, content, tags, line, words in self._run("all_memos"):
            found = memo_words(f"{content} {' '.join(tags)}")
            if line != f" {' '.join(found)} " or words != sorted(set(found), key=str.encode):
                yield f"memo {memo_id}: its words in the index are not those of its content and tags"
            for tag in tags:
                if not tag or tag != tag.lower() or tag.split() != [tag]:
                    yield f"memo {memo_id}: its tag {tag!r} is not a valid tag"
