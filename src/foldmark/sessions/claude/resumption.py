"""What Claude Code sends when it resumes a session: the way from its newest record up to the first [SPEC 8].

As 2.1.197 was seen to do it. The newest record is the last in the file that is not a subagent's and follows something
that was said, or the one that the last `last-prompt` names if that is on another branch. From there on it goes from
parent to parent, up to a compaction. Records that report progress are passed through. Lines of an answer that stand
beside the way are added, and results that hang on these: of parallel calls only one result is on the way itself.
"""

from collections.abc import Sequence

from msgspec import Struct

from foldmark.sessions.claude.rows import Row

Chain = list[Row]


class ResumedChain(Struct, frozen=True):
    """`chain` is the way, the first record first; `order` all that is sent, in the order in which the model reads it.

    `newest` is the way from the last record in the file, which is another one where a person has gone back.
    """

    chain: Chain
    order: Chain
    newest: Chain


class Links:
    """The records of a session by their uuids, and who is whose parent."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.by_uuid: dict[str, Row] = {}
        self._through: dict[str, str | None] = {}
        for row in rows:
            if row.type == "progress" and row.uuid and not row.gone:
                self._through[row.uuid] = self._through.get(row.parent, row.parent) if row.parent else None
            elif row.chained and row.uuid:
                self.by_uuid[row.uuid] = row

    def passed(self, uuid: str | None) -> str | None:
        """The parent that is meant, where this is one that only reports progress."""
        return self._through.get(uuid, uuid) if uuid and uuid not in self.by_uuid else uuid

    def parent(self, row: Row) -> Row | None:
        """A record's parent, as far as it is there."""
        uuid = self.passed(row.parent)
        return self.by_uuid.get(uuid) if uuid else None

    def above(self, row: Row | None) -> Chain:
        """The way from a record upwards, itself first."""
        found: dict[Row, None] = {}
        while row is not None and row not in found:
            found[row] = None
            if row.boundary:
                break
            row = self.parent(row)
        return list(found)


def sent(rows: Sequence[Row], links: Links) -> ResumedChain:
    """What is sent of a session."""
    main = [row for row in rows if row.chained and row.uuid and not row.side]
    way = links.above(main[-1] if main else None)
    if not any(row.said for row in way):
        way = links.above(next((row for row in reversed(main) if row.said), None))
    named = next((row for row in reversed(rows) if row.leaf and not row.gone), None)
    back = links.by_uuid.get(named.leaf) if named and named.leaf else None
    taken = way
    if named and back and not back.side and (named.pinned or back not in set(way)):
        other = links.above(back)
        taken = other if any(row.said for row in other) else way
    chain, last = _from_said(taken), _from_said(way)
    return ResumedChain(chain, _with_siblings(chain, links), last)


def _from_said(way: Chain) -> Chain:
    """A way, downwards; it ends with something that was said."""
    begin = next((at for at, row in enumerate(way) if row.said), len(way))
    return way[begin:][::-1]


def _with_siblings(chain: Chain, links: Links) -> Chain:
    inside = set(chain)
    last = {row.response: row for row in chain if row.type == "assistant" and row.response}
    lines: dict[str | None, list[Row]] = {}
    results: dict[str | None, list[Row]] = {}
    for row in links.by_uuid.values():
        if row.response and row.response in last:
            lines.setdefault(row.response, []).append(row)
        elif row.type == "user" and row.results and row.parent and row not in inside:
            results.setdefault(row.parent, []).append(row)
    order: Chain = []
    held: Chain = []
    for row in chain:
        order.append(row)
        if row.response and last.get(row.response) is row:
            answer = lines[row.response]
            order += [each for each in answer if each not in inside]
            order += [each for one in answer for each in results.pop(one.uuid, ())]
        if not held and (row.boundary or row.summary):
            order += (held := _preserved(row, inside, links))
    return order


def _preserved(row: Row, inside: set[Row], links: Links) -> Chain:
    """What a compaction has left as it was."""
    boundary = row if row.kept else links.parent(row)
    kept = boundary.kept if boundary else None
    if boundary is None or kept is None or (kept.anchor == boundary.uuid) != (row is boundary):
        return []
    if kept.uuids:
        named = [links.by_uuid[uuid] for uuid in kept.uuids if uuid in links.by_uuid]
    else:
        named = []
        for each in links.above(links.by_uuid.get(kept.tail or "")):
            named.insert(0, each)
            if each.uuid == kept.head:
                break
        else:
            return []
    return [each for each in named if each not in inside]
