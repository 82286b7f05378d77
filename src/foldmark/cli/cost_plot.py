"""Bars of what policies cost, drawn with matplotlib, which nothing else needs."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from foldmark.core.errors import FoldmarkError
from foldmark.cost.cost import Replayed, Tariff


def drawing() -> Any:
    """matplotlib, which only plots need. Raises FoldmarkError where it is not installed."""
    try:
        matplotlib = import_module("matplotlib")
    except ImportError:
        raise FoldmarkError("a plot needs matplotlib, which is not installed: pip install matplotlib") from None
    matplotlib.use("svg")
    return matplotlib


def plot(panels: Sequence[tuple[str, Sequence[Replayed], Tariff]], path: Path) -> None:
    """Draw bars of what each policy costs, one panel for each title. Raises FoldmarkError, OSError."""
    matplotlib, pyplot = drawing(), import_module("matplotlib.pyplot")
    with matplotlib.rc_context({"svg.hashsalt": "foldmark", "svg.fonttype": "none", "font.size": 8}):
        figure, axes = pyplot.subplots(
            len(panels),
            1,
            squeeze=False,
            figsize=(8, sum(0.8 + 0.22 * len(rows) for _, rows, _ in panels)),
            height_ratios=[len(rows) + 2 for _, rows, _ in panels],
        )
        for (title, rows, tariff), axis in zip(panels, axes[:, 0], strict=True):
            names = [row.policy.name for row in rows]
            left = [0.0] * len(rows)
            for part, factor, colour in (
                ("fresh", 1.0, "#c44e52"),
                ("write", tariff.write, "#dd8452"),
                ("read", tariff.read, "#4c72b0"),
            ):
                widths = [getattr(row.total, part) * factor / 1000 for row in rows]
                axis.barh(names, widths, left=left, color=colour, label=part)
                left = [a + b for a, b in zip(left, widths, strict=True)]
            axis.invert_yaxis()
            axis.set_title(title, loc="left")
        axes[-1, 0].set_xlabel("thousand fresh input tokens' worth")
        axes[0, 0].legend(loc="lower right")
        figure.tight_layout()
        figure.savefig(path, format="svg", metadata={"Date": None})
        pyplot.close(figure)
