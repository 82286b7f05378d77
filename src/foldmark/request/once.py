"""A property that is computed at its first use and kept, without a lock.

Before Python 3.12 `functools.cached_property` holds one lock for all instances while it computes. A thread that
computes one may wait for the store, and the thread that holds the store may want the same property: a deadlock.
"""

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property as once
else:

    class once:  # noqa: N801
        def __init__(self, compute: Any) -> None:
            self._compute, self.__doc__ = compute, compute.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self._name = name

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            # The instance attribute shadows this descriptor from now on.
            value = instance.__dict__[self._name] = self._compute(instance)
            return value


__all__ = ["once"]
