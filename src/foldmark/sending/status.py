"""The state of an agent before and after a request, with the same wording in every interface [S4, SPEC 5.4, 5.5]: the
fill level of its context, reminders, unanswered turns, and the cost of answers by the provider's count.
"""

from collections.abc import Iterator
from datetime import timedelta
from typing import NamedTuple

from foldmark.core import selections
from foldmark.core.assembly.sent import SentRequest
from foldmark.core.codec import timestamp, utc
from foldmark.core.config import Config
from foldmark.core.errors import CommandError
from foldmark.core.events import Event
from foldmark.core.ports import Snapshot
from foldmark.core.request import Edge, Request, Stopped, Usage
from foldmark.core.segments import Segments, until
from foldmark.core.wording import count, is_full, meter, percent
from foldmark.log.log import Agent
from foldmark.request.standing import Standing
from foldmark.request.usage import usage_data


def fullness(agent: Agent, request: Request) -> str:
    """Return the meter for an agent's next request."""
    from foldmark.request.prepare import counted  # takes 20 ms

    edge, known = request.manifest.edge, 0
    with agent.reading() as (moment, at):
        if edge.before and edge.first is not None:
            before = moment.size(until(at.visible, edge.first - 1)).tokens
            known = request.tokens + counted(at, before, request.provider, request.model)
    return meter(request.tokens, agent.window, at.config.sliding_context_tokens, known)


def assumed(agent: Agent) -> str | None:
    """Return a line that says that the size of the model's window is assumed and how to set it; None if it is known."""
    name = agent.standing().config.model
    known = agent.log.model_named(name)
    if not known.assumed:
        return None
    by = f"that of {known.guessed_from}, like all figures of this model; " if known.guessed_from else ""
    return (
        f"The window of {known.window:,} tokens is assumed: {by}none is published for {name}. "
        f'Add `window = TOKENS` under [models."{name}"] in .foldmark.toml to set it.'
    )


def rule(edge: Edge) -> str:
    """Return the separator line that marks the beginning of the window, with an empty line on each side [S3]."""
    return f"\n── the window begins here; {count(edge.before, 'message')} before it: {edge.reason} ──\n"


_ADVICE = {
    "warn": "Keep what must last in your ### STATE; `slash mark` sets a point that `slash clear MARK` goes back to.",
    "recommend": "Finish what is open; `slash clear MARK` drops what is done, `slash fork` hands work to a child.",
    "urgent": "Write your ### STATE now and use `slash clear`, or ask the person for /forget or /summarize.",
}


def level(share: int, config: Config) -> str | None:
    """Return the most urgent of `warn`, `recommend` and `urgent` whose threshold `share` (percent of the window)
    reaches; None below all of them."""
    for name in ("urgent", "recommend", "warn"):
        if share >= getattr(config, f"{name}_threshold"):
            return name
    return None


def reminder(agent: Agent, tokens: int, window: int) -> str | None:
    """Return the reminder for a request of `tokens` tokens; None if none is due or one was given recently."""
    share = percent(tokens, window)
    with agent.reading() as (moment, at):
        found = level(share, at.config)
        if found is None or _reminded(moment, at.visible, agent.log.clock(), at.config.check_interval_seconds):
            return None
    return f"[Foldmark: your context is {share}% full, ~{tokens:,} of {window:,} tokens. {_ADVICE[found]}]"


def _reminded(moment: Snapshot, visible: Segments, now: str, seconds: int) -> bool:
    """Return True if one of the messages from the last `seconds` seconds is a reminder."""
    since = timestamp(utc(now) - timedelta(seconds=seconds))
    for message in moment.select(visible, newest_first=True):
        if message.created_at <= since:
            return False
        if (message.data or {}).get("reminder"):
            return True
    return False


def waits(agent: Agent) -> bool:
    """Return True if there is something to answer without a new text: an open turn, or one whose answer failed."""
    with agent.reading() as (moment, at):
        return at.record.open_turn is not None or is_unanswered(moment, at)


def is_unanswered(moment: Snapshot, at: Standing) -> bool:
    """Return True if the context ends with something that a model can answer again."""
    newest = next(moment.select(at.visible, newest_first=True), None)
    return newest is not None and _wants_answer(newest)


def was_cut_off(moment: Snapshot, at: Standing) -> bool:
    """Return True if the newest answer failed or was interrupted, and can be asked for again."""
    newest = next(moment.select(at.visible, newest_first=True), None)
    if newest is None or at.record.open_turn is not None or not _wants_answer(newest):
        return False
    after = newest.id
    while behind := selections.events_after(moment, at.record.id, after, _RECORDS):
        if (end := next((each for each in behind if each.kind == "turn_ended"), None)) is not None:
            return end.interrupted
        after = behind[-1].id
    return False


def unanswered_text(moment: Snapshot, at: Standing) -> str | None:
    """Return the person's text that still needs an answer, without the files attached to it; None if there is none."""
    return next((message.content for message in unanswered(moment, at) if message.id == message.turn_id), None)


def unanswered(moment: Snapshot, at: Standing) -> Iterator[Event]:
    """Yield the person's messages that still need an answer, newest first.

    A repeated answer is a separate turn without a text, so the turn before it is considered as well.
    """
    turn: int | None = -1
    for message in moment.select(at.visible, newest_first=True):
        if message.turn_id != turn:  # the last message of its turn
            if not _wants_answer(message):
                return
            turn = message.turn_id
        if message.kind == "user" and message.actor == "human":
            yield message


def repeats(agent: Agent, text: str) -> bool:
    """Return True if a text repeats the one whose answer failed: then the model is asked again, without the text."""
    with agent.reading() as (moment, at):
        return at.record.open_turn is None and text == unanswered_text(moment, at)


def has_no_room(agent: Agent) -> bool:
    """Return True if the next request would already fill the model's window."""
    try:
        return is_full(agent.next_request().tokens, agent.window)
    except CommandError:
        return False  # the turn reports it, once the text is recorded


_RECORDS = 20
"""Maximum number of records between the last message of a turn and the end of the turn."""

_SHORT = 2000
"""Length of a text, in characters, that fits into the window of every model."""


class TooLong(NamedTuple):
    """A text that does not fit into a request: its estimated tokens, those of the request with it, and the most that
    the model takes."""

    text: int
    request: int
    limit: int


def too_long(agent: Agent, text: str) -> TooLong | None:
    """Return the sizes if the next request with this text would exceed the model's window; None if it fits. The texts
    of attached files are part of it.

    With a budget, older turns leave the window to make room, so only the text itself counts.
    """
    if len(text) <= _SHORT:
        return None
    from foldmark.tokens.counting import BytesRuler, ruler, uncalibrated

    at = agent.standing()
    provider, model = at.model
    by = ruler(provider, model, at.config)
    bytes = by if isinstance(by, BytesRuler) else BytesRuler(uncalibrated(provider, model))
    own, limit = bytes.tokens(len(text.encode("utf-8", "surrogatepass"))), agent.window
    whole = own if at.config.sliding_context_tokens else own + agent.next_request().tokens
    return TooLong(own, whole, limit) if whole > limit else None


def _wants_answer(last: Event) -> bool:
    """Return True unless a turn's last message is a complete answer or needs none."""
    return last.interrupted if last.kind == "assistant" else last.kind not in ("summary", "system")


def record_usage(agent: Agent, request: SentRequest, usage: Usage, stopped: Stopped | None) -> None:
    """Record the cost of a request by the provider's count."""
    data = usage_data(request.provider, request.model, usage, stopped)
    agent.record("usage", data={"request": request.id, **data})


def calibrate(agent: Agent, request: Request, usage: Usage) -> None:
    """Record a new calibration if the estimate of a request was off [SPEC 5.4].

    It is a `config` event, so that every reader of the log gets the same estimates. It moves the window, so it is
    recorded at the end of a turn [SPEC 5.3].
    """
    learn(agent, request.provider, request.model, request.size, usage.size + usage.cleared)


def learn(agent: Agent, provider: str, model: str, size: int, reported: int) -> None:
    """Record a new calibration of a model if the current one is off for a request of this size.

    `size` is in the unit of the agent's ruler. `reported` is the number of input tokens that the provider reported.
    """
    from foldmark.tokens.counting import calibration_key, recalibrated, ruler

    at = agent.standing()
    ratio = recalibrated(size, reported, ruler(provider, model, at.config).ratio)
    if ratio is not None:
        name = calibration_key(provider, model, at.config)
        settings = {**at.settings, "calibration": {**at.config.calibration, name: ratio}}
        agent.record("config", f"calibration of {name}: {ratio}", data={"settings": settings})
