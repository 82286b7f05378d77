"""`foldmark import`: progress while a session is read, and the report of what became of it."""

import sys
from pathlib import Path
from typing import Any

import click

from foldmark.conversation import Log
from foldmark.core.wording import count, one_line
from foldmark.interfaces.render import harmless
from foldmark.sessions.conversion.importing import ImportReport, import_session

LISTED = 10
"""Broken lines that are listed one by one; `--json` has all of them."""


def import_file(log: Log, file: Path, name: str | None) -> ImportReport:
    """Import with a progress bar on a terminal's standard error; an interruption leaves nothing behind."""
    if not sys.stderr.isatty():
        return import_session(log, file, name)
    with click.progressbar(length=1, label=f"Importing {one_line(file.name)}", file=sys.stderr) as bar:

        def show(done: int, total: int) -> None:
            bar.length = total
            bar.update(done - bar.pos)

        return import_session(log, file, name, progress=show)


def report_text(report: ImportReport) -> str:
    """What was found and what became of it."""
    width = max((len(type) for type in report.records), default=0)
    lines = [f"Read {count(report.lines, 'line')}:"]
    lines += [f"  {one_line(type):<{width}}  {count}" for type, count in report.records.items()]
    if report.broken:
        lines.append(f"  {count(len(report.broken), 'broken line')} skipped:")
        lines += [f"    line {number}: {harmless(reason)}" for number, reason in report.broken[:LISTED]]
        if len(report.broken) > LISTED:
            lines.append(f"    … and {len(report.broken) - LISTED} more; --json lists them all")
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
    }
