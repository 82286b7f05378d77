"""Random JSON of the shapes that programs do not write."""

from collections.abc import Sequence
from random import Random
from typing import Any


def odd(chance: Random, members: Sequence[str], values: Sequence[Any], depth: int = 0) -> Any:
    """Return one of `values`, or a list or an object of such, nested up to four levels; keys are among `members`."""
    kind = chance.randrange(4) if depth < 4 else 3
    if kind == 0:
        return [odd(chance, members, values, depth + 1) for _ in range(chance.randrange(4))]
    if kind == 1:
        return {chance.choice(members): odd(chance, members, values, depth + 1) for _ in range(chance.randrange(5))}
    return chance.choice(values)
