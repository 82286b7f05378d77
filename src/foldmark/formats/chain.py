"""Plan an import: group records into turns and branches, order them, and select those that stay visible [SPEC 8].

Every format lists its records as `RecordEntry` and says which of them are active (`ActiveRecords`), so this module does
not depend on the agent that wrote a session.

- The active records are those that the client sends when it resumes the session, and those of which it sends a summary.
  The format orders them. Records without a message stay in place, behind the active record that precedes them.
- A branch that is neither active nor in a sidechain is abandoned: a person went back and wrote another prompt.
- Branches stay whole. Each abandoned branch and each sidechain becomes separate turns, which follow the turn of the
  main chain in which it began. In them, a record continues the record that its parentUuid names: the last one with
  that uuid that precedes it in the file, or else the first one that follows it, because Claude Code may write a result
  before its call. Otherwise (no parent, an unknown one, one in a sidechain, or one that itself continues this record)
  it continues the main chain's previous record. So there are no loops.
- In an abandoned branch or a sidechain, the records stand as the client would send them (`sent`): those of one API
  message together, followed by the results of its calls.
- A compaction (a summary that replaces earlier messages) on the main chain ends a turn and is its own turn. In
  another branch it is a message. Its boundary may name preserved records: after the summary (the last messages before
  the compaction) or before it (the first ones). If no messages precede the summary, as in a new file of a session, it
  replaces nothing, and is a message unless it holds a `whole` history.
- A compaction on the main chain may have no summary: then what goes on is written again behind the boundary, or the
  boundary preserves it. Other records before the boundary are an abandoned branch.
- An edit writes the messages that stay again. Such a copy is the record that it repeats (`RecordEntry.copies`), and is
  in no turn of its own. What an edit took out of the context stays in its place, and its turn leaves if nothing of it
  is left.
- A turn begins with a prompt, or with what the client told before it, once the previous turn is answered and none of
  its calls is still to get a result. What the client attached to a prompt stands before it, directly behind the answer
  or result before it, as the client sends it: also before the summary of a compaction.
  Records that Claude Code injects directly after a tool's result, and its note of an interruption, do not begin a
  turn, because the model was not idle.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from heapq import merge
from operator import itemgetter

from msgspec import Struct
from msgspec.structs import replace

from foldmark.formats.messages import NOWHERE, AnswerUsage, ChainRecord, Leaf, RecordEntry
from foldmark.formats.sent import in_sending_order, messages_of

_WALKS = 20
"""Maximum number of steps upwards in search of loops, as a multiple of the session's length."""


class Compaction(Struct, frozen=True):
    """The records that a compaction preserves, by uuid. `behind`: they follow the summary instead of preceding it."""

    stays: frozenset[str] = frozenset()
    behind: bool = False


class Section(Struct, frozen=True):
    """Records of the main chain up to the next compaction, and the summary that they follow.

    `summary` is None for the first section. `keeps` are lines before the summary that it does not replace.
    """

    entries: list[RecordEntry]
    summary: RecordEntry | None = None
    keeps: frozenset[int] = frozenset()


class PlannedRecord(Struct, frozen=True, gc=False):
    """A record to import.

    `usage` is recorded after the last record of its API message. `astray` are those of its results that are not sent,
    or whose call is not waiting for them here but is in another branch, or in this one if it leaves the context. `made`
    are results that the client makes up behind the record: the id of the call, and the text. `sent` is False for a
    record that leaves the context, although its turn stays; `left` is True if it left because of an edit.
    """

    entry: RecordEntry
    usage: AnswerUsage | None = None
    astray: tuple[str, ...] = ()
    made: tuple[tuple[str, str], ...] = ()
    sent: bool = True
    left: bool = False


class PlannedTurn(Struct, frozen=True):
    """The records of one turn, in order.

    `shown` is False for a turn that leaves the context. `interrupted`: a person stopped it, or one of its calls never
    gets a result. For a compaction, whose only step is the summary, `keeps` are the lines before it that it does not
    replace; otherwise it is None. `spared` are those of them that it replaced at first, and that an edit put back.
    """

    steps: list[PlannedRecord]
    shown: bool
    interrupted: bool
    keeps: frozenset[int] | None = None
    spared: frozenset[int] = frozenset()


class ActiveRecords(Struct, frozen=True):
    """The records that a client sends on resuming a session, and those of which it sends a summary."""

    order: Sequence[RecordEntry]
    """The records, in the client's order."""

    unsent: Set[int] = frozenset()
    """The lines among them that are left out."""

    lost: Mapping[int, Sequence[str]] = {}
    """Line -> the calls whose results in it are left out."""

    made: Mapping[int, tuple[tuple[str, str], ...]] = {}
    """Line -> the results that the client makes up behind it: the id of the call, and the text."""

    left: Set[int] = frozenset()
    """The lines that an edit took out of the context. A turn of nothing else leaves as a whole."""

    spared: Mapping[int, Set[int]] = {}
    """The line of a summary -> lines that it replaced at first, and that an edit put back."""

    evicted: Sequence[tuple[int, str]] = ()
    """Results of which the client sends a placeholder: their lines, and the ids of their calls."""

    edited: int = 0
    """The line of the last edit's boundary, 0 if there is none."""

    preserved: Mapping[int, Sequence[str]] = {}
    """The line of a boundary -> the uuids of the preserved records, if the format has to find them."""


class Plan(Struct, frozen=True):
    """All turns in import order; every entry that is no copy appears exactly once."""

    turns: Iterator[PlannedTurn]
    active: ActiveRecords


def plan(entries: Sequence[RecordEntry], active: ActiveRecords | None = None) -> Plan:
    """Return the plan of an import. `active` are the active records; None: all that are not in a sidechain."""
    if active is None:
        active = ActiveRecords([entry for entry in entries if entry.side is None])
    found = {line: each for line, each in compactions(entries, active.preserved).items() if line not in active.left}
    if any(entry.copies is not None for entry in entries):
        entries, found = _without_copies(entries, found)
    main, others = _branches(*_parents_first(entries, _parents(entries, found)), active)
    aside = {call for branch in others for entry in branch for call in entry.calls}
    everywhere = aside.union(call for entry in main for call in entry.calls)
    turns = ((turn.steps[0].entry.line, turn) for turn in _main_turns(main, found, aside, active))
    beside = ((branch[0].line, turn) for branch in others for turn in _turns(branch, everywhere))
    return Plan((turn for _, turn in merge(turns, beside, key=itemgetter(0))), active)


def _without_copies(
    entries: Sequence[RecordEntry], found: Mapping[int, Compaction]
) -> tuple[list[RecordEntry], dict[int, Compaction]]:
    """Return the entries that are no copies, and the compactions among them. What names a copy names the last of the
    records that it repeats, or what the copy follows if it repeats none."""
    uuids = {entry.line: entry.uuid for entry in entries}
    named: dict[str | None, str | None] = {}
    for entry in entries:
        if entry.copies is not None:
            named[entry.uuid] = uuids[entry.copies[-1]] if entry.copies else named.get(entry.parent, entry.parent)
    left = [
        replace(entry, parent=named.get(entry.parent, entry.parent), logical=named.get(entry.logical, entry.logical))
        if entry.parent in named or entry.logical in named
        else entry
        for entry in entries
        if entry.copies is None
    ]
    copied = {entry.uuid: entry.copies for entry in entries if entry.copies is not None}

    def stays(compaction: Compaction) -> Iterator[str | None]:
        for each in compaction.stays:
            yield from (uuids[line] for line in copied[each]) if each in copied else (each,)

    own = {entry.line for entry in left}
    return left, {
        line: Compaction(frozenset(filter(None, stays(each))), each.behind)
        for line, each in found.items()
        if line in own
    }


def leaf_at_end(records: Iterable[ChainRecord]) -> Leaf:
    """Return the leaf that holds after these records of a session.

    Later records of the main chain unpin a leaf, and the boundary of a compaction forgets it.
    """
    leaf = Leaf()
    for record in records:
        if record.boundary:
            leaf = Leaf()
        elif (named := record.leaf) is not None:
            leaf = Leaf(named.uuid, named.pinned or (leaf.pinned and leaf.uuid == named.uuid))
        elif leaf.pinned and record.chained and not record.aside:
            leaf = Leaf(leaf.uuid)
    return leaf


def _main_turns(
    main: Sequence[RecordEntry], found: Mapping[int, Compaction], aside: Set[str], active: ActiveRecords
) -> Iterator[PlannedTurn]:
    for section in _sections(main, found):
        entries = section.entries
        if section.summary is not None:
            entries = list(_raised(entries))
            said = (at for at, entry in enumerate(entries) if entry.role and not entry.raised)
            begin = next(said, len(entries))
            above = [entry for entry in entries[:begin] if entry.raised]
            entries = [entry for entry in entries if entry not in above]
            yield from _turns(above, aside, active)
            spared = frozenset(active.spared.get(section.summary.line, ()))
            keeps = section.keeps.union((entry.line for entry in above), spared)
            yield PlannedTurn([PlannedRecord(section.summary)], True, False, keeps, spared)
        yield from _turns(entries, aside, active)


def _branches(
    entries: Sequence[RecordEntry], parents: Sequence[int], active: ActiveRecords
) -> tuple[list[RecordEntry], list[list[RecordEntry]]]:
    """Return the main chain, and all other branches in the order in which they begin."""
    inside = {entry.line for entry in active.order}
    silent: list[RecordEntry] = []
    others: dict[object, list[RecordEntry]] = {}
    roots: list[object] = []
    latest: object = None
    for at, entry in enumerate(entries):
        parent = parents[at]
        root: object = at
        if entry.side:
            root = entry.side
        elif parent >= 0 and entries[parent].line not in inside:
            root = roots[parent]
        elif entry.side is not None and not entry.prompt and latest is not None:
            root = latest
        roots.append(root)
        if entry.side == "":
            latest = root
        if entry.role and entry.line not in inside:
            others.setdefault(root, []).append(entry)
        elif entry.line not in inside:
            silent.append(entry)
    branches = [list(in_sending_order(each, messages_of(each))) for each in others.values()]
    return _with_silent(active.order, silent), branches


def _with_silent(order: Sequence[RecordEntry], silent: Iterable[RecordEntry]) -> list[RecordEntry]:
    """Return the active records, with those without a message behind the active record that precedes them."""
    behind: dict[int, list[RecordEntry]] = {}
    lines = sorted(entry.line for entry in order)
    for entry in silent:
        at = bisect_left(lines, entry.line)
        behind.setdefault(lines[at - 1] if at else 0, []).append(entry)
    main = behind.pop(0, [])
    for entry in order:
        main.append(entry)
        main += behind.pop(entry.line, ())
    return main


def _parents(entries: Sequence[RecordEntry], found: Mapping[int, Compaction]) -> list[int]:
    """Return for each entry the position of the entry that it continues, or -1. There are no loops.

    The continued entry is, like it, on the main chain or in a sidechain. An entry that continues a record preserved
    after a summary continues the summary, because that is where the record belongs.
    """
    known: dict[tuple[bool, str], int] = {}
    anywhere: dict[tuple[bool, str], int] = {}
    for at, entry in enumerate(entries):
        if entry.uuid is not None:
            anywhere.setdefault((entry.side is None, entry.uuid), at)
    parents: list[int] = []
    later: dict[int, int] = {}
    previous = -1
    for at, entry in enumerate(entries):
        on_main = entry.side is None
        continued = entry.parent or entry.logical
        named = (on_main, continued) if continued is not None else None
        parent = known.get(named, -1) if named else -1
        instead = previous if on_main else -1
        if named and parent < 0 and anywhere.get(named, -1) > at:
            parent, later[at] = anywhere[named], instead
        parents.append(instead if parent < 0 else parent)
        if entry.uuid is not None:
            known[on_main, entry.uuid] = at
        if on_main and entry.line in found and found[entry.line].behind:
            known.update(dict.fromkeys(((True, uuid) for uuid in found[entry.line].stays), at))
        if entry.leaf == NOWHERE:
            previous = -1  # a person went back to before the first record
        elif on_main and (entry.uuid is not None or entry.role):
            previous = at
    steps = _WALKS * len(entries)
    for at, instead in later.items():
        above = parents[at]
        while above not in (-1, at) and steps:
            above, steps = parents[above], steps - 1
        if above != -1:  # it continues itself, or the walks have become too long
            parents[at] = instead
    return parents


def _parents_first(entries: Sequence[RecordEntry], parents: list[int]) -> tuple[Sequence[RecordEntry], list[int]]:
    """Return the entries with each one behind the entry that it continues, and the positions of those."""
    if all(parent < at for at, parent in enumerate(parents)):
        return entries, parents
    places: list[tuple[int, int]] = [(-1, 0)] * len(entries)
    for begin in range(len(entries)):
        way, at = [], begin
        while at >= 0 and places[at][0] < 0:
            way.append(at)
            at = parents[at]
        for each in reversed(way):
            place, depth = places[parents[each]] if parents[each] >= 0 else (-1, 0)
            places[each] = (each, 0) if each > place else (place, depth + 1)
    order = sorted(range(len(entries)), key=lambda at: (*places[at], at))
    moved = {at: new for new, at in enumerate(order)}
    return [entries[at] for at in order], [moved.get(parents[at], -1) for at in order]


def _raised(branch: Sequence[RecordEntry]) -> Sequence[RecordEntry]:
    """Return the branch with each raised record directly behind the answer or result before it."""
    if not any(entry.raised for entry in branch):
        return branch
    found: list[RecordEntry] = []
    place = 0  # behind the newest answer or result, and what was raised to there
    for entry in branch:
        if entry.raised:
            found.insert(place, entry)
            place += 1
            continue
        found.append(entry)
        if entry.results or entry.role == "assistant":
            place = len(found)
    return found


def _turns(
    branch: Sequence[RecordEntry], elsewhere: Set[str], active: ActiveRecords | None = None
) -> Iterator[PlannedTurn]:
    """Yield the turns of a branch, which is shown if it is `active`. A result is astray if its call is `elsewhere` and
    no call here waits for it."""
    shown = active is not None
    active = active or ActiveRecords(())
    branch = _raised(branch)
    last_result = {call: at for at, entry in enumerate(branch) for call in entry.results}
    last_record = {entry.response: at for at, entry in enumerate(branch)}
    open_calls: Counter[str] = Counter()
    usages: dict[str | None, AnswerUsage] = {}
    steps: list[PlannedRecord] = []
    waiting: set[str] = set()
    interrupted = answered = after_result = False
    for at, entry in enumerate(branch):
        joins = (entry.injected or entry.told) and after_result
        if (entry.prompt or entry.told) and answered and not waiting and not joins:
            yield _turn(steps, shown, interrupted)
            steps, interrupted, answered = [], False, False
        for call in entry.calls:
            open_calls[call] += 1
            if last_result.get(call, -1) > at:
                waiting.add(call)
            else:
                interrupted = True
        waiting.difference_update(entry.results)
        interrupted |= entry.interruption or entry.failed
        answered |= entry.failed
        if entry.role:
            answered |= not (entry.prompt or entry.interruption or entry.told)
            after_result = bool(entry.results) or joins
        if entry.usage:
            usages[entry.response] = entry.usage
        last = entry.response is None or last_record[entry.response] == at
        lost = active.lost.get(entry.line, ())
        astray = []
        for call in entry.results:
            if call in lost:
                astray.append(call)
            elif open_calls[call]:
                open_calls[call] -= 1
            elif call in elsewhere:
                astray.append(call)
        usage = usages.pop(entry.response, None) if last else None
        made, left = active.made.get(entry.line, ()), entry.line in active.left
        sent = not left and entry.line not in active.unsent
        steps.append(PlannedRecord(entry, usage, tuple(astray), made, sent, left))
    if steps:
        yield _turn(steps, shown, interrupted)


def _turn(steps: list[PlannedRecord], shown: bool, interrupted: bool) -> PlannedTurn:
    """Return a turn. It leaves the context as a whole if an edit has left nothing of it."""
    left = [step.left for step in steps if step.entry.role]
    if left and all(left):
        return PlannedTurn([replace(step, sent=True) for step in steps], False, interrupted)
    return PlannedTurn(steps, shown, interrupted)


def compactions(entries: Sequence[RecordEntry], preserved: Mapping[int, Sequence[str]] = {}) -> dict[int, Compaction]:
    """Return the compactions outside sidechains, by the line of the summary. One that preserves an unknown record
    preserves none. `preserved`: see `ActiveRecords`."""
    found = {}
    known: dict[str, RecordEntry] = {}
    for entry in entries:
        if entry.side is not None:
            continue
        if entry.compacts:
            boundary = entry if entry.preserved else known.get(entry.parent or "")
            found[entry.line] = Compaction()
            if boundary is not None and boundary.preserved is not None:
                stays = frozenset(preserved.get(boundary.line, boundary.preserved.uuids))
                stays = stays if stays <= known.keys() else frozenset()
                found[entry.line] = Compaction(stays, boundary.preserved.anchor != boundary.uuid)
        if entry.uuid is not None and not entry.passing:
            known[entry.uuid] = entry
    return found


def _sections(main: Sequence[RecordEntry], found: Mapping[int, Compaction]) -> list[Section]:
    """Split the main chain at its compactions. Every entry is in one section, a result in that of its call."""
    sections = [Section([])]
    lines = {entry.uuid: entry.line for entry in main if entry.uuid is not None}
    said = False
    for entry in main:
        if entry.line in found and (said or entry.whole):
            sections.append(_after(entry, found[entry.line], sections[-1], lines))
        else:
            sections[-1].entries.append(entry)
        said |= entry.role is not None
    if len(sections) > 1:
        _results_to_calls(sections)
    return sections


def _after(summary: RecordEntry, compaction: Compaction, before: Section, lines: Mapping[str, int]) -> Section:
    """Return the section that begins with `summary`. Preserved records that belong after the summary move into it."""
    behind: list[RecordEntry] = []
    if compaction.behind and compaction.stays:
        behind = [entry for entry in before.entries if entry.uuid in compaction.stays]
        before.entries[:] = [entry for entry in before.entries if entry.uuid not in compaction.stays]
    keeps = (lines[uuid] for uuid in compaction.stays if uuid in lines)
    return Section(behind, summary, frozenset(keeps).difference(entry.line for entry in behind))


def _results_to_calls(sections: Sequence[Section]) -> None:
    """Move a result that was written after a compaction back to its call before it."""
    home = {call: at for at, section in enumerate(sections) for entry in section.entries for call in entry.calls}
    for at, section in enumerate(sections):
        stays: list[RecordEntry] = []
        for entry in section.entries:
            call_at = max((home.get(call, at) for call in entry.results), default=at)
            (sections[call_at].entries if call_at < at else stays).append(entry)
        section.entries[:] = stays
