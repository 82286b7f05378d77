"""What is wrong with a path, and what a model may have meant by one that there is not."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import PurePath

from foldmark.core.errors import CommandError
from foldmark.core.wording import listing
from foldmark.tools.working.opening import opened_folder, why
from foldmark.tools.working.paths import inside, shown

MOST_NAMES = 1000
"""Names of a folder that are compared."""


@contextmanager
def explained(real: str, folder: str) -> Iterator[None]:
    """While the block runs, what the system says of a real path is a CommandError, in words for a model."""
    try:
        yield
    except FileNotFoundError:
        raise CommandError(missing(real, folder)) from None
    except OSError as error:
        raise CommandError(why(error, real)) from None


def missing(real: str, folder: str) -> str:
    """That there is no such file, and what is near: names like it beside it, or like its first folder that is not
    there. Of what is outside of the working folder nothing more is told: a person agreed to that one path."""
    place, told = PurePath(real), f"there is no {shown(real, folder)}"
    for parent in place.parents:
        if not inside(str(parent), folder):
            break
        try:
            with opened_folder(str(parent)) as opened:
                names = sorted(shown(entry.name) for entry in islice(opened.entries(), MOST_NAMES))
        except OSError:
            continue
        below = place.relative_to(parent)
        either = f", nor a folder {shown(str(parent / below.parts[0]), folder)}" if len(below.parts) > 1 else ""
        return f"{told}{either}; {_near(below.parts[0], names)}"
    return told


def _near(name: str, names: list[str]) -> str:
    from difflib import get_close_matches  # 7 ms

    folded = {each.lower(): each for each in names}
    if found := get_close_matches(name.lower(), folded, n=3):
        return f"did you mean {' or '.join(folded[each] for each in found)}?"
    return f"there is: {listing(names, 40)}" if names else "that folder is empty"
