"""The composition root: what is wired to what."""

from collections.abc import Mapping
from datetime import UTC, datetime
from os import PathLike, fspath
from typing import Any

from foldmark.conversation import Agent, Log, Result
from foldmark.conversation.asking import Asking
from foldmark.core.codec import timestamp
from foldmark.core.errors import CommandError, StoreError
from foldmark.core.ports import Provider
from foldmark.core.request import Request, ToolSpec
from foldmark.stores.sqlite import SqliteStore


def open(path: str | PathLike[str], *, create: bool = True) -> Log:
    """Open the log in the SQLite file at `path`, or in memory for ":memory:" [SPEC 9].

    A missing file is made unless `create` is false. Raises StoreError: not a database, not Foldmark's, written by a
    newer Foldmark, no such folder.
    """
    path = fspath(path)
    if path.startswith(("postgresql://", "postgres://")):
        raise StoreError("PostgreSQL is not there yet; name an SQLite file")
    return Log(SqliteStore(path, create=create), _now, _new_id, _commands, _tools, _call_tool, _complete)


# What only some programs use is imported when they use it: `import foldmark` takes half the time.


def _commands(agent: Agent, line: str, actor: str, asking: Asking) -> Result:
    from foldmark.commands import REGISTRY

    return REGISTRY(agent, line, actor, asking)


def _tools() -> list[ToolSpec]:
    from foldmark.tools import TOOLS

    return [tool.spec for tool in TOOLS.values()]


def _call_tool(agent: Agent, name: str, args: Mapping[str, Any], asking: Asking) -> str:
    from foldmark.tools import call_tool

    return call_tool(agent, name, args, asking)


def _complete(request: Request) -> str:
    """The model's whole answer to a request, text only; blocks. Raises FoldmarkError."""
    import asyncio

    async def whole() -> str:
        return "".join([piece async for piece in model(request.provider).answer(request) if isinstance(piece, str)])

    return asyncio.run(whole())


def model(name: str, delay: float = 0.0) -> Provider:
    """The provider with this name. Raises CommandError if there is none that can be asked."""
    if name != "offline":
        raise CommandError(f"no request can be sent to '{name[:40]}' yet; there is: offline")
    from foldmark.providers.offline import OfflineModel

    return OfflineModel(delay)


def _now() -> str:
    return timestamp(datetime.now(UTC))


def _new_id() -> str:
    from uuid import uuid4

    return str(uuid4())
