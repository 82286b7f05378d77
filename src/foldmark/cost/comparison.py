"""The comparison that `foldmark cost` shows: a conversation's requests under several policies [SPEC 5.7]."""

from collections.abc import Sequence
from typing import NamedTuple

from foldmark.core.config import Config, checked
from foldmark.core.errors import CommandError
from foldmark.core.ports import Progress
from foldmark.cost.cost import SENDERS, Policy, Replayed, answered, replay, thought_about
from foldmark.cost.spending import Tariff, rules_of, tariff_of
from foldmark.log import Agent
from foldmark.providers.registry import canonical, dialect_of

KINDS = tuple(SENDERS)
"""The policies that can be compared."""

OWN = ("steady", "eager")
"""The policies that a setting can choose."""

MODELS = {
    "anthropic": "anthropic/claude-sonnet-5-5",
    "openai": "openai/gpt-5.4",
    "gemini": "gemini/gemini-3.1-pro-preview",
    "gemini_gca": "gemini/gemini-3.1-pro-preview",
}
"""The model to compare with if the conversation's own model is `offline`, by the dialect of its newest call."""


class CostOptions(NamedTuple):
    """Options of a comparison. `model` is PROVIDER/MODEL; `policy` lists kinds of `KINDS`, empty for all that the model
    supports; `low_water` lists shares for `steady`, as in "0.8,0.6". None stands for the agent's own setting. With
    `ignore_pauses` no cache ever expires."""

    model: str | None = None
    budget: int | None = None
    policy: Sequence[str] = ()
    low_water: str | None = None
    ignore_pauses: bool = False


class CostReport(NamedTuple):
    """The cost of a conversation under each policy.

    `answered` is the number of tokens of all answers; `thinks` is True if thinking was recorded; `rows` holds one
    replay for each policy.
    """

    name: str
    provider: str
    model: str
    tariff: Tariff
    budget: int
    answered: int
    thinks: bool
    rows: list[Replayed]

    @property
    def verdict(self) -> str:
        """A comparison of the first policy with those that keep as many tokens in view; a smaller window is always
        cheaper."""
        tariff, first, rest = self.tariff, self.rows[0], self.rows[1:]
        cost = tariff.cost(first.total)
        sentences = (
            [] if any(row.moves for row in self.rows if row.policy.kind in OWN) else ["The budget was never reached."]
        )
        if eager := next((row for row in rest if row.policy.kind == "eager"), None):
            sentences.append(f"{first.policy.name} costs {cost / max(1e-9, tariff.cost(eager.total)):.0%} of eager.")
        as_large = [row for row in rest if row.mean >= first.mean]
        best = min(as_large, key=lambda row: tariff.cost(row.total), default=None)
        if best is None or tariff.cost(best.total) >= cost:
            sentences += ["No other policy here keeps as many tokens in view for less."] if rest else []
        else:
            less = f"{1 - tariff.cost(best.total) / max(1e-9, cost):.0%}"
            sentences.append(f"{best.policy.name} keeps as many tokens in view and costs {less} less.")
        return " ".join(sentences)


def policies(budget: int, low_waters: Sequence[float], kinds: Sequence[str] = KINDS) -> list[Policy]:
    """Return the policies of these kinds, with one `steady` for each low water."""
    return [
        Policy(kind, budget, low)
        for kind in dict.fromkeys(kinds)
        for low in (low_waters if kind == "steady" else [None])
    ]


def low_waters(text: str) -> list[float]:
    """Parse shares such as "1.0,0.8"; a repeated share counts once. Raises CommandError."""
    found: list[float] = []
    for each in text.split(","):
        share = checked("sliding_context_low_water", each.strip())
        found += [share] if share not in found else []
    return found


def compare(agent: Agent, options: CostOptions, progress: Progress | None = None) -> CostReport:
    """Replay an agent's requests; `progress` is as in `replay`. Raises CommandError for invalid options, or if no model
    was asked."""
    config = agent.standing().config
    lows = [config.sliding_context_low_water] if options.low_water is None else low_waters(options.low_water)
    model = options.model or (config.model if config.model != "offline" else _fitting_model(agent))
    agent.log.check_model(model)
    provider, _, name = model.partition("/")
    provider, name = canonical(provider), name or provider
    known = agent.log.model_named(model)
    budget = options.budget or config.sliding_context_tokens or Config().sliding_context_tokens
    clears = dialect_of(provider, agent.log.given.dialects).clears
    usual = [kind for kind in KINDS if kind != "clearing" or clears]
    rows = replay(
        agent,
        policies(budget, lows, options.policy or usual),
        provider,
        name,
        rules=rules_of(known),
        tools=agent.tools(),
        limit=known.window,
        pauses=not options.ignore_pauses,
        progress=progress,
    )
    name_or_id = agent.name or agent.id
    if not rows[0].billed:
        raise CommandError(f"no model was asked in '{name_or_id}' yet: there is nothing to compare")
    weight = answered(agent, provider, name)
    return CostReport(name_or_id, provider, name, tariff_of(known), budget, weight, bool(thought_about(agent)), rows)


def _fitting_model(agent: Agent) -> str:
    # A text has the dialect of the model that was set at that time; a call has that of the model that made it.
    calls = (each for each in reversed(agent.context().messages) if each.dialect and each.kind == "tool_call")
    return next((MODELS[each.dialect] for each in calls if each.dialect in MODELS), MODELS["anthropic"])
