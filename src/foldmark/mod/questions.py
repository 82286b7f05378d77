"""The questions of the plugins, and their answers [SPEC 8].

Each question names the session and its folder. The client's messages come with it, in the form of the Messages API.
"""

import os
import queue
from collections.abc import Mapping, Sequence
from contextlib import suppress
from threading import Lock, Thread
from typing import Any

from foldmark.chat.display.operated import line as operation_line
from foldmark.chat.display.turns import ORDERS, arranged, edits, prices
from foldmark.chat.display.turns import TurnRow as Turn
from foldmark.core import selections
from foldmark.core.errors import CommandError, FoldmarkError, ProviderError
from foldmark.core.request import Request
from foldmark.cost.messages import SENT, Place
from foldmark.log import Agent, Log
from foldmark.mod.conversation import SIGN, ModConversation, SessionConversation, open_for_mod
from foldmark.operations.history import operations
from foldmark.overlay.pieces import MisplacedError
from foldmark.sending.models import CLIENT
from foldmark.sessions.hook import live_state
from foldmark.sessions.hook.process import SessionState

ASK_SECONDS = 120.0
"""Maximum seconds for which a command waits for the answer of the client's model."""

_OPERATIONS = 8
"""Maximum number of operations in the pane."""

_LINES = {"d": "drop", "e": "evict"}
"""The commands of the keys that edit what is ticked."""


class Running:
    """A command that is being executed, and its questions to the client's model."""

    def __init__(self) -> None:
        self.said: queue.Queue[Mapping[str, Any]] = queue.Queue()
        self.answers: queue.Queue[str | None] = queue.Queue()

    def ask(self, asked: Request) -> str:
        """Ask the client's model, and return its answer. Raises ProviderError."""
        self.said.put({"ask": question(asked)})
        try:
            answer = self.answers.get(timeout=ASK_SECONDS)
        except queue.Empty:
            answer = None
        if answer is None:
            raise ProviderError("answer", "the model of this session gave no answer; repeat it")
        return answer


class Questions:
    """Answers the questions about the sessions in a log."""

    def __init__(self, log: Log) -> None:
        self._log, self._lock = log, Lock()
        self._sessions: dict[str, ModConversation] = {}
        self._running: dict[str, Running] = {}
        open_for_mod(log)
        known = (self._newest, self._take, self._pane, self._price, self._install, self._do, self._answer)
        self._known = {each.__name__.removeprefix("_"): each for each in known}

    def __call__(self, name: str, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        """Answer a question. Raises CommandError for an unknown one, and for missing arguments."""
        if name not in self._known:
            raise CommandError(f"there is no question '{name[:40]}'; there are {', '.join(self._known)}")
        if name == "answer":
            return self._answer(asked)
        with self._lock:
            return self._known[name](asked)

    def _session(self, asked: Mapping[str, Any]) -> SessionConversation:
        session = asked.get("session")
        if not isinstance(session, str) or not session:
            raise CommandError("the question names no session")
        gateway = live_state.read(os.environ, session).get("agent")
        if isinstance(gateway, str):
            return SessionConversation(self._log.agent(gateway))
        if session not in self._sessions:
            self._sessions[session] = ModConversation(self._log, session, str(asked.get("folder") or ""))
        return self._sessions[session]

    def _taken(self, asked: Mapping[str, Any]) -> SessionConversation:
        """Return the session after recording the messages of the question."""
        found = self._session(asked)
        messages = asked.get("messages")
        if isinstance(messages, list):
            found.take(messages, str(asked.get("model") or ""), asked.get("usage"), int(asked.get("besides") or 0))
        return found

    def _take(self, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        """Record the messages; `pending` is True if the client does not send yet what the context shows."""
        found = self._taken(asked)
        return {"pending": self._pending(found, asked)}

    def _newest(self, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the newest operation, also one that another program has recorded."""
        try:
            agent = self._session(asked).agent
        except LookupError:  # nothing is recorded yet
            return {"operation": 0}
        with agent.reading() as (moment, _):
            recorded = selections.operations(moment, agent.id)
            return {"operation": recorded[-1].id if recorded else 0}

    def _pending(self, found: SessionConversation, asked: Mapping[str, Any]) -> bool:
        try:
            return found.is_pending(asked.get("messages") or (), str(asked.get("model") or ""))
        except MisplacedError:
            return True

    def _install(self, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the rows to install, or why there are none."""
        found = self._taken(asked)
        try:
            rows = found.installed(asked.get("rows") or (), asked.get("messages") or (), str(asked.get("model") or ""))
        except MisplacedError as error:
            raise CommandError(f"the provider would refuse the rest ({error}), so nothing was changed") from None
        if rows is None:
            return {"skip": "the context is as it is sent already"}
        with suppress(OSError):
            SessionState(os.environ, str(asked["session"])).note_edit()
        return {"rows": rows}

    def _pane(self, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what the pane shows: its lines in an `order`, filtered by `wanted`, with the results of `opened`."""
        found = self._taken(asked)
        agent = found.agent
        turns = found.turns()
        order = str(asked.get("order") or "size")
        opened: set[int | Place] = {SENT, *map(int, asked.get("opened") or ())}
        lines = arranged(turns, order if order in ORDERS else "size", str(asked.get("wanted") or ""), opened)
        most = max((row.tokens for row in turns.rows if not row.tool), default=1)
        return {
            "tokens": turns.tokens,
            "window": int(asked.get("window") or 0) or agent.window,
            "rows": [_row(line, most) for line in lines if isinstance(line, Turn) and line.place == SENT],
            "operations": _operations(agent),
            "pending": self._pending(found, asked),
        }

    def _price(self, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the price of dropping and evicting what is ticked, with the `line` that does it."""
        session = self._session(asked)
        rows, ticked = session.turns().rows, {int(id) for id in asked.get("ticked") or ()}
        lines = dict(zip(_LINES, edits(rows, ticked), strict=True))
        return {
            "prices": [
                {"key": each.key, "what": each.what, "text": each.text, "line": _line(each.key, lines[each.key])}
                for each in prices(session.agent, rows, ticked)
                if each.key in lines
            ]
        }

    def _do(self, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        """Execute a command, and return its `text`, or a question to `ask` the client's model."""
        found, line = self._taken(asked), str(asked.get("line") or "")
        running = Running()
        self._running[str(asked["session"])] = running

        def act() -> None:
            CLIENT.set(running.ask)
            try:
                text = found.do(line, while_working=bool(asked.get("working")))
                running.said.put({"text": text, "pending": self._pending(found, asked)})
            except FoldmarkError as error:
                running.said.put({"text": f"foldmark: {error}"})
            except Exception as error:
                running.said.put({"text": f"foldmark: it failed ({type(error).__name__})"})

        Thread(target=act, daemon=True).start()
        return running.said.get()

    def _answer(self, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        """Hand over the answer of the client's model, and return what `do` returns."""
        running = self._running.get(str(asked.get("session")))
        if running is None:
            raise CommandError("nothing has been asked in this session")
        text = asked.get("text")
        running.answers.put(text if isinstance(text, str) else None)
        return running.said.get()


def _line(key: str, ids: Sequence[int]) -> str:
    return f"{_LINES[key]} {' '.join(map(str, ids))}"


def _operations(agent: Agent) -> list[dict[str, Any]]:
    """Return the newest operations in force that can be taken back, newest first."""
    with agent.reading() as (moment, at):
        found = [each for each in operations(moment, at) if each.by is None and each.back is not None]
        texts = [(each.event.id, operation_line(each)) for each in found[: -1 - _OPERATIONS : -1]]
    return [{"id": id, "text": text.replace("/restore ", f"{SIGN}restore ")} for id, text in texts]


def _row(row: Turn, most: int) -> dict[str, Any]:
    """Return a row of the pane as data: `share` is its size, compared with the largest turn."""
    names = ("id", "turn", "title", "tokens", "tool", "calls", "pinned", "evicted", "shortened", "results")
    return {**{name: getattr(row, name) for name in names}, "share": row.tokens / max(1, most)}


def question(asked: Request) -> dict[str, Any]:
    """Return one of Foldmark's own questions as a system prompt and a prompt, without a history."""
    system = asked.body.get("system") or ""
    if isinstance(system, list):
        system = "\n\n".join(str(each.get("text", "")) for each in system)
    texts = []
    for message in asked.body.get("messages") or ():
        content = message.get("content", "")
        parts = [content] if isinstance(content, str) else [str(each.get("text", "")) for each in content]
        texts.append("\n\n".join(filter(None, parts)))
    return {"system": system, "prompt": "\n\n".join(filter(None, texts)), "tokens": asked.body.get("max_tokens")}
