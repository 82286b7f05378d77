"""What a trim saves as tables: tool by tool, and step by step."""

from collections.abc import Mapping, Sequence

from foldmark.core.wording import one_line
from foldmark.sessions.trim.kind import ToolTally

_HEAD = ("tool", "results", "cut", "characters", "~tokens")
_ARGUMENTS = 3
"""Column of the calls whose arguments were cut, which there is only if there are any."""


def table(tally: Mapping[str, ToolTally], bytes_per_token: float) -> str:
    """A line for each tool, and one for all of them together; numbers to the right."""
    rows = [_row(one_line(tool)[:40], each, bytes_per_token) for tool, each in tally.items()]
    whole = ToolTally()
    for each in tally.values():
        whole.results += each.results
        whole.cut += each.cut
        whole.arguments += each.arguments
        whole.add(each.characters, each.bytes)
    if len(rows) != 1:
        rows.append(_row("all", whole, bytes_per_token))
    rows.insert(0, [*_HEAD[:_ARGUMENTS], "arguments", *_HEAD[_ARGUMENTS:]])
    return _aligned(rows if whole.arguments else [row[:_ARGUMENTS] + row[_ARGUMENTS + 1 :] for row in rows])


def steps_table(head: str, steps: Mapping[str, int]) -> str:
    """A line for each step and its tokens, and one for all of them together."""
    rows = [(step, f"{tokens:,}") for step, tokens in {**steps, "all": sum(steps.values())}.items()]
    return _aligned([(head, "~tokens"), *rows])


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        )
        for row in rows
    )


def _row(name: str, each: ToolTally, bytes_per_token: float) -> list[str]:
    numbers = (each.results, each.cut, each.arguments, each.characters, round(each.bytes / bytes_per_token))
    return [name, *(f"{number:,}" for number in numbers)]
