"""Helpers for the suites of `FoldmarkSession`: the SDK's own session, ours, and all methods of the SDK's runner.

The SDK's own class (`KINDS`) must pass the same tests, which proves that the expectations are right.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from agents import Agent
    from agents.items import TResponseInputItem
    from agents.memory import Session


KINDS = ("sqlite", "foldmark")
RUNNERS = ("run", "run_sync", "run_streamed")

_T = TypeVar("_T")


def now(wanted: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine and return its result."""
    return asyncio.run(wanted)


@contextmanager
def session(kind: str, folder: Path, session_id: str = "talk", **more: Any) -> Iterator[Any]:
    """Yield a session of a kind, on that kind's database in `folder`."""
    from agents import SQLiteSession, set_tracing_disabled
    from agents.memory import Session

    from foldmark.integrations.openai_agents import FoldmarkSession

    set_tracing_disabled(True)
    path = folder / f"{kind}.db"
    found = SQLiteSession(session_id, path, **more) if kind == "sqlite" else FoldmarkSession(session_id, path, **more)
    assert isinstance(found, Session)
    try:
        yield found
    finally:
        found.close()


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def said(text: str, number: int = 0) -> dict[str, Any]:
    """Return an answer in the form of the Responses API."""
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    return {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed", "content": [part]}


def call(call_id: str, name: str = "weather", arguments: str = '{"city":"Oslo"}') -> dict[str, Any]:
    own = {"id": f"fc_{call_id}", "status": "completed"}
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments, **own}


def output(call_id: str, text: Any = "rain") -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": text}


def add(session: Session, items: list[dict[str, Any]]) -> None:
    """Add items that are plain dictionaries, as the other helpers return them."""
    now(session.add_items(cast("list[TResponseInputItem]", items)))


def thinking(number: int = 1) -> dict[str, Any]:
    summary = [{"type": "summary_text", "text": "Let me think."}]
    return {"type": "reasoning", "id": f"rs_{number}", "summary": summary, "encrypted_content": f"secret-{number}"}


def texts(items: list[Any]) -> list[str]:
    """Return the text of each item, "" for one without text."""
    found = []
    for item in items:
        content = item.get("content", "") if isinstance(item, dict) else ""
        found.append(content if isinstance(content, str) else "".join(part.get("text", "") for part in content))
    return found


async def run(how: str, agent: Agent[Any], given: Any, **more: Any) -> Any:
    """Run an agent once, with the runner's method `how`."""
    from agents import Runner

    if how == "run":
        return await Runner.run(agent, given, **more)
    if how == "run_sync":
        return await asyncio.to_thread(_sync, agent, given, more)
    result = Runner.run_streamed(agent, given, **more)
    async for _ in result.stream_events():
        pass
    return result


def _sync(agent: Agent[Any], given: Any, more: dict[str, Any]) -> Any:
    from agents import Runner

    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        return Runner.run_sync(agent, given, **more)
    finally:
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
        asyncio.set_event_loop(None)
