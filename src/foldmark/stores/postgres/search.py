"""Search the messages of a log in PostgreSQL (see `foldmark.core.search.Index`).

A PostgreSQL index finds the messages that contain certain words; their words, stored in order, determine which of them
contain a phrase, and how often. They are ranked as in FTS5 (BM25), so that the same candidates are selected as in
SQLite.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from foldmark.core.search import Phrase, SearchScope, Term, TermQuery
from foldmark.recall.ranking import LONGEST, NEIGHBOUR
from foldmark.recall.searching import COUNTED, extrapolated
from foldmark.stores.block import Reading
from foldmark.stores.postgres.appender import LONG, lexemes, needle, searchable, sought
from foldmark.stores.postgres.connection import STATEMENTS, Ints, Statement, statement
from foldmark.stores.rows import Row
from foldmark.stores.search import StoredIndex

Run = Callable[[Statement, Mapping[str, Any]], list[Row]]
"""Runs a statement with its bindings."""

CacheBlock = Callable[[int, int], None]
"""Receives a message and the root of its tree, to save a later lookup."""

_K1, _B, _LEAST = 1.2, 0.75, 1e-6
"""FTS5's constants of BM25, and the minimum weight of a phrase."""


_BITS = 12
"""Number of bits of an id that count within a block."""

_EDGES = f"""(
    SELECT (SELECT coalesce(min(block), 0) << {_BITS} FROM blocks) AS first, coalesce(max(head), 0) AS last FROM agents
    WHERE root IN (SELECT root FROM blocks WHERE block = (SELECT max(block) FROM blocks))
)"""
"""The ranges of ids that contain messages."""

_TOOL = "coalesce(e.tool, c.tool)"
_AGENT_AND_TOOL = f"coalesce(a.id, 'unknown agent ' || e.agent), {_TOOL}, e.kind"
"""The agent of a message, its tool and its kind."""
_NAMED = """LEFT JOIN agents a ON a.root = e.root AND a.key = e.agent
    LEFT JOIN events c ON c.root = e.root AND c.id = e.answers"""
_FROM_IDS = f"""FROM unnest(:ids::bigint[]) WITH ORDINALITY AS i (id, place)
    JOIN blocks b ON b.block = i.id >> {_BITS} JOIN events e ON e.root = b.root AND e.id = i.id"""


class _MessagePosition:
    """A phrase in a statement: the condition that finds it, and its number of occurrences in the words of a message
    `w`."""

    def __init__(self, number: int, phrase: Phrase, words: tuple[str, ...]) -> None:
        self.name = f"phrase{number}"
        self.needle = needle(words, phrase.prefix)
        self.all = lexemes(words, phrase.prefix)
        self.any = " | ".join([*(lexemes([word], False) for word in words[:-1]), lexemes(words[-1:], phrase.prefix)])
        self.is_several = len(words) > 1
        self.holds = f"strpos(w.words, :{self.name}) > 0"
        self.count = (
            f"((octet_length(w.words) - octet_length(replace(w.words, :{self.name}, '')))"
            f" / {len(self.needle.encode())}::float8)"
        )


class PostgresIndex(StoredIndex):
    """The messages of the table `words`."""

    def __init__(
        self,
        block: Reading,
        scope: SearchScope,
        run: Run,
        cache_block: CacheBlock,
        keys: Sequence[tuple[int, int]] | None,
    ) -> None:
        """`keys` are the keys of the scope's agents, each with the key of its root."""
        super().__init__(block, scope)
        self._run, self._cache_block = run, cache_block
        self._bound: dict[str, Any] = dict(self._filters)
        if keys is not None:
            self._bound.update(agents=Ints(key for key, _ in keys), roots=Ints({root for _, root in keys}))
        self._conditions = [condition for name, condition in _CONDITIONS.items() if self._bound.get(name) is not None]
        self._positions: dict[Phrase, _MessagePosition | None] = {}
        self._counts: dict[Phrase, int] = {}
        self._size = 0, 1.0
        """The number of messages and their average number of words, updated by each count."""

    def counted(self, terms: Sequence[Term]) -> tuple[int, list[int]]:
        phrases = list({phrase: None for term in terms for phrase in term.phrases})
        several = [term for term in terms if len(term.phrases) > 1]
        counted_terms = [*(Term((phrase,)) for phrase in phrases), *several]
        bound: dict[str, Any] = {}
        counts = "".join(f", {self._counting(term, bound)}" for term in counted_terms)
        sql = f"""SELECT (SELECT coalesce(sum(messages), 0)::bigint FROM agents), edges.first, edges.last,
            sample.rows, sample.average{counts} FROM {_EDGES} AS edges, {_SAMPLE} AS sample"""
        ((messages, first, last, rows, average, *found),) = self._run(statement(sql), bound)
        self._size = (rows if rows < COUNTED else max(rows, messages)), average
        totals = [extrapolated(number, (reached or first) - first, last - first) for number, reached in found]
        self._counts.update(zip(phrases, totals, strict=False))
        known = dict(zip(counted_terms, totals, strict=True))
        return messages, [known[term] if len(term.phrases) > 1 else self._counts[term.phrases[0]] for term in terms]

    def _counting(self, term: Term, bound: dict[str, Any]) -> str:
        """Return SQL for the number of messages that contain a term, and the last of these, up to a limit."""
        found = self._finding(TermQuery("any", [term]), bound)
        if found is None:
            return "ARRAY[0, NULL]::bigint[]"
        return f"(SELECT ARRAY[count(*), max(id)] FROM (SELECT w.id FROM {found} AS w LIMIT {COUNTED}) AS sample)"

    def _best(self, wanted: Sequence[TermQuery], most: int) -> Iterable[Row]:
        phrases = {phrase for each in wanted for term in each.terms for phrase in term.phrases}
        if uncounted := phrases - self._counts.keys():
            self.counted([Term((phrase,)) for phrase in uncounted])
        messages, average = self._size
        bound: dict[str, Any] = {**self._bound, "most": most, "messages": float(messages), "average": average}
        parts = []
        for number, each in enumerate(wanted):
            if (found := self._finding(each, bound)) is None:
                continue
            conditions = self._conditions
            if each.share < 1:
                bound[f"share{number}"] = float(each.share)
                newest = f"w.id > (SELECT last - (last - first) * :share{number}::float8 FROM {_EDGES} AS edges)"
                conditions = [newest, *conditions]
            fitting = f"JOIN events e ON e.root = w.root AND e.id = w.id {_NAMED}" if self._conditions else ""
            parts.append(
                f"""(SELECT {number} AS number, f.id, f.score, f.root, {_AGENT_AND_TOOL}
                FROM (
                    SELECT w.root, w.id, {self._score(each, bound)} AS score
                    FROM (
                        SELECT w.root, w.id, w.length, {self._standing(each)} FROM {found} AS w {fitting}
                        WHERE {" AND ".join(conditions) or "true"} OFFSET 0
                    ) AS w ORDER BY score DESC, w.id LIMIT :most
                ) AS f JOIN events e ON e.root = f.root AND e.id = f.id {_NAMED})"""
            )
        rows = self._run(statement(" UNION ALL ".join(parts)), bound) if parts else []
        for number, id, _, root, *agent_and_tool in sorted(rows, key=_best_first):
            self._cache_block(id, root)
            yield number, id, *agent_and_tool

    def _passing(self, ids: Sequence[int]) -> Iterable[Row]:
        conditions = " AND ".join(self._conditions) or "true"
        sql = f"SELECT e.id, e.root, {_AGENT_AND_TOOL} {_FROM_IDS} {_NAMED} WHERE {conditions} ORDER BY i.place"
        for id, root, *agent_and_tool in self._run(statement(sql), {**self._bound, "ids": Ints(ids)}):
            self._cache_block(id, root)
            yield id, *agent_and_tool

    def _around(self, ids: Sequence[int], reach: int) -> Iterable[Row]:
        rows = self._run(STATEMENTS["around"], {"ids": Ints(ids), "reach": reach, "whole": LONGEST, "cut": NEIGHBOUR})
        for place, id, text, *message in rows:
            *_, kind, _, tool = message
            # An escape becomes two spaces, so that the length of the text still shows whether it was cut.
            yield place, id, searchable(text, tool, "  ") if kind == "tool_call" else text, *message

    # Phrases in a statement

    def _position(self, phrase: Phrase) -> _MessagePosition | None:
        """Return a phrase's place in a statement; None if it has no words."""
        if phrase not in self._positions:
            words = sought(phrase)
            self._positions[phrase] = _MessagePosition(len(self._positions), phrase, words) if words else None
        return self._positions[phrase]

    def _finding(self, wanted: TermQuery, bound: dict[str, Any]) -> str | None:
        """Return SQL for the matching rows of `words`; None if no row can match. Its bindings are added to `bound`."""
        terms = [[each for each in map(self._position, term.phrases) if each is not None] for term in wanted.terms]
        if not any(terms) or (wanted.how == "all" and not all(terms)):
            return None
        terms = [term for term in terms if term]
        phrases = [each for term in terms for each in term]
        bound.update((each.name, each.needle) for each in phrases)
        sign, word = (" & ", " AND ") if wanted.how == "all" else (" | ", " OR ")
        holding = [f"({' OR '.join(each.holds for each in term)})" for term in terms]
        name = f"lexemes{len(bound)}"
        bound[name] = sign.join(f"({' | '.join(each.all for each in term)})" for term in terms)
        bound[f"{name}_any"] = " | ".join(each.any for each in phrases)
        # Single words that the index matches exactly need no second check.
        if wanted.how == "all":
            checked = [sql for sql, term in zip(holding, terms, strict=True) if any(each.is_several for each in term)]
        else:
            checked = holding if any(each.is_several for each in phrases) else []
        exactly = f" AND ({word.join(checked)})" if checked else ""
        return f"""(
            SELECT w.root, w.id, w.length, w.words FROM words w
            WHERE octet_length(w.words) < {LONG} AND lexemes(w.words) @@ :{name}::tsquery{exactly}
            UNION ALL
            SELECT w.root, w.id, w.length, w.words
            FROM (SELECT DISTINCT root, id FROM long_words WHERE lexemes @@ :{name}_any::tsquery) l
                JOIN words w ON w.root = l.root AND w.id = l.id
            WHERE {word.join(holding)}
        )"""

    def _standing(self, wanted: TermQuery) -> str:
        """Return SQL for the number of occurrences of each phrase in the words of a row `w`. It is evaluated before the
        score, which uses it twice."""
        return ", ".join(f"{each.count} AS {each.name}" for each in self._weights(wanted))

    def _score(self, wanted: TermQuery, bound: dict[str, Any]) -> str:
        """Return SQL for FTS5's BM25 score of a row `w` with the occurrences of each phrase; higher is better."""
        sums = []
        for each, (times, held) in self._weights(wanted).items():
            bound[f"held_{each.name}"] = float(held)
            holding, all = f":held_{each.name}::float8", ":messages::float8"
            rarity = (
                f"greatest(ln((greatest({all}, {holding}) - {holding} + 0.5) / ({holding} + 0.5)), {_LEAST}::float8)"
            )
            damped = f"{_K1} * ({1 - _B} + {_B} * w.length / :average::float8)"
            sums.append(f"{times} * {rarity} * w.{each.name} * {_K1 + 1} / (w.{each.name} + {damped})")
        return " + ".join(sums)

    def _weights(self, wanted: TermQuery) -> dict[_MessagePosition, tuple[int, int]]:
        """Return, for each phrase that has a word, its number of occurrences in the query and the number of messages
        known to contain it."""
        found: dict[_MessagePosition, tuple[int, int]] = {}
        for phrase in (phrase for term in wanted.terms for phrase in term.phrases):
            if (position := self._position(phrase)) is not None:
                times, _ = found.get(position, (0, 0))
                found[position] = times + 1, self._counts.get(phrase, 0)
        return found


_SAMPLE = f"""(
    SELECT count(*) AS rows, coalesce(avg(length), 1)::float8 AS average
    FROM (SELECT length FROM words LIMIT {COUNTED}) AS w
)"""
"""The number of messages with words and their average number of words, from a sample."""

_CONDITIONS = {
    "agents": "e.root = ANY(:roots) AND e.agent = ANY(:agents)",
    "role": "e.kind = :role",
    "since": "e.created_at >= :since",
    "before": "e.created_at < :before",
    "tool": f'lower({_TOOL} COLLATE "C") = :tool',
}
"""The conditions of the filters."""


def _best_first(row: Row) -> tuple[int, float, int]:
    number, id, score, *_ = row
    return number, -score, id
