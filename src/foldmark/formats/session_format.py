"""Session formats: one `SessionFormat` describes the sessions of one coding agent [SPEC 8].

Import, archive, trim, rollover and doctor use a session's format and never test its name. Packages add formats as
entry points (`plugins.SESSION_FORMATS`). A format needs a `name`, a `title`, `sessions`, `session_id`, `is_record` and
`messages`. A format that does not keep JSON lines also needs `transcript`. All other members have a default, which
refuses operations that only the format can carry out.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from foldmark.core.errors import FoldmarkError
from foldmark.core.wording import listing, one_line
from foldmark.formats.plugins import custom_format, plugin, plugins
from foldmark.plugins import loaded

if TYPE_CHECKING:
    from datetime import datetime

    from foldmark.formats.chain import ActiveRecords
    from foldmark.formats.messages import RecordEntry, RecordMessages, SearchedMessage
    from foldmark.formats.session_file import SessionFile, SessionRecord

DEFAULT = "claude"
"""The format of a session file whose name matches no other format."""

_BUILT_IN = ("foldmark.formats.claude.claude_format:ClaudeFormat", "foldmark.formats.codex:CodexFormat")


class SessionPath(NamedTuple):
    """A session: where it is, the name of its format, and its id.

    `path` is usually a file. It may also be a folder, or the path of a database followed by the session's id.
    """

    path: Path
    kind: str
    id: str


class ResumeCommand(NamedTuple):
    """A command: the program with its arguments, and its working folder (None: any folder, or it no longer exists)."""

    words: tuple[str, ...]
    cwd: Path | None

    @property
    def shell(self) -> str:
        """The command as one line for a shell."""
        from shlex import join, quote  # hooks do not need it

        return join(self.words) if self.cwd is None else f"cd {quote(str(self.cwd))} && {join(self.words)}"


class SessionSurroundings(NamedTuple):
    """The surroundings of a session. `cwd` is the folder in which its program is started, None if unknown.

    `members` are the members of its records that a session copies when it continues this one.
    """

    cwd: Path | None
    members: dict[str, Any]


def lazy(target: str) -> Any:
    """Return a member of a format: the function or value `module:name`, loaded on its first use.

    This keeps hooks light, and lets a format use any other module here, although these modules use formats.
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
    """The sessions of one coding agent. Derive from it for another agent."""

    name: str
    """The agent's name in the archive and the database; its folder in the archive has this name."""

    title: str
    """The agent's name for people."""

    dialect: str = "openai"
    """The dialect of the content blocks in its messages."""

    provider: str | None = None
    """The provider of the models in its sessions; None if there may be several."""

    running: str | None = None
    """The environment variable with the id of the session in which a program runs."""

    linked: bool = False
    """True if records name their parents, so that a session can branch."""

    null_stops: bool = False
    """True if a session with a line `null` cannot be resumed."""

    why_not_repaired: str | None = "its format offers no repair"
    """The reason why damaged sessions are not repaired; None if they are."""

    # -- Finding sessions

    def folder(self, environment: Mapping[str, str]) -> Path:
        """Return the folder in which the agent keeps its sessions."""
        raise NotImplementedError

    def sessions(self, environment: Mapping[str, str]) -> Iterator[Path]:
        """Yield the path of every session. Must not raise if there are none or they cannot be read."""
        raise NotImplementedError

    def subagents(self, environment: Mapping[str, str]) -> Iterator[Path]:
        """Yield the sessions of subagents, if they are stored separately."""
        return iter(())

    def session_id(self, path: Path) -> str | None:
        """Return the id of the session at this path; None if the path cannot be a session of this format."""
        raise NotImplementedError

    def folder_of_project(self, cwd: str | os.PathLike[str], environment: Mapping[str, str]) -> Path:
        """Return the folder with the sessions of a working folder. The default is the folder with all sessions."""
        return self.folder(environment)

    def project(self, path: Path) -> str:
        """Return the name of the folder that groups the sessions of one project; "" if there is none."""
        return ""

    def archived_as(self, path: Path) -> Path:
        """Return the place of a session in the format's folder of the archive. Its name ends in .jsonl."""
        return Path(f"{self.session_id(path) or path.stem}.jsonl")

    # -- Records

    def is_record(self, value: Any) -> bool:
        """Return True if the value of a line is certainly a record of this agent."""
        raise NotImplementedError

    def resembles(self, value: Any) -> bool:
        """Return True if a record may be this agent's. Used only if no other record of the file decides."""
        return False

    def transcript(self, path: Path) -> Iterable[bytes]:
        """Yield a session that is not kept as JSON lines in that form: always the same lines, new ones at the end.

        `session_id` decides whether the path is a session. Raises OSError or ValueError if it cannot be read.
        """
        raise NotImplementedError

    def messages(self, record: Any) -> "RecordMessages":
        """Return the messages of a record for an import. Must not raise."""
        raise NotImplementedError

    def searched(self, record: dict[str, Any]) -> "Iterable[SearchedMessage]":
        """Return the messages of a record for a search. Must not raise."""
        from foldmark.formats.messages import searched_parts

        return searched_parts(self.messages(record).parts)

    def is_instruction(self, about: Any, model: str | None) -> bool:
        """Return True if the agent sends a client text to this model as its own instruction, which an import does not
        read. `about` is the text's `data["told"]`."""
        return False

    def is_injected(self, text: str) -> bool:
        """Return True for a text that the agent inserts as a user message."""
        return False

    def index(self, records: "Iterable[SessionRecord]") -> "list[RecordEntry]":
        """Return one entry for each record, in order. By default they form one chain."""
        from foldmark.formats.messages import index_in_order

        return index_in_order(records, self.messages)

    def is_beside(self, record: dict[str, Any]) -> bool:
        """Return True for a record that neither the person nor the main model said: a subagent's, or one that the agent
        inserted."""
        return False

    def rewrites(self, record: dict[str, Any]) -> bool:
        """Return True if the agent may write earlier messages again behind this record, with their old times."""
        return False

    def is_edit(self, record: dict[str, Any], behind: dict[str, Any] | None) -> bool:
        """Return True if all messages that stay are written again behind this record. `behind` is the first message
        there, None if there is none."""
        return False

    def edited(self, entries: "Sequence[RecordEntry]", read: "Callable[[RecordEntry], Any]") -> "Sequence[RecordEntry]":
        """Return the entries of a whole session with the records recognized that write earlier messages again
        (`RecordEntry.copies`). `read` reads the record of an entry again."""
        return entries

    def active(self, entries: "Sequence[RecordEntry]") -> "ActiveRecords | None":
        """Return the records that the agent sends on resuming a session; None: all, in file order."""
        return None

    def identity(self, record: dict[str, Any]) -> Any:
        """Return the uuid in a record that all copies of a session share, or None."""
        return None

    # -- Continuing a session

    def is_subagents(self, file: "SessionFile") -> bool:
        """Return True if the session in a file belongs to a subagent and cannot be resumed. Raises SessionFileError."""
        return False

    def resume_command(self, session: SessionPath, environment: Mapping[str, str], *prompt: str) -> ResumeCommand:
        """Return the command that resumes a session. Must not raise."""
        raise self.cannot("resumed")

    def surroundings(self, session: SessionPath) -> SessionSurroundings:
        """Return the surroundings that a session inherits when it continues this one. Raises SessionFileError."""
        raise self.cannot("rolled over")

    def new_path(self, session: Path, new_id: str, moment: "datetime") -> Path:
        """Return the path for a session that continues this one. `moment` is in local time."""
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
        """Return a new session with one user message, marked with `continue_metadata`.

        `moment` is in UTC.
        """
        raise self.cannot("continued")

    def search_servers(self, cwd: Path | None, environment: Mapping[str, str]) -> set[str]:
        """Return the names of the agent's MCP servers in a working folder. Must not raise."""
        return set()

    # -- Trim and doctor

    @property
    def trim_kind(self) -> Any:
        """The class derived from `trim.job.LineTrimmer` that trims sessions."""
        raise self.cannot("trimmed")

    def diagnose(self, session: SessionPath) -> Any:
        """Return the `doctor.Diagnosis` of a session. Raises SessionFileError."""
        raise self.cannot("examined")

    def cannot(self, done: str) -> FoldmarkError:
        """Return the error for an operation that the format does not offer."""
        return FoldmarkError(
            f"sessions of {self.title} cannot be {done} by Foldmark: their format does not offer it. `foldmark import` "
            "reads them"
        )


@cache
def built_in() -> tuple[SessionFormat, ...]:
    """Return Foldmark's own formats, the default one first."""
    return tuple(loaded(target)() for target in _BUILT_IN)


def formats() -> tuple[SessionFormat, ...]:
    """Return all formats, Foldmark's own first, then those of installed packages. Raises CommandError if one fails."""
    return (*built_in(), *plugins())


def format_named(name: str) -> SessionFormat:
    """Return the format of this name. Raises FoldmarkError if none is installed."""
    if (found := _find(name)) is None:
        known = listing(each.name for each in formats())
        raise FoldmarkError(f"no installed package reads sessions of '{name}'; there are formats for {known}")
    return found


def title_of(name: str) -> str:
    """Return the name for people of the agent whose format has this name; the name itself if none is installed."""
    try:
        found = _find(name)
    except FoldmarkError:  # of another package
        return name
    return name if found is None else found.title


def is_installed(name: str) -> bool:
    """Return True if there is a format of this name."""
    return _find(name) is not None


def format_of(path: Path) -> SessionFormat:
    """Return the format that a path suggests. The content of the file may show another one (see `places.recognize`)."""
    kept: SessionFormat | None = custom_format(path)
    # Claude Code's file names have no distinguishing mark, so any path may be one of its sessions.
    return kept or next(each for each in reversed(built_in()) if each.session_id(path) is not None)


def resume_command(session: SessionPath, environment: Mapping[str, str], *prompt: str) -> ResumeCommand:
    """Return the command that resumes an existing session and sends it `prompt`."""
    return format_named(session.kind).resume_command(session, environment, *prompt)


def refusal(file: "SessionFile", kind: str) -> str | None:
    """Return why a session of this kind cannot be continued (it is a subagent's), or None if it can. Raises
    SessionFileError."""
    if not format_named(kind).is_subagents(file):
        return None
    return (
        f"{one_line(file.path.name)} is a subagent's session, which cannot be resumed; "
        "name the session that it belongs to"
    )


def other_program(value: Any) -> str | None:
    """Return the name of the program whose marks a record has, if Foldmark has no format for it; otherwise None."""
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
    """Yield the files in a folder that match a pattern, or nothing if the folder is missing or unreadable."""
    try:
        yield from sorted(path for path in folder.glob(pattern) if path.is_file())
    except OSError:
        return


def folder_in(record: Any, *, exists: bool = False) -> Path | None:
    """Return the folder that a record names as `cwd`; None if it is missing or not a path, or no longer `exists`."""
    cwd = record.get("cwd") if isinstance(record, dict) else None
    found = Path(cwd) if isinstance(cwd, str) and os.path.isabs(cwd) and "\0" not in cwd else None  # noqa: PTH117
    return existing(found) if exists else found


def existing(folder: Path | None) -> Path | None:
    """Return the folder if it exists, otherwise None. Never raises."""
    return folder if folder is not None and os.path.isdir(folder) else None  # noqa: PTH112


def _find(name: str) -> SessionFormat | None:
    return next((each for each in built_in() if each.name == name), None) or plugin(name)
