"""The chat's notices about agents in the background."""

import pytest

import foldmark
from foldmark.chat.controller import ChatController
from foldmark.chat.lines.keyboard import ScriptedLines
from foldmark.chat.lines.line_mode import LineView
from foldmark.request.standing import end_of
from foldmark.runtime.supervisor import ContextChangedError
from stored import stored


def test_a_killed_agent_is_not_idle(capsys: pytest.CaptureFixture[str]) -> None:
    with foldmark.open(":memory:", settings={}) as log:
        root = log.agent("default")
        child = log.agent(root.do("/fork").data["child"])
        view = LineView(ScriptedLines([]), None)
        talk = ChatController(root, view)
        talk.ended(child, None)
        talk.ended(child, ContextChangedError("a command in another process changes its context"))
        root.do(f"/kill {child.id}")
        talk.ended(child, None)
        view.executor.drain()
        who, end = child.id[:8], end_of(stored(log), child.id)
    assert end is not None
    assert capsys.readouterr().out.splitlines() == [
        f"(agent {who} is idle)",
        f"(agent {who} ended its turn: a command in another process changes its context)",
        f"(agent {who} is dead: {end.sentence.partition(' is dead: ')[2]})",
    ]


def test_a_notice_while_the_prompt_comes_back_does_not_wait_for_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    """If the prompt returns between the check and the handover of the notice, the read is interrupted."""

    class Returning(ScriptedLines):
        taken = 0

        def take(self) -> None:
            self.taken += 1

    with foldmark.open(":memory:") as log:
        root, keyboard = log.agent("root"), Returning([])
        view = LineView(keyboard, None)
        talk = ChatController(root, view)
        talk.ended(root, None)
        assert (keyboard.taken, capsys.readouterr().out) == (1, "")
        view.executor.drain()
        assert "is idle)" in capsys.readouterr().out
