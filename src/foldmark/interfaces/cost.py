"""`foldmark cost`: which conversation is replayed as what, and under which policies."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import foldmark
from foldmark.conversation import Agent, Log
from foldmark.conversation.cost import Policy, Replayed, Tariff, answered, replay, rules_of, tariff_of
from foldmark.core.config import Config, checked
from foldmark.core.errors import CommandError
from foldmark.core.ports import Progress

ORDERS = {"first": (False,), "last": (True,), "both": (False, True), "auto": (None,)}
"""Where state, scratchpad and memos stand: in the system field, behind the history, each once, or as is the rule."""

MODELS = {"anthropic": "claude-sonnet-4-6", "openai": "gpt-5.4", "gemini": "gemini-3.1-pro-preview"}
"""What is asked where a conversation has no model of its own but `offline`: by the dialect of its newest call."""


class Wish(NamedTuple):
    """What is to be compared: `model` is PROVIDER/MODEL, None for the agent's own; `budget` None for its own;
    `low_water` as in "1.0,0.8"; `order` one of `ORDERS`; with `ignore_pauses` no cache ever expires."""

    model: str | None = None
    budget: int | None = None
    low_water: str = "1.0,0.8,0.6"
    order: str = "auto"
    ignore_pauses: bool = False


class Report(NamedTuple):
    """What a conversation costs: its name, the model asked, the budget, what the answers weigh, a row a policy."""

    name: str
    provider: str
    model: str
    tariff: Tariff
    budget: int
    answered: int
    rows: list[Replayed]


def policies(budget: int, low_waters: Sequence[float], order: str) -> list[Policy]:
    """The whole history, and the window at each low water, with the layers in each order asked for."""
    windows = [(f"low water {low:g}", budget, low) for low in low_waters]
    return [
        Policy(
            name + ("" if last is None else " · state last" if last else " · state first"),
            {"sliding_context_tokens": tokens, "sliding_context_low_water": low},
            last,
        )
        for name, tokens, low in [("full history", 0, 1.0), *windows]
        for last in ORDERS[order]
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
        raise CommandError(f"there is no file '{target[:200]}' and no database {db} to look in")
    from foldmark.interfaces.imports import import_file

    with foldmark.open(":memory:") as log:
        yield log.agent(import_file(log, path, None).agent_id)


@contextmanager
def _existing(db: str) -> Iterator[Log | None]:
    if "://" not in db and not Path(db).exists():
        yield None
        return
    with foldmark.open(db, create=False) as log:
        yield log


def report(agent: Agent, wish: Wish) -> Report:
    """Replay an agent. Raises CommandError for a wrong wish, and where no model was ever asked."""
    config, lows = agent.standing().config, low_waters(wish.low_water)
    model = wish.model or (config.model if config.model != "offline" else _fitting(agent))
    agent.log.check_model(model)
    provider, _, name = model.partition("/")
    provider, name = "gemini" if provider == "google" else provider, name or provider
    known = agent.log.model_named(model)
    budget = wish.budget or config.sliding_context_tokens or Config().sliding_context_tokens
    rows = replay(
        agent,
        policies(budget, lows, wish.order),
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
    return Report(called, provider, name, tariff_of(known), budget, answered(agent, provider, name), rows)


def _fitting(agent: Agent) -> str:
    # A text has the dialect of whatever model was set when it was recorded; a call that of who made it.
    calls = (each for each in reversed(agent.context().messages) if each.dialect and each.kind == "tool_call")
    dialect = next((each.dialect for each in calls), None) or "anthropic"
    provider = "gemini" if dialect == "gemini_gca" else dialect
    return f"{provider}/{MODELS[provider]}"


def _watching() -> Progress | None:
    if not sys.stderr.isatty():
        return None

    def told(done: int, total: int) -> None:
        print(f"\rmaking request {done:,} of {total:,}", end="\n" if done >= total else "", file=sys.stderr, flush=True)

    return told
