"""Random histories of a few agents: everything that can happen to them and beside them."""

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from random import Random
from typing import Any

from hypothesis import strategies as st
from msgspec.structs import replace

from foldmark.core import selections
from foldmark.core.agents import MODEL, TOOLS, Lease, Size, archived, deleted, killed, mailed, renamed, unarchived
from foldmark.core.errors import FoldmarkError, StoreError
from foldmark.core.events import Draft, Event
from foldmark.core.records import CopiedEvent
from foldmark.core.replay import Fold, birth
from foldmark.core.segments import END, Segment
from foldmark.testing.suite import HARD, NOW, add_fork, add_root, call, draft, erase, hashed, request, usage

KINDS = (
    *("user", "user", "client", "assistant", "tool_call", "tool_call", "tool_result", "summary", "system"),
    *("state", "scratchpad", "mark", "clear", "turn_ended", "request", "usage", "erase"),
)
Step = tuple[int, str, int]
"""A step: the number of an agent, a deed, and a number that selects its object."""

STEPS = st.tuples(st.integers(0, 2), st.sampled_from(KINDS), st.integers(0, 5))
"""Steps that only append to the logs of three agents, and erase turns of them."""

WORDS = (
    *("quartz", "Quartzes", "jumping", "jumps", "größe", "GRÖSSE", "x1", "it's", "класс", "parseHttpResponse", "http"),
    *("数据库连接", "数据", "user_session", "session", "deploy", "Deployment", "flies", "fly", "api", "APIs", "x.y"),
    *(
        '"',
        "a OR b",
        "NOT x",
        "content : secret",
        "tags:x",
        "NEAR(a b)",
        "(",
        "a\0b",
        "",
        "++",
        "%",
        "a & b",
        "secret*",
    ),
)
"""Words, and texts that a search engine could read as syntax."""

HOLDERS = ("quartz", "jumps", "größe", '"quartz jumps"', "qua*", "数据", "http", "grep", "hello", "x1", "it's")
TEXTS = (HARD, "", "hello", *(" ".join(WORDS[at : at + 3]) for at in range(0, len(WORDS), 2)))
TAGS = ("a", "b", "größe", "api-design")
NAMES = ("one", "two", f"three {HARD}")
TOOLS_USED = ("probe", "Grep", "recall", HARD)
KEPT_TEXTS = hashed(*(f"{name} {number}" for name in ("config", "question", "memo") for number in range(6)))


class FixedJudge:
    """A `Judge` with fixed answers. It must have met the agents that it is asked about."""

    def __init__(self, *, visible: Collection[int] = (), planned: Collection[int] = ()) -> None:
        self._visible, self._planned, self.met = visible, planned, set[str]()

    def meet(self, agent_ids: Iterable[str]) -> None:
        self.met |= set(agent_ids)

    def shows(self, agent_id: str, event_id: int) -> bool:
        return agent_id in self.met and event_id in self._visible

    def plans(self, agent_id: str, event_id: int) -> bool:
        assert agent_id in self.met
        return event_id in self._planned


class Undone(BaseException):
    """Ends a transaction that is to be rolled back, as Ctrl-C does."""


class History:
    """What happened to a root, a fork of it and an agent of another tree, and to later agents."""

    def __init__(self, store: Any) -> None:
        with store.write() as writing:
            root = add_root(writing)
            self.agents = [root, add_fork(writing, root), add_root(writing)]
        self.lost: list[str] = []
        """Agents whose creation was rolled back."""

        self.number = 0

    def play(self, store: Any, steps: Sequence[Step], other: Any = None, look: Callable[[Any], object] = bool) -> None:
        """Carry out the steps, each in a separate transaction, or several in one, at whose end `look` gets the
        transaction. With `other`, another connection to the same database, both take turns, and every third time one of
        them appends something after the other has decided a step and before it records it."""
        here, there = store, other
        left = list(steps)
        while left:
            who, deed, pick = left.pop(0)
            if other is not None:
                here, there = there, here
            if deed not in ("together", "undone"):
                with suppress(Undone):
                    self._do(here, who, deed, pick, there if pick % 3 == 0 else None)
                continue
            some, left = left[: pick + 1], left[pick + 1 :]
            with suppress(Undone, FoldmarkError), here.write() as writing:
                for each in some:
                    self._do(here, *each)
                look(writing)
                if deed == "undone":
                    raise Undone

    def _do(self, store: Any, who: int, deed: str, pick: int, elsewhere: Any = None) -> None:
        agent = self.agents[who % len(self.agents)]
        self.number += 1
        with store.read() as moment:
            head = moment.head(agent).record.head
        if elsewhere is not None:
            with suppress(FoldmarkError), elsewhere.write() as writing:
                writing.append(agent, None, [usage(elsewhere=self.number) if self.number % 2 else draft("state")])
        with suppress(FoldmarkError), store.write() as writing:
            if deed in DEEDS:
                DEEDS[deed](self, writing, agent, pick)
            else:
                writing.append(agent, head, [self.drafted(writing, agent, deed, pick)])

    def drafted(self, writing: Any, agent: str, kind: str, pick: int) -> Draft:
        data: dict[str, Any] | None = None
        answers = None
        if kind in ("tool_call", "tool_result"):
            data = {"call_id": f"c{pick % 2}", "name": TOOLS_USED[pick % len(TOOLS_USED)]}
        if kind == "tool_result":
            own = writing.lookup([each.id for each in writing.select((Segment(agent, 1, END),))])
            calls = [each for each in own if each.kind == "tool_call"]
            answered = {each.answers for each in writing.results(calls, erased=True)}
            waiting = [call.id for call in calls if call.id not in answered]
            answers = waiting[pick % len(waiting)] if waiting else None
        if kind in ("state", "summary", "turn_ended", "command") and pick % 2:
            special: dict[str, Any] = {"turn_ended": {"closes": 1}, "command": {"planning": {"mode": HARD}}}
            data = special.get(kind, {"state": HARD})
        if kind == "filter":
            data = {"mode": "forget", "ranges": [], **({"planning": [1, None]} if pick % 2 else {})}
        if kind == "record":
            data = {HARD: [2**70, -(2**70), 2**53 + 1, 0.1, 1.0, 1, True, {"b": None, "a": -(2**63)}]}
        if kind == "request":
            memo = next((each.id for each in writing.memos(pick + 1)[-1:]), 0)
            texts = {name: f"{name} {pick}" for name in ("config", "question")} | {f"memo {memo}": f"memo {pick}"}
            hashes = {name: hash for name, text in texts.items() for hash in hashed(text)}
            writing.keep_texts(hashed(*texts.values()))
            return request(hashes, number=self.number)
        text = TEXTS[(pick + self.number) % len(TEXTS)] if pick % 2 else "é" * pick + str(self.number)
        if kind in ("turn_ended", "tool_call"):
            text = "" if kind == "turn_ended" else f'{{"at":"{pick}\\n"}}'
        how = {"interrupted": pick == 1, "dialect": (None, "openai")[pick % 2], "actor": ("human", "model")[pick % 2]}
        return draft(kind, text, data=data, answers=answers, **how)

    def made(self, writing: Any, agent: str) -> None:
        """Add an agent, until its creation is rolled back."""
        self.agents.append(agent)
        writing.on_rollback(lambda: self.lost.append(self.agents.pop(self.agents.index(agent))))

    def messages(self, store: Any) -> list[Event]:
        """Return the messages of all agents."""
        with store.read() as moment:
            return [each for agent in self.agents for each in moment.select((Segment(agent, 1, END),))]


def _erase(history: History, writing: Any, agent: str, pick: int) -> None:
    """Erase a whole turn at the request of the agent itself or of another agent in its tree. First end an open turn, as
    the library does; or erase what the same transaction has appended to the open turn."""
    if pick == 5:
        writing.append(agent, None, [draft(content="quartz"), call("c0")])
    turns = sorted({each.turn_id for each in selections.events_after(writing, agent, 0, 10_000) if each.turn_id})
    if turns:
        turn, record = turns[-1 if pick == 5 else pick % len(turns)], writing.agent(agent)
        if record.open_turn == turn and pick < 5:
            writing.append(agent, None, [draft("turn_ended", "")])
        root = writing.agent(agent).root
        tree = [each for each in history.agents if writing.agent(each).root == root]
        erase(writing, agent, turn, writing.agent(agent).head, by=tree[pick % len(tree)])
        writing.append(agent, None, [call("c1")] if pick == 5 else [])
        selections.waiting(writing, agent)
        writing.append(agent, None, [draft("turn_ended", "")] if pick == 5 else [])


def _delete(history: History, writing: Any, agent: str, pick: int) -> None:
    if all(each.deleted for each in writing.agents(parent=agent)):
        if writing.agent(agent).open_turn is not None:
            writing.append(agent, None, [draft("turn_ended", "")])
        erase(writing, agent, 0)
        writing.append(agent, None, [deleted("human", NOW)])


def _fork(history: History, writing: Any, agent: str, pick: int) -> None:
    child = add_fork(writing, agent)
    history.made(writing, child)


def _add(history: History, writing: Any, agent: str, pick: int) -> None:
    made = add_root(writing, NAMES[pick % len(NAMES)] if pick % 2 else None)
    history.made(writing, made)


def _mail(history: History, writing: Any, agent: str, pick: int) -> None:
    sender = history.agents[pick % len(history.agents)]
    writing.append(agent, None, [mailed(sender, f"{HARD} {pick}", "human", NOW)])


def _carry(history: History, writing: Any, agent: str, pick: int) -> None:
    if not selections.unread(writing, agent):
        _mail(history, writing, agent, pick)
    (no_mail,) = selections.events_after(writing, history.agents[0], 0, 1)
    carried: list[Any] = [*selections.unread(writing, agent)[: pick + 1], no_mail]
    data = {"mail": [{"id": each.id} for each in carried]}
    writing.append(agent, None, [draft(content="carried", data=data)])


def _change_conversation(history: History, writing: Any, agent: str, pick: int) -> None:
    """Name a conversation, let it and the first one exchange their names, archive it, or the opposite."""
    record, first = writing.agent(agent), writing.agent(history.agents[0])
    if record.parent is None and pick in (1, 2):
        writing.append(agent, None, [(archived, unarchived)[pick - 1]("human", NOW)])
    elif record.parent is None and record.name is not None:
        exchange = [(agent, "another"), (first.id, record.name), (agent, first.name)]
        for of, name in exchange if pick == 3 else [(agent, NAMES[history.number % len(NAMES)])]:
            writing.append(of, None, [renamed(name, "human", NOW)])


def _exchange(history: History, writing: Any, agent: str, pick: int) -> None:
    """Append calls and results in any order, with something between."""
    chance = Random(history.number)
    for kind in chance.choices(("tool_call", "tool_result", "state", "assistant", "turn_ended"), (6, 6, 1, 1, 1), k=12):
        writing.append(agent, None, [history.drafted(writing, agent, kind, chance.randrange(6))])


def _repeat(history: History, writing: Any, agent: str, pick: int) -> None:
    key = f"key {pick % 2} \0"
    writing.append(agent, None, [draft(), usage()][: 1 + pick % 2], key=key)
    writing.append(agent, 0, [draft(content="again")], key=key)


def _conflict(history: History, writing: Any, agent: str, pick: int) -> None:
    drafts: tuple[list[Draft], ...] = (
        [draft()],
        [usage(), draft()],
        [draft(), usage()],
        [],
        [usage()],
        [draft(data={"x": object()})],
    )
    with suppress(ValueError):
        writing.append(agent, 10**12 if pick < 5 else None, drafts[pick])


def _take(history: History, writing: Any, agent: str, pick: int) -> None:
    """Take events from another store that are refused, because they are not newer than all others or of no agent. Then
    give up, because the transaction may go on or may have failed."""
    newest = max(each.last for each in writing.agents())
    one, two, known, lost = (
        CopiedEvent(newest + more, of, None, "state", None, "system", NOW, False, None, None, False, None, "", None)
        for more, of in ((5, agent), (9, agent), (0, agent), (9, "nobody"))
    )
    with suppress(StoreError):
        writing.take_events(([one, one], [two, one], [known], [one, lost])[pick % 4])
    raise Undone


def _ask_oddly(history: History, writing: Any, agent: str, pick: int) -> None:
    """Append the record of another version. Only the check for damage complains."""
    texts = hashed("one", "two") if pick % 4 == 3 else {}
    writing.keep_texts(texts)
    data = (None, {}, {"hashes": 7}, {"hashes": dict(zip(("memo x", "question"), texts, strict=False))})[pick % 4]
    writing.append(agent, None, [draft("request", "", data=data)])


def _disown(history: History, writing: Any, agent: str, pick: int) -> None:
    """Take the text of a request from it, as only a copy does, whose source has erased it. Then erase the turn."""
    texts = hashed(f"text {pick}")
    writing.keep_texts(texts)
    writing.append(agent, None, [draft(), request({"question": next(iter(texts))})])
    writing.disown(agent, texts)
    writing.kept_texts(texts)
    turn = writing.agent(agent).open_turn
    writing.append(agent, None, [draft("turn_ended", "")])
    erase(writing, agent, turn)


def _save_fold(history: History, writing: Any, agent: str, pick: int) -> None:
    writing.save_fold(birth(agent, pick) if pick % 2 else _fold(agent, pick), Size(-pick, pick))


def _fold(agent: str, pick: int) -> Fold:
    segments = (Segment(agent, 1, 2), Segment(agent, 5, END))
    return Fold(agent, segments[: 1 + pick % 2], {HARD: 4, "A": 3}, (1, 2), 7, (3, 9), {4: 0, 2: 6})


def _lend(history: History, writing: Any, agent: str, pick: int) -> None:
    holder = f"holder {pick % 2}"
    if pick < 3:
        writing.lend(agent, Lease(agent, holder, f"host {HARD}", 2**31, MODEL, NOW, f"{NOW[:-3]}{pick}1Z", True))
    writing.renew(f"holder {pick % 3}", f"{NOW[:-3]}{pick}0Z")
    lease = writing.lease(agent)
    if lease is not None and pick % 2:
        writing.lend(agent, replace(lease, state=TOOLS, interrupt=True))


def _save_memo(history: History, writing: Any, agent: str, pick: int) -> None:
    text = TEXTS[(pick + history.number) % len(TEXTS)]
    writing.save_memo(text, TAGS[: pick % 5], agent if pick % 2 else None, "model", NOW)


def _remove_memo(history: History, writing: Any, agent: str, pick: int) -> None:
    for memo in writing.memos(pick)[-1:]:
        writing.remove_memo(memo.id)


Deed = Callable[[History, Any, str, int], object]

DEEDS: dict[str, Deed] = {
    "erase": _erase,
    "delete": _delete,
    "fork agent": _fork,
    "new agent": _add,
    "exchange": _exchange,
    "mail": _mail,
    "carry": _carry,
    "conversation": _change_conversation,
    "kill": lambda history, writing, agent, pick: writing.append(
        agent, None, [killed(history.agents[0], ("human", "model")[pick % 2], NOW)]
    ),
    "repeat": _repeat,
    "conflict": _conflict,
    "take": _take,
    "odd request": _ask_oddly,
    "fold": _save_fold,
    "lease": _lend,
    "give back": lambda history, writing, agent, pick: writing.lend(agent, None),
    "memo": _save_memo,
    "remove memo": _remove_memo,
    "disown": _disown,
}
_DEEDS = ("erase", *KINDS, "config", "command", "record", "filter", *DEEDS, "together", "undone")
EVERY_STEP = st.tuples(st.integers(0, 4), st.sampled_from(_DEEDS), st.integers(0, 5))
"""Steps of every kind."""

EVERY_DEED: list[Step] = [
    (number + pick, deed, pick)
    for pick in range(6)
    for number, deed in enumerate(_DEEDS)
    if pick > 3 or deed not in ("kill", "delete")
]
"""A history in which everything happens."""

EXCHANGES: list[Step] = [
    (number % 3, "erase" if number % 10 == 9 else "exchange" if number % 3 else "user", number % 6)
    for number in range(50)
]
"""A history of calls and results."""
