"""`/import` and `/export` in a chat, the model of an imported session, and reports as text and as JSON."""

import os
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import to_builtins

from foldmark.core import selections
from foldmark.core.errors import CommandError, FoldmarkError
from foldmark.core.ports import Progress
from foldmark.core.wording import count, one_line
from foldmark.formats.places import find, session_path
from foldmark.formats.session_format import existing, format_named
from foldmark.log import Agent, Result, family
from foldmark.operations.effects import SwitchAgent, WroteSession
from foldmark.sending.interruption import watched
from foldmark.sessions.conversion.imported import ImportRecord, newest_import
from foldmark.sessions.conversion.importing import import_session
from foldmark.sessions.conversion.writer import ImportReport

if TYPE_CHECKING:
    from foldmark.sessions.conversion.exporting import Export, Written

ANSWERS = 20
"""Maximum number of newest answers to search for a session's model."""


def bring_in(agent: Agent, named: str | None, progress: Progress | None, environment: Mapping[str, str]) -> Result:
    """Import the session named by a file or by the beginning of an id, by default the one that the agent was imported
    from. An interruption leaves nothing behind. Raises FoldmarkError."""
    log = agent.log
    file = find(named, Path.cwd(), environment).path if named else _own_file(agent)
    with watched() as cut:

        def report_progress(done: int, total: int) -> None:
            if cut.is_set():
                raise FoldmarkError("the import was interrupted; nothing was written")
            if progress is not None:
                progress(done, total)

        report = import_session(log, file, None if named else agent.name, report_progress)
    if report.agent_id == agent.id:
        return Result(short_report_text(report), None, report_data(report))
    adopt_model(log.agent(report.agent_id))
    switch = SwitchAgent(report.agent_id, report.name)
    return Result(short_report_text(report), None, report_data(report), effect=switch)


def write_out(agent: Agent, folder: str | None, environment: Mapping[str, str], file: Path | None = None) -> Result:
    """Write an agent's context as a new session that works in `folder`, by default the current one; to a `file` if one
    is given. Raises FoldmarkError."""
    from importlib.metadata import version  # 30 ms

    cwd = Path(os.path.expanduser(folder)) if folder else working_folder(agent) or Path.cwd()  # noqa: PTH111 - no `~name` raises
    if not cwd.is_dir():
        is_document = cwd.suffix in (".md", ".json") or folder in ("markdown", "json")
        hint = f"; /export --to {one_line(str(cwd))} writes a document" if is_document else ""
        raise CommandError(
            f"there is no folder {one_line(str(cwd))}; name the one that the session is to work in{hint}"
        )
    from foldmark.sessions.conversion.exporting import export, session_of, write  # 15 ms, which an import saves

    found = export(agent, cwd, version("foldmark"), session_of(file) if file else None)
    written = write(found, environment, file)
    effect = WroteSession(found.session_id, written.command.shell)
    return Result(export_text(found, written), None, export_data(found, written), effect=effect)


def working_folder(agent: Agent) -> Path | None:
    """Return the working folder of the imported session if it exists, otherwise None."""
    return existing(session_folder(agent))


def session_folder(agent: Agent) -> Path | None:
    """Return the working folder that the imported session names; None without one."""
    imported = newest_import(agent)
    if imported is None or not imported[1].file:
        return None
    note = imported[1]
    with suppress(FoldmarkError, OSError):
        return format_named(note.source).surroundings(session_path(Path(note.file), note.source)).cwd
    return None


def session_model(agent: Agent) -> str | None:
    """Return the model of the last answer in the imported session, in the form of `Config.model`; None if unknown."""
    imported = newest_import(agent)
    if imported is None:
        return None
    event, note = imported
    with suppress(FoldmarkError), agent.log.store.read() as moment:
        provider = format_named(note.source).provider
        for usage in selections.recent(moment, "usage", agent.id, event.id, ANSWERS):
            data = usage.data or {}
            if provider and "provider" not in data and isinstance(data.get("model"), str):  # Foldmark's own name it
                agent.log.check_model(name := f"{provider}/{data['model']}")
                return name
    return None


def adopt_model(agent: Agent) -> None:
    """Set the agent's model to the session's, unless a model has been chosen."""
    at = agent.standing()
    chosen = at.given.source("model", at.settings, at.inherited) != "default"
    if not chosen and (model := session_model(agent)) is not None:
        agent.configure("model", model, actor="system")


def _own_file(agent: Agent) -> Path:
    imported = newest_import(agent)
    if imported is None:
        raise CommandError(
            f"{family.label(agent)} was not imported from a session; /import SESSION imports one, by its file or id"
        )
    note: ImportRecord = imported[1]
    if not note.file or not os.path.lexists(note.file):
        where = f"not at {one_line(note.file)} any more" if note.file else "somewhere unknown"
        raise CommandError(f"the session of this conversation is {where}; /import FILE names it")
    return Path(note.file)


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
    """Return the same as `report_text`, without the counts of the lines that were read."""
    if report.again:
        return _repeated_import_text(report)
    return "\n".join([*_first_import_lines(report), *_broken_lines(report)])


def _repeated_import_text(report: ImportReport) -> str:
    new = sum(report.messages.values())
    changes = {
        f"imported {count(new, 'new message')} ({count(report.turns, 'turn')})": new,
        f"no new message; {count(report.kept, 'line')} kept as data": report.kept if not new else 0,
        f"{count(report.dropped, 'turn')} of these out of the context (abandoned or side chains)": report.dropped,
        _unsent(report): report.unsent,
        f"{count(report.left, 'part')} left the context: the session went back to an earlier point": report.left,
        f"{count(report.returned, 'part')} returned to the context: the session came back to them": report.returned,
    }
    told = "; ".join(text for text, number in changes.items() if number) or "it already has all of this session"
    return "\n".join([f"Conversation '{report.name}': {told}", *_broken_lines(report)])


def _first_import_lines(report: ImportReport) -> list[str]:
    messages = ", ".join(f"{count} {kind.replace('_', ' ')}" for kind, count in report.messages.items())
    lines = [f"Conversation '{report.name}': {count(report.turns, 'turn')} ({messages or 'no messages'})"]
    if report.kept:
        lines.append(f"  kept as data (not messages): {count(report.kept, 'line')}")
    lines += _token_lines(report)
    if report.unsent:
        lines.append(f"  {_unsent(report)}")
    if report.dropped:
        lines.append(
            f"  out of the context (abandoned branches or side chains): {count(report.dropped, 'turn')}; "
            "/restore brings them back"
        )
    return lines


def _token_lines(report: ImportReport) -> list[str]:
    if (tokens := report.tokens) is None:
        return []
    whole = count(tokens.messages + tokens.client, "token")
    client = f"{tokens.client:,} of the client's own (system prompt, tools)"
    return [f"  the client's next request: ~{whole}, {tokens.messages:,} of these messages and {client}"]


def _unsent(report: ImportReport) -> str:
    why = "the client does not send them (calls without a result, late results, thinking left alone)"
    return f"{count(report.unsent, 'part')} out of the context: {why}"


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


def export_text(found: "Export", written: "Written") -> str:
    """Return the exported messages, their file and the command that continues the session, as text."""
    messages = ", ".join(f"{number} {kind.replace('_', ' ')}" for kind, number in found.messages.items())
    lines = [f"Session {found.session_id}: {count(len(found.lines), 'record')} ({messages})", f"  {written.file}"]
    whys = Counter(why for _, why in found.left_out)
    lines += [f"  missing or incomplete: {count(number, 'message')}: {why}" for why, number in whys.most_common()]
    return "\n".join([*lines, "Continue it with:", f"  {written.command.shell}"])


def export_data(found: "Export", written: "Written") -> dict[str, Any]:
    """Return the same as `export_text`, as JSON."""
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
