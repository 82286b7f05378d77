"""Layers that depend on more than the agent's own events: children and mail, memos, the window summary [SPEC 5.1, 6,
7].

The report about children and unread mail depends only on the log and its tables. Within a turn it stays as it was first
sent, so that the request only grows; a message or a fork of a person updates it.

A window summary is optional. The agent's own model writes it, and it is sent in place of the turns that the window has
passed [S3]. It is a `window_summary` event that names the messages it covers and stores a hash of everything that was
visible up to the last of them. The summary is valid while exactly that is visible. An operation that changes it makes
the summary stale, and restoring the operation makes it valid again. A stale summary is never sent.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from hashlib import sha256
from itertools import takewhile
from typing import NamedTuple

import msgspec
from msgspec import Struct, structs

from foldmark.core import selections
from foldmark.core.agents import AgentRecord, Fate
from foldmark.core.assembly.layers import AT_WORK, IDLE, WAITS, WAITS_FOR_MESSAGE, family_line
from foldmark.core.assembly.prompt import CHILDREN
from foldmark.core.assembly.sent import memo_text_name
from foldmark.core.codec import operation_of
from foldmark.core.config import Config
from foldmark.core.events import Event, Fork
from foldmark.core.ports import Snapshot
from foldmark.core.records import Memo
from foldmark.core.request import Child, Family, Part
from foldmark.core.segments import Segment, Segments, contains, until
from foldmark.core.turns import Message
from foldmark.core.wording import title
from foldmark.request.planning import planning
from foldmark.request.recorded import newest_asked
from foldmark.request.standing import Standing

SHOWN, KILLED = 8, 3
"""Maximum numbers of living and of killed children to name; the newest are named."""

LOOKED_BACK = 50
"""Number of a parent's messages that are searched for the text with which its model forked."""


def family_of(moment: Snapshot, at: Standing) -> Family:
    """Return the children and the unread mail that the agent's next request reports."""
    if not _reports_family(moment, at):
        return Family()
    sent = _sent_report(moment, at)
    return _present_family(moment, at) if sent is None else sent


def present_family(moment: Snapshot, at: Standing) -> Family:
    """Return the children and the unread mail as they are."""
    return _present_family(moment, at) if _reports_family(moment, at) else Family()


def _reports_family(moment: Snapshot, at: Standing) -> bool:
    """Return False during a planning conversation, or if the agent never had children or mail to report."""
    return not at.beside.isdisjoint(("mail", "children")) and planning(moment, at) is None and at.fold.closing is None


def children_layer(family: Family, content: Callable[[int], str], tools: Collection[str], config: Config) -> list[Part]:
    """Return the layer about a family, if there is anything to report; `content` returns the text of an event."""
    reads = "slash" in tools and (config.model_commands == "all" or "check-mail" in config.model_commands.split(", "))
    goals = {child.goal: title(content(child.goal)) for child in family.children if child.goal}
    line = family_line(family, goals, reads_mail=reads)
    return [Part(CHILDREN, None, None, CHILDREN, text=line)] if line else []


def is_delegation(moment: Snapshot, fork: Event) -> bool:
    """Return True for a fork that gives its child a task: what follows a mark or begins with a turn, or the words with
    which a model forked. Any other child waits for its first message."""
    operation = operation_of(fork)
    if not isinstance(operation, Fork) or operation.is_full:
        return False
    return bool(moment.size(operation.start).messages) or (
        fork.actor == "model" and fork_text(moment, fork) is not None
    )


def fork_text(moment: Snapshot, fork: Event) -> Event | None:
    """Return the model's last text in the turn in which it forked."""
    text = _texts_before(moment, [fork]).get(fork.id)
    return selections.event(moment, text) if text else None


def _texts_before(moment: Snapshot, forks: Sequence[Event]) -> dict[int, int]:
    """Map each fork to the model's last text before it in the same turn. Forks without one are left out."""
    places = [Message(fork.id, fork.agent_id, fork.turn_id, fork.kind, None) for fork in forks]
    found = {}
    for fork, near in zip(forks, moment.next_to(places, LOOKED_BACK) if forks else (), strict=True):
        before = [message for message in reversed(near) if message.id < fork.id]
        turn = takewhile(lambda message: message.turn_id == fork.turn_id, before)  # noqa: B023 - used at once
        if (text := next((message.id for message in turn if message.kind == "assistant"), None)) is not None:
            found[fork.id] = text
    return found


def _ends_of_starts(moment: Snapshot, forks: Mapping[int, Fork]) -> dict[int, int]:
    """Map each fork to the last message in the start of its child. Forks without one are left out.

    A start may have thousands of segments, but the last segment nearly always contains a message.
    """
    found, count = dict[int, int](), 4
    left = {fork: operation.start for fork, operation in forks.items()}
    while left := {fork: start for fork, start in left.items() if start and fork not in found}:
        ends = [(fork, segment) for fork, start in left.items() for segment in start[-count:]]
        bounds = deque(moment.bounds(tuple(segment for _, segment in ends)))
        for fork, (agent, first, last) in ends:
            # A segment without a message has no bounds.
            if bounds and bounds[0].agent == agent and first <= bounds[0].first <= last:
                found[fork] = bounds.popleft().last
        left = {fork: start[:-count] for fork, start in left.items()}
        count *= 8
    return found


def _sent_report(moment: Snapshot, at: Standing) -> Family | None:
    """Return the report in the newest request of the open turn; None without such a request, or if a person has acted
    since."""
    turn = at.record.open_turn
    newest = newest_asked(moment, at.record.id) if turn is not None else None
    if newest is None or newest.turn != turn:
        return None
    own = Segment(at.record.id, newest.event + 1, at.newest)
    answered = any(each.kind == "user" and each.actor == "human" for each in moment.select((own,)))
    forks = selections.operations(moment, at.record.id, after=newest.event)
    if answered or any(each.kind == "fork" and each.actor == "human" for each in forks):
        return None
    return newest.plan.told.get(0, Family())


def _present_family(moment: Snapshot, at: Standing) -> Family:
    children = moment.agents(parent=at.record.id) if "children" in at.beside else []
    unread = selections.unread(moment, at.record.id) if "mail" in at.beside else []
    mail = tuple(dict.fromkeys(each.sender for each in unread))
    fates: dict[str, Fate] = {record.id: record.fate for record in children}
    living = [record for record in children if not record.killed]
    killed = tuple(record.id for record in children if record.killed)
    shown = _children(moment, at, living[-SHOWN:], fates)
    return Family(shown, max(0, len(living) - SHOWN), killed[-KILLED:], mail)


def _children(
    moment: Snapshot, at: Standing, records: Sequence[AgentRecord], fates: Mapping[str, Fate]
) -> tuple[Child, ...]:
    forks = {event.id: event for event in moment.events([record.fork_event for record in records])}
    decided = ((id, operation_of(event)) for id, event in forks.items())
    operations = {id: operation for id, operation in decided if isinstance(operation, Fork)}
    texts = _texts_before(moment, [event for id, event in forks.items() if id in operations and event.actor == "model"])
    starts = _ends_of_starts(moment, {id: operation for id, operation in operations.items() if id not in texts})
    goals = {event.id: event for event in moment.events([*texts.values(), *filter(None, starts.values())])}
    found = []
    for record in records:
        state = AT_WORK if record.open_turn is not None else IDLE
        goal, by_person = texts.get(record.fork_event, 0), starts.get(record.fork_event, 0)
        if by_person in goals and goals[by_person].kind == "user":  # a person's message is the child's goal
            goal = by_person
        operation = operations.get(record.fork_event)
        if record.open_turn is None and fates[record.id] == "waits":
            has_task = operation is not None and not operation.is_full and bool(goal or by_person)
            state = WAITS if has_task else WAITS_FOR_MESSAGE
        place = (None, None) if operation is None else (operation.mark, operation.turn)
        child = Child(record.id, state, goal, *place)
        found.append(_quoted(at, child, goals))
    return tuple(found)


def _quoted(at: Standing, child: Child, goals: Mapping[int, Event]) -> Child:
    """Return the child, without its goal if the goal is not in the context."""
    event = goals.get(child.goal)
    shown = event is not None and contains(at.visible, event.agent_id, event.id)
    return child if shown or not child.goal else structs.replace(child, goal=0)


def picked(moment: Snapshot, opener: Event, most: int) -> dict[int, str]:
    """Return at most `most` memos that the keywords of a message pick, by their ids, as they are sent. Only memos older
    than the message are picked."""
    from foldmark.text.keywords import keywords, memo_entry, opening_words  # takes 10 ms, only needed with memos

    (found,) = moment.memos_with([(keywords(opening_words(opener)), opener.id)], most)
    return {memo.id: memo_entry(memo) for memo in found}


def memo_texts(moment: Snapshot, parts: Iterable[Part]) -> dict[str, str]:
    """Return the texts of the memos in a request, by their names in `RequestRecord.hashes`, without memos that
    have been removed since."""
    from foldmark.text.keywords import entry_in_layer

    ids = [(part.memo, part.text) for part in parts if part.memo is not None]
    return {
        memo_text_name(memo_id): entry_in_layer(text)
        for memo_id, text in ids
        if selections.memo(moment, memo_id) is not None
    }


def memo_text(memo: Memo) -> str:
    """Return a memo as it is sent."""
    from foldmark.text.keywords import memo_entry

    return memo_entry(memo)


def memo_parts(opener: Event | None, entries: Iterable[tuple[int, str]]) -> list[Part]:
    """Return the parts of memos, given as id and entry, with the keywords of the message that picked them."""
    from foldmark.text.keywords import keywords, memo_layers, opening_words

    return memo_layers(entries, keywords(opening_words(opener)))


LOOKED_AT = 10
"""Number of newest summaries that are checked; the first valid one counts."""


class Covered(Struct, frozen=True, rename={"first": "from"}):
    """The coverage of a summary: the ids of the first and the last message that it covers, the turns of both, and the
    hash of everything visible up to the last."""

    first: int
    until: int
    turns: tuple[int, int]
    covers: str


class WindowSummary(NamedTuple):
    """A recorded summary, and its coverage."""

    event: Event
    covered: Covered


def summary_in_force(moment: Snapshot, at: Standing, before: int, since: int, recorded: int) -> WindowSummary | None:
    """Return the newest valid summary up to event `recorded` that covers only messages before event `before`; None if
    it is not newer than event `since`."""
    searched = until(at.lineage, recorded)
    for _ in range(LOOKED_AT):
        event = selections.newest(moment, "window_summary", searched)
        if event is None or event.id <= since:
            break
        try:
            covered = msgspec.convert(event.data, Covered)
        except msgspec.ValidationError:  # recorded by another program
            covered = None
        if (
            covered is not None
            and covered.until < before
            and covered.covers == visible_hash(moment, at.visible, covered.until)
        ):
            return WindowSummary(event, covered)
        searched = until(searched, event.id - 1)
    return None


def visible_hash(moment: Snapshot, segments: Segments, last: int) -> str:
    """Return the hash of everything in these visible segments up to event `last`. It includes the size, which an
    erasure changes."""
    visible = until(segments, last)
    return sha256(msgspec.json.encode([moment.bounds(visible), moment.size(visible)])).hexdigest()
