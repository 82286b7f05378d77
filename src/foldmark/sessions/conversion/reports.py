"""Reports of imports and exports, as text and as JSON."""

from collections import Counter
from typing import Any

from msgspec import to_builtins

from foldmark.core.wording import count, one_line
from foldmark.sessions.conversion.exporting import Export, Written
from foldmark.sessions.conversion.writer import ImportReport

LISTED = 10
"""Maximum number of broken lines to list one by one. `--json` has all of them."""


def report_text(report: ImportReport) -> str:
    """Return the counts of lines read and messages imported, as text."""
    if report.again:
        return short_report_text(report)
    width = max((len(type) for type in report.records), default=0)
    lines = [f"Read {count(report.lines, 'line')}:"]
    lines += [f"  {one_line(type):<{width}}  {count}" for type, count in report.records.items()]
    return "\n".join([*lines, *_broken_lines(report), *_first_import_lines(report)])


def short_report_text(report: ImportReport) -> str:
    """Return the same without the counts of the lines that were read."""
    if report.again:
        return _repeated_import_text(report)
    return "\n".join([*_first_import_lines(report), *_broken_lines(report)])


def _repeated_import_text(report: ImportReport) -> str:
    new, changes = sum(report.messages.values()), []
    if new:
        changes.append(f"imported {count(new, 'new message')} ({count(report.turns, 'turn')})")
    elif report.kept:
        changes.append(f"no new message; {count(report.kept, 'line')} kept as data")
    if report.dropped:
        changes.append(f"{count(report.dropped, 'turn')} of these out of the context (abandoned or side chains)")
    if report.left:
        changes.append(f"{count(report.left, 'part')} left the context: the session went back to an earlier point")
    if report.returned:
        changes.append(f"{count(report.returned, 'part')} returned to the context: the session came back to them")
    lines = [f"Conversation '{report.name}': {'; '.join(changes) or 'it already has all of this session'}"]
    return "\n".join([*lines, *_broken_lines(report)])


def _first_import_lines(report: ImportReport) -> list[str]:
    messages = ", ".join(f"{count} {kind.replace('_', ' ')}" for kind, count in report.messages.items())
    lines = [f"Conversation '{report.name}': {count(report.turns, 'turn')} ({messages or 'no messages'})"]
    if report.kept:
        lines.append(f"  kept as data (not messages): {count(report.kept, 'line')}")
    if report.dropped:
        lines.append(
            f"  out of the context (abandoned branches or side chains): {count(report.dropped, 'turn')}; "
            "/restore brings them back"
        )
    return lines


def _broken_lines(report: ImportReport) -> list[str]:
    if not report.broken:
        return []
    lines = [f"  {count(len(report.broken), 'broken line')} skipped:"]
    lines += [f"    line {number}: {one_line(reason)}" for number, reason in report.broken[:LISTED]]
    if len(report.broken) > LISTED:
        lines.append(f"    … and {len(report.broken) - LISTED} more; --json lists them all")
    return lines


def report_data(report: ImportReport) -> dict[str, Any]:
    """Return the report as JSON."""
    return {**to_builtins(report), "broken": [{"line": number, "reason": reason} for number, reason in report.broken]}


def export_text(found: Export, written: Written) -> str:
    """Return the exported messages, their file and the command that continues the session, as text."""
    messages = ", ".join(f"{number} {kind.replace('_', ' ')}" for kind, number in found.messages.items())
    lines = [f"Session {found.session_id}: {count(len(found.lines), 'record')} ({messages})", f"  {written.file}"]
    whys = Counter(why for _, why in found.left_out)
    lines += [f"  missing or incomplete: {count(number, 'message')}: {why}" for why, number in whys.most_common()]
    return "\n".join([*lines, "Continue it with:", f"  {written.command.shell}"])


def export_data(found: Export, written: Written) -> dict[str, Any]:
    """Return the same as JSON."""
    return {
        "session_id": found.session_id,
        "file": str(written.file),
        "cwd": found.cwd,
        "command": written.command.shell,
        "records": len(found.lines),
        "messages": found.messages,
        "left_out": [{"event": event, "why": why} for event, why in found.left_out],
        "up_to": found.until,
    }
