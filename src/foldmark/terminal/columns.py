"""Texts fitted into a number of columns."""

from rich.cells import cell_len, set_cell_size

PROSE = 110
"""Maximum columns of a line of prose: a longer line is hard to read. Code and tables take the whole width."""

WIDEST = 120
"""Maximum columns of a row of a list: in a wider one, the eye loses the size of a title."""

SHORTEST = 12
"""Minimum number of characters that are left of a path that is cut."""


def fitted(text: str, width: int) -> str:
    """Return a text, shortened to `width` columns. If it contains a path, the path's middle is left out, so that the
    name of the file stays; otherwise, or if that is too little, its end is left out."""
    over = cell_len(text) - width
    if over <= 0:
        return text
    path = max((word for word in text.split(" ") if "/" in word.strip("/")), key=len, default="")
    left = len(path) - over - 1
    if left >= SHORTEST:
        end = left * 2 // 3
        text = text.replace(path, f"{path[: left - end]}…{path[-end:]}", 1)
    return text if cell_len(text) <= width else f"{set_cell_size(text, max(0, width - 1))}…"
