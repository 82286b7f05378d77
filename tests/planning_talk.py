"""A conversation in a file, in which a person and a scripted model plan a filter step by step (SPEC 4.2)."""

import json
import shutil
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import foldmark
from foldmark import Agent, CommandError, Log
from foldmark.log.doctor import examine
from foldmark.operations.effects import Asking
from foldmark.request.planning import Planning, planning
from sampled import DEEP
from stored import connection

NOBODY = Asking()
IN_CHAT = Asking(in_chat=True, answers=True)


class Talk:
    """The steps of such a conversation. Every twelfth step (in a deep run, each) and the end check the database.
    With `restarts`, each step opens the database anew, like a separate program."""

    def __init__(self, path: Path, restarts: bool = False) -> None:
        self._path, self._restarts, self._calls, self._steps = path, restarts, 0, 0
        self.log: Log = foldmark.open(path, settings={})
        self._checked = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.check()
        self.log.close()

    def check(self) -> None:
        """Check law L7, if anything was written since the last check."""
        db = connection(self.log)
        if db.total_changes() != self._checked:
            assert list(examine(self.log)) == []
            self._checked = db.total_changes()

    def reopen(self) -> None:
        """Open the log again, as after a crash: anything open stays open."""
        self.log.close()
        self.log = foldmark.open(self._path, settings={})

    def go_on_from(self, other: "Talk") -> None:
        """Continue with a copy of another talk, which is already closed."""
        self.log.close()
        shutil.copy(other._path, self._path)
        self.log = foldmark.open(self._path, settings={})
        self._calls = other._calls

    @property
    def agent(self) -> Agent:
        self._steps += 1
        if DEEP or self._steps % 12 == 0:
            self.check()
        if self._restarts:
            self.reopen()
            self._checked = -1
        return self.log.agent("default")

    # Steps of a person and a model

    def exchange(self, user: str, assistant: str) -> list[int]:
        """Append a whole turn of one question and one answer. Return the ids of both."""
        agent = self.agent
        ids = [agent.append("user", user), agent.append("assistant", assistant)]
        agent.end_turn()
        return ids

    def says(self, text: str) -> int:
        return self.agent.append("user", text)

    def answers(self, text: str) -> int:
        """Append the model's last answer in a turn, and end the turn. Return its id."""
        event_id = self.agent.append("assistant", text)
        self.agent.end_turn()
        return event_id

    def tool(self, asking: Asking = NOBODY, **args: Any) -> dict[str, Any]:
        """Call `filter_context`, and record the call with its result. Return the result."""
        self._calls += 1
        call_id = f"call-{self._calls}"
        self.agent.append_tool_call("filter_context", args, call_id=call_id, dialect="openai")
        try:
            text, failed = self.agent.call_tool("filter_context", args, asking=asking), False
        except CommandError as error:
            text, failed = f"Error: {error}", True
        self.agent.append_tool_result(call_id, text, dialect="openai", is_error=failed)
        found: dict[str, Any] = {"error": text} if failed else json.loads(text)
        return found

    def forget(self, criteria: str, mode: str = "forget") -> dict[str, Any]:
        """Play the turn that ends with the question whether to proceed. Return the preview."""
        self.agent.do(f"/{mode} {criteria}", asking=IN_CHAT)
        found = self.tool(action="preview")
        self.answers("Should I proceed?")
        return found

    def applied(self, **args: Any) -> dict[str, Any]:
        """Play the turn in which the person agrees and the model applies the filter. Return the result."""
        self.says("Yes, proceed")
        done = self.tool(action="apply", **args)
        self.answers("Done.")
        return done

    # State

    @property
    def ids(self) -> list[int]:
        return [message.id for message in self.agent.context().messages]

    @property
    def texts(self) -> list[str]:
        return [message.content for message in self.agent.context().messages]

    @property
    def planning(self) -> Planning | None:
        with self.agent.reading() as (moment, at):
            return planning(moment, at)

    def is_planning(self) -> bool:
        return self.planning is not None

    def sent(self) -> list[str]:
        """Return the texts of the next request without the system prompt; a call is given as its arguments."""
        body = self.agent.request("openai", "nameless").body
        answered = set()
        found = []
        for message in body["messages"]:
            calls = message.get("tool_calls") or []
            found += [message["content"]] if message["role"] != "system" and message["content"] else []
            found += [call["function"]["arguments"] for call in calls]
            answered |= {call["id"] for call in calls}
            assert message.get("tool_call_id") in {None, *answered}
        return found
