"""Diagnose a session of Claude Code [SPEC 8].

The consequences were observed by resuming such sessions with Claude Code 2.1.197 and recording its requests.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import inf

from foldmark.core.wording import count, listing, one_line
from foldmark.formats.claude.edits import edits_in
from foldmark.formats.claude.members import TYPES
from foldmark.formats.claude.records import Fault, Row, rows
from foldmark.formats.claude.resumption import CallBlock, ResumedChain, pair_calls, resume
from foldmark.formats.session_file import SessionFile
from foldmark.formats.session_format import SessionPath
from foldmark.sessions.doctor import Diagnosis, Finding, Weight, sorted_findings, unknown_types
from foldmark.sessions.hook.tail import share_in

_NEARLY = 0.9
"""Share of the window from which on a context counts as nearly full."""

_CANNOT = "Claude Code cannot resume the session"
_LOST = "the records before it are lost on resuming"

_SENT: dict[Fault, tuple[Weight, str, str]] = {
    "no message": ("stops", "it has no message", _CANNOT),
    "message": ("stops", "its message is not an object", _CANNOT),
    "content": ("stops", "its content is neither text nor a list", _CANNOT),
    "plain": ("stops", "the model's content is text, not a list of blocks", _CANNOT),
    "null block": ("stops", "a block of its content is null", _CANNOT),
    "attachment": ("stops", "an attachment without its object", _CANNOT),
    "bad block": (
        "loses",
        "a block of its content cannot be used",
        "it is lost, or the request is refused, or never made",
    ),
    "no id": ("loses", "a result without a call (no id)", "it is left out on resuming"),
    "unsigned": ("loses", "thinking without a signature", "it is sent as it is, and the provider refuses the request"),
}
"""Faults of messages that are sent: weight, fault and consequence."""

_ANYWHERE: dict[Fault, tuple[Weight, str]] = {
    "uuid": ("loses", "it has no uuid: neither it nor any record before it is sent"),
    "constant": ("loses", "NaN or Infinity, which is not JSON: Claude Code skips the line"),
    "mark": ("loses", "a byte order mark in front of it: Claude Code skips the line"),
    "bytes": ("note", "invalid UTF-8, which is read as U+FFFD"),
}


def diagnose(session: SessionPath) -> Diagnosis:
    """Return the diagnosis of a session. Raises SessionFileError."""
    with SessionFile(session.path) as file:
        found = list(rows(file))
        resumed = resume(found)
        findings = [*_lines(found), *_whole(session, found, resumed), *_chain(found, resumed)]
        findings += [*_messages(found, resumed), *_tools(found, resumed), *_fullness(session, file, resumed)]
        if file.wide:
            findings.append(Finding("stops", None, "UTF-16 or UTF-32: Claude Code reads UTF-8 only"))
        if not file.ended:
            findings.append(Finding("note", None, "no line end at the end; Claude Code adds one"))
    said = sum(row.said for row in resumed.order)
    return Diagnosis(session, file.line_count, said, sorted_findings(findings))


def _lines(found: Sequence[Row]) -> Iterator[Finding]:
    """Report lines that are not records, and records of unknown types."""
    for row in found:
        match row.state:
            case "broken":
                yield Finding("loses", row.line, f"{row.reason}: Claude Code skips the line")
            case "null":
                yield Finding("stops", row.line, "the line is `null`: Claude Code cannot resume the session")
            case "value":
                yield Finding("note", row.line, "JSON, but not an object; Claude Code skips the line")
        for fault in row.faults:
            if fault in _ANYWHERE and not (row.aside and fault == "uuid"):
                yield Finding(_ANYWHERE[fault][0], row.line, _ANYWHERE[fault][1])
    yield from unknown_types(Counter(row.type for row in found if row.state == "record" and row.type not in TYPES))


def _whole(session: SessionPath, found: Sequence[Row], resumed: ResumedChain[Row]) -> Iterator[Finding]:
    """Report findings about the whole file."""
    if not resumed.chain and not any(row.said and not row.aside for row in found):  # without uuids the last is sent
        is_subagents = any(row.said for row in found)
        why = "every message is a subagent's" if is_subagents else "there is no message in it"
        yield Finding("stops", None, f"{why}: Claude Code does not take it for a session")
    ids = Counter(row.session for row in found if row.session)
    if len(ids) > 1:
        yield Finding("note", None, f"{len(ids)} session ids: {listing(map(one_line, ids), 5)}")
    elif ids and session.id not in ids:
        own = one_line(next(iter(ids)))[:100]
        yield Finding("note", None, f"the session id in it is {own}; Claude Code uses the file's name")
    main = [row for row in found if row.chained and not row.aside and not row.boundary and not row.compacts]
    roots = [row.line for row in main if row.parent is None and "parent" not in row.faults]
    if len(roots) > 1:
        where = f"{len(roots)} records without a parent (lines {listing(roots, 8)})"
        yield Finding("note", None, f"{where}: only the records below one of them are sent")
    inside = set(resumed.order)
    beside = [row.line for row in found if row.said and not row.aside and row not in inside]
    if beside:
        where = f"other branches, or before a compaction; the last in line {beside[-1]}"
        yield Finding("note", None, f"{count(len(beside), 'message')} not sent on resuming: {where}")


def _chain(found: Sequence[Row], resumed: ResumedChain[Row]) -> Iterator[Finding]:
    """Report places where the chain of parents ends early."""
    links, inside = resumed.links, {*resumed.chain, *resumed.newest}
    main = [row for row in found if row.chained and not row.aside]
    above = {below: row for row, below in pairwise(resumed.chain)}
    for row in main:
        loses = row in inside and row is not main[0]
        ending = _LOST if loses else "nothing is lost"
        if "parent" in row.faults:
            yield Finding("loses" if loses else "note", row.line, f"it has no parentUuid: {ending}")
        elif row.parent and links.is_missing(row):
            where = f"its parent {one_line(row.parent)[:50]} is missing"
            if (instead := above.get(row)) is not None:
                why = f"{where}: Claude Code goes on with line {instead.line}, which precedes it in time"
                yield Finding("loses" if instead.line > row.line else "note", row.line, why)
                continue
            yield Finding("loses" if loses else "note", row.line, f"{where}: {ending}")
    seen: dict[str, Row] = {}
    for row in found:
        if not row.uuid or not (row.chained or row.passing):
            continue
        other = seen.setdefault(row.uuid, row)
        if other is not row and not row.aside and (row.chained or other.chained):
            why = f"its uuid is that of line {other.line} as well"
            yield Finding("loses", row.line, f"{why}: one of the two is lost on resuming")
    for chain in (resumed.chain, resumed.newest):
        parent = links.parent(chain[0]) if chain and not chain[0].boundary else None
        if parent is not None and parent in chain:
            yield Finding("loses", chain[0].line, f"its ancestors form a loop (line {parent.line}): {_LOST}")
            break
    aside = [row.line for row in resumed.chain if row.aside]
    if aside:
        where = f"{count(len(aside), 'record')} of a subagent within the session (lines {listing(aside, 8)})"
        yield Finding("note", aside[0], f"{where}: sent all the same")


def _messages(found: Sequence[Row], resumed: ResumedChain[Row]) -> Iterator[Finding]:
    """Yield a finding for each fault in a single record."""
    inside = set(resumed.order)
    for row in found:
        for fault in row.faults:
            if fault not in _SENT:
                continue
            weight, wrong, then = _SENT[fault]
            if row in inside or _is_met(row, fault):
                yield Finding(weight, row.line, f"{wrong}: {then}")
            else:
                yield Finding("note", row.line, f"{wrong}; it is not sent")
    last = resumed.chain[-1:]
    answer = [row for row in resumed.chain if row.is_answer][-1:]
    if last and "time" in last[0].faults:
        why = "the last record has no timestamp: Claude Code does not find the session"
        yield Finding("stops", last[0].line, why)
    if answer and "model" in answer[0].faults:
        yield Finding("stops", answer[0].line, "the last answer names no model: Claude Code waits forever")
    for fault, named in (("time", "timestamp"), ("model", "model")):
        lines = [row.line for row in found if fault in row.faults and row not in (*last, *answer)]
        if lines:
            yield Finding("note", lines[0], f"{count(len(lines), 'record')} without a {named}")


def _is_met(row: Row, fault: Fault) -> bool:
    """Return True if Claude Code runs into the fault even if the record is not sent.

    This happens while it searches for the results of parallel calls.
    """
    if row.type == "user":
        return row.parent is not None and fault in ("no message", "null block")
    return row.is_answer and fault == "no message"


def _tools(found: Sequence[Row], resumed: ResumedChain[Row]) -> Iterator[Finding]:
    """Report calls and results that do not belong together. What a plugin's edit writes again is no damage."""
    pairs = pair_calls(resumed.order)
    edited = next((found[edit.boundary].line for edit in edits_in(found)), inf)
    repeated = [call for call in pairs.repeated if call.row.line < edited]
    answered = {call.id for call in pairs.repeated}
    late = [each for each in pairs.late if each.row.line < edited]
    orphans = [each for each in pairs.orphans if each.row.line < edited or each.id not in answered]
    faults: list[tuple[Weight, list[CallBlock], str]] = [
        # Not damage: an interruption leaves such calls, and resuming leaves them out.
        ("note", pairs.unanswered, "the call {} has no result: it is left out on resuming, with its whole line"),
        ("loses", pairs.early, "a result comes before its call {}: both are lost"),
        ("loses", late, "a result is not in the message behind its call {}: it is left out on resuming"),
        ("loses", orphans, "a result without a call ({}): it is left out on resuming"),
        ("loses", repeated, "a second call with the id {}: it is lost on resuming"),
    ]
    for weight, blocks, text in faults:
        for row, _, call in blocks:
            yield Finding(weight, row.line, text.format(one_line(call)[:60] or "no id"))


def _fullness(session: SessionPath, file: SessionFile, resumed: ResumedChain[Row]) -> Iterator[Finding]:
    """Report that the context is full or nearly full."""
    last = next((row for row in reversed(resumed.order) if row.said), None)
    for row in resumed.order:
        if "full" in row.faults:
            why = "Claude Code reported here that the context is full"
            yield Finding("loses" if row is last else "note", row.line, why)
    full = share_in(file.part, file.size, [session.id])
    if full is not None and full.tokens > _NEARLY * full.window:
        share = f"the context holds {full.tokens:,} of about {full.window:,} tokens"
        yield Finding("note", None, f"{share}: `foldmark trim` makes room")
