"""`foldmark sessions`: build trees of sessions and the sessions that continue them [S4, SPEC 8]."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from foldmark.sessions.archive import index
from foldmark.sessions.archive.index import time_of
from foldmark.sessions.lineage import CodingSession

Key = tuple[str, str]
"""Kind and session id."""


class Archived(Struct, frozen=True):
    """A session in the archive, with its newest file.

    `project` is its working folder, or the name of its agent's folder of sessions. `parent` is the session that it
    continues according to its first records; `why` is trim, rollover, repair or subagent. Times are in UTC.
    """

    kind: str
    session_id: str
    file: str
    project: str
    title: str | None
    parent: str | None
    why: str | None
    first: str | None
    last: str | None


class Node(Struct):
    """A session with its record and its file in the archive, and the sessions that continue it.

    `newest` is the time of the last event in it or in a session that continues it, "" if unknown.
    """

    kind: str
    session_id: str
    known: CodingSession | None = None
    archived: Archived | None = None
    children: list["Node"] = []
    subagents: int = 0
    newest: str = ""


def archived_sessions(archive: Path) -> list[Archived]:
    """Return the sessions in an archive, each once. Raises IndexFileError."""
    found = {}
    with index.connected(archive, write=False) as db:
        for kind, id, path, project, title, parent, why, first, last in db.run("archived"):
            file = str(index.path_of(path, archive))
            found[kind, id] = Archived(kind, id, file, project, title, parent, why, time_of(first), time_of(last))
    return list(found.values())


def forest(known: Iterable[CodingSession], archived: Iterable[Archived]) -> list[Node]:
    """Return the roots of all trees, the one with the newest event first. Subagents are only counted.

    An unknown parent becomes a node with only its id. A session that would be its own ancestor becomes a root.
    """
    nodes: dict[Key, Node] = {}
    parents: dict[Key, str] = {}
    subagents: list[Key] = []
    for each in archived:
        if each.why == "subagent":
            subagents.append((each.kind, each.parent or ""))
            continue
        nodes[each.kind, each.session_id] = Node(each.kind, each.session_id, archived=each)
        if each.parent:
            parents[each.kind, each.session_id] = each.parent
    for session in known:
        key = (session.kind, session.session_id)
        node = nodes.setdefault(key, Node(*key))
        node.known = session
        if session.parent:
            parents[key] = session.parent
    for (kind, _), parent in list(parents.items()):
        nodes.setdefault((kind, parent), Node(kind, parent))
    for key in subagents:
        if key in nodes:
            nodes[key].subagents += 1
    roots: list[Node] = []
    looping = _looping(parents)
    for key, node in nodes.items():
        above = (key[0], parents[key]) if key in parents and key not in looping else None
        (nodes[above].children if above else roots).append(node)
    for _, node in reversed(list(walk(roots))):
        recorded = node.known and (node.known.ended_at or node.known.started_at)
        times = (recorded, node.archived and node.archived.last, *(child.newest for child in node.children))
        node.newest = max(time or "" for time in times)
        node.children.sort(key=lambda child: child.newest, reverse=True)
    return sorted(roots, key=lambda node: node.newest, reverse=True)


def walk(roots: Iterable[Node]) -> Iterator[tuple[int, Node]]:
    """Yield every session below these with its depth, parents before children."""
    waiting = [(0, node) for node in reversed(list(roots))]
    while waiting:
        depth, node = waiting.pop()
        yield depth, node
        waiting += [(depth + 1, child) for child in reversed(node.children)]


def _looping(parents: dict[Key, str]) -> set[Key]:
    """Return the sessions that are among their own ancestors."""
    found, passed = set[Key](), set[Key]()
    for key in parents:
        path: list[Key] = []
        at = key
        while at in parents and at not in passed:
            passed.add(at)
            path.append(at)
            at = (at[0], parents[at])
        if at in path:
            found.update(path[path.index(at) :])
    return found
