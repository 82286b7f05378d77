"""`foldmark import` and `foldmark export`: sessions of coding agents to conversations, and back [SPEC 8]."""

import gc
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

import foldmark
from foldmark.app import Setup
from foldmark.cli.parameters import AS_JSON, conversations
from foldmark.cli.process import progress_bar
from foldmark.rendering import harmless, json_text

if TYPE_CHECKING:
    from foldmark.log import Log
    from foldmark.sessions.conversion.writer import ImportReport

_STDOUT = Path("-")


@click.command("import")
@click.argument("named", metavar="FILE|ID")
@click.option("--as", "name", metavar="NAME", help="The conversation to import into; named after the file by default.")
@AS_JSON
@click.pass_obj
def import_(setup: Setup, named: str, name: str | None, as_json: bool) -> None:
    """Import a session as a conversation, or add its new messages to one.

    FILE is a Claude Code session or a Codex rollout (JSONL), ID the beginning of one's id; the file is not changed. The
    new messages of a session that was imported before go to its conversation; with --as, to another one.
    """
    from foldmark.core.agents import check_name
    from foldmark.sessions.conversion.chatting import report_data, report_text

    file = session_file(named)
    if name is not None:
        check_name(name)
    with setup.log(create=True) as log:
        report = import_file(log, file, name)
    print(json_text(report_data(report)) if as_json else harmless(report_text(report)))


def session_file(named: str) -> Path:
    """Return the session file that a path or the beginning of an id names. Raises CommandError, and SessionFileError if
    a file is not a session."""
    from foldmark.sessions.conversion.importing import format_in
    from foldmark.sessions.places import find, names_file

    file = Path(named) if names_file(named) else find(named, Path.cwd(), os.environ).path
    format_in(file)  # before a database is created
    return file


def import_file(log: "Log", file: Path, name: str | None) -> "ImportReport":
    """Import a session with a progress bar. An interruption leaves nothing behind."""
    from foldmark.sessions.conversion.importing import import_session

    # An import makes no reference cycles, and its objects, a hundred for each record, live to the end. To search them
    # for garbage would take a tenth of the time.
    gc.set_threshold(100_000, 100, 100)
    with progress_bar(f"Importing {file.name}") as progress:
        return import_session(log, file, name, progress=progress)


@click.command()
@click.argument("name", shell_complete=conversations)
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option(
    "--cwd",
    metavar="DIR",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    default=".",
    help="The folder that the session works in; this one by default.",
)
@AS_JSON
@click.pass_obj
def export(setup: Setup, name: str, file: Path | None, cwd: Path, as_json: bool) -> None:
    """Write the context of conversation NAME as a Claude Code session.

    The session goes to the place where Claude Code keeps those of the folder, or to FILE, which must not exist; - is
    standard output. It holds the whole context, with forget, rewind and drop applied; the conversation stays as it is.
    NAME may be the beginning of an agent's uuid.
    """
    from foldmark.sessions.conversion.chatting import export_data, export_text
    from foldmark.sessions.conversion.exporting import export as exported
    from foldmark.sessions.conversion.exporting import session_of, write

    if file == _STDOUT and as_json:
        raise click.UsageError("--json prints where the session is, and - prints the session itself: leave out one")
    with setup.log(create=False) as log:
        found = exported(log.find(name), cwd, foldmark.__version__, session_of(file) if file else None)
    if file == _STDOUT:
        sys.stdout.buffer.writelines(found.content())
        return
    written = write(found, os.environ, file)
    print(json_text(export_data(found, written)) if as_json else harmless(export_text(found, written)))
