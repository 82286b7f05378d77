"""`foldmark import`: progress while a session is read, and the report of what became of it."""

import gc
import sys
from pathlib import Path
from typing import Any

import click

from foldmark.core.wording import count, one_line
from foldmark.log import Log
from foldmark.rendering import harmless
from foldmark.sessions.conversion.importing import ImportReport, import_session

LISTED = 10
"""Broken lines that are listed one by one; `--json` has all of them."""


def import_file(log: Log, file: Path, name: str | None) -> ImportReport:
    """Import with a progress bar on a terminal's standard error; an interruption leaves nothing behind."""
    # Nothing that an import makes refers to itself. Each record is a hundred objects, and what is left of it stays to
    # the end: looking for garbage among them would take a tenth of the time.
    gc.set_threshold(100_000, 100, 100)
    if not sys.stderr.isatty():
        return import_session(log, file, name)
    with click.progressbar(length=1, label=f"Importing {one_line(file.name)}", file=sys.stderr) as bar:

        def show(done: int, total: int) -> None:
            bar.length = total
            bar.update(done - bar.pos)

        return import_session(log, file, name, progress=show)


def report_text(report: ImportReport) -> str:
    """What was found and what became of it."""
    return _again_text(report) if report.again else _first_text(report)


def _again_text(report: ImportReport) -> str:
    """What was new in a session that was imported before, in one line, and lines that could not be read."""
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


def _first_text(report: ImportReport) -> str:
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


def _broken_lines(report: ImportReport) -> list[str]:
    if not report.broken:
        return []
    lines = [f"  {count(len(report.broken), 'broken line')} skipped:"]
    lines += [f"    line {number}: {harmless(reason)}" for number, reason in report.broken[:LISTED]]
    if len(report.broken) > LISTED:
        lines.append(f"    … and {len(report.broken) - LISTED} more; --json lists them all")
    return lines


def report_data(report: ImportReport) -> dict[str, Any]:
    """The report as JSON."""
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
