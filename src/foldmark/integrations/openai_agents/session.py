"""`FoldmarkSession`, with which the SDK's runner stores and fetches a conversation."""

import asyncio
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, TypeVar

import foldmark
from foldmark.app import Setup
from foldmark.core.agents import check_name, is_uuid
from foldmark.core.errors import CommandError, ConflictError, FoldmarkError, StoreError
from foldmark.core.events import Clear
from foldmark.core.ports import Snapshot
from foldmark.editing.offers import end_planning
from foldmark.integrations.openai_agents import recording
from foldmark.integrations.openai_agents.giving import Given, GivenWindow, newest_first, newest_items
from foldmark.integrations.openai_agents.items import link
from foldmark.integrations.openai_agents.recording import append, end_turn, entries, thought
from foldmark.log import Agent, Log, Result
from foldmark.operations.decide import exactly
from foldmark.request.planning import beside
from foldmark.request.standing import Standing

if TYPE_CHECKING:
    from agents import TResponseInputItem
    from agents.memory import SessionSettings
    from agents.memory.session import _CompactionSnapshot

_T = TypeVar("_T")

POPPED = "pop_item"
"""The criteria of the filter that takes an item out of the context."""


class SessionClosedError(StoreError, RuntimeError):
    """The session was closed; the SDK's own sessions raise RuntimeError in this case."""


class FoldmarkSession:
    """A session of the OpenAI Agents SDK that is a Foldmark conversation.

    `session_id` is the conversation's name, or the uuid of an agent such as a fork. Sessions with the same id share a
    conversation. `db_path` is a database, an open log (which stays open when the session is closed), or None for this
    user's database (FOLDMARK_DB, or the platform's data folder). `agent` is the conversation as Foldmark's agent.

    Every method may be called from any task, thread and process at once; a list of items is recorded as a whole. The
    methods work in a thread, so the event loop never waits for a disk or another process. A cancellation takes effect
    only after a recording in progress is completed or refused. Methods raise FoldmarkError.
    """

    session_id: str
    session_settings: "SessionSettings | None"

    def __init__(
        self,
        session_id: str,
        db_path: str | os.PathLike[str] | Log | None = None,
        *,
        session_settings: "SessionSettings | Mapping[str, Any] | None" = None,
    ) -> None:
        self.session_id, self.session_settings = session_id, _settings(session_settings)
        self._own = not isinstance(db_path, Log)
        if isinstance(db_path, Log):
            self.log = db_path
        else:
            self.log = Setup(None).opened(create=True) if db_path is None else foldmark.open(db_path)
        self._closed, self._window = False, GivenWindow()
        try:
            self.agent = _conversation(self.log, session_id)
        except FoldmarkError:
            self.close()
            raise

    def __enter__(self) -> "FoldmarkSession":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the database, unless the log was given."""
        if self._own and not self._closed:
            self.log.close()
        self._closed = True

    # Called by the SDK

    async def get_items(self, limit: int | None = None) -> "list[TResponseInputItem]":
        """Return the context as items, oldest first; with a limit (default: that of the settings) only the newest.

        Without operations, these are the added items, unchanged. A limit below 0 means no limit, as in the SDK's
        SQLiteSession.
        """
        if limit is None and self.session_settings is not None:
            limit = _settings(self.session_settings).limit
        most = None if limit is None or limit < 0 else limit
        return await _settled(lambda: self._read(lambda moment, at: newest_items(moment, at, most, self._window)))

    async def add_items(self, items: "list[TResponseInputItem]") -> None:
        """Record items; on an error, record none of them."""
        self._living()
        if items:
            wanted = list(items)
            await _settled(lambda: self._add(wanted))

    async def pop_item(self) -> "TResponseInputItem | None":
        """Take the newest item out of the context and return it; None if there is none. `/restore` brings it back."""
        return await _settled(lambda: self._writing(self._pop))

    async def clear_session(self) -> None:
        """Empty the context as `/clear` does. `/restore` brings everything back."""
        await _settled(lambda: self._writing(self._clear))

    # Called by the compaction of the SDK, as in its own sessions

    async def _get_compaction_snapshot(
        self, limit: int, *, prune_prefix: "Callable[[TResponseInputItem], bool] | None" = None
    ) -> "_CompactionSnapshot | None":
        """Return the newest items, and a function that replaces the last of them with a compacted copy.

        `prune_prefix` marks items that a wrapper no longer shows; here, they stay in the log.
        """
        if type(self) is not FoldmarkSession:  # a subclass may give other items
            return None
        from agents.memory.session import _CompactionSnapshot

        found = await _settled(lambda: self._read(lambda moment, at: recording.tail(moment, at, limit)))

        async def replace_suffix(start: int, output: "list[TResponseInputItem]") -> bool:
            return await _settled(
                lambda: self._writing(lambda: recording.replace_tail(self.agent, found, start, output))
            )

        return _CompactionSnapshot(found.items, found.complete, replace_suffix)

    async def _atomic_replace_items(self, items: "list[TResponseInputItem]") -> bool:
        """Replace the whole context with a compacted copy, as one operation."""
        await _settled(lambda: self._writing(lambda: recording.replace(self.agent, items)))
        return True

    # Called for a person

    def do(self, line: str) -> Result:
        """Carry out a typed command such as "/mark BEFORE" on the conversation. Raises CommandError."""
        return self._repeated(lambda: self._living().do(line))

    # In a thread

    def _living(self) -> Agent:
        if self._closed:
            raise SessionClosedError(f"session {self.session_id[:40]!r} is closed; open another with the same id")
        return self.agent

    def _read(self, wanted: Callable[[Snapshot, Standing], _T]) -> _T:
        with self._living().reading() as (moment, at):
            return wanted(moment, beside(moment, at))

    def _add(self, items: list[Any]) -> None:
        entries(items)  # refuse an invalid item before anything is recorded

        def once() -> None:
            if not recording.instead_of_cleared(self.agent, items):
                recording.add(self.agent, items)

        self._writing(once)

    def _pop(self) -> Any:
        agent, newest = self.agent, self._read(_newest)
        if newest is None:
            return None
        *thoughts, item = newest.items
        if recording.take_back(agent, newest.event):
            return item
        if newest.event.kind == "summary" and thoughts:
            recording.summed_up(agent, thoughts, newest.event.id, newest.event.id)
            return item
        # This may separate a call from its result: the SDK pops items one by one.
        agent.operate(lambda moment, at: exactly(moment, at, newest.events, POPPED), actor="system")
        if thoughts and not self._read(partial(_left, event_id=newest.event.id)):
            # The thoughts stay until they are popped themselves.
            open_turn = agent.open_turn
            append(agent, [thought(thoughts, left_by=newest.event.id)])
            if open_turn is None:
                end_turn(agent)
        return item

    def _clear(self) -> None:
        end_turn(self.agent)
        self.agent.operate(lambda *_: Clear(), actor="system")

    def _writing(self, action: Callable[[], _T]) -> _T:
        def recorded() -> _T:
            with self.agent.batch():
                end_planning(self.agent)
                return action()

        return self._repeated(recorded)

    def _repeated(self, action: Callable[[], _T]) -> _T:
        """Do work. If another writer has appended since, read the new events and repeat it."""
        while True:
            self._living().context()
            try:
                return action()
            except ConflictError:
                continue


def _newest(moment: Snapshot, at: Standing) -> Given | None:
    return next(newest_first(moment, at, at.visible), None)


def _left(moment: Snapshot, at: Standing, event_id: int) -> bool:
    """Return True if the thoughts of an event are at the end already: the event was popped before and came back."""
    newest = _newest(moment, at)
    return newest is not None and link(newest.event, "left") == event_id


async def _settled(action: Callable[[], _T]) -> _T:
    """Run work in a thread, and wait for its end even if the wait is cancelled."""
    work = asyncio.ensure_future(asyncio.to_thread(action))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        while not work.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait({work})
        if not work.cancelled():
            work.exception()  # retrieved, because only the cancellation is raised
        raise


def _conversation(log: Log, session_id: str) -> Agent:
    """Return the agent with this uuid, or the conversation of this id, which is created if needed. Raises
    CommandError."""
    if not isinstance(session_id, str):
        raise CommandError(f"a session's id must be a text, not {session_id!r:.40}")
    with log.store.read() as moment:
        is_agent = is_uuid(session_id) and moment.agent(session_id.lower()) is not None
    return log.agent(session_id if is_agent else _name(session_id))


def _name(session_id: str) -> str:
    """Return the name of a session's conversation: its id, or a name derived from an id that is not a valid name."""
    try:
        check_name(session_id)
    except CommandError:
        if is_uuid(session_id):
            return f"session-{session_id.lower()}"
        return f"session-{sha256(session_id.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"
    return session_id


def _settings(given: "SessionSettings | Mapping[str, Any] | None") -> "SessionSettings":
    """Return the SDK's settings of a session. Raises TypeError for unknown ones, as the SDK does, and CommandError
    where the SDK is not installed."""
    try:
        from agents.memory import SessionSettings
        from agents.memory.session_settings import coerce_session_settings
    except ImportError:
        from foldmark.installation import installs

        raise CommandError(
            f"FoldmarkSession works with the OpenAI Agents SDK, which is not installed; {installs('openai-agents')}"
        ) from None
    if given is None:
        return SessionSettings()
    return coerce_session_settings(dict(given) if isinstance(given, Mapping) else given)
