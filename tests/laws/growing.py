"""Random histories of agents, and checks of each request against the one before (law L8)."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from contextlib import suppress
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

from random_logs import FOUND, KEPT, READ, SEARCH, TARGETS, document, image

import foldmark
from deeds import OPERATING, do, family
from foldmark import Agent, CommandError
from foldmark.core import selections
from foldmark.core.assembly.media import PAGE
from foldmark.core.assembly.wire import DOCUMENT
from foldmark.core.events import OPERATION_KINDS
from foldmark.core.request import Compacted, Part, Request, ToolCall, ToolSpec, Usage
from foldmark.core.segments import Segment
from foldmark.dialects.dialect import dialect_named
from foldmark.log import memos
from foldmark.log.family import deliver
from foldmark.providers.registry import dialect_of
from foldmark.request.recorded import newest_requests
from foldmark.request.sent import truncated
from foldmark.request.standing import as_of
from foldmark.sending.rebuilding import rebuilt
from foldmark.sending.status import calibrate
from foldmark.tokens.counting import ruler, uncalibrated
from stored import connection, stored

TEXT = "Where does the parser keep the names of files? "
SLASH = ToolSpec("slash", "Runs a command.", {"type": "object", "properties": {"command": {"type": "string"}}})

TALKING = (
    *["ask"] * 6,
    *["work"] * 10,
    *["result"] * 16,
    *["answer"] * 4,
    *("think", "interject", "late", "state", "scratchpad"),
    *("mail", "mail", "told", "child", "child", "remind", "remind", "memo", "memo", "memo", "calibrate", "calibrate"),
    *("usage", "mark", "fork"),
)
"""Deeds that make no boundary."""

QUIET = ("state", "scratchpad", "told", "child", "memo", "calibrate", "usage", "mark")
"""Deeds that add no message. They are no reason to ask a model; a request made after them repeats the one before."""

BOUNDARIES = ("set", "system", "model", "unmemo", "compact", "redact", "evict", "evict", *OPERATING)

DEEDS = (*TALKING * 8, *BOUNDARIES)
STEPS = 100
WHO = (0, 0, 0, 0, 0, 0, 1, 2, 3)

THOUGHTS = {dialect: [each for each in kept if "srvtoolu_1" not in str(each)] for dialect, kept in KEPT.items()}
"""Blocks of an answer beside its text, by dialect. Searches are left out: each needs a new id (`History._kept`)."""

BUDGETS = (9_500, 10_500, 10_500, 20_000)
SMALL = (1_500, 4_000)
LIMITS = (None, None, None, 4000)
KEEPS = (900, 900, 4000)

FOLDER = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


class Seen(NamedTuple):
    """A request that was sent, its blocks, and the newest event at that time."""

    request: Request
    blocks: list[bytes]
    newest: int


class History:
    """A root agent and its forks, the deeds done to them and the requests they make.

    `seen` counts the cases that came up, so that a law that was never put to the test is noticed.
    """

    def __init__(self, policy: str, target: tuple[str, str], budget: int, keeps: int, limit: int | None) -> None:
        self.policy, self.target, self.budget, self.limit = policy, target, budget, limit
        self.log = foldmark.open(":memory:", settings={})
        self.log.tools = lambda: [READ, SLASH]  # type: ignore[method-assign]
        self.root = self.log.agent("root")
        for key, value in {
            "context_policy": policy,
            "system": "Be brief.",
            "sliding_context_tokens": budget,
            "truncate_recent": keeps,
            "truncate_active": 200,
            "truncate_inactive": 40,
            "truncate_recent_count": 2,
        }.items():
            self.root.configure(key, value)
        self.targets: dict[str, tuple[str, str]] = {}
        self.before: dict[str, Seen | None] = {}
        self.seen: Counter[str] = Counter()
        self.open: dict[str, list[str]] = {}
        self.late: list[str] = []
        self.erased = False

    # Deeds

    def play(self, deed: str, number: int, who: int) -> None:
        """Do something to the root (`who` 0) or to one of its forks, and check the agent's request. `number` chooses
        among the possible objects of the deed."""
        agents = family(self.root)
        agent = agents[who % len(agents)]
        with suppress(CommandError):
            self._done(agent, deed, number)
        self.seen["steps"] += 1
        asks = number % 2 if deed in QUIET else not self.open.get(agent.id)
        if asks or number % 16 == 0:
            self._ask(agent, number)

    def _done(self, agent: Agent, deed: str, number: int) -> None:
        provider, model = self._target(agent)
        dialect = dialect_of(provider).recorded
        kept = self._kept(dialect, number)
        if deed in ("ask", "work", "answer", "think", "model"):
            while number % 16 and self.open.get(agent.id):
                self._result(agent, number)
            self.late += self.open.pop(agent.id, [])  # interrupted
        match deed:
            case "ask":
                agent.end_turn()
                agent.append("user", TEXT + "x" * 40 * (number % 25), data=_shown(number) if number % 9 == 0 else None)
            case "interject":
                agent.append("user", f"And table {number}?")
            case "work":
                calls = [
                    ToolCall(f"r{number}-{each}", "read_file", {"path": f"{each}"}) for each in range(number % 3 + 1)
                ]
                agent.append_pieces(f"I look at {number}." * (number % 2), kept, calls, dialect)
                self.open[agent.id] = [call.call_id for call in calls][:: -1 if number % 4 == 3 else 1]
            case "result":
                self._result(agent, number)
            case "late" if self.late:
                agent.append_tool_result(self.late.pop(), "late " * number, dialect=dialect)
            case "think":
                agent.append_pieces(f"I think {number}.", kept, [], dialect)
            case "answer":
                state = f"\n### STATE\nGoal: {number}" if number % 3 else ""
                agent.append_pieces(f"It is in table {number}.{state}", kept, [], dialect, interrupted=number % 10 == 9)
                agent.end_turn(interrupted=number % 10 == 9)
            case "mail" | "told":
                for child in agent.children[:2]:
                    child.do(f"/send {agent.id} Found {number}.")
                if deed == "mail":
                    deliver(agent)
            case "child":
                for child in agent.children[:1]:
                    child.append("user", "Go on.") if number % 2 else child.end_turn()
            case "remind":
                text = f"[Foldmark: your context is {number}% full.]"
                agent.append("user", text, data={"reminder": True}, actor="system")
            case "memo":
                memos.save_memo(
                    agent, f"The parser keeps names in table {number}. " + TEXT * (number // 20), (), "human"
                )
            case "unmemo":
                for memo in stored(self.log).memos(3)[-1:]:
                    with self.log.store.write() as transaction:
                        transaction.remove_memo(memo.id)
                    self._cut_for_all()
            case "calibrate":
                request = agent.request(provider, model)
                calibrate(agent, request, Usage(fresh=request.size // (2 + number % 4)))
            case "usage":
                agent.record("usage", data={"fresh": number, "cache_read": 0, "cache_write": 0, "output": 1})
            case "set":
                key = ("truncate_active", "truncate_recent", "memos_injected", "thinking")[number % 4]
                value = ("high", 100 + number, 600 + number, number % 5)[(number + 1) % 4]
                agent.configure(key, value)
                self.before[agent.id] = None
            case "system":
                agent.append("system", f"Rule {number}.")
                self.before[agent.id] = None
            case "model":
                self.targets[agent.id] = TARGETS[number % len(TARGETS)]
                self.before[agent.id] = None
            case "compact" if dialect_of(provider).reads:
                item = {"type": "compaction", "content": "All of it."}
                if provider != "anthropic":
                    item = {"type": "compaction", "id": "cmp_1", "encrypted_content": "b3BhcXVl"}
                made = [Compacted((item,), "All of it.")]
                agent.append_pieces("So.", [], [], dialect, compacted=made, reader=dialect_of(provider).reads)
            case "redact":
                for turn in [m.turn_id for m in agent.context().messages if m.turn_id][number % 20 :][:1]:
                    agent.redact(turn)
                    self._cut_for_all()
            case _:
                do(agent, deed, number)

    def _result(self, agent: Agent, number: int) -> None:
        if waiting := self.open.get(agent.id):
            text, shown = "line " * 12 * number, _shown(number) if number % 8 == 5 else None
            dialect = dialect_of(self._target(agent)[0]).recorded
            agent.append_tool_result(waiting.pop(0), text, dialect=dialect, is_error=number % 7 == 6, data=shown)

    def _cut_for_all(self) -> None:
        """Forget all requests so far: the erased content may have been in any of them."""
        self.before.clear()
        self.erased = True

    def _kept(self, dialect: str, number: int) -> list[dict[str, Any]]:
        known = THOUGHTS["gemini" if dialect == "gemini_gca" else dialect]
        found = [known[number % len(known)], known[number // 2 % len(known)]][: number % 4]
        if dialect == "anthropic" and number % 5 == 1:
            self.seen["searches"] += 1
            one = f"srvtoolu_{self.seen['searches']}"
            asked, told = {**SEARCH, "id": one}, {**FOUND, "tool_use_id": one}
            found += [{"type": "carried", "of": "anthropic", "block": each} for each in (asked, told)]
        return found

    def reopened(self) -> None:
        """Check everything once more, also from a copy of the database."""
        sent = newest_requests(stored(self.log), self.root.id, 60)[::12]
        verdicts = {rebuilt(self.root, each.number).verdict for each in sent}
        assert verdicts <= ({"identical", "erased"} if self.erased else {"identical"})
        agents = family(self.root)
        requests = [self._request(agent).bytes for agent in agents]
        db = connection(self.log)
        with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
            path = Path(folder) / "log.db"
            path.write_bytes(db.serialize("main"))
            with foldmark.open(path, create=False, settings={}) as log:
                log.tools = self.log.tools  # type: ignore[method-assign]
                copies = [log.agent(a.id).request(*self._target(a), limit=self.limit).bytes for a in agents]
        assert copies == requests

    # Requests

    def _target(self, agent: Agent) -> tuple[str, str]:
        return self.targets.get(agent.id, self.target)

    def _request(self, agent: Agent) -> Request:
        return agent.request(*self._target(agent), limit=self.limit)

    def _ask(self, agent: Agent, number: int) -> None:
        db = connection(self.log)
        changes = db.total_changes()
        request = self._request(agent)
        assert db.total_changes() == changes, "a request writes nothing"
        if number % 12 == 0:
            again = self._request(self.log.agent(agent.id))
            assert (again.bytes, again.manifest) == (request.bytes, request.manifest)
        self.seen["asked"] += 1
        now = Seen(request, of(request), agent.standing().newest)
        before = self.before.get(agent.id)
        if before is not None and self._named(agent, before.newest):
            before = None
        if before is not None and answered(before.request) <= answered(request):
            self.seen["compared"] += 1
            (self._grown if self.policy == "steady" else self._afresh)(agent, before, now)
        if not is_sent(request) or self.open.get(agent.id):
            return
        if self.policy == "steady":
            tokens = ceil(request.size / max(self._rulers(agent, request)))
            fits = tokens <= min(self.budget, self.limit or tokens)
            assert fits or one_turn(request), (tokens, request.manifest.edge)
            put_in = [(p.layer, p.event, p.memo) for p in request.manifest.parts if p.layer in ("state", "memos")]
            assert len(set(put_in)) == len(put_in), "nothing is put in twice"
        sent = agent.record_sent(request).number
        if number % 6 == 0:
            assert rebuilt(agent, sent).verdict == "identical"
        self.before[agent.id] = now

    def _named(self, agent: Agent, since: int) -> bool:
        """Return True if an operation that hides, shows or shortens was recorded since an event."""
        done = {event.kind for event in selections.operations(stored(self.log), agent.id, after=since)}
        return bool(done & {*OPERATION_KINDS} - {"mark", "fork"})

    # Policy steady

    def _grown(self, agent: Agent, before: Seen, now: Seen) -> None:
        """Check that the request begins with the whole of the one before, unless window or size forced a step."""
        was, edge = before.request.manifest.edge, now.request.manifest.edge
        since, boundary = before.request.manifest.plan.settled, now.request.manifest.plan.settled
        grown = now.blocks[: len(before.blocks)] == before.blocks
        thinks = [each.request.body.get("thinking") for each in (before, now)]
        if boundary == since and not grown and thinks[0] != thinks[1]:
            # A model that thinks within a budget is not asked to think after a call that it made without thinking:
            # Anthropic refuses that, and with it all earlier thinking.
            self.seen["unthought"] += 1
            return
        if boundary == since:
            assert grown
            assert was.first in (edge.first, None)
        if grown:
            self.seen["grown"] += 1
            return
        assert boundary > since
        if was.first != edge.first:
            self.seen["window steps"] += 1
        size = self._would_have(agent, before, now)
        assert size > min(self.budget, self.limit or self.budget), "a step that no size justifies"
        self.seen["budget steps"] += 1

    def _would_have(self, agent: Agent, before: Seen, now: Seen) -> float:
        """Return the maximum tokens of the request if it had only grown: no provider takes more for a message, its
        frame and an image. Calls of another provider count as well, although they are not sent [SPEC 5.3]."""
        request, kept = before.request, agent.standing().config.truncate_recent + 100
        parts = {part.event: part for part in request.manifest.parts if part.event}
        first = request.manifest.edge.first or 0
        held = [each for each in agent.context().messages if each.id >= first and each.kind != "system"]
        new = [each for each in held if each.id > before.newest or each.id not in parts]
        said = sum(400 + min(len(e.content), kept if e.kind == "tool_result" else 10**9) for e in new)
        every = [*new, *(event for each in parts if (event := selections.event(stored(self.log), each)))]
        beside = [block for event in every for block in (event.data or {}).get("blocks", ())]
        shown = sum(PAGE * 4 + DOCUMENT if "source" in block else len(str(block)) for block in beside)
        put_in = sum(len(part.text) + 200 for part in now.request.manifest.parts if part.before is not None)
        if agent.children or agent.standing().record.parent is not None:  # room for the text about them
            put_in += sum(300 + 120 * len(agent.children[:8]) for each in held if each.id == each.turn_id)
        total = len(request.bytes) + 400 * len(parts) + said + shown + put_in
        return total / min(*self._rulers(agent, request), uncalibrated(*self._target(agent)))

    def _rulers(self, agent: Agent, request: Request) -> list[float]:
        """Return the bytes per token of each calibration so far: the newest one applies from the next boundary on, and
        a child may go on with one that its parent had before."""
        at = agent.standing()
        told = selections.ids(stored(self.log), "config", (Segment(agent.id, 1, at.newest),))
        known = [as_of(stored(self.log), at, event).config for event in (*told, at.record.fork_event)]
        ratios = [request.size / ruler(request.provider, request.model, c).tokens(request.size) for c in known]
        return [*ratios, request.manifest.plan.ratio or ratios[0]]

    # Policy eager

    def _afresh(self, agent: Agent, before: Seen, now: Seen) -> None:
        """Check that the common messages of both requests are equal, except for shortened results. Where the manifest
        shows no change inside a turn, the request must begin with the whole of the one before."""
        was, parts = before.request.manifest.parts, now.request.manifest.parts
        shown, shows = (
            {p.event: p for p in each if p.layer in ("window", "pinned") and p.event} for each in (was, parts)
        )
        kept, keeps = truncated(was), truncated(parts)
        for event, part in shown.items():
            if event in shows and shows[event].text != part.text:
                assert part.kind == "tool_result"
                assert keeps[event] < kept.get(event, 10**9)
        assert [event for event in shown if event in shows] == [event for event in shows if event in shown]
        mine, new = ([p for p in each if p.kind not in ("go_on", "empty")] for each in (was, parts))
        layers, messages = _split(mine)
        if (layers, messages) != (_split(new)[0], _split(new)[1][: len(messages)]):
            self.seen["shortened"] += 1
            return
        later = _split(new)[1][len(messages) :]
        moves = any(part.layer == "children" for part in layers) and any(part.kind == "user" for part in later)
        if messages and not moves and {part.turn for part in later} <= {messages[-1].turn}:
            assert now.blocks[: len(before.blocks)] == before.blocks
            self.seen["grown"] += 1


def _split(parts: list[Part]) -> tuple[list[Part], list[Part]]:
    """Return the layers and the messages."""
    messages = [part for part in parts if part.layer in ("window", "pinned")]
    return [part for part in parts if part not in messages], messages


def of(request: Request) -> list[bytes]:
    """Return the content blocks to compare, without the one that Foldmark puts after the newest message."""
    found = [block.data for block in dialect_named(request.dialect).blocks(request.body)]
    last = request.manifest.parts[-1] if request.manifest.parts else None
    behind = last is not None and last.how == "synthetic" and last.kind in ("go_on", "empty")
    return found[:-1] if behind else found


def answered(request: Request) -> set[str]:
    """Return the calls with a synthetic result."""
    return {part.detail for part in request.manifest.parts if _is_missing(part)}


def _is_missing(part: Part) -> bool:
    return part.how == "synthetic" and part.kind == "tool_result"


def is_sent(request: Request) -> bool:
    """Return True if the model would be asked here: the newest message is a user message or a result."""
    parts = [part for part in request.manifest.parts if part.layer in ("window", "pinned")]
    planning = request.manifest.edge.why == "planning"
    return bool(parts) and not planning and not _is_missing(parts[-1]) and parts[-1].kind in ("user", "tool_result")


def one_turn(request: Request) -> bool:
    """Return True if no further turn could leave: all are the turn that a person opened last, or newer."""
    parts = [part for part in request.manifest.parts if part.layer == "window" and part.turn]
    turns = [(part.turn or 0, part.event == part.turn, part.kind == "user") for part in parts]
    opened = {turn for turn, first, user in turns if not first or user} - {
        turn for turn, first, user in turns if first and not user
    }
    return len({turn for turn, _, _ in turns}) < 2 or min(turns)[0] >= max(opened, default=0) > 0


def _shown(number: int) -> dict[str, Any]:
    return {"blocks": [image() if number % 2 else document()]}
