"""The number of statements does not grow with the history or with the number of ids [SPEC 3, L3].

BEGIN, COMMIT, ROLLBACK and savepoints do not count.
"""

from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

import pytest

from foldmark import Agent, Log
from foldmark.app import open_over
from foldmark.core import selections
from foldmark.core.codec import utc
from foldmark.core.events import Draft
from foldmark.core.ports import OPENERS, Snapshot, Store
from foldmark.core.search import Filters, Hit, LogIndex, SearchScope, TermQuery
from foldmark.core.segments import END, Segment
from foldmark.operations.effects import Asking
from foldmark.request.recorded import newest_requests
from foldmark.request.standing import end_of
from foldmark.testing.compared import terms_of
from foldmark.testing.suite import Harness, Suite, append, draft, root, save_memo, send

BETWEEN = ("BEGIN", "START", "COMMIT", "END", "ROLLBACK", "SAVEPOINT", "RELEASE")
"""Prefixes of statements that are not counted."""

Reading = Callable[[Snapshot, str, Sequence[int]], Any]
"""Reads from a moment, given an agent and the ids of its messages."""


def _all(agent: str) -> tuple[Segment]:
    return (Segment(agent, 1, END),)


def _each(ids: Sequence[int], agent: str) -> tuple[Segment, ...]:
    return tuple(Segment(agent, id, id) for id in ids)


def _hits(moment: Snapshot, ids: Sequence[int]) -> list[Hit]:
    index = moment.index(SearchScope())
    index.around(ids, 2)
    return index.hits(ids)


TERMS = terms_of("question answer")


def _best(index: LogIndex) -> list[int]:
    """Make the first query of a search, which ranks only counted words."""
    index.counted(TERMS)
    return index.best([TermQuery("any", [each]) for each in TERMS], 500)


AT_ONCE: dict[str, Reading] = {
    "head": lambda moment, agent, ids: moment.head(agent),
    "agents": lambda moment, agent, ids: moment.agents(),
    "overview": lambda moment, agent, ids: moment.overview(),
    "event": lambda moment, agent, ids: selections.event(moment, ids[0]),
    "events": lambda moment, agent, ids: moment.events(ids),
    "lookup": lambda moment, agent, ids: moment.lookup(ids),
    "surroundings": lambda moment, agent, ids: moment.index(SearchScope()).surroundings(ids, 3),
    "outlines": lambda moment, agent, ids: moment.outlines([each.id for each in moment.agents()]),
    "head until": lambda moment, agent, ids: moment.head(agent, until=ids[-1]),
    "all messages": lambda moment, agent, ids: list(moment.select(_all(agent), expected=1000)),
    "all ids": lambda moment, agent, ids: list(moment.locate(_all(agent), expected=1000)),
    "counted": lambda moment, agent, ids: moment.index(SearchScope()).counted(TERMS),
    "counted and best": lambda moment, agent, ids: _best(moment.index(SearchScope())),
    "passing": lambda moment, agent, ids: moment.index(SearchScope()).passing(ids),
    "hits": lambda moment, agent, ids: _hits(moment, ids),
    "turns": lambda moment, agent, ids: moment.turns(ids),
    "results": lambda moment, agent, ids: moment.results(moment.lookup(ids)),
    "next to": lambda moment, agent, ids: moment.next_to(moment.lookup(ids), 3),
    "operations": lambda moment, agent, ids: selections.operations(moment, agent),
    "events after": lambda moment, agent, ids: selections.events_after(moment, agent, 0, 1000),
    "changes": lambda moment, agent, ids: moment.changes(moment.changes(None, 1).cursor, 1000),
    "newest": lambda moment, agent, ids: selections.newest(moment, "state", _each(ids, agent)),
    "recent": lambda moment, agent, ids: selections.recent(moment, "state", agent, END, 5),
    "of a kind": lambda moment, agent, ids: selections.ids(moment, "state", _all(agent)),
    "size": lambda moment, agent, ids: moment.size(_each(ids, agent)),
    "bounds": lambda moment, agent, ids: moment.bounds(_each(ids, agent)),
    "opened": lambda moment, agent, ids: selections.ids(moment, OPENERS, _all(agent)),
    "message before": lambda moment, agent, ids: selections.message_before(moment, agent, ids[-1]),
    "waiting": lambda moment, agent, ids: selections.waiting(moment, agent),
    "calls": lambda moment, agent, ids: moment.calls(agent, "c0-0"),
    "apart": lambda moment, agent, ids: selections.apart_results(moment, agent, ids[0]),
    "tombstones": lambda moment, agent, ids: list(selections.tombstones(moment, _each(ids, agent))),
    "newest requests": lambda moment, agent, ids: newest_requests(moment, agent, 5),
    "memos": lambda moment, agent, ids: moment.memos_with([(["question"], id) for id in ids], 5),
    "unread": lambda moment, agent, ids: selections.unread(moment, agent),
    "lease": lambda moment, agent, ids: moment.lease(agent),
    "end": lambda moment, agent, ids: end_of(moment, agent),
}
"""Reads that take a fixed number of statements."""

MOST: dict[str, int] = {"changes": 2, "outlines": 2, "results": 2, "next to": 2, "memos": 3, "counted and best": 2}
"""The maximum number of statements of these reads, if it is not 1: "outlines" first lists agents; "results" and
"next to" look up messages."""


SIZES = ((1, 2), (3, 40), (20, 3))
"""Numbers of conversations, and of turns in each of them."""

REQUESTS = (
    *(("steady", "nothing", 5), ("steady", "memos", 7), ("steady", "mail", 7)),
    *(("steady", "children", 11), ("steady", "waiting children", 11)),
    *(("eager", "nothing", 2), ("eager", "memos", 3), ("eager", "mail", 5)),
    *(("eager", "children", 8), ("eager", "waiting children", 8)),
)
"""Policy, content beside the agent's own events, and the maximum number of statements of a request."""

SEARCHES = (
    (Filters(), 5),
    (Filters(role="user", since=utc("2020-01-01")), 5),
    (Filters(visible=True), 5),
    (Filters(visible=False), 5),
    (Filters(agent="c0"), 6),
    (Filters(project="c"), 6),
)

RECALLS = (
    ("/recall question 1", 8),
    ("/recall --limit 200 question answer result", 8),
    ("/recall --role user question 1", 7),
    ("/recall --forgotten question 1", 8),  # most of the best messages are in a context, so more are read
    ("/recall --agent c0 question 1", 8),
)
PLACES = 16
"""Maximum number of statements that say which of an agent's own messages are sent: those of its next request, and one
for its operations."""


def count(harness: Harness, store: Store, act: Callable[[], object]) -> int:
    """Return the number of statements that `act` runs."""
    with harness.counting(store) as statements:
        act()
    return sum(not text.lstrip().upper().startswith(BETWEEN) for text in statements)


def agent_with_turns(store: Store, turns: int) -> tuple[str, list[int]]:
    """Return a new agent with `turns` turns, each with a call and its result, and the ids of all its messages."""
    agent, _ = named_agent_with_turns(open_over(store), turns, name=f"{turns}")
    return agent.id, [message.id for message in agent.context().messages]


class Budgets(Suite):
    """The budgets of the store's methods and of a person's commands."""

    def test_reading_takes_a_fixed_number_of_statements(self, store: Store, harness: Harness) -> None:
        save_memo(store, "question")
        too_many = {}
        for turns in (3, 60):
            agent, ids = agent_with_turns(store, turns)
            with store.read() as moment:
                for name, reading in AT_ONCE.items():
                    reading(moment, agent, ids)  # fills the caches: each agent may be looked up once
                    taken = count(harness, store, lambda: reading(moment, agent, ids))  # noqa: B023
                    if taken > MOST.get(name, 1):
                        too_many[name, turns] = taken
        assert too_many == {}

    def test_a_head_takes_one_statement_without_any_cache(self, store: Store, other: Store, harness: Harness) -> None:
        agent, _ = agent_with_turns(store, 3)
        with other.read() as moment:
            assert count(harness, other, lambda: moment.head(agent)) == 1

    def test_an_append_takes_no_more_statements_after_a_long_history(self, store: Store, harness: Harness) -> None:
        found = set()
        for turns in (3, 60):
            agent, _ = agent_with_turns(store, turns)
            found.add(count(harness, store, lambda: append(store, agent, draft())))  # noqa: B023
            many = count(harness, store, lambda: append(store, agent, *[draft()] * 20))  # noqa: B023
            assert many <= 20 * max(found)
        assert len(found) == 1
        assert found.pop() <= 12

    def test_messages_are_read_in_pages(self, store: Store, harness: Harness) -> None:
        agent, ids = agent_with_turns(store, 150)
        with store.read() as moment:
            for newest_first in (False, True):
                every = count(harness, store, lambda: list(moment.select(_all(agent), newest_first=newest_first)))  # noqa: B023
                assert every <= 1 + len(ids) // 50
                one = count(harness, store, lambda: next(moment.select(_all(agent), newest_first=newest_first)))  # noqa: B023
                assert one == 1

    # Operations of the specification, in any store

    def test_the_standing_of_an_agent_takes_one_statement(self, store: Store, harness: Harness) -> None:
        log = open_over(store)
        agent, _ = named_agent_with_turns(log, 5)
        agent.configure("system", "Be brief.")
        assert count(harness, store, lambda: agent.standing().config) == 1
        assert agent.standing().config.system == "Be brief."

    @pytest.mark.parametrize("turns", [5, 200])
    @pytest.mark.parametrize(("line", "most"), [("/mark here", 6), ("/config set memos_injected=2", 20)])
    def test_the_statements_of_a_small_command(
        self, store: Store, harness: Harness, line: str, most: int, turns: int
    ) -> None:
        """The receipt of a setting compares the next request before and after."""
        agent, _ = named_agent_with_turns(open_over(store), turns)
        assert count(harness, store, lambda: agent.do(line)) <= most

    @pytest.mark.parametrize("calls", [1, 12])
    def test_the_statements_of_a_drop(self, store: Store, harness: Harness, calls: int) -> None:
        agent, turns = named_agent_with_turns(open_over(store), 20, calls)
        for some in (turns[1:3], turns[5:17]):
            line = f"/context drop {' '.join(map(str, some))}"
            assert count(harness, store, lambda: agent.do(line)) <= 8  # noqa: B023

    @pytest.mark.parametrize("mode", ["forget", "remember"])
    def test_a_filter_takes_a_fixed_number_of_statements(self, store: Store, harness: Harness, mode: str) -> None:
        log, found = open_over(store), set()
        for size in (20, 2000):
            agent, _ = named_agent_with_turns(log, size // 3, name=f"{mode} {size}")
            ids = [message.id for message in agent.context().messages][:size]
            found.add(count(harness, store, lambda: agent.apply_filter(mode, ids)))  # noqa: B023
        assert len(found) == 1
        assert found.pop() <= (12 if mode == "forget" else 13)

    def test_the_statements_of_a_filter_of_one_call_among_thousands(self, store: Store, harness: Harness) -> None:
        """Each statement reads more messages around the call than the previous one, so a few are enough."""
        agent, _ = named_agent_with_turns(open_over(store), 1, calls=2000)
        middle = [message.id for message in agent.context().messages if message.kind == "tool_call"][1000]
        assert count(harness, store, lambda: agent.apply_filter("forget", [middle])) <= 16
        assert [message.kind for message in agent.context().messages] == ["user", "assistant"]

    @pytest.mark.parametrize(("policy", "beside", "most"), REQUESTS)
    def test_the_statements_of_a_request(
        self, store: Store, harness: Harness, policy: str, beside: str, most: int
    ) -> None:
        """Each turn since the boundary records a state. Memos, mail and children add a fixed number of statements."""
        log, found = open_over(store), []
        sender = root(store)
        if beside == "memos":
            for number in range(12):
                save_memo(store, f"Question {number} is about results.")
        for turns in (4, 60):
            agent, _ = named_agent_with_turns(log, turns, name=f"{turns}")
            agent.configure("context_policy", policy)
            if "children" in beside:
                for number in range(turns // 7 + 1):
                    child = log.agent(agent.do("/fork").data["child"])
                    if beside == "children":
                        child.append("user", f"Begin with question {number}")
            elif beside == "mail":
                send(store, sender, agent.id, *(f"Mail {number}" for number in range(turns)))
            agent.append("user", "What is the result of question 3?")
            found.append(count(harness, store, lambda: agent.request("openai", "gpt-5")))  # noqa: B023
        assert max(found) <= most

    @pytest.mark.parametrize("size", SIZES, ids=str)
    def test_the_statements_of_a_search(self, store: Store, harness: Harness, size: tuple[int, int]) -> None:
        """One statement each for the embedders, the number of messages with each word, the best ones, their outlines
        and their neighbours. A filter that names agents adds one."""
        conversations(open_over(store), *size)
        for filters, most in SEARCHES:
            with closing(harness.open(store.address)) as other:
                log, found = open_over(other), list[Hit]()
                taken = count(harness, other, lambda: found.extend(log.search("question 1", 40, filters)))  # noqa: B023
                assert taken <= most, filters
                assert len({hit.agent_id for hit in found}) == (1 if filters.agent else size[0]), filters
                again = count(harness, other, lambda: log.search("What is question 1?", 40, filters))  # noqa: B023
                assert again <= most, filters

    @pytest.mark.parametrize("size", SIZES[:2], ids=str)
    def test_the_statements_of_a_recall(self, store: Store, harness: Harness, size: tuple[int, int]) -> None:
        """Three more than a search: memos (unless a filter excludes them), the turns of the hits, their outlines. Those
        that say where an agent's own hits are do not depend on the hits."""
        conversations(open_over(store), *size)
        for line, most in RECALLS:
            with closing(harness.open(store.address)) as other:
                agent = open_over(other).agent("c0")
                assert count(harness, other, lambda: agent.do(line)) <= most + PLACES, line  # noqa: B023
                assert agent.do(line).data["runs"], line
                (fork,) = agent.children
                assert fork.standing().visible, line  # the birth is read once
                assert count(harness, other, lambda: fork.do(line)) <= most + PLACES, line  # noqa: B023

    def test_the_statements_of_a_search_that_excludes_the_best(self, store: Store, harness: Harness) -> None:
        """The best 120 messages all belong to a planning conversation."""
        log = open_over(store)
        agent = log.agent("default")
        said = [agent.append("user", "A zebra stood among the other animals of the herd.") for _ in range(3)]
        agent.end_turn()
        with agent.batch():
            agent.do("/forget zebra", asking=Asking(in_chat=True))
            for _ in range(200):
                agent.append("user", "zebra")
        found: list[Hit] = []
        assert count(harness, store, lambda: found.extend(log.search("zebra"))) <= 6
        assert sorted(hit.event_id for hit in found) == said

    @pytest.mark.parametrize("budget", [2, 45])
    def test_the_statements_of_a_search_for_common_words(
        self, store: Store, harness: Harness, monkeypatch: pytest.MonkeyPatch, budget: int
    ) -> None:
        monkeypatch.setattr("foldmark.recall.searching.BUDGET", budget)
        log = open_over(store)
        for name in range(3):
            named_agent_with_turns(log, 40, name=f"{name}")
        for query in ("question 7", "question answer 7"):
            assert count(harness, store, lambda: log.search(query)) <= 6  # noqa: B023


def conversations(log: Log, number: int, turns: int) -> None:
    """Create `number` conversations with `turns` turns each, drop the last turn of each, and fork the first."""
    for name in range(number):
        agent, (*_, last) = named_agent_with_turns(log, turns, name=f"c{name}")
        agent.do(f"/context drop {last}")
    log.agent("c0").do("/fork")


def named_agent_with_turns(log: Log, turns: int, calls: int = 1, name: str = "default") -> tuple[Agent, list[int]]:
    """Return an agent with `turns` turns of `calls` parallel calls each, and the ids of these turns.

    These are the events that the agent would record, but appended turn by turn, which takes a fraction of the time.
    """
    agent, openers, end = log.agent(name).id, list[int](), list[Draft]()
    with log.store.write() as writing:
        for number in range(turns):
            begin = [draft(content=f"Question {number}", dialect="openai")]
            datas = [{"call_id": f"c{number}-{each}"} for each in range(calls)]
            for data in datas:
                wanted = {**data, "name": "look"}
                begin.append(draft("tool_call", f'{{"at":{number}}}', data=wanted, dialect="openai", actor="model"))
            opener, *asked = writing.append(agent, None, [*end, *begin])[len(end) :]
            openers.append(opener)
            end = [
                draft("tool_result", f"Result {number}", data=data, answers=id, dialect="openai", actor="system")
                for data, id in zip(datas, asked, strict=True)
            ]
            end.append(draft("assistant", f"Answer {number}", dialect="openai", actor="model"))
            end += [draft("state", f"Goal: {number}", actor="system"), draft("turn_ended", "", actor="system")]
        writing.append(agent, None, end)
    return log.agent(name), openers
