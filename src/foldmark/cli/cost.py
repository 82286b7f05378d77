"""`foldmark cost`: a conversation's requests under several policies, as a table, JSON or a drawing."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import foldmark
from foldmark.app import Setup
from foldmark.cli.parameters import Number, conversations_and_files, reporting
from foldmark.cli.process import show
from foldmark.core.errors import CommandError, FoldmarkError
from foldmark.core.wording import count
from foldmark.log import Agent
from foldmark.rendering import aligned, counter
from foldmark.stores.addresses import may_exist, shown

if TYPE_CHECKING:
    from foldmark.cost.comparison import CostReport
    from foldmark.cost.cost import Replayed
    from foldmark.cost.spending import Tariff


@contextmanager
def conversation(db: str, target: str) -> Iterator[Agent]:
    """Yield the conversation with this name in the database, or else the session file with this name, read into memory.

    Raises CommandError if both are missing; SessionFileError; StoreError.
    """
    path = Path(target)
    with foldmark.open(db, create=False) if may_exist(db) else nullcontext() as log:
        if log is not None and (log.exists(target) or not path.is_file()):
            yield log.find(target)
            return
    if not path.is_file():
        raise CommandError(
            f"there is no session file '{target[:200]}', and no database at {shown(db)}; name another file, or the "
            "database with --db"
        )
    from foldmark.cli.sessions import import_file

    with foldmark.open(":memory:") as log:
        yield log.agent(import_file(log, path, None).agent_id)


def _text(found: "CostReport") -> str:
    """Return the table, and the verdict on the first policy."""
    tariff, rows = found.tariff, found.rows
    head = ["policy", "fresh", "cache write", "cache read", "read", "rewritten", "cost", "in view", "largest", "moves"]
    table = [[*head, "thinking", "lost"]] + [
        [
            row.policy.name,
            *(f"{tokens:,}" for tokens in row.total[:3]),
            f"{row.total.read_share:.0%}",
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
    unit = "dollars" if tariff.input is not None else "fresh input tokens' worth"
    recorded = "as recorded" if found.thinks else "assuming that every answer began with one, since none is recorded"
    below = [
        f"Input in tokens (~), cost in {unit}. Every row excludes answers of ~{found.answered:,} tokens.",
        f"Thinking: the share that could still be sent if it is bound to the messages before it, {recorded}.",
    ]
    return "\n".join([title(found), "", aligned(table), "", *below, found.verdict])


def title(found: "CostReport") -> str:
    """Return a line with the conversation and the replay's model and budget."""
    requests = count(len(found.rows[0].billed), "request")
    return f"{found.name}: {requests} to {found.provider}/{found.model}, budget {found.budget:,} tokens"


def _data(found: "CostReport") -> dict[str, Any]:
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
        "verdict": found.verdict,
    }


def drawing() -> Any:
    """Return matplotlib, which only plots need. Raises FoldmarkError if it is missing."""
    try:
        matplotlib = import_module("matplotlib")
    except ImportError:
        from shlex import join

        from foldmark.installation import package_command

        command = join(package_command("matplotlib"))
        raise FoldmarkError(f"a plot needs matplotlib, which is not installed; this installs it: {command}") from None
    matplotlib.use("svg")
    return matplotlib


def draw(panels: "Sequence[tuple[str, Sequence[Replayed], Tariff]]", path: Path) -> None:
    """Draw the cost of each policy as bars, with one panel for each title. Raises FoldmarkError, OSError."""
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


@click.command()
@click.argument("name", metavar="NAME|FILE", shell_complete=conversations_and_files)
@click.option("--model", metavar="PROVIDER/MODEL", help="The model; the conversation's own by default.")
@click.option(
    "--budget",
    metavar="TOKENS",
    type=Number(1, example=100_000),
    help="Budget of the window; its own by default.",
)
@click.option(
    "--policy",
    multiple=True,
    type=click.Choice(["steady", "eager", "full", "messages", "clearing"]),
    help="Policy to compare; may be repeated. All by default.",
)
@click.option("--low-water", metavar="SHARES", help="Low waters of steady, as in 0.8,0.6; its own by default.")
@click.option("--ignore-pauses", is_flag=True, help="Assume that no cache ever expires.")
@click.option(
    "--plot", metavar="FILE.svg", type=click.Path(path_type=Path, dir_okay=False), help="Draw a chart as well."
)
@reporting
def cost(setup: Setup, /, name: str, plot: Path | None, as_json: bool, **options: Any) -> None:
    """Compare the cost of a conversation under several policies.

    Rebuilds its requests under each policy, and computes what the provider's prompt cache would have held and which
    thinking could still have been sent. Nothing is sent, nothing is written. FILE is a session file, read into memory.

    steady and eager are Foldmark's own policies (the setting context_policy). full sends the whole history; messages
    sends the newest messages that fit the budget; clearing sends the whole history, and the provider clears old tool
    results.
    """
    from foldmark.cost.comparison import CostOptions, compare  # takes 20 ms, and `foldmark --help` loads every command

    if plot is not None:
        drawing()  # report a missing package before the long computation
    with conversation(setup.db, name) as agent:
        found = compare(agent, CostOptions(**options), counter("making request"))
    if plot is not None:
        draw([(title(found), found.rows, found.tariff)], plot)
    show(_data(found), _text(found), as_json)
