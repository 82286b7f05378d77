"""Calibration by the tokens that a provider reports [SPEC 5.4]."""

import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from foldmark.tokens.counting import recalibrated
from sampled import DEEP, sampled

sys.path.insert(0, str(Path(__file__).parent.parent.parent / "benchmarks"))
import token_accuracy as accuracy
from token_texts import KINDS

TURNS = 40 if DEEP else 24
CONVERSATIONS = {kind: (kind,) * TURNS for kind in KINDS}
FOLLOWED = [*CONVERSATIONS, *sampled([*accuracy.CHANGING], 2)]
CONVERSATIONS |= {name: kinds[:TURNS] for name, kinds in accuracy.CHANGING.items()}


def test_a_ratio_that_is_off_is_corrected_at_once() -> None:
    assert recalibrated(40_000, 13_000, 4.0) == 3.077
    assert recalibrated(40_000, 9_700, 4.0) == 4.124
    assert recalibrated(10_000, 11_500, 1.0) == 0.87


def test_a_ratio_that_is_right_stays() -> None:
    assert recalibrated(40_000, 10_000, 4.0) is None
    assert recalibrated(40_000, 10_199, 4.0) is None
    assert recalibrated(40_000, 9_810, 4.0) is None


@pytest.mark.parametrize(
    ("size", "reported"),
    [(40_000, 0), (40_000, -5), (0, 10_000), (-1, 10_000), (4_000, 10_000), (40_000, 1_000), (300, 99)],
)
def test_absurd_reports_and_tiny_requests_do_not_calibrate(size: Any, reported: Any) -> None:
    assert recalibrated(size, reported, 4.0) is None


@pytest.fixture(scope="module")
def sent() -> Any:
    """A function from the name of a conversation to its requests, each made once."""
    return cache(lambda name: accuracy.conversation(CONVERSATIONS[name]))


@pytest.mark.parametrize("name", FOLLOWED)
def test_after_five_turns_estimates_are_within_5_percent(name: Any, sent: Any) -> None:
    followed = accuracy.follow(sent(name), 4.0)
    late = followed.after(5)
    assert len(late) >= TURNS - 10
    assert max(map(abs, late)) <= 0.05


@pytest.mark.parametrize("name", ["JSON", "English", "Chinese"])
def test_without_calibration_estimates_are_not_within_5_percent(name: Any, sent: Any) -> None:
    assert max(map(abs, accuracy.follow(sent(name), 4.0, calibrate=False).after(5))) > 0.1


@pytest.mark.parametrize("name", FOLLOWED)
def test_the_ratio_does_not_move_at_every_answer(name: Any, sent: Any) -> None:
    assert accuracy.follow(sent(name), 4.0).corrections * 2 < len(sent(name))


def test_a_tokenizer_that_is_off_is_calibrated(sent: Any) -> None:
    reported = [each._replace(size=each.tokens, tokens=round(each.tokens * 1.07)) for each in sent("English")]
    followed = accuracy.follow(reported, 1.0)
    assert followed.corrections <= 2
    assert max(map(abs, followed.after(5))) < 0.01


@pytest.mark.skipif(not accuracy.DATA.is_dir(), reason="the recorded sessions are not here")
def test_calibrated_estimates_match_recorded_bills() -> None:
    session = "episodic-memory-large" if DEEP else "agentcmd-four"
    claude = accuracy.claude_requests(accuracy.DATA / "claude" / f"{session}.jsonl")
    late = accuracy.follow(_growth(claude, accuracy.in_bytes, 3.0), 3.0).after(6)
    assert len(late) > (100 if DEEP else 20)
    assert sum(abs(error) <= 0.05 for error in late) >= 0.95 * len(late)

    codex = accuracy.codex_requests(accuracy.DATA / "codex" / "agentcmd-old-output-shape.jsonl")
    late = accuracy.follow(_growth(codex, accuracy.in_tokens, 1.0), 1.0, calibrate=False).after(6)
    assert len(late) > 20
    assert max(map(abs, late)) <= 0.05


def _growth(requests: Any, size: Any, ratio: float) -> list[accuracy.Sent]:
    sent = accuracy.sizes(requests, size)
    return accuracy.grown(sent, ratio, accuracy.unseen(sent, ratio))[0]
