"""Copy conversations between stores: all of them, some, or only what is new since the last copy [docs/backup.md].

`copying.py` has the steps. `comparing.py` selects what is copied, checks before any write that the other store can take
it, finds what differs between two stores, and verifies the copy in the end.
"""

from foldmark.copying.copying import CopyReport, copy

__all__ = ["CopyReport", "copy"]
