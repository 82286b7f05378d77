"""Subscriptions: the server notifies a client when a resource that it follows, or the list of resources, changes.

A client of 2026 sends `subscriptions/listen`. An older client subscribes to each resource. It cannot subscribe to the
list, so it follows the list once it has listed the resources. One task watches the database while any client
follows a resource; `News` maps committed changes to resources.
"""

from collections.abc import AsyncIterator, Iterable
from contextlib import ExitStack, asynccontextmanager, closing, suppress

import anyio
from anyio import CancelScope, to_thread
from anyio.abc import TaskGroup
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourcesListChanged, ResourceUpdated
from mcp.types import SubscriptionsListenRequestParams, SubscriptionsListenResult

from foldmark.core import selections
from foldmark.core.agents import LIVES, PAGE, Change
from foldmark.core.errors import CommandError, FoldmarkError
from foldmark.core.ports import Snapshot
from foldmark.log import Log
from foldmark.mcp import resources
from foldmark.mcp.conversations import Conversations

EVERY = 0.2
"""Minimum seconds between two reads of the committed changes. Changes in between are reported together."""

AGAIN = 1.0
"""Seconds between two attempts to read a database that is missing or unreadable."""

LONGEST = 60.0
"""Maximum seconds of one wait for a commit."""

LIST = ""
"""Represents the list of resources among the followed addresses."""

LISTED = ("born", "renamed", "deleted")
"""Kinds of changes of a conversation that change the list."""

UNSEEN = ("archived", "unarchived")
"""Kinds of changes that no resource shows."""

Context = ServerRequestContext["Subscriptions"]


class Subscriptions:
    """The resources that each client of a server follows. `tasks` run as long as the server does."""

    def __init__(self, conversations: Conversations, tasks: TaskGroup) -> None:
        self._conversations, self._tasks = conversations, tasks
        self._followed: dict[Connection, set[str]] = {}
        self._bus = InMemorySubscriptionBus()
        self._streams = ListenHandler(self._bus)
        self._watching: CancelScope | None = None
        self._begun = anyio.Event()

    async def listen(self, context: Context, params: SubscriptionsListenRequestParams) -> SubscriptionsListenResult:
        """Send a client the notifications that it asked for until it disconnects."""
        asked = params.notifications
        uris = {uri for uri in asked.resource_subscriptions or () if _is_resource(uri)}
        await self.follow(context, uris | {LIST} if asked.resources_list_changed else uris)
        return await self._streams(context, params)

    async def follow(self, context: Context, uris: Iterable[str]) -> None:
        """Notify a client of changes of these resources from now on, until its connection ends. For a client of 2026,
        each request is a connection."""
        connection = context.session._connection  # its exit stack is not public yet
        if connection not in self._followed:
            self._followed[connection] = set()
            connection.exit_stack.callback(self._left, connection)
        self._followed[connection].update(uris)
        if self._watching is None:
            self._watching, self._begun = CancelScope(), anyio.Event()
            self._tasks.start_soon(self._watch, self._watching)
        await self._begun.wait()

    def unfollow(self, context: Context, uri: str) -> None:
        """Stop notifying an older client of changes of one resource."""
        connection = context.session._connection
        if (followed := self._followed.get(connection)) is not None:
            followed.discard(uri)
            if not followed:
                self._left(connection)

    def _left(self, connection: Connection) -> None:
        self._followed.pop(connection, None)
        if not self._followed and self._watching is not None:
            self._watching.cancel()
            self._watching = None

    async def _watch(self, scope: CancelScope) -> None:
        news, begun = News(), self._begun
        with scope:
            while True:
                try:
                    await self._publish(news, begun)
                except (FoldmarkError, OSError):
                    news.lose()
                    begun.set()  # clients are notified once the database can be read
                    await anyio.sleep(AGAIN)

    async def _publish(self, news: "News", begun: anyio.Event) -> None:
        opened = ExitStack()
        try:
            log = await to_thread.run_sync(opened.enter_context, self._conversations.log())
            watch = opened.enter_context(closing(log.store.watch()))
            while True:
                followed = set[str]().union(*self._followed.values())
                for uri in sorted(await to_thread.run_sync(news.read, log, followed)):
                    await self._notify(uri)
                if begun.is_set():
                    await anyio.sleep(EVERY)
                begun.set()
                await to_thread.run_sync(watch.wait, LONGEST, abandon_on_cancel=True)
        finally:
            with CancelScope(shield=True):
                await to_thread.run_sync(opened.close)  # this also ends the wait for a commit

    async def _notify(self, uri: str) -> None:
        await self._bus.publish(ResourceUpdated(uri) if uri != LIST else ResourcesListChanged())
        for connection in [each for each, followed in self._followed.items() if uri in followed]:
            if uri != LIST:  # clients of 2026 get it from the bus; their connections drop this
                await connection.send_resource_updated(uri)
            else:
                await connection.send_resource_list_changed()


@asynccontextmanager
async def listening(conversations: Conversations) -> AsyncIterator[Subscriptions]:
    """Yield the subscriptions of a server. They end with the block."""
    async with anyio.create_task_group() as tasks:
        yield Subscriptions(conversations, tasks)
        tasks.cancel_scope.cancel()


class News:
    """Finds the resources that changed since the last reading."""

    def __init__(self) -> None:
        self._cursor: str | None = None
        self._lost = False
        self._agents: dict[str, str | None] = {}

    def lose(self) -> None:
        """Record that changes may have been missed: the next reading returns every followed resource."""
        self._cursor, self._lost = None, True

    def read(self, log: Log, followed: set[str]) -> set[str]:
        """Return the `followed` addresses whose content changed since the last reading; none at the first reading."""
        with log.store.read() as moment:
            if self._cursor is None:
                self._cursor = moment.changes(None, 1).cursor
                self._agents = {uri: _agent(log, uri) for uri in followed}
                lost, self._lost = self._lost, False
                return set(followed) if lost else set()
            changes = list[Change]()
            while (page := moment.changes(self._cursor, PAGE)).changes:
                changes += [change for change in page.changes if change.kind not in UNSEEN]
                self._cursor = page.cursor
            return self._changed(log, moment, followed, changes) if changes else set()

    def _changed(self, log: Log, moment: Snapshot, followed: set[str], changes: list[Change]) -> set[str]:
        lives = [change for change in changes if change.kind in LIVES]
        before = {} if lives else self._agents  # a name may belong to another agent now
        now = {uri: before[uri] if uri in before else _agent(log, uri) for uri in followed}
        found = {uri for uri in followed if lives and self._agents.get(uri, uri) != now[uri]}
        self._agents = now
        asked = {change.agent_id for change in changes if change.about_request}
        changes = [change for change in changes if not change.about_request]  # the only ones that change a context
        records = {id: record for id in {change.agent_id for change in changes} if (record := moment.agent(id))}
        killed = [each.agent_id for each in lives if each.kind == "killed"]
        touched = {*records, *(records[agent_id].parent for agent_id in killed)}  # their parents are notified
        # An erasure concerns all agents that inherited the turn.
        erased = {selections.root_of(moment, each.agent_id) for each in changes if each.kind == "redact"}
        roots = {id for id, record in records.items() if record.parent is None}
        for uri in followed - found:
            agent = now[uri]
            if uri == LIST:
                new = any(each.agent_id in roots and each.kind in LISTED for each in lives)
            elif (about := resources.about(uri)).name is None:
                new = bool(roots)
            else:
                new = not about.past and (agent in touched or (about.shows_metadata and agent in asked))
                new = new or (bool(erased) and agent is not None and selections.root_of(moment, agent) in erased)
            if new:
                found.add(uri)
        return found


def _agent(log: Log, uri: str) -> str | None:
    """Return the uuid of the agent that a resource is about, if there is one."""
    if uri == LIST or (name := resources.about(uri).name) is None:
        return None
    with suppress(CommandError):
        return log.find(name).id
    return None


def _is_resource(uri: str) -> bool:
    with suppress(CommandError):
        resources.about(uri)
        return True
    return False
