"""Copying conversations between stores [docs/backup.md]: everything, some of them, or what is new since the last time.

Read `copying.py` first: the steps. `scope.py` says what is copied, `checking.py` whether the other store can take it,
before anything is written; `comparing.py` tells what two stores hold differently, and that they hold the same in the
end.
"""

from foldmark.copying.copying import Report, copy

__all__ = ["Report", "copy"]
