"""What is wrong with a rollout of Codex's [SPEC 8].

What it means was found out by resuming such rollouts with Codex 0.169 against a server that kept the requests.
"""

import codecs
from collections import Counter
from collections.abc import Iterator
from typing import Any

from foldmark.core.wording import count, listing, one_line
from foldmark.sessions.codex import rollouts as codex_rollouts
from foldmark.sessions.codex.items import CALLS, OUTPUTS, TYPES
from foldmark.sessions.doctor.diagnosis_codex_databases import databases_compared
from foldmark.sessions.doctor.findings import Diagnosis, Finding, sorted_findings
from foldmark.sessions.formats import SessionPath
from foldmark.sessions.session_file import Broken, SessionFile, SessionFileError, SessionRecord

_KNOWN = {*TYPES, "token_usage_record"}

_COMPACTS_AT = 0.9
"""Codex compacts a session that it resumes from this share of the model's window on."""


def examine(session: SessionPath) -> Diagnosis:
    """What is wrong with the rollout. Raises SessionFileError."""
    with SessionFile(session.path) as file:
        ended = not file.size or file.raw(file.size - 1) == b"\n"
        marked = file.wide or file.raw(0).startswith(codecs.BOM_UTF8)
        reading = _RolloutReader()
        for line in file.lines():
            reading.take(line)
    findings = [*_beginning(session, reading, marked=marked), *reading.ended(), *databases_compared(session)]
    if not ended:
        findings.append(Finding("note", None, "no line end at the end; Codex puts one there"))
    return Diagnosis(session, file.line_count, reading.items, sorted_findings(findings))


def _beginning(session: SessionPath, reading: "_RolloutReader", *, marked: bool) -> Iterator[Finding]:
    """The first record, and the name of the file."""
    if marked:
        yield Finding("stops", 1, "a byte order mark at the beginning: Codex cannot resume the session")
    elif not reading.begun:
        why = "it does not begin with a session_meta record: Codex cannot resume the session"
        yield Finding("stops", reading.first, why)
    else:
        try:
            codex_rollouts.pieces(session)
        except SessionFileError as error:
            yield Finding("stops", reading.first, str(error))
    if session.path.stem[:8] != "rollout-" or session.id == session.path.stem:
        told = "the file's name is not rollout-<time>-<session id>.jsonl"
        yield Finding("note", None, f"{told}: Codex finds it only under such a name")
    elif reading.begun and reading.id != session.id:
        told = f"the session id in it is {one_line(str(reading.id))[:100]}, not that of the file's name"
        yield Finding("loses", reading.first, f"{told}: what is said next goes to that session")


class _RolloutReader:
    """The findings of the lines, in one pass; memory follows the number of calls."""

    def __init__(self) -> None:
        self.begun = False
        self.first: int | None = None
        self.id: Any = None
        self.items = 0
        self._found: list[Finding] = []
        self._paginated = False
        self._last: tuple[int, bool] | None = None
        self._calls: dict[str, int] = {}
        self._outputs: dict[str, int] = {}
        self._unknown: Counter[str] = Counter()
        self._full: tuple[int, int, int] | None = None

    def take(self, line: SessionRecord | Broken) -> None:
        """One line."""
        if isinstance(line, Broken):
            self.first = self.first or line.line
            self._say("loses", line.line, f"{line.reason}: Codex passes over the line")
            return
        value = line.value
        payload = value.get("payload") if isinstance(value, dict) else None
        if not isinstance(value, dict):
            self.first = self.first or line.line
            self._say("note", line.line, "JSON, but no object; Codex passes over the line")
            return
        kind = line.type
        if self.first is None and kind == "session_meta" and isinstance(payload, dict):
            self.begun, self.id = True, payload.get("id")
            self._paginated = payload.get("history_mode") == "paginated"
        self.first = self.first or line.line
        self._last = (line.line, type(value.get("ordinal")) is int)
        if kind not in _KNOWN:
            self._unknown[line.type] += 1
        elif not isinstance(payload, dict):
            self._say("loses", line.line, "no payload: Codex passes over the line")
        elif kind == "response_item":
            self._item(line.line, payload)
        elif kind == "compacted":
            self._compacted(line.line, payload)
        elif kind == "event_msg" and payload.get("type") == "token_count":
            self._count(line.line, payload.get("info"))

    def ended(self) -> Iterator[Finding]:
        """All findings, now that all lines were read."""
        yield from self._found
        for call, line in self._calls.items():
            if call not in self._outputs:
                told = f"the call {one_line(call)[:60]} has no output"
                yield Finding("note", line, f'{told}; Codex sends "aborted" for it')
        if self._paginated and self._last and not self._last[1]:
            yield Finding("stops", self._last[0], "the last record has no ordinal: Codex cannot resume the session")
        if self._unknown:
            names = listing((f"{one_line(kind)[:50]} ({number})" for kind, number in self._unknown.most_common()), 8)
            told = f"{count(self._unknown.total(), 'record')} of types that Foldmark does not know: {names}"
            yield Finding("note", None, told)
        if self._full and self._full[1] > _COMPACTS_AT * self._full[2]:
            line, tokens, window = self._full
            told = f"the context holds {tokens:,} of {window:,} tokens: Codex compacts it first"
            yield Finding("note", line, f"{told}; `foldmark trim` makes room")

    def _say(self, weight: Any, line: int, text: str) -> None:
        self._found.append(Finding(weight, line, text))

    def _item(self, line: int, item: dict[str, Any]) -> None:
        self.items += 1
        kind, call = item.get("type"), item.get("call_id")
        if kind not in (*CALLS, *OUTPUTS):
            return
        if not isinstance(call, str) or not call:
            self._say("loses", line, "a call or an output without call_id: Codex passes over the line")
            return
        shown = one_line(call)[:60]
        if kind in CALLS:
            if call in self._calls:
                self._say("loses", line, f"a second call with the id {shown}: the provider refuses the request")
            elif call in self._outputs:
                told = f"the call {shown} stands behind its output in line {self._outputs[call]}"
                self._say("loses", line, f"{told}: the provider refuses the request")
            self._calls.setdefault(call, line)
            return
        if not isinstance(item.get("output"), str | list | dict):
            told = f"the output of {shown} is neither a text nor a list"
            self._say("loses", line, f'{told}: Codex passes over the line and sends "aborted"')
        if call in self._outputs:
            self._say("loses", line, f"a second output of the call {shown}: the provider refuses the request")
        elif call not in self._calls:
            self._say("loses", line, f"an output without a call before it ({shown}): it is left out, or refused")
        self._outputs.setdefault(call, line)

    def _compacted(self, line: int, payload: dict[str, Any]) -> None:
        """What is sent instead of everything before."""
        history, beside = payload.get("replacement_history"), payload.get("replacement_history_metadata")
        if isinstance(history, list) and isinstance(beside, list) and len(history) != len(beside):
            told = f"the compaction's history has {len(history)} items, and its metadata {len(beside)}"
            self._say("loses", line, f"{told}: Codex passes over it and sends all that was before")
        self._calls.clear()
        self._outputs.clear()
        for item in history if isinstance(history, list) else ():
            call = item.get("call_id") if isinstance(item, dict) else None
            if isinstance(call, str) and item.get("type") in CALLS:
                self._calls[call] = line
            elif isinstance(call, str) and item.get("type") in OUTPUTS:
                self._outputs[call] = line

    def _count(self, line: int, info: Any) -> None:
        last = info.get("last_token_usage") if isinstance(info, dict) else None
        tokens = last.get("total_tokens") if isinstance(last, dict) else None
        window = info.get("model_context_window") if isinstance(info, dict) else None
        if type(tokens) is int and type(window) is int and window > 0:
            self._full = (line, tokens, window)
