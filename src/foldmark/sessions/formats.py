"""Session formats: one `SessionFormat` describes the sessions of one coding agent [SPEC 8].

Import, archive, trim, rollover and doctor use a session's format and never test its name. Packages add formats as
entry points (`plugins.GROUP`). A format needs a `name`, a `title`, `sessions`, `session_id`, `is_record` and
`messages`; one that does not keep JSON lines also needs `transcript`. The rest has a default, which refuses what only
the format can know.
"""

import os
import shlex
from collections.abc import Container, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from foldmark.core.errors import FoldmarkError
from foldmark.core.wording import listing, one_line
from foldmark.plugins import loaded
from foldmark.sessions.plugins import custom_format, plugins

if TYPE_CHECKING:
    from datetime import datetime

    from foldmark.sessions.messages import RecordEntry, RecordMessages, SearchedMessage
    from foldmark.sessions.session_file import SessionRecord

DEFAULT = "claude"
"""The format of a session file whose name no other format has."""

_BUILT_IN = ("foldmark.sessions.claude:ClaudeFormat", "foldmark.sessions.codex:CodexFormat")


class SessionPath(NamedTuple):
    """A session: where it is, the name of its format, and its id.

    `path` is a file as a rule. It may be a folder, or a database's path with the session's id behind it.
    """

    path: Path
    kind: str
    id: str


class ResumeCommand(NamedTuple):
    """A command to run: the program with its arguments, and its working folder (None: any, or the folder is gone)."""

    words: tuple[str, ...]
    cwd: Path | None

    @property
    def shell(self) -> str:
        """The command as a line for the shell."""
        command = shlex.join(self.words)
        return command if self.cwd is None else f"cd {shlex.quote(str(self.cwd))} && {command}"


class SessionSurroundings(NamedTuple):
    """Where a session works: `cwd` is the folder that its program is started in, None if the session does not say.

    `members` are the members of its records that a session takes over which continues it.
    """

    cwd: Path | None
    members: dict[str, Any]


def lazy(target: str) -> Any:
    """Return a member of a format, the function or value `module:name`, which is loaded when it is used first.

    So a hook loads little, and a format may use every room, although every room asks formats.
    """
    return _Lazy(target)


class _Lazy:
    def __init__(self, target: str) -> None:
        self._target = target

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type) -> Any:
        found = loaded(self._target)
        setattr(owner, self._name, staticmethod(found) if callable(found) else found)
        return found


class SessionFormat:
    """One coding agent's sessions. Derive from it for another agent's."""

    name: str
    """The agent's name in the archive and the database; its folder in the archive has this name."""

    title: str
    """The agent's name as people know it."""

    dialect: str = "openai"
    """The wire whose content blocks its messages hold."""

    provider: str | None = None
    """The provider of the models that its sessions name; None if there may be several."""

    running: str | None = None
    """The environment variable with the id of the session that a program runs in."""

    linked: bool = False
    """True if records name their parents, so that a session can branch."""

    null_stops: bool = False
    """True if a `null` line keeps the agent from resuming a session."""

    why_not_repaired: str | None = "its format offers no repair"
    """Why damaged sessions are not repaired; None if they are."""

    # -- Where sessions are, and which is meant

    def folder(self, environment: Mapping[str, str]) -> Path:
        """Return the folder in which the agent keeps its sessions."""
        raise NotImplementedError

    def sessions(self, environment: Mapping[str, str]) -> Iterator[Path]:
        """Yield the path of every session. Must not raise where nothing is there, or nothing may be read."""
        raise NotImplementedError

    def subagents(self, environment: Mapping[str, str]) -> Iterator[Path]:
        """Yield the sessions of subagents that lie apart from their sessions."""
        return iter(())

    def session_id(self, path: Path) -> str | None:
        """Return the id of the session at this path; None if a session of this format cannot be there."""
        raise NotImplementedError

    def folder_of_project(self, cwd: str | os.PathLike[str], environment: Mapping[str, str]) -> Path:
        """Return the folder with the sessions of a working folder; by default the one with all sessions."""
        return self.folder(environment)

    def project(self, path: Path) -> str:
        """Return the name of the folder that groups the sessions of one project; "" if there is none."""
        return ""

    def archived_as(self, path: Path) -> Path:
        """Return where a session belongs within the format's folder of the archive; the name ends in .jsonl."""
        return Path(f"{self.session_id(path) or path.stem}.jsonl")

    # -- Records

    def is_record(self, value: Any) -> bool:
        """Return True if a line's value is certainly a record of this agent's."""
        raise NotImplementedError

    def resembles(self, value: Any) -> bool:
        """Return True if the record may be this agent's, provided that no other record in the file decides it."""
        return False

    def transcript(self, path: Path) -> Iterable[bytes]:
        """Yield a session that is not kept as JSON lines as such lines, the same ones each time, new ones at the end.

        `session_id` decides whether there is one. Raises OSError or ValueError where it cannot be read.
        """
        raise NotImplementedError

    def messages(self, record: Any) -> "RecordMessages":
        """Return the messages of a record as an import appends them; never raises."""
        raise NotImplementedError

    def searched(self, record: dict[str, Any]) -> "Iterable[SearchedMessage]":
        """Return the messages of a record as a search finds them; never raises."""
        from foldmark.sessions.messages import searched_parts

        return searched_parts(self.messages(record).parts)

    def is_injected(self, text: str) -> bool:
        """Return True for a text that the agent itself inserts as a user message."""
        return False

    def index(
        self, records: "Iterable[SessionRecord]", carried: dict[str, Any], known: Container[bytes] = ()
    ) -> "list[RecordEntry]":
        """Return one entry for each record, in order; by default they are one chain.

        `carried` is what the records before these left to know (nothing at the beginning) and is brought up to date;
        `known` are the keys of those that said something.
        """
        from foldmark.sessions.messages import index_in_order

        return index_in_order(records, carried, self.messages)

    def identity(self, record: dict[str, Any]) -> Any:
        """Return the uuid of a record that all copies of a session share; None for any other record."""
        return None

    # -- Continuing a session

    def is_subagents(self, session: SessionPath) -> bool:
        """Return True if the session belongs to a subagent and cannot be resumed. Raises SessionFileError."""
        return False

    def resume_command(self, session: SessionPath, environment: Mapping[str, str], *prompt: str) -> ResumeCommand:
        """Return the command that resumes a session. Must not raise."""
        raise self.cannot("resumed")

    def surroundings(self, session: SessionPath) -> SessionSurroundings:
        """Return what a session that continues this one takes over. Raises SessionFileError."""
        raise self.cannot("rolled over")

    def new_path(self, session: Path, new_id: str, moment: "datetime") -> Path:
        """Return where a session that continues this one belongs; `moment` is in local time."""
        raise self.cannot("continued")

    def new_lines(
        self,
        where: SessionSurroundings,
        new_id: str,
        message_id: str,
        prompt: str,
        mark: dict[str, object],
        moment: str,
    ) -> bytes:
        """Return a new session that holds one user message and is marked with `continue_metadata`.

        `moment` is in UTC.
        """
        raise self.cannot("continued")

    def search_servers(self, cwd: Path | None, environment: Mapping[str, str]) -> set[str]:
        """Return the names of the MCP servers that the agent has in a working folder; never raises."""
        return set()

    # -- Trim and doctor

    @property
    def trim_kind(self) -> Any:
        """The `trim.job.TrimKind` that trims sessions."""
        raise self.cannot("trimmed")

    def diagnose(self, session: SessionPath) -> Any:
        """Return the `doctor.Diagnosis` of a session. Raises SessionFileError."""
        raise self.cannot("examined")

    def cannot(self, done: str) -> FoldmarkError:
        """Return the error for what the format does not offer."""
        return FoldmarkError(
            f"sessions of {self.title} cannot be {done} by Foldmark: their format does not offer it. `foldmark import` "
            "reads them"
        )


@cache
def built_in() -> tuple[SessionFormat, ...]:
    """Return Foldmark's own formats, the default one first."""
    return tuple(loaded(target)() for target in _BUILT_IN)


def formats() -> tuple[SessionFormat, ...]:
    """Return all formats, Foldmark's own first, then those of installed packages. Raises FoldmarkError."""
    return (*built_in(), *plugins())


def format_named(name: str) -> SessionFormat:
    """Return the format of this name. Raises FoldmarkError if none is installed."""
    if (found := _find(name)) is None:
        known = listing(each.name for each in formats())
        raise FoldmarkError(f"no installed package reads sessions of '{name}'; there are formats for {known}")
    return found


def is_installed(name: str) -> bool:
    """Return True if there is a format of this name."""
    return _find(name) is not None


def format_of(path: Path) -> SessionFormat:
    """Return the format that a path shows; the content of a file may show another (see `places.recognize`)."""
    kept: SessionFormat | None = custom_format(path)
    # Claude Code's files have no name of their own, so that every path may be one of them.
    return kept or next(each for each in reversed(built_in()) if each.session_id(path) is not None)


def resume_command(session: SessionPath, environment: Mapping[str, str], *prompt: str) -> ResumeCommand:
    """Return the command that resumes an existing session and sends it `prompt`."""
    return format_named(session.kind).resume_command(session, environment, *prompt)


def refusal(session: SessionPath) -> str | None:
    """Return why a session cannot be continued, if it is a subagent's; otherwise None. Raises SessionFileError."""
    if not format_named(session.kind).is_subagents(session):
        return None
    return (
        f"{one_line(session.path.name)} is a subagent's session, which cannot be resumed; "
        "name the session that it belongs to"
    )


def other_program(value: Any) -> str | None:
    """Return the program whose marks a record has, if Foldmark itself does not read its sessions."""
    if not isinstance(value, dict):
        return None
    kind, message = value.get("type"), value.get("message")
    if isinstance(message, dict) and isinstance(message.get("parts"), list):
        return "Qwen Code"
    if kind == "gemini" or "projectHash" in value:
        return "Gemini CLI"
    if (kind == "session" and isinstance(value.get("cwd"), str)) or (kind == "message" and "parentId" in value):
        return "pi"
    if isinstance(kind, str) and "." in kind and isinstance(value.get("data"), dict):
        return "GitHub Copilot CLI"
    if kind is None and value.get("role") in ("user", "assistant") and isinstance(message, dict):
        return "Cursor"
    if kind == "message" and isinstance(value.get("content"), list) and isinstance(value.get("role"), str):
        return "a Codex older than its present format"
    return None


def files_in(folder: Path, pattern: str) -> Iterator[Path]:
    """Yield the files in a folder that match a pattern; none if the folder is missing or unreadable."""
    try:
        yield from sorted(path for path in folder.glob(pattern) if path.is_file())
    except OSError:
        return


def folder_in(record: Any) -> Path | None:
    """Return the folder that a record names as `cwd`; None for what cannot be one."""
    cwd = record.get("cwd") if isinstance(record, dict) else None
    return Path(cwd) if isinstance(cwd, str) and os.path.isabs(cwd) and "\0" not in cwd else None  # noqa: PTH117


def existing(folder: Path | None) -> Path | None:
    """Return the folder if it is there, otherwise None; never raises."""
    return folder if folder is not None and os.path.isdir(folder) else None  # noqa: PTH112


def _find(name: str) -> SessionFormat | None:
    """Look among the own formats first: a look at the installed packages takes 30 ms."""
    named = (each for look in (built_in, plugins) for each in look() if each.name == name)
    return next(named, None)
