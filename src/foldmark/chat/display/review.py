"""An open offer as a person reviews it: its ranges, the ticked ones among them, and their total effect [SPEC 4.2].

Every figure is read from the log for the ticked ranges, which determine the closure, the context afterwards and the
price.
"""

from collections import defaultdict
from collections.abc import Collection
from typing import NamedTuple

from msgspec import Struct

from foldmark.commands.show import message_title
from foldmark.core.agents import Size
from foldmark.core.errors import CommandError
from foldmark.core.events import Event
from foldmark.core.wording import count, one_line
from foldmark.cost.messages import next_messages
from foldmark.editing.offer import CRITERIA, Offer
from foldmark.editing.offers import described, price
from foldmark.log import Agent
from foldmark.operations.history import sized
from foldmark.request.planning import offer
from foldmark.text.selection import MatchRange


class ReviewedMessage(NamedTuple):
    """A match of a range, with its title and its tokens in the next request."""

    id: int
    title: str
    tokens: int


class ReviewedRange(Struct, frozen=True):
    """A numbered range of an offer, with the ids of its matches, and these `messages` if the range is opened. `along`
    is the size of the messages in this range's turns that leave or stay with the ticked matches, so that no call is
    separated from its result."""

    number: int
    ids: tuple[int, ...]
    matches: MatchRange
    along: Size
    messages: tuple[ReviewedMessage, ...] = ()

    @property
    def span(self) -> str:
        """`12`, `12–19`."""
        first, last = self.matches.first, self.matches.last
        return str(first) if first == last else f"{first}–{last}"

    def along_line(self, *, forgets: bool) -> str:
        """Return in words how many messages leave or stay with the matches; empty if none do."""
        if not self.along.messages:
            return ""
        one = self.along.messages == 1
        verb = ("goes" if one else "go") if forgets else ("stays" if one else "stay")
        how = "along with its call or result" if one else "along with their calls and results"
        return f"+ {count(self.along.messages, 'message')} {verb} {how}"


class Review(Struct, frozen=True):
    """An open offer with all its ranges. `chosen` is the offer for the ticked matches and `price` its lines about the
    next request; they are None and empty if nothing is ticked. `model` is the model that chose the matches, `words` if
    none did."""

    offer: Offer
    model: str
    ranges: tuple[ReviewedRange, ...]
    chosen: Offer | None
    price: tuple[str, ...]

    @property
    def heading(self) -> str:
        """`Forget: “database schema” · matched by offline`."""
        criteria = one_line(" ".join(self.offer.criteria.split()))[:CRITERIA]
        return f"{self.offer.mode.capitalize()}: “{criteria}” · matched by {self.model}"

    @property
    def outcome(self) -> str:
        """The change that the ticked ranges would make, in words."""
        if self.chosen is None:
            return f"Nothing is ticked. Tick what to {self.offer.mode}, or keep everything."
        before, after = self.chosen.before, self.chosen.after
        gone, stays = before.less(after), sized(after, recorded=False)
        leave = f"{sized(gone, recorded=False)} {'leaves' if gone.messages == 1 else 'leave'}"
        return f"{leave} · context {before.messages:,} → {stays}, before ~{before.tokens:,}"

    def command(self, unticked: Collection[int] = ()) -> str | None:
        """Return the command that applies the offer without the matches in `unticked`; None if none remains."""
        every = sorted(id for each in self.ranges for id in each.ids)
        ticked = [id for id in every if id not in unticked]
        if not ticked:
            return None
        if ticked == every:
            return f"/agree {self.offer.id}"
        out = [each.number for each in self.ranges if all(id in unticked for id in each.ids)]
        lines = [each.number for each in self.ranges if each.number not in out]
        whole = sum(len(each.ids) for each in self.ranges if each.number in out) == len(every) - len(ticked)
        if whole:
            choices = (f"all but {_spans(out, lines)}", f"only {_spans(lines, out)}")
        else:
            rest = [id for id in every if id in unticked]
            choices = (f"all but messages {_spans(rest, ticked)}", f"only messages {_spans(ticked, rest)}")
        return f"/agree {self.offer.id} {min(choices, key=len)}"


def review(agent: Agent, unticked: Collection[int] = (), opened: Collection[int] = ()) -> Review | None:
    """Return the review of the agent's open offer, without the matches in `unticked`, and with the messages of the
    ranges in `opened`, which are numbers; None if no offer is open.

    Cost grows with the messages of the offer and with the window, not with the history.
    """
    with agent.reading() as (moment, at):
        preview = offer(moment, at)
        if preview is None:
            return None
        coming = next_messages(agent, moment, at)
        whole = described(moment, at, preview, coming)
        parts = dict(enumerate(preview.parts, 1))
        ids = frozenset(preview.ids).difference(unticked)
        chosen = None if not ids else described(moment, at, preview, coming, ids) if unticked else whole
        number_of = {id: number for number, part in parts.items() for id in part}
        turns = {each.turn_id or each.id: number_of[each.id] for each in moment.lookup(preview.ids)}
        along: dict[int, Size] = defaultdict(lambda: Size(0, 0))
        for event in moment.events(chosen.along if chosen is not None else ()):
            number = turns.get(event.turn_id or event.id, 0)
            along[number] = along[number].plus(Size(1, coming.tokens(event)))
        model = "words" if preview.words else at.config.model
        messages = {
            number: tuple(
                ReviewedMessage(event.id, message_title(event), coming.tokens(event))
                for event in moment.events(parts[number])
            )
            for number in opened
            if number in parts
        }
    try:
        cost = () if chosen is None else tuple(price(agent, chosen).price())
    except CommandError:  # the planning conversation has just ended
        return None
    found = []
    for matches in whole.ranges:
        number = number_of[matches.first]
        found.append(ReviewedRange(number, parts[number], matches, along[number], messages.get(number, ())))
    return Review(whole, model, tuple(found), chosen, cost)


def range_messages(agent: Agent, reviewed: Review, number: int) -> list[tuple[Event, bool]]:
    """Return the messages of a range and those of its turns that leave or stay with them, in order, each with True if
    it matches."""
    ids = next(each.ids for each in reviewed.ranges if each.number == number)
    with agent.log.store.read() as moment:
        mine = moment.events(ids)
        turns = {event.turn_id for event in mine}
        along = [event for event in moment.events(reviewed.offer.along) if event.turn_id in turns]
    return [(event, event.id in ids) for event in sorted((*mine, *along), key=lambda event: event.id)]


def _spans(numbers: list[int], others: list[int]) -> str:
    """Return `1 3-5` for 1, 3, 4, 5: spans of numbers that have none of the `others` between them."""
    spans: list[list[int]] = []
    among = sorted([*((number, True) for number in numbers), *((number, False) for number in others)])
    joins = False
    for number, wanted in among:
        if wanted and joins:
            spans[-1][1] = number
        elif wanted:
            spans.append([number, number])
        joins = wanted
    return " ".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)
