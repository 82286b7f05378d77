"""What a person at a chat is told of agents in the background."""

import pytest

import foldmark
from foldmark.interfaces.foreground import Foreground
from foldmark.interfaces.keyboard import Lines
from foldmark.interfaces.notices import Notices
from foldmark.runtime.supervisor import ContextChangedError


def test_a_killed_agent_is_not_idle(capsys: pytest.CaptureFixture[str]) -> None:
    with foldmark.open(":memory:", settings={}) as log:
        root = log.agent("default")
        child = log.agent(root.do("/fork").data["child"])
        front = Foreground()
        notices = Notices(root, front, Lines([]), None, lambda: None, lambda _: None)
        notices.ended(child, None)
        notices.ended(child, ContextChangedError("a command in another process changes its context"))
        root.do(f"/kill {child.id}")
        notices.ended(child, None)
        front.drain()
        who, end = child.id[:8], log.store.end(child.id)
    assert end is not None
    assert capsys.readouterr().out.splitlines() == [
        f"(agent {who} is idle)",
        f"(agent {who} ended its turn: a command in another process changes its context)",
        f"(agent {who} is dead: {end.told.partition(' is dead: ')[2]})",
    ]
