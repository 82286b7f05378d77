"""Compactions of a session: where they part the main chain, and what each of them leaves as it was [SPEC 8].

A compaction is a user record that holds a summary (`isCompactSummary`). In front of it newer versions of Claude Code
write a boundary (`compact_boundary`) without a parent, whose `compactMetadata` may name records that stay: behind the
summary (the last messages before the compaction), or in front of it (the first ones). What is written next continues
the last record behind the summary, so that its parent may stand in front of the boundary. Without messages in front of
it, as where a session goes on in a new file, there is nothing that a summary could stand for; nor is there a summary
where only the boundary was written.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from foldmark.sessions.entries import PreservedRecords, RecordEntry

_WALKS = 20
"""How many ways as long as the session are followed at most, for all compactions together."""


class Compaction(Struct, frozen=True):
    """What a summary leaves as it was, by uuid; `behind` it or in front of it."""

    stays: frozenset[str] = frozenset()
    behind: bool = False


class Section(Struct, frozen=True):
    """Records of the main chain up to the next compaction, and the summary that they follow.

    `summary` is None for the first section; `keeps` are lines before the summary that it does not stand for.
    """

    entries: list[RecordEntry]
    summary: RecordEntry | None = None
    keeps: frozenset[int] = frozenset()


def compactions(entries: Sequence[RecordEntry]) -> dict[int, Compaction]:
    """The compactions outside of sidechains, by the line of the summary."""
    found = {}
    known: dict[str, RecordEntry] = {}
    steps = _WALKS * len(entries)
    for entry in entries:
        if entry.side is not None:
            continue
        if entry.compacts:
            boundary = entry if entry.preserved else known.get(entry.parent or "")
            preserved = boundary.preserved if boundary is not None else None
            if boundary is None or preserved is None:
                found[entry.line] = Compaction()
            else:
                way, walked = _way(preserved, known, steps)
                steps -= walked
                stays = frozenset(uuid for uuid in (*preserved.uuids, *way) if uuid in known)
                found[entry.line] = Compaction(stays, preserved.anchor != boundary.uuid)
        if entry.uuid is not None:
            known[entry.uuid] = entry
    return found


def parted(main: Sequence[RecordEntry], found: Mapping[int, Compaction]) -> list[Section]:
    """The main chain as sections; every entry is in one of them, a result in that of its call."""
    sections = [Section([])]
    lines = {entry.uuid: entry.line for entry in main if entry.uuid is not None}
    said = False
    for entry in main:
        if entry.line in found and said:
            sections.append(_after(entry, found[entry.line], sections[-1], lines))
        else:
            sections[-1].entries.append(entry)
        said |= entry.role is not None
    if len(sections) > 1:
        _results_to_calls(sections)
    return sections


def _after(summary: RecordEntry, compaction: Compaction, before: Section, lines: Mapping[str, int]) -> Section:
    """The section that `summary` begins; what is to stand behind the summary moves into it."""
    behind: list[RecordEntry] = []
    if compaction.behind and compaction.stays:
        behind = [entry for entry in before.entries if entry.uuid in compaction.stays]
        before.entries[:] = [entry for entry in before.entries if entry.uuid not in compaction.stays]
    keeps = (lines[uuid] for uuid in compaction.stays if uuid in lines)
    return Section(behind, summary, frozenset(keeps).difference(entry.line for entry in behind))


def _way(preserved: PreservedRecords, known: Mapping[str, RecordEntry], most: int) -> tuple[list[str], int]:
    """The uuids from the tail up to the head, none if the way does not lead there; and how many steps were made."""
    found: list[str] = []
    entry = known.get(preserved.tail or "")
    while entry is not None and entry.uuid is not None and len(found) < most:
        found.append(entry.uuid)
        if entry.uuid == preserved.head:
            return found, len(found)
        entry = known.get(entry.parent or "")
    return [], len(found)


def _results_to_calls(sections: Sequence[Section]) -> None:
    """A result that was written after a compaction goes back to its call in front of it: it stays with it."""
    home = {call: at for at, section in enumerate(sections) for entry in section.entries for call in entry.calls}
    for at, section in enumerate(sections):
        stays: list[RecordEntry] = []
        for entry in section.entries:
            call_at = max((home.get(call, at) for call in entry.results), default=at)
            (sections[call_at].entries if call_at < at else stays).append(entry)
        section.entries[:] = stays
