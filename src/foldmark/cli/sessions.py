"""`foldmark sync`, `sessions`, `import` and `export`: archive coding agents' sessions, and convert between sessions and
conversations [SPEC 8]."""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import foldmark
from foldmark.app import Setup
from foldmark.cli.parameters import Number, conversations, reporting
from foldmark.cli.process import leaving, progress_bar, show, warn
from foldmark.core.agents import minute
from foldmark.core.errors import FoldmarkError
from foldmark.core.wording import count, one_line
from foldmark.settings.given import local_minute

if TYPE_CHECKING:
    from foldmark.documents.exporting import Form
    from foldmark.log import Log
    from foldmark.sessions.archive.syncing import Synced
    from foldmark.sessions.conversion.writer import ImportReport
    from foldmark.sessions.forest import Node

_STDOUT = Path("-")


def update_index(setup: Setup) -> None:
    """Index newly archived sessions. A failure causes only a warning, because the existing index can still be used."""
    from foldmark.sessions.archive.syncing import catch_up

    try:
        with progress_bar("Indexing") as progress:
            catch_up(os.environ, setup.given.sync_exclude, progress)
    except FoldmarkError as error:
        warn(f"the newest archived sessions may be missing: {error}")


@click.command()
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=click.Path(path_type=Path))
@click.option("--quiet", "-q", is_flag=True, help="Print errors only.")
@reporting
def sync(setup: Setup, paths: tuple[Path, ...], quiet: bool, as_json: bool) -> int:
    """Archive and index coding agents' sessions.

    Archives all sessions of Claude Code and Codex that are new or have grown, or those in PATH: session files, or
    folders of them. May be interrupted and repeated at any time. Exit code 1 if a file could not be read.
    """
    import msgspec

    from foldmark.sessions.archive.syncing import sync as archive_sessions

    with progress_bar("Indexing", hidden=quiet) as progress:
        report = archive_sessions(os.environ, setup.given.sync_exclude, paths, progress)
    if as_json or not quiet:
        problems = [{"file": file, "reason": why} for file, why in report.problems]
        show({**msgspec.to_builtins(report), "problems": problems}, _sync_text(report), as_json)
    for path, why in report.problems:
        warn(f"{path}: {why}" if path not in why else why)
    return 1 if report.problems else 0


def _sync_text(report: "Synced") -> str:
    changed = [f"{number:,} {word}" for word in ("new", "grown") if (number := getattr(report, word))]
    if report.apart:
        changed.append(f"{report.apart:,} rewritten and kept as further copies")
    head = f"{count(report.sessions, 'session')}: {', '.join(changed) or 'nothing new'}"
    if report.excluded:
        head += f"; {report.excluded:,} excluded"
    return f"{head}\n{count(report.messages, 'message')} indexed in {one_line(report.archive)}"


@click.command()
@click.option(
    "--limit",
    "-n",
    metavar="N",
    default=20,
    show_default=True,
    type=Number(0),
    help="Maximum number of unrelated sessions to list.",
)
@reporting
def sessions(setup: Setup, limit: int, as_json: bool) -> None:
    """Show which coding session continued which.

    Shows trees of sessions, with why each session ended and how full its context was; then archived sessions that
    continue no other, the newest first.
    """
    from foldmark.sessions.archive.index import NAME
    from foldmark.sessions.archive.storing import archive_folder
    from foldmark.sessions.forest import archived_sessions, forest
    from foldmark.sessions.lineage import records

    archive = archive_folder(os.environ)
    update_index(setup)
    archived = archived_sessions(archive) if (archive / NAME).is_file() else []
    roots = forest(records(archive).values(), archived)
    trees = [node for node in roots if node.children or node.known]
    others = [node for node in roots if not node.children and not node.known]
    text = forest_text(trees, others[:limit], len(others), minute if setup.in_utc else local_minute)
    show(forest_data(trees, others[:limit], len(others)), text, as_json)


def forest_text(
    trees: "Sequence[Node]", others: "Sequence[Node]", all_others: int, time_of: Callable[[str], str] = minute
) -> str:
    """Return trees of sessions as text, followed by the first archived sessions that continue no other."""
    blocks = ["\n".join(_tree_lines(tree, time_of)) for tree in trees]
    if others:
        lines = ["Archived sessions that continue no other:", *(_session_line(node, time_of) for node in others)]
        if all_others > len(others):
            lines.append(f"{count(all_others - len(others), 'session')} more; --limit shows them")
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks) or "No session is known yet; `foldmark sync` archives those of Claude Code and Codex."


def forest_data(trees: "Sequence[Node]", others: "Sequence[Node]", all_others: int) -> dict[str, Any]:
    """Return the forest as JSON: each tree as a flat list, parents before children."""
    from foldmark.sessions.forest import walk

    return {
        "lineages": [_session_data(depth, node) for tree in trees for depth, node in walk([tree])],
        "others": [_session_data(0, node) for node in others],
        "more": all_others - len(others),
    }


def _tree_lines(tree: "Node", time_of: Callable[[str], str]) -> Iterator[str]:
    """Draw a tree: lines lead from each session to those that continue it."""
    waiting = [("", "   ", tree)]
    while waiting:
        branch, below, node = waiting.pop()
        yield branch + _session_line(node, time_of)
        for child in reversed(node.children):
            last = child is node.children[-1]
            waiting.append((below + ("└─ " if last else "├─ "), below + ("   " if last else "│  "), child))


def _session_line(node: "Node", time_of: Callable[[str], str]) -> str:
    """Return one session's line: its number, id, folder, times, and reason for its end."""
    from foldmark.formats.session_format import DEFAULT, title_of

    known, archived = node.known, node.archived
    parts = [f"{known.session_number}." if known else "", node.session_id]
    if node.kind != DEFAULT:
        parts.append(title_of(node.kind))
    if archived and archived.project:
        parts.append(archived.project)
    began, ended = _times(node)
    if began or ended:
        parts.append(f"{time_of(began or '?')} to {time_of(ended or '?')}")
    if known and known.end_reason:
        full = "" if known.context_at_end is None else f" at {known.context_at_end}%"
        parts.append(f"ended by {known.end_reason}{full}" if known.end_reason != "completed" else f"completed{full}")
    elif archived and archived.parent:
        parts.append(f"continues {archived.parent} ({archived.why})")
    parts += [f"issue {known.issue}"] if known and known.issue else []
    parts += [f"worker {known.worker_id}"] if known and known.worker_id is not None else []
    parts += [count(node.subagents, "subagent")] if node.subagents else []
    parts += ["not archived"] if not archived else [f"“{archived.title}”"] if archived.title else []
    return "  ".join(one_line(each) for each in parts if each)


def _times(node: "Node") -> tuple[str | None, str | None]:
    known, archived = node.known, node.archived
    began = (known and known.started_at) or (archived and archived.first) or None
    ended = (known and known.ended_at) or (archived and archived.last) or None
    return began, None if began and ended and ended < began else ended  # a trim copies earlier messages


def _session_data(depth: int, node: "Node") -> dict[str, Any]:
    known, archived = node.known, node.archived
    began, ended = _times(node)
    return {
        "depth": depth,
        "kind": node.kind,
        "session_id": node.session_id,
        "parent": (known and known.parent) or (archived and archived.parent) or None,
        "session_number": known.session_number if known else None,
        "project": archived.project if archived else None,
        "title": archived.title if archived else None,
        "started_at": began,
        "ended_at": ended,
        "end_reason": known.end_reason if known else None,
        "context_at_end": known.context_at_end if known else None,
        "continues_by": archived.why if archived else None,
        "worker_id": known.worker_id if known else None,
        "issue": known.issue if known else None,
        "summary": known.summary if known else None,
        "subagents": node.subagents,
        "file": archived.file if archived else known.file if known else None,
        "archived": archived is not None,
    }


@click.command("import")
@click.argument("named", metavar="FILE|ID")
@click.option("--as", "name", metavar="NAME", help="The conversation to import into; named after the file by default.")
@reporting
def import_(setup: Setup, named: str, name: str | None, as_json: bool) -> None:
    """Import a coding session, or add its new messages.

    FILE is a Claude Code session or a Codex rollout (JSONL), ID the beginning of one's id; the file is not changed. The
    new messages of a session that was imported before go to its conversation; with --as, to another one.

    FILE may also be a conversation that `foldmark export --to json` wrote. It becomes a new conversation of the same
    name, or of the one after --as.
    """
    from foldmark.core.agents import check_name
    from foldmark.sessions.conversion.chatting import report_data, report_text

    if name is not None:
        check_name(name)
    if (document := _document(named)) is not None:
        _import_document(setup, document, name, as_json)
        return
    file = session_file(named)
    with setup.log(create=True) as log:
        report = import_file(log, file, name)
    show(report_data(report), report_text(report), as_json)


def _document(named: str) -> Path | None:
    """Return the JSON document that an argument names; None if it names something else."""
    from foldmark.documents.recognition import is_document

    file = Path(named)
    return file if is_document(file) else None


def _import_document(setup: Setup, file: Path, name: str | None, as_json: bool) -> None:
    """Import a JSON document with a progress bar. An interruption leaves nothing behind."""
    import msgspec

    from foldmark.documents.json_import import document_text, import_document, read_document

    document = read_document(file)  # before a database is created
    with setup.log(create=True) as log, progress_bar(f"Importing {file.name}") as progress:
        report = import_document(log, document, name, progress)
    show(msgspec.to_builtins(report), document_text(report), as_json)


def session_file(named: str) -> Path:
    """Return the session file that a path or the beginning of an id names. Raises CommandError, and SessionFileError if
    a file is not a session."""
    from foldmark.formats.places import find, names_file
    from foldmark.sessions.conversion.importing import format_in

    file = Path(named) if names_file(named) else find(named, Path.cwd(), os.environ).path
    format_in(file)  # before a database is created
    return file


def import_file(log: "Log", file: Path, name: str | None) -> "ImportReport":
    """Import a session with a progress bar. An interruption leaves nothing behind."""
    from foldmark.sessions.conversion.importing import import_session

    with progress_bar(f"Importing {file.name}") as progress:
        return import_session(log, file, name, progress=progress)


@click.command()
@click.argument("name", shell_complete=conversations)
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option(
    "--cwd",
    metavar="DIR",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="The folder that the session works in; this one by default.",
)
@click.option(
    "--to",
    "to",
    metavar="TARGET",
    help="Write a document: markdown or json, on standard output or to FILE; or a file that ends in .md or .json.",
)
@click.option("--context", "only_context", is_flag=True, help="Write only the messages in the context to a document.")
@reporting
def export(
    setup: Setup, name: str, file: Path | None, cwd: Path | None, to: str | None, only_context: bool, as_json: bool
) -> None:
    """Write conversation NAME as a session or a document.

    A session goes to the place where Claude Code keeps the sessions of the folder, or to FILE, which must not exist;
    - is standard output. It holds the whole context, with forget, rewind and drop applied; the conversation stays as
    it is. NAME may be the beginning of an agent's uuid.

    With --to, the conversation becomes a document with its whole history: Markdown to read, or JSON to process and for
    `foldmark import`.
    """
    from foldmark.documents.exporting import Target, target

    form, named = target(to) if to is not None else Target("session", None)
    if named is not None and file is not None:
        raise click.UsageError("--to names a file, and so does the second argument: leave out one")
    file = named or file
    if form == "session":
        if only_context:
            raise click.UsageError(
                "--context needs --to markdown, --to json or --to FILE; a session has only the context"
            )
        _export_session(setup, name, file, cwd or Path(), as_json)
    elif cwd is not None:
        raise click.UsageError("--cwd is the folder of a session, and --to writes a document: leave out one")
    else:
        _export_document(setup, name, form, file, only_context, as_json)


def _export_document(
    setup: Setup, name: str, form: "Form", file: Path | None, only_context: bool, as_json: bool
) -> None:
    from foldmark.documents.exporting import document, write_document

    if as_json and (file is None or file == _STDOUT):
        raise click.UsageError("--json prints where the document is: name a FILE, or leave out --json")
    if file is not None and file != _STDOUT:
        with setup.log(create=False) as log, leaving(), progress_bar(f"Exporting {name}") as progress:
            written = write_document(log.find(name), form, file, progress, only_context=only_context)
        show(written.data(), written.text, as_json)
        return
    seen = sys.stdout.isatty()
    with (
        setup.log(create=False) as log,
        progress_bar(f"Exporting {name}", hidden=seen) as progress,
        closing(document(log.find(name), form, progress, only_context=only_context)) as pieces,
    ):
        sys.stdout.buffer.writelines(piece.encode() for piece in pieces)


def _export_session(setup: Setup, name: str, file: Path | None, cwd: Path, as_json: bool) -> None:
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
    show(export_data(found, written), export_text(found, written), as_json)
