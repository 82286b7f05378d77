"""What `foldmark cost` found, as a table with what it says, and as JSON."""

from typing import Any

from foldmark.cli.cost import CostReport
from foldmark.core.wording import count
from foldmark.cost.cost import Replayed
from foldmark.rendering import harmless

OWN = ("steady", "eager")
"""The policies that a setting gives."""


def text(found: CostReport) -> str:
    """The table, and what it says of the first policy."""
    tariff, rows = found.tariff, found.rows
    head = ["policy", "fresh", "cache write", "cache read", "read", "rewritten", "cost", "in view", "largest", "moves"]
    table = [[*head, "thinking", "lost"]] + [
        [
            row.policy.name,
            *(f"{tokens:,}" for tokens in row.total[:3]),
            f"{share(row):.0%}",
            f"{row.rewritten:,}",
            tariff.shown(tariff.cost(row.total)),
            f"{row.mean:,}",
            f"{row.largest:,}",
            f"{row.moves:,}",
            f"{row.thoughts.share:.0%}",
            f"{row.thoughts.blocks:,}",
        ]
        for row in rows
    ]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = []
    for name, *numbers in table:
        cells = (cell.rjust(width) for cell, width in zip(numbers, widths[1:], strict=True))
        lines.append("  ".join([name.ljust(widths[0]), *cells]))
    unit = "dollars" if tariff.input is not None else "fresh input tokens' worth"
    recorded = "as recorded" if found.thinks else "as if every answer had begun with a block, since none is recorded"
    below = [
        f"Input in tokens (~), cost in {unit}. Answers of ~{found.answered:,} tokens come on top in every row.",
        f"Thinking: the share that could still be sent if it is bound to what stood before it, {recorded}.",
    ]
    return harmless("\n".join([title(found), "", *lines, "", *below, verdict(found)]))


def title(found: CostReport) -> str:
    """What was replayed, and as what."""
    requests = count(len(found.rows[0].billed), "request")
    return f"{found.name}: {requests} to {found.provider}/{found.model}, budget {found.budget:,} tokens"


def share(row: Replayed) -> float:
    """The share of the input that was read from the cache."""
    return row.total.read / max(1, row.total.tokens)


def verdict(found: CostReport) -> str:
    """Compare the first policy with those that keep as many tokens in view: a smaller window is cheaper by itself."""
    tariff, first, rest = found.tariff, found.rows[0], found.rows[1:]
    cost = tariff.cost(first.total)
    said = [] if any(row.moves for row in found.rows if row.policy.kind in OWN) else ["The budget was never reached."]
    if eager := next((row for row in rest if row.policy.kind == "eager"), None):
        said.append(f"{first.policy.name} costs {cost / max(1e-9, tariff.cost(eager.total)):.0%} of eager.")
    as_large = [row for row in rest if row.mean >= first.mean]
    best = min(as_large, key=lambda row: tariff.cost(row.total), default=None)
    if best is None or tariff.cost(best.total) >= cost:
        said += ["No other policy here keeps as many tokens in view for less."] if rest else []
    else:
        less = f"{1 - tariff.cost(best.total) / max(1e-9, cost):.0%}"
        said.append(f"{best.policy.name} keeps as many tokens in view and costs {less} less.")
    return " ".join(said)


def data(found: CostReport) -> dict[str, Any]:
    """The report as JSON."""
    return {
        "conversation": found.name,
        "provider": found.provider,
        "model": found.model,
        "budget": found.budget,
        "answered": found.answered,
        "thinking_recorded": found.thinks,
        "factors": found.tariff._asdict(),
        "policies": [
            {
                "policy": row.policy.kind,
                "low_water": row.policy.low_water,
                "requests": len(row.billed),
                **row.total._asdict(),
                "rewritten": row.rewritten,
                "equivalents": round(found.tariff.cost(row.total)),
                "mean": row.mean,
                "largest": row.largest,
                "moves": row.moves,
                "thinking": row.thoughts._asdict(),
            }
            for row in found.rows
        ],
        "verdict": verdict(found),
    }
