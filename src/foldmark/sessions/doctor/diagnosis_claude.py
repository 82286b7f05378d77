"""What is wrong with a session of Claude Code's [SPEC 8].

What it means was found out by resuming such sessions with Claude Code 2.1.197 against a server that kept the requests.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from foldmark.core.wording import count, listing, one_line
from foldmark.sessions.claude.pairs import Pairs, paired
from foldmark.sessions.claude.resumption import Links, ResumedChain, sent
from foldmark.sessions.claude.rows import CHAINED, Fault, Row, rows
from foldmark.sessions.doctor.findings import Diagnosis, Finding, Weight, sorted_findings
from foldmark.sessions.formats import SessionPath
from foldmark.sessions.hook.tail import used, window_of
from foldmark.sessions.session_file import SessionFile

KNOWN = CHAINED | {
    "summary", "last-prompt", "custom-title", "ai-title", "tag", "relocated", "agent-name", "agent-color",
    "agent-setting", "mode", "permission-mode", "isolation-latch", "worktree-state", "pr-link", "bridge-session",
    "file-history-snapshot", "attribution-snapshot", "content-replacement", "fork-context-ref", "queue-operation",
    "progress", "marble-origami-commit", "marble-origami-snapshot", "marble-origami-reset",
}  # fmt: skip

_CANNOT = "Claude Code cannot resume the session"
_SENT: dict[Fault, tuple[Weight, str, str]] = {
    "no message": ("stops", "it has no message", _CANNOT),
    "message": ("stops", "its message is no object", _CANNOT),
    "content": ("stops", "its content is no text and no list", _CANNOT),
    "plain": ("stops", "the model's content is a text and no list of blocks", _CANNOT),
    "null block": ("stops", "a block of its content is null", _CANNOT),
    "attachment": ("stops", "an attachment without its object", _CANNOT),
    "bad block": (
        "loses",
        "a block of its content cannot be used",
        "it is lost, or the request is refused, or never made",
    ),
    "unsigned": ("loses", "thinking without a signature", "it is sent so, and the provider refuses the request"),
}
"""Faults of messages that are sent: how bad it is, what is wrong, and what comes of it."""

_ANYWHERE: dict[Fault, tuple[Weight, str]] = {
    "uuid": ("loses", "it has no uuid: it is not sent, nor what stands before it"),
    "constant": ("loses", "NaN or Infinity, which is not JSON: Claude Code passes over the line"),
    "mark": ("loses", "a byte order mark in front of it: Claude Code passes over the line"),
    "bytes": ("note", "invalid UTF-8, which is read as U+FFFD"),
}


def examine(session: SessionPath) -> Diagnosis:
    """What is wrong with the session. Raises SessionFileError."""
    with SessionFile(session.path) as file:
        found = list(rows(file))
        ended = not file.size or file.raw(file.size - 1) == b"\n"
        wide = file.wide
        links = Links(found)
        resumed = sent(found, links)
        fullness = list(_fullness(session, file, resumed))
    findings = [*_lines(found), *_whole(session, found, resumed), *_chain(found, resumed, links)]
    findings += [*_messages(found, resumed), *_tools(paired(resumed.order)), *fullness]
    if wide:
        findings.append(Finding("stops", None, "UTF-16 or UTF-32: Claude Code reads UTF-8 only"))
    if not ended:
        findings.append(Finding("note", None, "no line end at the end; Claude Code puts one there"))
    said = sum(row.said for row in resumed.order)
    return Diagnosis(session, file.line_count, said, sorted_findings(findings))


def _lines(found: Sequence[Row]) -> Iterator[Finding]:
    """Lines that are no records, and kinds of records that nobody knows."""
    unknown = Counter(row.type for row in found if row.state == "record" and row.type not in KNOWN)
    for row in found:
        match row.state:
            case "broken":
                yield Finding("loses", row.line, f"{row.reason}: Claude Code passes over the line")
            case "null":
                yield Finding("stops", row.line, "the line is `null`: Claude Code cannot resume the session")
            case "value":
                yield Finding("note", row.line, "JSON, but no object; Claude Code passes over the line")
        for fault in row.faults:
            if fault in _ANYWHERE and not (row.side and fault == "uuid"):
                yield Finding(_ANYWHERE[fault][0], row.line, _ANYWHERE[fault][1])
    if unknown:
        names = listing((f"{one_line(kind)[:50]} ({number})" for kind, number in unknown.most_common()), 8)
        yield Finding("note", None, f"{count(unknown.total(), 'record')} of types that Foldmark does not know: {names}")


def _whole(session: SessionPath, found: Sequence[Row], resumed: ResumedChain) -> Iterator[Finding]:
    """What is about all of the file."""
    if not resumed.chain and not any(row.said and not row.side for row in found):  # without uuids the last is sent
        if any(row.said for row in found):
            why = "every message is a subagent's: Claude Code does not take it for a session"
        else:
            why = "there is no message in it: Claude Code does not take it for a session"
        yield Finding("stops", None, why)
    ids = Counter(row.session for row in found if row.session)
    if len(ids) > 1:
        yield Finding("note", None, f"{len(ids)} session ids: {listing(map(one_line, ids), 5)}")
    elif ids and session.id not in ids:
        told = f"the session id in it is {one_line(next(iter(ids)))[:100]}"
        yield Finding("note", None, f"{told}; Claude Code goes by the file's name")
    roots = [row for row in found if _is_root(row)]
    if len(roots) > 1:
        told = f"{len(roots)} records without a parent (lines {listing((row.line for row in roots), 8)})"
        yield Finding("note", None, f"{told}: only what follows from one of them is sent")
    inside = set(resumed.order)
    beside = [row.line for row in found if row.said and not row.side and row not in inside]
    if beside:
        told = f"{count(len(beside), 'message')} not sent on resuming"
        yield Finding("note", None, f"{told}: other branches, or before a compaction; the last in line {beside[-1]}")


def _is_root(row: Row) -> bool:
    begins = row.boundary or row.summary
    return row.chained and not row.side and row.parent is None and "parent" not in row.faults and not begins


def _chain(found: Sequence[Row], resumed: ResumedChain, links: Links) -> Iterator[Finding]:
    """Where the way upwards breaks off."""
    first = next((row for row in found if row.chained and not row.side), None)
    inside = {*resumed.chain, *resumed.newest}
    lost = "what stands before it is lost on resuming"
    for row in found:
        if not row.chained or row.side:
            continue
        weight: Weight = "loses" if row in inside and row is not first else "note"
        ending = lost if weight == "loses" else "nothing is lost by it"
        if "parent" in row.faults:
            yield Finding(weight, row.line, f"it has no parentUuid: {ending}")
        elif row.parent and links.parent(row) is None and links.passed(row.parent):
            yield Finding(weight, row.line, f"its parent {one_line(row.parent)[:50]} is nowhere: {ending}")
    seen: dict[str, Row] = {}
    for row in found:
        if not row.uuid or not (row.chained or row.type == "progress"):
            continue
        other = seen.setdefault(row.uuid, row)
        if other is not row and not row.side and (row.chained or other.chained):
            told = f"its uuid is that of line {other.line} as well: one of the two is lost on resuming"
            yield Finding("loses", row.line, told)
    for chain in (resumed.chain, resumed.newest):
        if chain and not chain[0].boundary and (parent := links.parent(chain[0])) is not None:
            yield Finding("loses", chain[0].line, f"its parents are a loop (line {parent.line}): {lost}")
            break
    aside = [row.line for row in resumed.chain if row.side]
    if aside:
        told = f"{count(len(aside), 'record')} of a subagent within the session (lines {listing(aside, 8)})"
        yield Finding("note", aside[0], f"{told}: sent all the same")


def _messages(found: Sequence[Row], resumed: ResumedChain) -> Iterator[Finding]:
    """What is wrong with single records."""
    inside = set(resumed.order)
    for row in found:
        for fault in row.faults:
            if fault not in _SENT:
                continue
            weight, wrong, then = _SENT[fault]
            if row in inside or _met(row, fault):
                yield Finding(weight, row.line, f"{wrong}: {then}")
            else:
                yield Finding("note", row.line, f"{wrong}; it is not sent")
    if resumed.chain and "time" in resumed.chain[-1].faults:
        told = "the last record has no timestamp: Claude Code does not find the session"
        yield Finding("stops", resumed.chain[-1].line, told)
    answers = [row for row in resumed.chain if row.type == "assistant"]
    if answers and "model" in answers[-1].faults:
        yield Finding("stops", answers[-1].line, "the last answer names no model: Claude Code waits for ever")
    told_already = [*resumed.chain[-1:], *answers[-1:]]
    for fault, named in (("time", "timestamp"), ("model", "model")):
        lines = [row.line for row in found if fault in row.faults and row not in told_already]
        if lines:
            yield Finding("note", lines[0], f"{count(len(lines), 'record')} without a {named}")


def _met(row: Row, fault: Fault) -> bool:
    """Whether Claude Code meets a fault of any record, sent or not, in search of the results of parallel calls."""
    if row.type == "user":
        return row.parent is not None and fault in ("no message", "null block")
    return row.type == "assistant" and fault == "no message"


def _tools(pairs: Pairs) -> Iterator[Finding]:
    """Calls and results that do not belong together."""
    for row, _, call in pairs.unanswered:
        # An interruption leaves such calls behind, and resuming leaves them out: that is no damage.
        told = f"the call {one_line(call)[:60]} has no result: it is left out on resuming, with its whole line"
        yield Finding("note", row.line, told)
    for row, _, call in pairs.early:
        yield Finding("loses", row.line, f"a result stands before its call {one_line(call)[:60]}: both are lost")
    for row, _, call in pairs.orphans:
        told = f"a result without a call ({one_line(call)[:60] or 'no id'}): it is left out on resuming"
        yield Finding("loses", row.line, told)
    for slot in pairs.repeated:
        told = f"a second call with the id {one_line(slot.id)[:60]}: it is lost on resuming"
        yield Finding("loses", slot.row.line, told)


def _fullness(session: SessionPath, file: SessionFile, resumed: ResumedChain) -> Iterator[Finding]:
    last = next((row for row in reversed(resumed.order) if row.said), None)
    for row in resumed.order:
        if "full" in row.faults:
            told = "Claude Code has written here that the context is full"
            yield Finding("loses" if row is last else "note", row.line, told)
    for row in reversed(resumed.order):
        if row.type == "assistant" and (tokens := _tokens(file, row)):
            window = window_of({}, (session.id,), tokens, None)
            if tokens > 0.9 * window:
                told = f"the context holds {tokens:,} of about {window:,} tokens: `foldmark trim` makes room"
                yield Finding("note", row.line, told)
            return


def _tokens(file: SessionFile, row: Row) -> int:
    """Return the tokens in the context after an answer; 0 if it does not say."""
    message = file.reread(row.line, row.offset).value.get("message")
    usage = message.get("usage") if isinstance(message, dict) else None
    return used(usage) if isinstance(usage, dict) else 0
