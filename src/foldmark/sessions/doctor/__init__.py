"""What keeps a session from being resumed, what is lost when it is, and a repaired copy [SPEC 8]."""

from collections.abc import Iterable, Mapping
from typing import Literal

from msgspec import Struct

from foldmark.core.wording import count, listing, one_line
from foldmark.sessions.formats import SessionPath, format_named

Weight = Literal["stops", "loses", "note"]
"""The session cannot be resumed; something of it is lost when it is; it is as good as it was."""

WEIGHTS: tuple[Weight, ...] = ("stops", "loses", "note")


class Finding(Struct, frozen=True):
    """One thing about a file, in one sentence; `line` counts from 1, None where it is about the whole file."""

    weight: Weight
    line: int | None
    text: str

    @property
    def matters(self) -> bool:
        """True if the session is not resumed as it was."""
        return self.weight != "note"


class Diagnosis(Struct, frozen=True):
    """What is wrong with a session, what weighs most first.

    `lines` counts blank ones too; `sent` are the messages that a resumed session goes on with.
    """

    session: SessionPath
    lines: int
    sent: int
    findings: list[Finding]

    @property
    def wrong(self) -> list[Finding]:
        """What matters for resuming."""
        return [each for each in self.findings if each.matters]

    @property
    def verdict(self) -> str:
        """All of it in a few words."""
        stops = sum(each.weight == "stops" for each in self.findings)
        loses = len(self.wrong) - stops
        if not self.wrong:
            return "nothing stands in the way of resuming it"
        parts = [f"{count(stops, 'fault')} in the way of resuming it"] if stops else []
        parts += [f"{count(loses, 'fault')} by which something is lost"] if loses else []
        return ", ".join(parts)


def diagnose(session: SessionPath) -> Diagnosis:
    """Return what is wrong with a session. Raises SessionFileError if it cannot be read at all."""
    found: Diagnosis = format_named(session.kind).diagnose(session)
    return found


def sorted_findings(findings: Iterable[Finding]) -> list[Finding]:
    """Return what weighs most first, then in the file's order."""
    return sorted(findings, key=lambda each: (WEIGHTS.index(each.weight), each.line or 0))


def unknown_types(numbers: Mapping[str, int]) -> Iterable[Finding]:
    """Yield a note about records of types that nobody knows, given how many there are of each."""
    if numbers:
        ordered = sorted(numbers.items(), key=lambda item: -item[1])
        names = listing((f"{one_line(kind)[:50]} ({number})" for kind, number in ordered), 8)
        total = count(sum(numbers.values()), "record")
        yield Finding("note", None, f"{total} of types that Foldmark does not know: {names}")
