"""`foldmark cost`: which conversation is replayed as what, and under which policies."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import foldmark
from foldmark.core.config import Config, checked
from foldmark.core.errors import CommandError
from foldmark.core.ports import Progress
from foldmark.cost.cost import (
    SENDERS,
    Policy,
    Replayed,
    Tariff,
    answered,
    replay,
    rules_of,
    tariff_of,
    thought_about,
)
from foldmark.log import Agent, Log
from foldmark.providers.registry import canonical, dialect_of
from foldmark.stores.addresses import may_exist, shown

KINDS = tuple(SENDERS)
"""The policies that can be compared."""

MODELS = {
    "anthropic": "anthropic/claude-sonnet-5-5",
    "openai": "openai/gpt-5.4",
    "gemini": "gemini/gemini-3.1-pro-preview",
    "gemini_gca": "gemini/gemini-3.1-pro-preview",
}
"""What is asked where a conversation has no model of its own but `offline`: by the dialect of its newest call."""


class CostOptions(NamedTuple):
    """What is to be compared: `model` is PROVIDER/MODEL, None for the agent's own; `budget` None for its own; `policy`
    some of `KINDS`, none for all that there are for the model; `low_water` those of `steady` as in "0.8,0.6", None for
    the agent's own; with `ignore_pauses` no cache ever expires."""

    model: str | None = None
    budget: int | None = None
    policy: Sequence[str] = ()
    low_water: str | None = None
    ignore_pauses: bool = False


class CostReport(NamedTuple):
    """What a conversation costs: its name, the model asked, the budget, what the answers weigh, whether thinking was
    recorded, a row a policy."""

    name: str
    provider: str
    model: str
    tariff: Tariff
    budget: int
    answered: int
    thinks: bool
    rows: list[Replayed]


def policies(budget: int, low_waters: Sequence[float], kinds: Sequence[str] = KINDS) -> list[Policy]:
    """The policies of these kinds, `steady` at each low water."""
    return [
        Policy(kind, budget, low)
        for kind in dict.fromkeys(kinds)
        for low in (low_waters if kind == "steady" else [None])
    ]


def low_waters(text: str) -> list[float]:
    """The shares in "1.0,0.8"; each once. Raises CommandError."""
    found: list[float] = []
    for each in text.split(","):
        share = checked("sliding_context_low_water", each.strip())
        found += [share] if share not in found else []
    return found


@contextmanager
def conversation(db: str, target: str) -> Iterator[Agent]:
    """The conversation of this name in the database, or else the session file of this name, read into memory.

    Raises CommandError if there is neither, SessionFileError, StoreError.
    """
    path = Path(target)
    with _existing(db) as log:
        if log is not None and (log.exists(target) or not path.is_file()):
            yield log.find(target)
            return
    if not path.is_file():
        raise CommandError(f"there is no file '{target[:200]}' and no database {shown(db)} to look in")
    from foldmark.cli.imports import import_file

    with foldmark.open(":memory:") as log:
        yield log.agent(import_file(log, path, None).agent_id)


@contextmanager
def _existing(db: str) -> Iterator[Log | None]:
    if not may_exist(db):
        yield None
        return
    with foldmark.open(db, create=False) as log:
        yield log


def report(agent: Agent, wish: CostOptions) -> CostReport:
    """Replay an agent. Raises CommandError for a wrong wish, and where no model was ever asked."""
    config = agent.standing().config
    lows = [config.sliding_context_low_water] if wish.low_water is None else low_waters(wish.low_water)
    model = wish.model or (config.model if config.model != "offline" else _fitting(agent))
    agent.log.check_model(model)
    provider, _, name = model.partition("/")
    provider, name = canonical(provider), name or provider
    known = agent.log.model_named(model)
    budget = wish.budget or config.sliding_context_tokens or Config().sliding_context_tokens
    clears = dialect_of(provider, agent.log.given.dialects).clears
    usual = [kind for kind in KINDS if kind != "clearing" or clears]
    rows = replay(
        agent,
        policies(budget, lows, wish.policy or usual),
        provider,
        name,
        rules=rules_of(known),
        tools=agent.tools(),
        limit=known.window,
        pauses=not wish.ignore_pauses,
        progress=_watching(),
    )
    called = agent.name or agent.id
    if not rows[0].billed:
        raise CommandError(f"nobody asked a model for anything in '{called}' yet: there is nothing to compare")
    weight = answered(agent, provider, name)
    return CostReport(called, provider, name, tariff_of(known), budget, weight, bool(thought_about(agent)), rows)


def _fitting(agent: Agent) -> str:
    # A text has the dialect of whatever model was set when it was recorded; a call that of who made it.
    calls = (each for each in reversed(agent.context().messages) if each.dialect and each.kind == "tool_call")
    return next((MODELS[each.dialect] for each in calls if each.dialect in MODELS), MODELS["anthropic"])


def _watching() -> Progress | None:
    if not sys.stderr.isatty():
        return None

    def told(done: int, total: int) -> None:
        print(f"\rmaking request {done:,} of {total:,}", end="\n" if done >= total else "", file=sys.stderr, flush=True)

    return told
