"""`foldmark sessions`: which session continued which, as trees [S4, SPEC 8]."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from foldmark.core.records import CodingSession
from foldmark.sessions.archive import index
from foldmark.sessions.archive.index import time_of

Key = tuple[str, str]
"""Kind and session id."""


class Archived(Struct, frozen=True):
    """A session in the archive: its file that was written last.

    `project` is its working folder, or the name of the folder that its program keeps its sessions in; `parent` is the
    session that it says it continues, `why` how: trim, rollover, repair, or subagent. Times are in UTC.
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
    """A session with those that continue it; `known` is what the database has of it, `archived` what the archive has.

    `newest` is when something last happened in it or in one that continues it, "" if that is not known.
    """

    kind: str
    session_id: str
    known: CodingSession | None = None
    archived: Archived | None = None
    children: list["Node"] = []
    subagents: int = 0
    newest: str = ""


def archived_sessions(archive: Path) -> list[Archived]:
    """The sessions in an archive, each once. Raises IndexFileError."""
    db = index.open_index(archive, write=False)
    with index.explained(archive / index.NAME):
        try:
            found = index.rows(
                db,
                "SELECT kind, session, path, coalesce(cwd, project), title, parent, why, first, last FROM files "
                "WHERE state = 'indexed' ORDER BY last, id",
            )
        finally:
            db.close()
    each = {}
    for kind, id, path, project, title, parent, why, first, last in found:
        file = str(index.path_of(path, archive))
        each[kind, id] = Archived(kind, id, file, project, title, parent, why, time_of(first), time_of(last))
    return list(each.values())


def forest(known: Iterable[CodingSession], archived: Iterable[Archived]) -> list[Node]:
    """The roots of all trees, that in which something happened last first; subagents are only counted.

    A parent that nobody knows anything of stands there with its id. A session that would be its own ancestor is a root.
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
    for key, node in nodes.items():
        above = (key[0], parents[key]) if key in parents and not _loops(key, parents) else None
        (nodes[above].children if above else roots).append(node)
    for _, node in reversed(list(walk(roots))):
        told = node.known and (node.known.ended_at or node.known.started_at)
        node.newest = max([told or "", (node.archived and node.archived.last) or ""])
        node.newest = max([node.newest, *(child.newest for child in node.children)])
        node.children.sort(key=lambda child: child.newest, reverse=True)
    return sorted(roots, key=lambda node: node.newest, reverse=True)


def walk(roots: Iterable[Node]) -> Iterator[tuple[int, Node]]:
    """Every session below these, parents before children, and how deep it stands."""
    waiting = [(0, node) for node in reversed(list(roots))]
    while waiting:
        depth, node = waiting.pop()
        yield depth, node
        waiting += [(depth + 1, child) for child in reversed(node.children)]


def _loops(key: Key, parents: dict[Key, str]) -> bool:
    """Whether a session is among its own ancestors."""
    at, met = key, set()
    while at in parents and at not in met:
        met.add(at)
        at = (key[0], parents[at])
        if at == key:
            return True
    return False
