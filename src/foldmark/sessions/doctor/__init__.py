"""Diagnose a session (faults that prevent resuming it, losses on resuming it) and write a repaired copy [SPEC 8]."""

from collections.abc import Iterable, Mapping
from typing import Literal

from msgspec import Struct

from foldmark.core.wording import count, listing, one_line
from foldmark.formats.session_format import SessionPath, format_named

Weight = Literal["stops", "loses", "note"]
"""The weight of a finding: it prevents resuming, it loses something on resuming, or it has no effect."""

WEIGHTS: tuple[Weight, ...] = ("stops", "loses", "note")


class Finding(Struct, frozen=True):
    """A finding about a file, in one sentence. `line` counts from 1; None means the whole file."""

    weight: Weight
    line: int | None
    text: str

    @property
    def matters(self) -> bool:
        """True if resuming the session fails or loses something."""
        return self.weight != "note"


class Diagnosis(Struct, frozen=True):
    """The findings about a session, most serious first. `lines` includes blank lines. `sent` is the number of messages
    that are sent on resuming the session."""

    session: SessionPath
    lines: int
    sent: int
    findings: list[Finding]

    @property
    def wrong(self) -> list[Finding]:
        """The findings that matter for resuming."""
        return [each for each in self.findings if each.matters]

    @property
    def verdict(self) -> str:
        """The result in a few words."""
        stops = sum(each.weight == "stops" for each in self.findings)
        loses = len(self.wrong) - stops
        if not self.wrong:
            return "it can be resumed without loss"
        parts = [f"it cannot be resumed ({count(stops, 'fault')})"] if stops else []
        parts += [f"something is lost when it is resumed ({count(loses, 'fault')})"] if loses else []
        return ", ".join(parts)


def diagnose(session: SessionPath) -> Diagnosis:
    """Return the diagnosis of a session. Raises SessionFileError if it cannot be read at all."""
    found: Diagnosis = format_named(session.kind).diagnose(session)
    return found


def sorted_findings(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings, most serious first, then in file order."""
    return sorted(findings, key=lambda each: (WEIGHTS.index(each.weight), each.line or 0))


def unknown_types(numbers: Mapping[str, int]) -> Iterable[Finding]:
    """Yield a note about records of unknown types, given the number of each."""
    if numbers:
        total = count(sum(numbers.values()), "record")
        yield Finding("note", None, f"{total} of types that Foldmark does not know: {types_listed(numbers)}")


def types_listed(numbers: Mapping[str, int]) -> str:
    """Return types of records with their numbers, the most frequent first."""
    ordered = sorted(numbers.items(), key=lambda item: -item[1])
    return listing((f"{one_line(kind)[:50]} ({number})" for kind, number in ordered), 8)
