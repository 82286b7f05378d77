"""Search the messages of the store in memory, one by one (see `foldmark.core.search.LogIndex`)."""

from collections.abc import Mapping, Sequence
from functools import lru_cache

from foldmark.core.codec import decode_data, timestamp
from foldmark.core.records import CopiedEvent
from foldmark.core.search import Hit, IndexedMessage, Phrase, SearchScope, Surroundings, Term, TermQuery, is_unfound
from foldmark.core.segments import END
from foldmark.recall.searching import joined
from foldmark.text.tokens import parts_of, stems

_BEGINNING = 2000


def tool_name(each: CopiedEvent, events: Mapping[int, CopiedEvent]) -> str | None:
    """Return the tool of a call, or of the call that a result answers."""
    called = events.get(each.answers or 0) if each.kind == "tool_result" else each
    data = decode_data(called.kind, called.data) if called is not None and called.kind == "tool_call" else None
    return (data or {}).get("name")


def text_of(each: CopiedEvent) -> str:
    """Return the text of a message as it is searched: of a call, its tool and its arguments without escapes."""
    if each.kind != "tool_call":
        return each.content
    text = each.content
    for escape in (r"\\", r"\n", r"\t", r"\r"):
        text = text.replace(escape, "  ")
    return f"{tool_name(each, {}) or ''} {text}"


def holds(text: str, term: Term) -> bool:
    """Return True if a text contains a term, by the stems of its words."""
    return any(_stands(phrase, there) for phrase in term.phrases for there in (_stems(text), _stems(parts_of(text))))


_stems = lru_cache(maxsize=10_000)(stems)


def _stands(phrase: Phrase, words: Sequence[str]) -> bool:
    wanted = _stems(" ".join(phrase.words))
    for at in range(len(words) - len(wanted) + 1) if wanted else ():
        *before, last = words[at : at + len(wanted)]
        if before == wanted[:-1] and (last.startswith(wanted[-1]) if phrase.prefix else last == wanted[-1]):
            return True
    return False


class MemoryIndex:
    """The messages of one moment. The best of them have the most terms, then are the newest."""

    def __init__(
        self,
        scope: SearchScope,
        said: Sequence[CopiedEvent],
        events: Mapping[int, CopiedEvent],
        names: Mapping[str, str | None],
    ) -> None:
        """`said` are all messages, by id; `names` the names of their agents."""
        self._scope, self._said, self._events, self._names = scope, said, events, names
        if scope.judge is not None:
            scope.judge.meet({each.agent for each in said})

    def counted(self, terms: Sequence[Term]) -> tuple[int, list[int]]:
        return len(self._said) if terms else 0, [sum(holds(text_of(each), t) for each in self._said) for t in terms]

    def best(self, wanted: Sequence[TermQuery], limit: int) -> list[int]:
        found = []
        for query in wanted:
            part = self._said[len(self._said) - max(1, round(len(self._said) * query.share)) :]
            held = {each.id: sum(holds(text_of(each), term) for term in query.terms) for each in part}
            enough = len(query.terms) if query.how == "all" else 1
            fitting = [each.id for each in part if held[each.id] >= enough and self._fits(each)]
            found += sorted(fitting, key=lambda each: (-held[each], -each))[:limit]
        return found

    def passing(self, ids: Sequence[int]) -> list[int]:
        fitting = {each.id for each in self._said if self._fits(each)}
        return [id for id in ids if id in fitting]

    def around(self, ids: Sequence[int], reach: int) -> list[list[IndexedMessage]]:
        lists: dict[str, list[list[IndexedMessage]]] = {}
        for id in ids:
            if id in self._events:
                own = [each for each in self._said if each.agent == self._events[id].agent]
                before, after = [each for each in own if each.id <= id], [each for each in own if each.id > id]
                near = [
                    each for each in (*before[-reach - 1 :], *after[:reach]) if each.content and self._is_findable(each)
                ]
                run = [IndexedMessage(each.id, text_of(each), each.created_at, self._fits(each)) for each in near]
                lists.setdefault(self._events[id].agent, []).append(run)
        return [run for found in lists.values() for run in joined(found)]

    def hits(self, event_ids: Sequence[int]) -> list[Hit]:
        return [
            Hit(
                *(each.id, each.agent, self._names[each.agent], each.kind, each.turn, each.created_at, 0.0, ""),
                visible=self._shows(each),
                tool=tool_name(each, self._events),
            )
            for each in (self._events[id] for id in event_ids)
        ]

    def _shows(self, each: CopiedEvent) -> bool:
        return self._scope.judge is not None and self._scope.judge.shows(each.agent, each.id)

    def _is_findable(self, each: CopiedEvent) -> bool:
        judge, asked = self._scope.judge, each.kind == self._scope.filters.role
        plans = judge is not None and judge.plans(each.agent, each.id)
        return not plans and not is_unfound(tool_name(each, self._events), None if asked else each.kind)

    def _fits(self, each: CopiedEvent) -> bool:
        filters, tool = self._scope.filters, tool_name(each, self._events)
        return (
            self._is_findable(each)
            and (self._scope.agents is None or each.agent in self._scope.agents)
            and filters.role in (None, each.kind)
            and (filters.since is None or each.created_at >= timestamp(filters.since))
            and (filters.before is None or each.created_at < timestamp(filters.before))
            and (filters.tool is None or (tool is not None and tool.lower() == filters.tool.lower()))
            and filters.visible in (None, self._shows(each))
        )

    def surroundings(self, event_ids: Sequence[int], turns: int) -> list[Surroundings]:
        found = []
        for each in (self._events[id] for id in event_ids if id in self._events):
            said = [one for one in self._said if one.agent == each.agent]
            turn, opener = each.turn, each if each.kind == "user" else None
            if each.kind != "user":
                opener = next((one for one in said if one.id >= (turn or END) and one.kind != "client"), None)
            asked = opener is not None and opener.kind == "user" and opener.turn == turn
            text = opener.content[:_BEGINNING] if opener is not None and asked else ""
            begun = [one.id for one in said if turn is not None and one.turn == one.id and one.id > turn]
            counts = [(id, sum(one.id < id for one in said)) for id in (turn or each.id, *begun[:turns], END)]
            tool = tool_name(each, self._events)
            hit = Hit(
                *(each.id, each.agent, self._names[each.agent], each.kind, turn, each.created_at, 0.0, ""), tool=tool
            )
            found.append(Surroundings(hit, text, counts[0][1], counts[1:]))
        return found
