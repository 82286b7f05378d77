"""`foldmark import` and `foldmark export`: sessions of coding agents to conversations, and back [SPEC 8]."""

import gc
import os
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import foldmark
from foldmark.app import Setup
from foldmark.cli.parameters import AS_JSON, conversations
from foldmark.cli.process import progress_bar
from foldmark.core.wording import count, one_line
from foldmark.rendering import harmless, json_text

if TYPE_CHECKING:
    from foldmark.log import Log
    from foldmark.sessions.conversion.importing import ImportReport

LISTED = 10
"""Number of broken lines that are listed one by one; `--json` has all of them."""

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
    from foldmark.sessions.conversion.importing import format_in
    from foldmark.sessions.places import find, names_file

    file = Path(named) if names_file(named) else find(named, Path.cwd(), os.environ).path
    format_in(file)  # before there is a database to write to
    if name is not None:
        check_name(name)
    with setup.log(create=True) as log:
        report = import_file(log, file, name)
    print(json_text(_report_data(report)) if as_json else report_text(report))


def import_file(log: "Log", file: Path, name: str | None) -> "ImportReport":
    """Import with a progress bar on a terminal's standard error; an interruption leaves nothing behind."""
    from foldmark.sessions.conversion.importing import import_session

    # Nothing that an import makes refers to itself. Each record is a hundred objects, and what is left of it stays to
    # the end: looking for garbage among them would take a tenth of the time.
    gc.set_threshold(100_000, 100, 100)
    with progress_bar(f"Importing {file.name}") as progress:
        return import_session(log, file, name, progress=progress)


def report_text(report: "ImportReport") -> str:
    """Return the counts of what was read and imported."""
    return _repeated_import_text(report) if report.again else _first_import_text(report)


def _repeated_import_text(report: "ImportReport") -> str:
    new, changes = sum(report.messages.values()), []
    if new:
        changes.append(f"brought in {count(new, 'new message')} ({count(report.turns, 'turn')})")
    elif report.kept:
        changes.append(f"no new message; {count(report.kept, 'line')} kept as data")
    if report.dropped:
        changes.append(f"{count(report.dropped, 'turn')} of these out of the context, being abandoned or side chains")
    if report.left:
        changes.append(f"{count(report.left, 'part')} that the session went back behind left the context")
    if report.returned:
        changes.append(f"{count(report.returned, 'part')} that the session came back to returned to the context")
    lines = [f"Conversation '{report.name}': {'; '.join(changes) or 'it has all of this session already'}"]
    return "\n".join([*lines, *_broken_lines(report)])


def _first_import_text(report: "ImportReport") -> str:
    width = max((len(type) for type in report.records), default=0)
    lines = [f"Read {count(report.lines, 'line')}:"]
    lines += [f"  {one_line(type):<{width}}  {count}" for type, count in report.records.items()]
    lines += _broken_lines(report)
    messages = ", ".join(f"{count} {kind.replace('_', ' ')}" for kind, count in report.messages.items())
    lines.append(f"Conversation '{report.name}': {count(report.turns, 'turn')} ({messages or 'no messages'})")
    if report.kept:
        lines.append(f"  kept as data, not being messages: {count(report.kept, 'line')}")
    if report.dropped:
        lines.append(
            f"  out of the context, being abandoned branches or side chains: {count(report.dropped, 'turn')}; "
            "/restore brings them back"
        )
    return "\n".join(lines)


def _broken_lines(report: "ImportReport") -> list[str]:
    if not report.broken:
        return []
    lines = [f"  {count(len(report.broken), 'broken line')} skipped:"]
    lines += [f"    line {number}: {harmless(reason)}" for number, reason in report.broken[:LISTED]]
    if len(report.broken) > LISTED:
        lines.append(f"    … and {len(report.broken) - LISTED} more; --json lists them all")
    return lines


def _report_data(report: "ImportReport") -> dict[str, Any]:
    """Return the report as JSON."""
    return {
        "conversation": report.name,
        "agent": report.agent_id,
        "lines": report.lines,
        "records": report.records,
        "broken": [{"line": number, "reason": reason} for number, reason in report.broken],
        "messages": report.messages,
        "turns": report.turns,
        "dropped": report.dropped,
        "kept": report.kept,
        "again": report.again,
        "left": report.left,
        "returned": report.returned,
    }


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
    if as_json:
        data = {
            "session_id": found.session_id,
            "file": str(written.file),
            "cwd": found.cwd,
            "command": written.command.shell,
            "records": len(found.lines),
            "messages": found.messages,
            "left_out": [{"event": event, "why": why} for event, why in found.left_out],
            "up_to": found.until,
        }
        print(json_text(data))
        return
    messages = ", ".join(f"{number} {kind.replace('_', ' ')}" for kind, number in found.messages.items())
    lines = [f"Session {found.session_id}: {count(len(found.lines), 'record')} ({messages})", f"  {written.file}"]
    whys = Counter(why for _, why in found.left_out)
    lines += [f"  not in it, or not whole: {count(number, 'message')}: {why}" for why, number in whys.most_common()]
    lines += ["Continue it with:", f"  {written.command.shell}"]
    print(harmless("\n".join(lines)))
