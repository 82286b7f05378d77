"""What the service answers (SPEC 8), where no client is needed to see it."""

from pathlib import Path

import foldmark
from foldmark.mod.questions import Questions


def test_a_session_without_messages_has_no_operations(tmp_path: Path) -> None:
    with foldmark.open(tmp_path / "log.db") as log:
        assert Questions(log)("newest", {"session": "s-1"}) == {"operation": 0}
        assert not log.agents()
