"""The words of memos in SQLite's index (see `foldmark.stores.beside.memos`)."""

from collections.abc import Iterator, Sequence

import apsw

from foldmark.core.errors import StoreError
from foldmark.stores.beside import memos
from foldmark.stores.queries import listed
from foldmark.stores.reader import Run
from foldmark.stores.rows import Row


class SqliteMemosView(memos.SqlMemosView):
    """Reads memos."""

    def _holding(self, words: Sequence[str], most: int) -> list[Row]:
        return self._run("memos_with", words=listed(map(_expression, words)), most=most)


def damage(run: Run, *, writable: bool) -> Iterator[str]:
    """Yield the faults of memos; their index is only compared with them if the file is writable."""
    for (memo_id,) in run("wrong_memo_rows"):
        yield f"memo {memo_id}: its words in the index are not those of its content and tags"
    for memo_id, tag in run("wrong_memo_tags"):
        yield f"memo {memo_id}: its tag {tag!r} is not one that a memo can have"
    if writable:
        try:
            run("wrong_memo_index")
        except StoreError as error:
            if not isinstance(error.__cause__, apsw.CorruptError):
                raise
            rebuild = "any SQLite shell rebuilds it: INSERT INTO memo_words (memo_words) VALUES ('rebuild')"
            yield f"memos: the index holds other words than the memos; {rebuild}"


def _expression(word: str) -> str:
    """Return an FTS5 expression for a word and related ones, in which the word is never FTS5 syntax."""
    from foldmark.text.keywords import folded, spellings

    exact, beginning = spellings(folded(word))
    return " OR ".join((*map(_quoted, exact), *(() if beginning is None else (f"{_quoted(beginning)} *",))))


def _quoted(word: str) -> str:
    return '"' + word.replace("\0", " ").replace('"', '""') + '"'
