"""The line mode's prompt, which other threads can interrupt to take the line."""

import os
from typing import Any

import pytest

from foldmark.chat.lines.keyboard import TakenError, Typed


def test_a_second_signal_arrives_while_the_first_is_handled(monkeypatch: pytest.MonkeyPatch) -> None:
    typed, written = Typed(), list[bytes]()
    typed._reads = "line"

    def write(descriptor: int, data: bytes) -> int:
        written.append(data)
        typed._woken()
        return len(data)

    class Screen:
        def fileno(self) -> int:
            return 1

        def write(self, text: str) -> None:
            write(1, text.encode())

        def flush(self) -> None:
            pass

    monkeypatch.setattr("sys.stdout", Screen())
    monkeypatch.setattr(os, "write", write)
    with pytest.raises(TakenError):
        typed._woken()
    assert written == [b"\r\x1b[K"]


def test_a_signal_that_comes_too_late_does_nothing() -> None:
    typed: Any = Typed()
    typed._woken()
    assert typed._reads == ""
