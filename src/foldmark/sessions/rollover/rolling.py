"""`foldmark rollover`: end a session, and begin a new one with its handoff [S4, SPEC 8].

The new session's file is written first, completely or not at all. Then both records are written together: the old
session has ended, and the new one has begun. The old session's file is only read. A failure that does not affect the
new session (in the archive or the lineage) is a warning.
"""

import os
import tomllib
import uuid
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from foldmark.core.codec import timestamp
from foldmark.core.errors import FoldmarkError
from foldmark.formats.codex import codex_folder
from foldmark.formats.places import recognized_in, session_path
from foldmark.formats.session_file import SessionFile
from foldmark.formats.session_format import ResumeCommand, SessionPath, format_named, refusal, resume_command
from foldmark.sessions import lineage
from foldmark.sessions.archive.marker import file_is_marked, is_marked
from foldmark.sessions.archive.reading import messages_in
from foldmark.sessions.archive.storing import archive_folder
from foldmark.sessions.archive.syncing import sync
from foldmark.sessions.hook import tail
from foldmark.sessions.install.locations import typed_program, user_places
from foldmark.sessions.install.plugins import PLUGIN, SERVER
from foldmark.sessions.new_file import new_file
from foldmark.sessions.rollover.handoff import GO_ON, QUERY, Continuation, Handoff, SearchHint, prompt
from foldmark.wires.lenient_json import member

_MAX_ANCESTORS = 50


class RolloverError(FoldmarkError):
    """A session cannot be rolled over. Nothing was written."""

    exit_code = 2


class RolloverReport(Struct, frozen=True):
    """The result of a rollover.

    `parent` is the session that ended, at `context` percent (None: unknown). `session` is number `number` of the
    sessions that continue each other. It begins with `prompt`, and `command` starts it.
    """

    parent: SessionPath
    session: SessionPath
    number: int
    context: int | None
    prompt: str
    command: ResumeCommand
    warnings: tuple[str, ...]


def check(session: SessionPath) -> SessionPath:
    """Return the session with the kind that its content shows.

    Raises RolloverError or SessionFileError if it cannot be rolled over. Call it before a summary is written.
    """
    with SessionFile(session.path) as file:
        session = recognized_in(file, session)
        if refused := refusal(file, session.kind):
            raise RolloverError(refused)
    format_named(session.kind).surroundings(session)
    return session


def has_content(session: SessionPath) -> bool:
    """Return True if a session has a message other than the prompt of an earlier rollover.

    The file is read up to that message. Raises SessionFileError.
    """
    prompts, agent = 0, format_named(session.kind)
    with SessionFile(session.path) as file:
        for record in (each.value for each in file.records()):
            if not isinstance(record, dict) or agent.is_beside(record):
                continue
            # In Claude Code, the record with the mark holds the prompt; in Codex, it comes before the prompt.
            prompts += isinstance(record.get("continue_metadata"), dict)
            for message in messages_in(record, session.kind):
                if message.role == "user" and agent.is_injected(message.text):
                    continue
                if not prompts or message.role != "user":
                    return True
                prompts -= 1
    return False


def roll_over(
    session: SessionPath,
    summary: Handoff,
    environment: Mapping[str, str],
    exclude: Sequence[str],
    *,
    new_id: str,
    issue: str | None = None,
    worker: str | None = None,
) -> RolloverReport:
    """End a session that was checked, and begin the session `new_id` that continues it.

    Sessions in the folders `exclude` are not archived. `issue` and `worker` default to those of the environment, then
    to those of the session. Raises SessionFileError, LineageError or WriteError; then nothing was written.
    """
    agent = format_named(session.kind)
    where = agent.surroundings(session)
    search: SearchHint | None = search_tool(session.kind, where.cwd, environment)
    archive = archive_folder(environment)
    known = lineage.records(archive)
    reason, problems = _archive(session, known, environment, exclude)
    warnings = [*summary.warnings, *problems]
    if reason is not None:
        warnings.append(f"the session was not archived: {reason}")
        search = None if search and search.where == ARCHIVED else search
    share, parent = tail.share(session.path), lineage.record_of(known, session)
    given = lineage.find_work(environment, worker=worker, issue=issue)
    private = _is_marked(session.path)
    if not private and is_marked(summary.text):
        warnings.append("the summary holds a marker not to be indexed, so the new session will not be archived")
    continuation = Continuation(
        number=parent.session_number + 1,
        parent_file=str(session.path),
        handoff=summary,
        issue=given.issue or parent.issue,
        percent=None if share is None else share.percent,
        worker=parent.worker_id if given.worker is None else given.worker,
        search=search,
        private=private,
    )
    text, now = prompt(continuation), datetime.now(UTC)
    mark: dict[str, object] = {  # as in [S4]
        "parent_session_file": continuation.parent_file,
        "continued_at": timestamp(now, "seconds"),
        "worker_id": continuation.worker,
        "reason": "rollover",
    }
    path = agent.new_path(session.path, new_id, now.astimezone())
    with new_file(path) as file:
        file.write(agent.new_lines(where, new_id, str(uuid.uuid4()), text, mark, timestamp(now, "milliseconds")))
    new = session_path(path, session.kind)
    work = lineage.Work(continuation.worker, continuation.issue)
    try:
        lineage.record_handover(
            archive, session, new, "rollover", continuation.percent, work, timestamp(now), summary.text
        )
    except FoldmarkError as error:
        warnings.append(f"the lineage of the new session was not recorded: {error}")
    command = resume_command(new, environment, GO_ON)
    return RolloverReport(session, new, continuation.number, continuation.percent, text, command, tuple(warnings))


def _archive(
    session: SessionPath, known: lineage.Records, environment: Mapping[str, str], exclude: Sequence[str]
) -> tuple[str | None, list[str]]:
    """Archive and index the session and its predecessors, which have the texts that a trim has cut.

    Return the reason why the session was not archived (None: it was), and warnings about its predecessors.
    """
    warnings = list[str]()
    try:
        done = sync(environment, exclude, [session.path])
        reason = done.problems[0][1] if done.problems else "it is kept out of the archive" if done.excluded else None
        if earlier := list(_earlier(session, known)):
            problems = sync(environment, exclude, earlier).problems
            warnings += [f"{path} was not archived: {why}" for path, why in problems]
    except FoldmarkError as error:
        reason = str(error)
    return reason, warnings


def _earlier(session: SessionPath, known: lineage.Records) -> Iterator[Path]:
    """Yield the existing files of the sessions that this one continues, as far as they are known."""
    at, met = lineage.record_of(known, session), {session.id}
    while at.parent and at.parent not in met and len(met) <= _MAX_ANCESTORS:
        met.add(at.parent)
        parent = known.get((at.kind, at.parent))
        if parent is None:
            return
        at = parent
        if os.path.isfile(at.file):  # noqa: PTH113 - never raises
            yield Path(at.file)


def _is_marked(path: Path) -> bool:
    with suppress(OSError), path.open("rb") as file:
        return file_is_marked(file, 0, file.seek(0, os.SEEK_END))
    return False


# The installed tool with which a model can search old sessions. Claude Code's MCP servers are in the user's
# `.claude.json` (for all folders, and for one), in the `.mcp.json` of a folder and those above it, and in plugins that
# settings files enable. Codex's are in its `config.toml`. Nothing here raises: an unreadable file counts as missing.

FOLDMARK, EPISODIC = "foldmark", "episodic-memory"
ARCHIVED = "archived by Foldmark"
"""The `SearchHint.where` of sessions that Foldmark searches."""

_PLUGIN, _OWN_PLUGIN = f"plugin_{EPISODIC}_{EPISODIC}", f"plugin_{FOLDMARK}_{FOLDMARK}"
_LONGEST = 32 << 20
_DISABLED = ("disabledMcpServers", "disabledMcpjsonServers")

Table = dict[str, Any]


def search_tool(kind: str, cwd: Path | None, environment: Mapping[str, str]) -> SearchHint:
    """Return the way in which an agent of this kind in the folder `cwd` (None: unknown) searches sessions."""
    servers = format_named(kind).search_servers(cwd, environment)
    for name in (FOLDMARK, _OWN_PLUGIN):
        if name in servers:
            return SearchHint(ARCHIVED, _tool(name))
    for name in (EPISODIC, _PLUGIN):
        if name in servers:
            return SearchHint(f"indexed in {EPISODIC}", _tool(name))
    return SearchHint(ARCHIVED, f'{typed_program(environment)} search "{QUERY}"')


def _tool(server: str) -> str:
    return f'mcp__{server}__search with query: "{QUERY}"'


def claude_servers(cwd: Path | None, environment: Mapping[str, str]) -> set[str]:
    """Return the names of Claude Code's MCP servers in a working folder."""
    places = user_places(cwd or "/", environment)
    own, user = _json(places.mcp), _json(places.settings)
    servers, plugins = set(_table(own, "mcpServers")), _table(user, "enabledPlugins")
    settings = [user]
    for folder in [cwd, *cwd.parents] if cwd is not None else []:
        here = _table(_table(own, "projects"), str(folder))
        servers |= {*_table(here, "mcpServers"), *_table(_json(folder / ".mcp.json"), "mcpServers")}
        settings.append(here)
    for name in ("settings.json", "settings.local.json"):
        settings.append(_json(Path(cwd, ".claude", name)) if cwd else {})
        plugins = {**plugins, **_table(settings[-1], "enabledPlugins")}
    if any(name.partition("@")[0] == EPISODIC and on is True for name, on in plugins.items()):
        servers.add(_PLUGIN)
    in_project = Path(cwd or "/", ".claude", "skills", SERVER)
    if (plugins.get(PLUGIN) is True and (places.plugins / SERVER).is_file()) or (cwd and in_project.is_file()):
        servers.add(_OWN_PLUGIN)
    return servers - {each for table in settings for key in _DISABLED for each in _texts(table, key)}


def codex_servers(cwd: Path | None, environment: Mapping[str, str]) -> set[str]:
    """Return the names of Codex's MCP servers, which are the same in all folders."""
    config = _read(
        codex_folder(environment) / "config.toml", lambda data: tomllib.loads(data.decode("utf-8", "replace"))
    )
    servers = _table(config, "mcp_servers")
    return {name for name, server in servers.items() if isinstance(server, dict) and server.get("enabled") is not False}


def _table(table: Any, key: str) -> Table:
    value = member(table, key)
    return value if isinstance(value, dict) else {}


def _texts(table: Table, key: str) -> list[str]:
    value = table.get(key)
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _json(path: Path) -> Table:
    return _read(path, lambda data: msgspec.json.decode(data.removeprefix(BOM_UTF8)))


def _read(path: Path, parse: Callable[[bytes], Any]) -> Table:
    if not os.path.isfile(path):  # noqa: PTH113 - never raises, and a pipe would never end
        return {}
    try:
        with path.open("rb") as file:
            value = parse(file.read(_LONGEST))
    except (OSError, ValueError, RecursionError):  # msgspec's own errors are ValueErrors
        return {}
    return value if isinstance(value, dict) else {}
