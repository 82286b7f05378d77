"""`foldmark statusline` (SPEC 8)."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hook_place import ID, HookPlace, answer, fed, usage
from hypothesis import given
from hypothesis import strategies as st
from session_records import user

from foldmark.core.wording import meter
from foldmark.sessions.hook import statusline, tail

MODEL = {"id": "claude-opus-4-8", "display_name": "Opus 4.8"}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HookPlace:
    return HookPlace(tmp_path, monkeypatch)


def status(place: HookPlace, window: Any = 200_000, used: Any = None, **more: Any) -> dict[str, Any]:
    """Return a status in the form of Claude Code 2.1."""
    inner = {
        "total_input_tokens": 5,
        "total_output_tokens": 6,
        "context_window_size": window,
        "current_usage": used,
        "used_percentage": None,
        "remaining_percentage": None,
    }
    told = {"session_id": ID, "transcript_path": str(place.session), "model": MODEL, "context_window": inner}
    return {**told, **more}


def line(place: HookPlace, told: dict[str, Any]) -> str:
    return statusline.line(told, place.environment)


@pytest.mark.parametrize(
    ("tokens", "light"), [(124_000, "⚪"), (159_999, "⚪"), (160_000, "🟡"), (189_999, "🟡"), (190_000, "🔴")]
)
def test_the_status_of_claude_code_gives_the_meter(place: HookPlace, tokens: int, light: str) -> None:
    told = line(place, status(place, used=usage(tokens)))
    assert told == f"Opus 4.8 · {meter(tokens, 200_000)}"
    assert told.endswith(light)


def test_the_status_line_shows_the_share(place: HookPlace) -> None:
    assert line(place, status(place, used=usage(124_000), model=None)) == "Context: 124K/200K tokens (62%) ⚪"


def test_hook_and_status_line_agree(place: HookPlace) -> None:
    place.write(answer(174_321))
    found = tail.share(place.session)
    assert found is not None
    told = line(place, status(place, used=answer(174_321)["message"]["usage"]))
    assert told == f"Opus 4.8 · {meter(found.tokens, found.window)}"


def test_without_usage_in_the_status_the_transcript_is_read(place: HookPlace) -> None:
    place.write(user("hello"), answer(124_000))
    for used in (None, {}, dict.fromkeys(usage(5_000), 0), "many"):
        assert line(place, status(place, 500_000, used)) == "Opus 4.8 · Context: 124K/500K tokens (24%) ⚪"
    told = status(place)
    del told["context_window"]
    assert line(place, told) == "Opus 4.8 · Context: 124K/500K tokens (24%) ⚪", "the window was noted"


def test_a_share_without_tokens(place: HookPlace) -> None:
    told = status(place)
    told["context_window"]["used_percentage"] = 33
    assert line(place, told) == "Opus 4.8 · Context: 66K/200K tokens (33%) ⚪"


def test_without_usage_the_line_names_only_the_model(place: HookPlace) -> None:
    assert line(place, status(place)) == "Opus 4.8"
    assert line(place, {}) == ""


def test_the_window_is_noted_for_hooks(place: HookPlace) -> None:
    place.write(answer(124_000))
    line(place, status(place, 1_000_000, usage(124_000)))
    assert place.answered("PostToolUse") is None, "12% of what the window holds"
    line(place, status(place, 150_000, usage(124_000)))
    assert place.answered("PostToolUse") == "Context at 82%. Recommend /trim now or /rollover soon."
    line(place, status(place, 200_000, usage(124_000)))
    assert place.answered("PostToolUse") is None, "that the window was noted is no reason for another reminder"
    for nonsense in (0, -1, True, "200000", None, 10**12):
        told = line(place, status(place, nonsense, usage(124_000)))
        assert told == "Opus 4.8 · Context: 124K/200K tokens (62%) ⚪"
    assert place.remembered().window == 200_000


def test_a_name_that_steers_the_terminal(place: HookPlace) -> None:
    for model in ({"display_name": "\x1b[31mOpus\n\u202e4.8\x07"}, "\x1b[31mOpus\n\u202e4.8\x07"):
        assert line(place, status(place, model=model)) == "[31mOpus4.8"
    assert len(line(place, status(place, model={"display_name": "x" * 500}))) == 60


@given(
    st.binary()
    | st.dictionaries(
        st.sampled_from(["session_id", "transcript_path", "model", "context_window", "display_name"]),
        st.recursive(
            st.none() | st.booleans() | st.text() | st.integers(),
            lambda inner: st.dictionaries(
                st.sampled_from(["current_usage", "context_window_size", "used_percentage", "input_tokens"]), inner
            ),
        ),
    ).map(lambda told: repr(told).replace("'", '"').replace("None", "null").encode("utf-8", "replace"))
)
def test_any_standard_input_prints_one_line(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        HookPlace(Path(folder), patch)
        with fed(data, Path(folder)) as written:
            statusline.run()
        assert written.read_bytes().count(b"\n") == 1


def test_as_it_is_installed(place: HookPlace) -> None:
    done = place.ran(status(place, used=usage(124_000)), program="statusline", LC_ALL="C")
    assert (done.returncode, done.stdout, done.stderr) == (0, "Opus 4.8 · Context: 124K/200K tokens (62%) ⚪\n", "")
    for data in (None, b"garbage", b"[]", b"[" * 200_000):
        done = place.ran(data, program="statusline")
        assert (done.returncode, done.stdout, done.stderr) == (0, "\n", "")
    assert "Claude Code" in place.ran(None, "--help", program="statusline").stdout
    done = place.ran(status(place, used=usage(124_000)), "--new", program="statusline", XDG_STATE_HOME=os.devnull)
    assert (done.returncode, done.stdout) == (0, "Opus 4.8 · Context: 124K/200K tokens (62%) ⚪\n")
