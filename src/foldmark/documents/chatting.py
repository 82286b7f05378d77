"""`/export --to` and `/import` of a JSON document in a chat."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from msgspec import to_builtins

from foldmark.core.errors import CommandError, FoldmarkError
from foldmark.core.ports import Progress
from foldmark.documents.exporting import default_file, target, write_document
from foldmark.documents.json_import import document_text, import_document, read_document
from foldmark.documents.recognition import is_document
from foldmark.log import Agent, Result
from foldmark.operations.effects import SwitchAgent
from foldmark.sending.interruption import watched
from foldmark.sessions.conversion import chatting as sessions


def document_named(named: str) -> Path | None:
    """Return the JSON document that an argument names; None if it names something else."""
    file = Path(os.path.expanduser(named))  # noqa: PTH111 - no `~name` raises
    return file if is_document(file) else None


def bring_in(agent: Agent, file: Path, progress: Progress | None) -> Result:
    """Import a document as a new conversation. An interruption leaves nothing behind."""
    with _interruptible("the import", progress) as report:
        done = import_document(agent.log, read_document(file), None, report)
    return Result(document_text(done), None, to_builtins(done), effect=SwitchAgent(done.agent_id, done.name))


def write_out(
    agent: Agent, named: str, progress: Progress | None, environment: Mapping[str, str], *, only_context: bool
) -> Result:
    """Write a document, or for a file that ends in .jsonl a session. Raises FoldmarkError."""
    form, file = target(named)
    if form == "session":
        if only_context:
            raise CommandError("--context is for .md and .json; a session always has only the context")
        return sessions.write_out(agent, None, environment, file)
    with _interruptible("the export", progress) as report:
        written = write_document(agent, form, file or default_file(agent, form), report, only_context=only_context)
    return Result(written.text, None, written.data())


@contextmanager
def _interruptible(what: str, progress: Progress | None) -> Iterator[Progress]:
    """Yield a receiver of progress that raises FoldmarkError when the command is interrupted."""
    with watched() as cut:

        def report(done: int, total: int) -> None:
            if cut.is_set():
                raise FoldmarkError(f"{what} was interrupted; nothing was written")
            if progress is not None:
                progress(done, total)

        yield report
