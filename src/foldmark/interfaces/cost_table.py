"""What `foldmark cost` found, as a table with what it recommends and as JSON."""

from typing import Any

from foldmark.conversation.cost import Replayed, Tariff
from foldmark.core.wording import count
from foldmark.interfaces.cost import Report
from foldmark.interfaces.render import harmless

BAR = 24
"""Characters of the longest bar."""

NEAR = 1.1
"""What is near to the lowest price of a token, as a factor of it."""


def text(found: Report) -> str:
    """The table, and which policy it speaks for."""
    tariff, rows = found.tariff, found.rows
    costs = [tariff.cost(row.total) for row in rows]
    head = ["policy", "fresh", "cache write", "cache read", "read", "cost", "a token", "mean", "largest", "moves"]
    table = [head] + [
        [
            row.policy.name,
            *(f"{tokens:,}" for tokens in row.total[:3]),
            f"{share(row):.0%}",
            tariff.shown(cost),
            f"{price(row, tariff):.2f}",
            f"{row.mean:,}",
            f"{row.largest:,}",
            f"{row.moves:,}",
        ]
        for row, cost in zip(rows, costs, strict=True)
    ]
    widths = [max(len(line[column]) for line in table) for column in range(len(head))]
    lines = []
    for line, cost in zip(table, [0.0, *costs], strict=True):
        numbers = (cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True))
        bar = "█" * round(BAR * cost / max(1e-9, *costs))
        lines.append("  ".join([line[0].ljust(widths[0]), *numbers, bar]).rstrip())
    unit = "dollars" if tariff.input is not None else "fresh input tokens' worth"
    below = [
        f"Input in tokens (~), cost in {unit}, a token as a share of a fresh one.",
        f"Answers of ~{found.answered:,} tokens come on top in every row.",
    ]
    return harmless("\n".join([title(found), "", *lines, "", *below, verdict(found)]))


def title(found: Report) -> str:
    """What was replayed, and as what."""
    requests = count(len(found.rows[0].billed), "request")
    return f"{found.name}: {requests} to {found.provider}/{found.model}, budget {found.budget:,} tokens"


def share(row: Replayed) -> float:
    """The share of the input that was read from the cache."""
    return row.total.read / max(1, row.total.tokens)


def verdict(found: Report) -> str:
    """One line: which window to take, of those that the settings can give, and what it takes away.

    A smaller window is cheaper by itself, so what counts is the price of a token that the model saw. Of the windows
    that come near the lowest, the largest is the one.
    """
    tariff, whole = found.tariff, found.rows[0]
    windows = [row for row in found.rows if row.policy.changes["sliding_context_tokens"]]
    if not any(row.moves for row in windows):
        return "The budget was never reached: the window holds everything, and low water makes no difference to it."
    there_is = [row for row in windows if row.policy.anchors_last in (None, _low(row) < 1)]
    lowest = min(price(row, tariff) for row in there_is or windows)
    near = [row for row in there_is or windows if price(row, tariff) <= lowest * NEAR]
    best, usual = max(near, key=lambda row: row.mean), windows[0]
    line = f"Recommended: {best.policy.name}"
    if best is not usual:
        cheaper = _change(price(best, tariff), price(usual, tariff))
        line += f", {cheaper} on {usual.policy.name} for each token that the model saw"
        line += f" ({_change(tariff.cost(best.total), tariff.cost(usual.total))} in all, with requests"
        line += f" {best.mean / max(1, usual.mean):.0%} as large)"
    line += f". The whole history: {_change(tariff.cost(whole.total), tariff.cost(best.total))} on that."
    return f"{line} To have it: /config set sliding_context_low_water={_low(best):g}" if there_is else line


def price(row: Replayed, tariff: Tariff) -> float:
    """What a token of the requests cost on the average, a fresh one being 1."""
    return tariff.cost(row.total) / max(1, row.total.tokens)


def _low(row: Replayed) -> float:
    return float(row.policy.changes["sliding_context_low_water"])


def _change(cost: float, before: float) -> str:
    return f"{cost / max(1e-9, before) - 1:+.0%}".replace("-", "−")


def data(found: Report) -> dict[str, Any]:
    """The report as JSON."""
    return {
        "conversation": found.name,
        "provider": found.provider,
        "model": found.model,
        "budget": found.budget,
        "answered": found.answered,
        "factors": found.tariff._asdict(),
        "policies": [
            {
                "policy": row.policy.name,
                **row.policy.changes,
                "anchors_last": row.policy.anchors_last,
                "requests": len(row.billed),
                **row.total._asdict(),
                "equivalents": round(found.tariff.cost(row.total)),
                "mean": row.mean,
                "largest": row.largest,
                "moves": row.moves,
            }
            for row in found.rows
        ],
        "verdict": verdict(found),
    }
