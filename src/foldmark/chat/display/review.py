"""An open offer as a person reviews it: its ranges, the ticked ones among them, and their total effect [SPEC 4.2].

Every figure is read from the log for the ticked ranges, which determine the closure, the context afterwards and the
price.
"""

from collections import defaultdict
from collections.abc import Collection

from msgspec import Struct

from foldmark.core.agents import Size
from foldmark.core.errors import CommandError
from foldmark.core.events import Event
from foldmark.core.wording import count, one_line
from foldmark.editing.offer import CRITERIA, Offer
from foldmark.editing.offers import described, price
from foldmark.log import Agent
from foldmark.operations.history import sized
from foldmark.request.planning import offer
from foldmark.text.selection import MatchRange


class ReviewedRange(Struct, frozen=True):
    """A numbered range of an offer, with the ids of its matches. `along` is the size of the messages in this range's
    turns that leave or stay with the ticked ranges, so that no call is separated from its result."""

    number: int
    ids: tuple[int, ...]
    matches: MatchRange
    ticked: bool
    along: Size

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
    """An open offer with all its ranges. `chosen` is the offer for the ticked ranges and `price` its lines about the
    next request; they are None and empty if no range is ticked. `model` is the model that chose the matches, `words` if
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
        gone = sized(before.less(after), recorded=False)
        return f"{gone} leave · context {before.messages:,} → {sized(after, recorded=False)}, before ~{before.tokens:,}"

    def command(self, unticked: Collection[int] = ()) -> str | None:
        """Return the command that applies all ranges except the `unticked` ones; None if no range remains."""
        numbers = [each.number for each in self.ranges]
        ticked = [number for number in numbers if number not in unticked]
        if not ticked:
            return None
        if ticked == numbers:
            return f"/agree {self.offer.id}"
        choices = (f"all but {_spans(sorted(unticked))}", f"only {_spans(ticked)}")
        return f"/agree {self.offer.id} {min(choices, key=len)}"


def review(agent: Agent, unticked: Collection[int] = ()) -> Review | None:
    """Return the review of the agent's open offer, without the range numbers in `unticked`; None if no offer is open.

    Cost grows with the messages of the offer and with the window, not with the history.
    """
    with agent.reading() as (moment, at):
        preview = offer(moment, at)
        if preview is None:
            return None
        whole = described(agent, moment, at, preview)
        parts = dict(enumerate(preview.parts, 1))
        ticked = [number for number in parts if number not in unticked]
        ids = frozenset(id for number in ticked for id in parts[number])
        chosen = None if not ids else described(agent, moment, at, preview, ids) if unticked else whole
        number_of = {id: number for number, part in parts.items() for id in part}
        turns = {each.turn_id or each.id: number_of[each.id] for each in moment.lookup(preview.ids)}
        along: dict[int, Size] = defaultdict(lambda: Size(0, 0))
        for event in moment.events(chosen.along if chosen is not None else ()):
            number = turns.get(event.turn_id or event.id, 0)
            along[number] = along[number].plus(Size(1, event.tokens))
        model = "words" if preview.words else at.config.model
    try:
        cost = () if chosen is None else tuple(price(agent, chosen).price())
    except CommandError:  # the planning conversation has just ended
        return None
    found = []
    for matches in whole.ranges:
        number = number_of[matches.first]
        found.append(ReviewedRange(number, parts[number], matches, number in ticked, along[number]))
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


def _spans(numbers: list[int]) -> str:
    """Return `1 3-5` for 1, 3, 4, 5."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return " ".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)
