"""`foldmark backup`, `copy` and `doctor`: whole databases, and damaged sessions of coding agents."""

import os
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import click
from msgspec import to_builtins

import foldmark
from foldmark.app import Setup, open_over
from foldmark.cli.parameters import reporting
from foldmark.cli.process import progress_bar, show, warn
from foldmark.core.errors import CommandError, FoldmarkError, StoreError
from foldmark.core.wording import count
from foldmark.log import Log
from foldmark.rendering import harmless, json_text
from foldmark.settings.user_folders import database_path
from foldmark.stores.addresses import POSTGRESQL, scheme, shown

if TYPE_CHECKING:
    from foldmark.copying import CopyReport
    from foldmark.formats.session_format import SessionPath
    from foldmark.sessions.doctor import Diagnosis, Finding
    from foldmark.sessions.doctor.repairing import Repaired


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--verify", is_flag=True, help="Check that the backup FILE is whole, without changing it.")
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@reporting
def backup(setup: Setup, file: Path, verify: bool, force: bool, as_json: bool) -> int:
    """Write a backup of the database to FILE.

    FILE is a database like the original, as of one moment; others may write meanwhile. It appears when it is whole.
    With --verify, exit code 1 if something is wrong with it.
    """
    if verify:
        if force:
            raise click.UsageError("--force and --verify exclude each other")
        from foldmark.stores.sqlite.backup import opened

        with opened(file) as store:
            return _check_database(open_over(store), str(file), False, as_json)
    if kind := scheme(setup.db):
        if kind not in POSTGRESQL:
            raise StoreError(f"`foldmark backup` copies SQLite files; back up a {kind} database with its own tools")
        raise StoreError(f"`foldmark backup` copies SQLite files; for PostgreSQL run {_dump_command(setup.db, file)}")
    from foldmark.stores.sqlite.backup import back_up

    with progress_bar("Writing") as progress:
        size = back_up(setup.db, file, progress, replace=force)
    text = f"{file}: {size / 1e6:,.1f} MB. `foldmark backup --verify` checks it; `foldmark --db` opens it."
    show({"database": setup.db, "file": str(file), "bytes": size}, text, as_json)
    return 0


def _dump_command(address: str, file: Path) -> str:
    """Return the command that backs up a database on a server. It omits the password, which is prompted for or read
    from ~/.pgpass."""
    from shlex import quote

    options = [each for each in address.partition("?")[2].split("&") if each and "password" not in each]
    place = "?".join((shown(address), *(["&".join(options)] if options else ())))
    return f"`pg_dump --format=custom --file={quote(str(file))} {quote(place)}`; pg_restore reads it back"


@click.command("copy")
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@click.option(
    "--conversation",
    "names",
    metavar="NAME",
    multiple=True,
    help="Copy only this one with its forks; may be repeated. The whole database by default.",
)
@click.option("--as", "called", metavar="NAME", help="Give the conversation this name in TO, and other uuids.")
@reporting
def copy(setup: Setup, source: str, target: str, names: tuple[str, ...], called: str | None, as_json: bool) -> int:
    """Copy conversations from one database to another.

    FROM and TO are paths of SQLite files or postgresql:// addresses; TO is created if it is missing. Ids stay as they
    are if TO is empty or holds earlier copies of FROM only. Any other TO gets the conversations that --conversation
    names, with new ids, which are printed.

    A copy that is repeated adds only what is new. It may be interrupted at any time and goes on when it is run again.
    At the end all events are compared.

    Vectors for a search by meaning are not copied; `foldmark index` makes them.
    """
    from foldmark.copying import copy as copied
    from foldmark.copying.comparing import scope

    source, target = database_path(source), database_path(target)
    if ":memory:" in (source, target):
        raise CommandError("a database in memory ends with this command; name a file")
    with foldmark.open(source, create=False, settings=setup.given) as log:
        with log.store.read() as moment:
            scope(moment, names, called)  # before the target is created
        with foldmark.open(target, settings=setup.given) as other, progress_bar("Copying") as progress:
            if other.store.address == log.store.address:
                raise CommandError(f"{shown(target)} is the source of the copy; name another database")
            try:
                report = copied(log.store, other.store, names, progress, called=called)
            except KeyboardInterrupt:
                report = None
    if report is None:
        warn("interrupted; run it again to go on from there")
        return 130
    data = {"from": shown(source), "to": shown(target), **to_builtins(report)}
    show(data, _copy_text(shown(target), report), as_json)
    return 0


def _copy_text(target: str, report: "CopyReport") -> str:
    parts = [
        (report.events, "new event"),
        (report.requests, "request"),
        (report.mail, "mail message"),
        (report.memos, "memo"),
    ]
    new = ", ".join(count(number, noun) for number, noun in parts if number)
    lines = [f"{target}: {new or 'nothing new'}"]
    if report.erased:
        lines.append(f"  {count(report.erased, 'event')} erased, as in the original")
    agents = f"{count(report.conversations, 'conversation')}, {count(report.agents, 'agent')}"
    for each in report.added:
        if each.ahead:
            lines.append(f"  {each.name} has grown in {target} only; exchange FROM and TO to bring that back")
        elif ids := each.ids:
            (first, *_), (begin, last, at) = ids[0], ids[-1]
            lines.append(f"  {each.name}: events {first}-{last} are {ids[0][2]}-{at + last - begin} here")
    if report.agents:
        lines.append(f"  {agents}, {count(report.compared, 'event')} compared: the same in both ({report.hash[:12]})")
    return "\n".join(lines)


@click.command()
@click.option("--session", "named", metavar="FILE|ID", help="Check this session of a coding agent instead.")
@click.option("--repair", is_flag=True, help="Rebuild stored segments; of a session, write a repaired copy.")
@click.option("--out", metavar="FILE", type=click.Path(path_type=Path), help="Write the repaired session there.")
@reporting
def doctor(setup: Setup, named: str | None, repair: bool, out: Path | None, as_json: bool) -> int:
    """Check the installation and the database, or a session file.

    Reports the extras, keys (never their values), coding agents, plugins and folders that are there, and says what to
    do about each problem; then it checks the database by a full replay. With --repair, it checks the database only.
    --json is for bug reports: it holds no key and no text of a conversation.

    Exit code 1 if something is wrong: with a session, if it cannot be resumed or something is lost on resuming.
    """
    if named is not None:
        return _check_session(setup, named, repair, out, as_json)
    if out is not None:
        raise click.UsageError("--out requires --session and --repair")
    if not repair:
        return _check_installation(setup, as_json)
    with setup.log(create=False) as log:
        return _check_database(log, shown(setup.db), repair, as_json)


def _check_installation(setup: Setup, as_json: bool) -> int:
    """Print the checks of the installation, and those of the database if it can be opened. Return the exit code: 1 if
    something is wrong."""
    from foldmark.cli.checkup import checks

    data: dict[str, Any] = {}
    problems: list[dict[str, str]] = []
    for check in checks(setup):
        data |= check.data
        problems += [{"check": check.name, **to_builtins(each)} for each in check.problems]
        if not as_json:
            print(harmless("\n".join(check.lines)), flush=True)
    data["problems"] = problems
    if data.get("opens"):
        with setup.log(create=False) as log:
            return _check_database(log, data["database"], False, as_json, more=data) or bool(problems)
    if as_json:
        print(json_text(data))
    return 1 if problems else 0


def _check_database(
    log: Log,
    name: str,
    repair: bool,
    as_json: bool,
    more: Mapping[str, Any] = {},
) -> int:
    """Print the findings, in JSON with the members `more`. With `repair`, repair them where possible. Return the exit
    code: 1 if a finding remains."""
    from foldmark.log.doctor import examine
    from foldmark.log.doctor import repair as repair_finding

    findings = [(finding, repair and repair_finding(log, finding)) for finding in examine(log)]
    try:
        agents = len(log.agents())
    except StoreError:  # the agents can no longer be read
        agents = 0
    if repair and not log.store.forget_erased():
        print(
            "another program is reading, or the disk is full: erased text may still have traces in the write-ahead "
            "log; repeat this later",
            file=sys.stderr,
        )
    left = sum(1 for _, repaired in findings if not repaired)
    found = [{"text": finding.text, "repaired": repaired} for finding, repaired in findings]
    verdict = count(left, "fault") if left else "all is well"
    lines = [f"{finding.text}{' (repaired)' if repaired else ''}" for finding, repaired in findings]
    lines.append(f"{name}: {count(agents, 'agent')}, {verdict}")
    show({**more, "database": name, "agents": agents, "findings": found}, "\n".join(lines), as_json)
    return 1 if left else 0


def _check_session(setup: Setup, named: str, repairing: bool, out: Path | None, as_json: bool) -> int:
    """Print the findings about a session, or repair it. Return the exit code: 1 if a finding remains."""
    from foldmark.formats.places import find, recognized
    from foldmark.sessions.conversion.exporting import session_of
    from foldmark.sessions.doctor import diagnose
    from foldmark.sessions.doctor.repairing import repair

    if out and not repairing:
        raise click.UsageError("--out requires --repair")
    session = recognized(find(named, Path.cwd(), os.environ), damaged=True)
    found, new = diagnose(session), None
    found.findings.extend(_differences(setup, session))
    if repairing:
        id = (session_of(out) if out else None) or str(uuid4())
        with foldmark.open(":memory:", settings={}) as log:
            new = repair(log, found, id, datetime.now(UTC), foldmark.__version__, out)
    left = new.now.wrong if new else found.wrong
    show(_session_data(found, new), "\n".join(_session_lines(found, new, repairing)), as_json)
    return 1 if left else 0


def _differences(setup: Setup, session: "SessionPath") -> Iterator["Finding"]:
    """Yield what the conversation of a session, if the database has it, and the session's file do not share."""
    from foldmark.sessions.doctor import Finding
    from foldmark.sessions.doctor.recorded import compare

    if setup.has_database:
        try:
            with setup.log(create=False) as log:
                yield from compare(log, session)
        except FoldmarkError as error:
            yield Finding("note", None, f"not compared with {shown(setup.db)}: {error}")


def _session_lines(found: "Diagnosis", new: "Repaired | None", repairing: bool) -> list[str]:
    from foldmark.formats.session_format import resume_command

    lines = []
    for each in found.findings:
        where = f"line {each.line}: " if each.line else ""
        lines.append(f"{each.weight:<5}  {where}{each.text}")
    about = f"{count(found.lines, 'line')}, {count(found.sent, 'message')} sent on resuming"
    lines.append(f"{found.session.path}: {about}; {found.verdict}")
    if new is None:
        return [*lines, "There is nothing to repair; nothing was written."] if repairing else lines
    lines.append(f"Repaired: {new.session.path}. It does not have:")
    lines += [f"  {each}" for each in new.left_out]
    lines += [f"  still wrong: {each.text}" for each in new.now.wrong]
    return [*lines, "Continue it with:", f"  {resume_command(new.session, os.environ).shell}"]


def _session_data(found: "Diagnosis", new: "Repaired | None") -> dict[str, Any]:
    from foldmark.formats.session_format import resume_command

    data = _diagnosis(found)
    if new is not None:
        data["repaired"] = {
            **_diagnosis(new.now),
            "session_id": new.id,
            "left_out": new.left_out,
            "command": resume_command(new.session, os.environ).shell,
        }
    return data


def _diagnosis(found: "Diagnosis") -> dict[str, Any]:
    return {
        "file": str(found.session.path),
        "kind": found.session.kind,
        "lines": found.lines,
        "sent": found.sent,
        "resumable": not any(each.weight == "stops" for each in found.findings),
        "findings": [{"weight": each.weight, "line": each.line, "text": each.text} for each in found.findings],
    }
