"""Errors of paths, and suggestions of similar names."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import PurePath

from foldmark.core.errors import CommandError
from foldmark.core.wording import listing
from foldmark.tools.working.opening import opened_folder, why
from foldmark.tools.working.paths import inside, shown

MOST_NAMES = 1000
"""Maximum number of names in a folder that are compared."""


@contextmanager
def explained(real: str, folder: str) -> Iterator[None]:
    """Turn OSErrors about a real path inside the block into CommandErrors, worded for a model."""
    try:
        yield
    except FileNotFoundError:
        raise CommandError(missing(real, folder)) from None
    except OSError as error:
        raise CommandError(why(error, real)) from None


def missing(real: str, folder: str) -> str:
    """Return the message for a missing file, with similar names beside it, or beside its first missing folder. Outside
    of the working folder it names nothing: a person agreed to that one path only."""
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
    from difflib import get_close_matches  # takes 7 ms

    folded = {each.lower(): each for each in names}
    if found := get_close_matches(name.lower(), folded, n=3):
        return f"did you mean {' or '.join(folded[each] for each in found)}?"
    return f"there is: {listing(names, 40)}" if names else "that folder is empty"
