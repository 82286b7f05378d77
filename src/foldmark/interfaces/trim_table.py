"""What a trim saves, tool by tool, as a table."""

from collections.abc import Mapping

from foldmark.core.wording import one_line
from foldmark.sessions.trim.kind import ToolTally

_HEAD = ("tool", "results", "cut", "characters", "~tokens")


def table(tally: Mapping[str, ToolTally], bytes_per_token: float) -> str:
    """A line for each tool, and one for all of them together; numbers to the right."""
    rows = [_row(one_line(tool)[:40], each, bytes_per_token) for tool, each in tally.items()]
    whole = ToolTally()
    for each in tally.values():
        whole.results += each.results
        whole.cut += each.cut
        whole.characters += each.characters
        whole.bytes += each.bytes
    if len(rows) != 1:
        rows.append(_row("all", whole, bytes_per_token))
    widths = [max(len(row[column]) for row in (_HEAD, *rows)) for column in range(len(_HEAD))]
    return "\n".join(
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        )
        for row in (_HEAD, *rows)
    )


def _row(name: str, each: ToolTally, bytes_per_token: float) -> tuple[str, ...]:
    numbers = (each.results, each.cut, each.characters, round(each.bytes / bytes_per_token))
    return (name, *(f"{number:,}" for number in numbers))
