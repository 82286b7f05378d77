"""Diagnose a rollout of Codex [SPEC 8].

The consequences were observed by resuming such rollouts with Codex 0.169 and recording its requests.
"""

import codecs
from collections import Counter
from collections.abc import Iterator
from typing import Any

from foldmark.core.wording import one_line
from foldmark.sessions.codex import rollouts as codex_rollouts
from foldmark.sessions.codex.records import CALLS, OUTPUTS, TYPES
from foldmark.sessions.doctor import Diagnosis, Finding, sorted_findings, unknown_types
from foldmark.sessions.doctor.codex_databases import compare_databases
from foldmark.sessions.formats import SessionPath
from foldmark.sessions.lenient_json import filled_text, member
from foldmark.sessions.session_file import Broken, SessionFile, SessionFileError, SessionRecord

_KNOWN = {*TYPES, "token_usage_record"}

_COMPACTS_AT = 0.9
"""Codex compacts a resumed session whose context fills at least this share of the model's window."""


def diagnose(session: SessionPath) -> Diagnosis:
    """Return the diagnosis of a rollout. Raises SessionFileError."""
    with SessionFile(session.path) as file:
        reader = _RolloutReader()
        for line in file.lines():
            reader.take(line)
        is_marked = file.wide or file.raw(0).startswith(codecs.BOM_UTF8)
        findings = [*_beginning(session, reader, is_marked=is_marked), *reader.findings(), *compare_databases(session)]
        if not file.ended:
            findings.append(Finding("note", None, "no line end at the end; Codex adds one"))
    return Diagnosis(session, file.line_count, reader.items, sorted_findings(findings))


def _beginning(session: SessionPath, reader: "_RolloutReader", *, is_marked: bool) -> Iterator[Finding]:
    """Report faults of the first record and of the file's name."""
    if is_marked:
        yield Finding("stops", 1, "a byte order mark at the beginning: Codex cannot resume the session")
    elif not reader.begun:
        why = "it does not begin with a session_meta record: Codex cannot resume the session"
        yield Finding("stops", reader.first, why)
    else:
        try:
            codex_rollouts.pieces(session)
        except SessionFileError as error:
            yield Finding("stops", reader.first, str(error))
    if session.path.stem[:8] != "rollout-" or session.id == session.path.stem:
        why = "the file's name is not rollout-<time>-<session id>.jsonl"
        yield Finding("note", None, f"{why}: Codex finds it only under such a name")
    elif reader.begun and reader.id != session.id:
        why = f"the session id in it is {one_line(str(reader.id))[:100]}, not that of the file's name"
        yield Finding("loses", reader.first, f"{why}: the next messages go to that session")


class _RolloutReader:
    """Collects the findings of the lines in one pass. Memory grows with the number of calls."""

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
        """Read one line."""
        is_first = self.first is None
        self.first = self.first or line.line
        if isinstance(line, Broken):
            self._report("loses", line.line, f"{line.reason}: Codex skips the line")
            return
        value, kind = line.value, line.type
        if not isinstance(value, dict):
            self._report("note", line.line, "JSON, but not an object; Codex skips the line")
            return
        payload = value.get("payload")
        if is_first and kind == "session_meta" and isinstance(payload, dict):
            self.begun, self.id = True, payload.get("id")
            self._paginated = payload.get("history_mode") == "paginated"
        self._last = (line.line, type(value.get("ordinal")) is int)
        if kind not in _KNOWN:
            self._unknown[kind] += 1
        elif not isinstance(payload, dict):
            self._report("loses", line.line, "no payload: Codex skips the line")
        elif kind == "response_item":
            self._item(line.line, payload)
        elif kind == "compacted":
            self._compacted(line.line, payload)
        elif kind == "event_msg" and payload.get("type") == "token_count":
            self._count(line.line, payload.get("info"))

    def findings(self) -> Iterator[Finding]:
        """Yield all findings, once all lines are read."""
        yield from self._found
        for call, line in self._calls.items():
            if call not in self._outputs:
                yield Finding(
                    "note", line, f'the call {one_line(call)[:60]} has no output; Codex sends "aborted" for it'
                )
        if self._paginated and self._last and not self._last[1]:
            yield Finding("stops", self._last[0], "the last record has no ordinal: Codex cannot resume the session")
        yield from unknown_types(self._unknown)
        if self._full and self._full[1] > _COMPACTS_AT * self._full[2]:
            line, tokens, window = self._full
            share = f"the context holds {tokens:,} of {window:,} tokens"
            yield Finding("note", line, f"{share}: Codex compacts it first; `foldmark trim` makes room")

    def _report(self, weight: Any, line: int, text: str) -> None:
        self._found.append(Finding(weight, line, text))

    def _item(self, line: int, item: dict[str, Any]) -> None:
        self.items += 1
        kind, call = item.get("type"), filled_text(item.get("call_id"))
        if kind not in (*CALLS, *OUTPUTS):
            return
        if call is None:
            self._report("loses", line, "a call or an output without call_id: Codex skips the line")
            return
        shown = one_line(call)[:60]
        if kind in CALLS:
            if call in self._calls:
                self._report("loses", line, f"a second call with the id {shown}: the provider refuses the request")
            elif call in self._outputs:
                why = f"the call {shown} comes after its output in line {self._outputs[call]}"
                self._report("loses", line, f"{why}: the provider refuses the request")
            self._calls.setdefault(call, line)
            return
        if not isinstance(item.get("output"), str | list | dict):
            why = f"the output of {shown} is neither text nor a list"
            self._report("loses", line, f'{why}: Codex skips the line and sends "aborted"')
        if call in self._outputs:
            self._report("loses", line, f"a second output of the call {shown}: the provider refuses the request")
        elif call not in self._calls:
            self._report("loses", line, f"an output without a call before it ({shown}): it is left out, or refused")
        self._outputs.setdefault(call, line)

    def _compacted(self, line: int, payload: dict[str, Any]) -> None:
        """Replace the calls before a compaction by those of its history."""
        history, beside = payload.get("replacement_history"), payload.get("replacement_history_metadata")
        if isinstance(history, list) and isinstance(beside, list) and len(history) != len(beside):
            why = f"the compaction's history has {len(history)} items, and its metadata {len(beside)}"
            self._report("loses", line, f"{why}: Codex skips it and sends all that was before")
        self._calls.clear()
        self._outputs.clear()
        for item in history if isinstance(history, list) else ():
            call = member(item, "call_id")
            if isinstance(call, str) and item.get("type") in CALLS:
                self._calls[call] = line
            elif isinstance(call, str) and item.get("type") in OUTPUTS:
                self._outputs[call] = line

    def _count(self, line: int, info: Any) -> None:
        tokens, window = member(info, "last_token_usage", "total_tokens"), member(info, "model_context_window")
        if type(tokens) is int and type(window) is int and window > 0:
            self._full = (line, tokens, window)
