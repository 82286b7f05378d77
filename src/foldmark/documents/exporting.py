"""Decide the format of an export, and write a document to a file or in pieces [docs/reference/export.md]."""

import os
import re
from collections.abc import Callable, Generator
from contextlib import closing
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from msgspec import Struct, to_builtins

from foldmark.core.errors import CommandError
from foldmark.core.ports import Progress
from foldmark.core.wording import count, one_line
from foldmark.log import Agent
from foldmark.sessions.new_file import WriteError, already_there, new_file

Form: TypeAlias = Literal["markdown", "json", "session"]

FORMS: dict[str, Form] = {".md": "markdown", ".markdown": "markdown", ".json": "json", ".jsonl": "session"}
"""Suffix of a file -> the format of an export into it."""

_NAMES: dict[Form, str] = {"markdown": "Markdown", "json": "JSON", "session": "a Claude Code session"}
_SUFFIXES: dict[Form, str] = {form: suffix for suffix, form in reversed(FORMS.items())}
"""Format -> the first suffix of its files."""


class Target(NamedTuple):
    """The target of an export: its format, and its file, None if only the format was named."""

    form: Form
    file: Path | None


class WrittenDocument(Struct, frozen=True):
    """A document that was written: its file, its format, whether it has only the context, and its size in bytes."""

    file: str
    format: str
    context: bool
    bytes: int

    @property
    def text(self) -> str:
        """The line for a person."""
        part = "the context" if self.context else "the whole history"
        return f"Wrote {part} as {self.format} to {one_line(self.file)}: {count(self.bytes, 'byte')}."

    def data(self) -> dict[str, Any]:
        """Return it as JSON."""
        found: dict[str, Any] = to_builtins(self)
        return found


def target(named: str) -> Target:
    """Return the target that `markdown`, `json` or the name of a file names. `~` is the home folder. Raises
    CommandError."""
    if named in ("markdown", "json"):
        return Target("markdown" if named == "markdown" else "json", None)
    file = Path(os.path.expanduser(named))  # noqa: PTH111 - no `~name` raises
    form = FORMS.get(file.suffix.lower())
    if form is None:
        raise CommandError(
            f"{one_line(named[:80])} does not tell the format: name a file that ends in .md, .json or .jsonl, or write "
            "markdown or json"
        )
    return Target(form, file)


def default_file(agent: Agent, form: Form) -> Path:
    """Return the file in the working folder that is named after a conversation."""
    name = re.sub(r"[^\w.+@-]+", "-", agent.name or agent.id[:8]).strip("-.") or agent.id[:8]
    return Path(f"{name[:80]}{_SUFFIXES[form]}")


def check_file(file: Path) -> None:
    """Raise WriteError if a file cannot be created: it exists, or its folder does not."""
    if os.path.lexists(file):
        raise already_there(file)
    if not os.path.isdir(file.parent):  # noqa: PTH112 - a name that is too long raises nothing
        raise WriteError(f"there is no folder {one_line(str(file.parent))}; create it, or name another")


def document(agent: Agent, form: Form, progress: Progress, *, only_context: bool) -> Generator[str, None, None]:
    """Yield the pieces of a document, read as they are consumed."""
    from importlib.metadata import version  # 30 ms

    write: Callable[[Agent, str, Progress], Generator[str, None, None]]
    if form == "markdown":
        from foldmark.documents.markdown import context_markdown, conversation_markdown

        write = context_markdown if only_context else conversation_markdown
    else:
        from foldmark.documents.json_export import context_json, conversation_json

        write = context_json if only_context else conversation_json
    return write(agent, version("foldmark"), progress)


def write_document(agent: Agent, form: Form, file: Path, progress: Progress, *, only_context: bool) -> WrittenDocument:
    """Write a document to a new file that only its owner can read. It appears when it is whole. Raises WriteError."""
    check_file(file)
    size = 0
    with new_file(file) as out, closing(document(agent, form, progress, only_context=only_context)) as pieces:
        for piece in pieces:
            size += out.write(piece.encode())
    return WrittenDocument(str(file), _NAMES[form], only_context, size)
