"""What can be wrong with a session file, of any kind, and how much it matters [SPEC 8]."""

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from foldmark.core.wording import count
from foldmark.sessions.formats import SessionPath

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
        """Whether the session is not resumed as it was."""
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
        told = [f"{count(stops, 'fault')} in the way of resuming it"] if stops else []
        told += [f"{count(loses, 'fault')} by which something is lost"] if loses else []
        return ", ".join(told)


def sorted_findings(findings: Iterable[Finding]) -> list[Finding]:
    """What weighs most first, then in the file's order."""
    return sorted(findings, key=lambda each: (WEIGHTS.index(each.weight), each.line or 0))
