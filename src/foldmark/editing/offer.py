"""An offer to forget or to keep messages, as a person sees it [SPEC 4.2]."""

from collections.abc import Sequence
from typing import Any

from msgspec import to_builtins

from foldmark.core.agents import Size
from foldmark.core.wording import count, listing, one_line
from foldmark.operations.effects import Effect
from foldmark.operations.history import sized
from foldmark.text.selection import MatchRange

RANGES = 100
"""Maximum number of ranges that the text of an offer lists."""

CRITERIA = 200
"""Maximum number of characters of the criteria that an offer shows."""


class Offer(Effect, frozen=True):
    """The effect of a yes. `id` is the event of the preview. `along` are the messages that leave or stay with the
    matches, so that no call is separated from its result. `before` and `after` are the sizes of the context without the
    planning conversation."""

    id: int
    mode: str
    criteria: str
    ids: tuple[int, ...]
    ranges: tuple[MatchRange, ...]
    matched: Size
    along: tuple[int, ...]
    along_tokens: int
    before: Size
    after: Size

    @property
    def forgets(self) -> bool:
        """True if the matches leave; False if all other messages do."""
        return self.mode == "forget"

    def data(self) -> dict[str, Any]:
        """Return the offer as JSON; ranges are numbered from 1."""
        shown = [{"number": number, **to_builtins(each)} for number, each in enumerate(self.ranges, 1)]
        return {
            "offer": self.id,
            "mode": self.mode,
            "criteria": self.criteria,
            "ids": list(self.ids),
            "ranges": shown,
            **self.matched._asdict(),
            "along": {"ids": list(self.along), "tokens": self.along_tokens},
            "before": self.before._asdict(),
            "after": self.after._asdict(),
        }

    def lines(self, most: int = RANGES) -> list[str]:
        """Return lines with the numbered ranges, the closure, and the context before and after."""
        found = [f"  {number}. {_range(each)}" for number, each in enumerate(self.ranges[:most], 1)]
        if more := len(self.ranges) - len(found):
            found.append(f"  … and {count(more, 'more range')}, to message {self.ranges[-1].last}")
        if self.along:
            found.append(
                f"  Also {'forgotten' if self.forgets else 'kept'}, so that no tool call is separated from "
                f"its result: {listing(self.along)} (~{count(self.along_tokens, 'token')})"
            )
        found.append(
            f"  Context: {sized(self.before, recorded=False)} before, {sized(self.after, recorded=False)} after"
        )
        return found

    @property
    def title(self) -> str:
        """`Forget 4 messages (~62 tokens) about “tables”`."""
        what = f"{sized(self.matched, recorded=False)} {'about' if self.forgets else 'containing'}"
        what = f"{what} “{short(self.criteria)}”"
        if self.forgets:
            return f"Forget {what}"
        gone = count(self.before.messages - self.after.messages, "message")
        return f"Keep {what}, and forget everything else ({gone})"

    def shown(self, price: Sequence[str], *, model: bool = True, answers: bool = True) -> str:
        """Return the text and the question for a person; `price` holds lines about the cost of the next request. With
        `model`, a model reads other criteria. Without `answers`, nobody reads an answer: the text names the command
        that carries the offer out."""
        again = "say what else to look for" if model else f"/{self.mode} with other words"
        told = [*self.lines(), *(f"  {line[0].upper()}{line[1:]}" for line in price)]
        end = question_end(self._choices, again) if answers else command_end(self.id, self._choices)
        return "\n".join([f"{self.title}?", *told, end])

    def asked(self) -> str:
        """Return the question after an answer in doubt."""
        return (
            "Nothing has changed: that is neither a plain yes nor a plain no.\n"
            f"{self.title}, as it was shown: yes or no?\n"
            f"Answer yes, no{self._choices}. /{self.mode} with other words looks again."
        )

    @property
    def _choices(self) -> str:
        of = len(self.ranges)
        return "" if of < 2 else ", all but 2, only 1" if of == 2 else ", all but 2, only 1 3"


def question_end(choices: str, again: str = "") -> str:
    """Return the end of an offer that the person's next line answers; `choices` is `, all but 2` or empty."""
    again = f", or {again}" if again else ""
    return f"Nothing has changed yet. Answer yes, no{choices}{again}. Any other answer changes nothing."


def command_end(offer_id: int, choices: str) -> str:
    """Return the end of an offer where no line answers it, as in a script."""
    part = f", `/agree {offer_id} all but 2` a part of it" if choices else ""
    return f"Nothing has changed yet. `/agree {offer_id}` carries it out{part}."


def short(criteria: str) -> str:
    """Return criteria on one line, cut if they are long."""
    return one_line(" ".join(criteria.split()))[:CRITERIA]


def _range(each: MatchRange) -> str:
    ids = f"{each.first}" if each.first == each.last else f"{each.first}-{each.last}"
    return f"Message {ids}: {each.title} ({count(each.count, 'message')}, ~{count(each.tokens, 'token')})"
