"""Copies conversations between stores: all of them, some, or only what is new since the last copy [docs/backup.md].

Read `copying.py` first: the steps. `scope.py` says what is copied, `checking.py` whether the other store can take it,
before anything is written; `comparing.py` tells what two stores hold differently, and that they hold the same in the
end.
"""

from foldmark.copying.copying import CopyReport, copy

__all__ = ["CopyReport", "copy"]
