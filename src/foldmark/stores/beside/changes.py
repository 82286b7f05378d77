"""Changes since an earlier moment (see `foldmark.core.agents`)."""

import re
from typing import ClassVar

from foldmark.core.agents import Changes
from foldmark.core.errors import CommandError, StoreError
from foldmark.stores.reader import SqlReader


class SqlChangesView(SqlReader):
    """Reads changes. Each database has its own cursor."""

    _cursor_form: ClassVar[re.Pattern[str]]

    @property
    def committed(self) -> bool:
        raise NotImplementedError

    def changes(self, after: str | None, limit: int) -> Changes:
        if not self.committed:
            raise StoreError("changes are what is committed; read them outside of the transaction")
        if after is None:
            return self._from_now()
        if self._cursor_form.fullmatch(after) is None:
            raise CommandError(f"'{after:.40}' is no cursor; take the one of an earlier answer, or none to begin now")
        return self._behind(after, limit)

    def _from_now(self) -> Changes:
        """Return no change, and the cursor of this moment."""
        raise NotImplementedError

    def _behind(self, after: str, limit: int) -> Changes:
        """Return the changes after a cursor."""
        raise NotImplementedError
