"""What the run found, as values, and the page that shows it.

A section of the suite returns a `Section`; nothing else reaches a document. So each figure on the page, in the README
and in the comparison of two runs is one that this run measured.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import msgspec

Cell = str | float | int | None

SPREAD = 0.15
"""The part by which a ratio of one run may differ from the same ratio of the next."""


@dataclass(frozen=True)
class Table:
    """Figures that one run measured beside each other."""

    title: str
    columns: tuple[str, ...]
    """The heads; the first is that of the names."""
    rows: Sequence[tuple[Cell, ...]]
    note: str = ""
    """Below the table: units, what is not comparable."""


@dataclass(frozen=True)
class Plot:
    """Lines over a common axis, drawn as an SVG."""

    name: str
    """The name of the file, without its ending."""
    title: str
    across: str
    """What the horizontal axis shows, with its unit."""
    up: str
    series: dict[str, list[tuple[float, float]]]
    logarithmic: bool = True


@dataclass(frozen=True)
class Ratio:
    """Foldmark's figure against that of one other, by which the suite judges."""

    name: str
    """Stable across runs, as `store.append`."""
    what: str
    """What was measured, as a reader understands it."""
    ours: float
    theirs: float
    against: str
    """Whose figure `theirs` is."""
    unit: str
    goal: float | None = None
    """The ratio that Foldmark wants: at most this, or at least this where `more` holds."""
    more: bool = False
    """Whether a larger figure is the better one."""
    why: str = ""
    """Why Foldmark loses here; printed only where it does."""

    @property
    def ratio(self) -> float:
        """Foldmark's figure by theirs; infinite where theirs is 0 and ours is not."""
        if self.theirs:
            return self.ours / self.theirs
        return float("inf") if self.ours else 1.0

    @property
    def lost(self) -> bool:
        """Whether the other is better, by however little."""
        return self.ratio < 1 if self.more else self.ratio > 1

    @property
    def reached(self) -> bool | None:
        """Whether the goal is reached; None without one."""
        if self.goal is None:
            return None
        return self.ratio >= self.goal if self.more else self.ratio <= self.goal


@dataclass(frozen=True)
class Failure:
    """A peer that could not be measured, in its own words."""

    peer: str
    doing: str
    message: str


@dataclass
class Section:
    """One chapter of the page."""

    name: str
    title: str
    about: str
    """What is measured and how, as Markdown, without figures of a run."""
    tables: list[Table] = field(default_factory=list)
    plots: list[Plot] = field(default_factory=list)
    ratios: list[Ratio] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    """What a reader must know to read the tables rightly: what falls short by nature, what a peer does otherwise."""


def shown(cell: Cell) -> str:
    """Return a figure with three digits that count."""
    if cell is None:
        return "-"
    if isinstance(cell, str):
        return cell.replace("|", "\\|").replace("\n", " ")
    if isinstance(cell, int) or abs(cell) >= 100:
        return f"{cell:,.0f}"
    if cell == 0:
        return "0"
    return f"{cell:.1f}" if abs(cell) >= 10 else f"{cell:.2f}" if abs(cell) >= 0.1 else f"{cell:.3g}"


def table_lines(table: Table) -> Iterator[str]:
    """Yield a table as Markdown."""
    yield f"**{table.title}**\n"
    yield "| " + " | ".join(table.columns) + " |"
    yield "| --- |" + " ---: |" * (len(table.columns) - 1)
    for row in table.rows:
        yield "| " + " | ".join(map(shown, row)) + " |"
    if table.note:
        yield f"\n{table.note}"
    yield ""


def _compared(ratio: Ratio) -> tuple[str, ...]:
    goal = "-" if ratio.goal is None else f"{'≥' if ratio.more else '≤'} {shown(ratio.goal)}"
    reached = {None: "", True: " reached", False: " missed"}[ratio.reached]
    ours, theirs = (f"{shown(figure)} {ratio.unit}".strip() for figure in (ratio.ours, ratio.theirs))
    return ratio.what, ours, theirs, ratio.against, f"{ratio.ratio:.2f}", goal + reached


COMPARED = ("what", "Foldmark", "the other", "which is", "ratio", "goal")


_INTRODUCTION = """\
# Benchmarks

Foldmark beside other programs of its field. `make bench-peers` measured each section in one run and wrote this page;
nothing on it was written by hand but the explanations. Each peer runs in an environment of its own, as its
documentation says, in turns with the others. A peer that fails is shown with its message.

[benchmarks/README.md](../benchmarks/README.md) has Foldmark's own promises about time.
"""


def page(sections: Sequence[Section], machine: Sequence[tuple[str, str]], versions: Sequence[tuple[str, str]]) -> str:
    """Return docs/benchmarks.md."""
    lines = [_INTRODUCTION, "## Where Foldmark loses\n"]
    lost = [ratio for section in sections for ratio in section.ratios if ratio.lost]
    missed = [r for section in sections for r in section.ratios if r.reached is False and not r.lost]
    said = ""
    for ratio in lost:
        ours, theirs = (f"{shown(figure)} {ratio.unit}".strip() for figure in (ratio.ours, ratio.theirs))
        why, said = "For the same reason." if ratio.why and ratio.why == said else ratio.why, ratio.why
        lines.append(f"- **{ratio.what}**: {ours}, {ratio.against} {theirs} ({ratio.ratio:.2f}). {why}".rstrip())
    if not lost:
        lines.append("Nowhere in this run.")
    if missed:
        lines.append("\nGoals of its own that it missed without losing to a peer:\n")
        lines += [
            f"- {r.what}: {r.ratio:.2f} against {r.against}, goal {_compared(r)[-1].split(' ')[1]}" for r in missed
        ]
    lines.append("")
    for section in sections:
        lines += [f"## {section.title}\n", section.about.strip() + "\n"]
        if section.ratios:
            lines += table_lines(Table("Compared", COMPARED, [_compared(ratio) for ratio in section.ratios]))
        for table in section.tables:
            lines += table_lines(table)
        lines += [f"![{plot.title}](benchmarks/{plot.name}.svg)\n" for plot in section.plots]
        lines += [f"- {remark}" for remark in section.remarks] + ([""] if section.remarks else [])
        if section.failures:
            rows: list[tuple[Cell, ...]] = [(f.peer, f.doing, f"`{f.message[:300]}`") for f in section.failures]
            lines += table_lines(Table("Failed", ("peer", "while", "its message"), rows))
    lines += ["## Machine and versions\n", *table_lines(Table("Machine", ("", ""), [*machine]))]
    lines += table_lines(
        Table("Versions", ("peer", "packages"), [*versions], "Pinned in `benchmarks/peers/peers.toml`.")
    )
    return "\n".join(lines).rstrip() + "\n"


def measured(sections: Iterable[Section], names: Sequence[str]) -> str:
    """Return the short table of the README: the named ratios, in that order, those that this run has."""
    ratios = {ratio.name: ratio for section in sections for ratio in section.ratios}
    rows = [_compared(ratios[name])[:5] for name in names if name in ratios]
    table = "\n".join([*table_lines(Table("", COMPARED[:5], rows))][1:])
    return (
        table.strip()
        + "\n\nMeasured by `make bench-peers`: [all tables, and where Foldmark loses](docs/benchmarks.md)."
    )


def put_between_marks(path: Path, text: str) -> None:
    """Replace what stands between the two marks of the README.

    Raises:
        ValueError: A mark is missing.
    """
    old = path.read_text(encoding="utf-8")
    new, count = re.subn(
        r"(<!-- measured: written by make bench-peers -->\n).*?(\n<!-- end -->)",
        lambda found: found[1] + text + found[2],
        old,
        flags=re.DOTALL,
    )
    if count != 1:
        raise ValueError(f"{path} has no place for the table; it stands between <!-- measured: … --> and <!-- end -->.")
    path.write_text(new, encoding="utf-8")


def draw(plot: Plot, path: Path) -> None:
    """Write a plot as an SVG that reads on light and dark pages."""
    import matplotlib as mpl  # type: ignore[import-not-found,unused-ignore]

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "foldmark"
    from matplotlib import pyplot  # type: ignore[import-not-found,unused-ignore]

    figure, axes = pyplot.subplots(figsize=(10, 4.5))
    colours = pyplot.get_cmap("tab20")
    axes.set_prop_cycle(color=[colours(number) for number in range(20)])  # ten would repeat
    for name, points in plot.series.items():
        ours = name.startswith("Foldmark")
        axes.plot(*zip(*points, strict=True), marker="o", markersize=3, linewidth=2.4 if ours else 1.2, label=name)
    if plot.logarithmic:
        axes.set_xscale("log")
        axes.set_yscale("log")
    axes.set(title=plot.title, xlabel=plot.across, ylabel=plot.up)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1.01, 1))  # beside the lines, which it would hide
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None}, facecolor="white")
    pyplot.close(figure)


def saved(sections: Sequence[Section]) -> str:
    """Return the results as JSON, which `compared` reads."""
    return json.dumps([asdict(section) for section in sections], indent=1, ensure_ascii=False) + "\n"


def read(text: str) -> list[Section]:
    """Return results that were saved."""
    return msgspec.convert(json.loads(text), list[Section])


def compared(first: str, second: str) -> Iterator[tuple[str, float, float, bool]]:
    """Yield each ratio of two saved runs: its name, both figures, and whether they agree within `SPREAD`.

    A ratio that one run lacks is there with NaN, and does not agree.
    """
    runs = [
        {ratio["name"]: Ratio(**ratio).ratio for section in json.loads(text) for ratio in section["ratios"]}
        for text in (first, second)
    ]
    for name in dict.fromkeys([*runs[0], *runs[1]]):
        one, two = (run.get(name, float("nan")) for run in runs)
        yield name, one, two, one == two or max(one, two) <= min(one, two) * (1 + SPREAD)
