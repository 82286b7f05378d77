"""One-line reminders to a model whose context fills up [S4, SPEC 5.5]."""

from datetime import timedelta
from typing import TYPE_CHECKING

from foldmark.core.codec import timestamp, utc
from foldmark.core.config import Config
from foldmark.core.ports import Snapshot
from foldmark.core.pressure import percent
from foldmark.core.segments import Segments

if TYPE_CHECKING:
    from foldmark.log.log import Agent

_ADVICE = {
    "warn": "Keep what must last in your ### STATE; `slash mark` sets a point that `slash clear MARK` goes back to.",
    "recommend": "Finish what is open; `slash clear MARK` drops what is done, `slash fork` hands work to a child.",
    "urgent": "Write your ### STATE now and use `slash clear`, or ask the person for /forget or /summarize.",
}


def level(share: int, config: Config) -> str | None:
    """Return the most urgent of `warn`, `recommend` and `urgent` that a share of the window, in percent, reaches."""
    for name in ("urgent", "recommend", "warn"):
        if share >= getattr(config, f"{name}_threshold"):
            return name
    return None


def reminder(agent: "Agent", tokens: int, window: int) -> str | None:
    """Return the reminder for a request of this many tokens; None if none is due, or there was one just before."""
    share = percent(tokens, window)
    with agent.reading() as (moment, at):
        found = level(share, at.config)
        if found is None or _reminded(moment, at.visible, agent.log.clock(), at.config.check_interval_seconds):
            return None
    return f"[Foldmark: your context is {share}% full, ~{tokens:,} of {window:,} tokens. {_ADVICE[found]}]"


def _reminded(moment: Snapshot, visible: Segments, now: str, seconds: int) -> bool:
    """Return True if a reminder was given in the last `seconds` seconds, among the messages since then."""
    since = timestamp(utc(now) - timedelta(seconds=seconds))
    for message in moment.messages(visible, newest_first=True):
        if message.created_at <= since:
            return False
        if (message.data or {}).get("reminder"):
            return True
    return False
