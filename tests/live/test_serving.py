"""`foldmark live --serve` records what has passed before it ends, by Ctrl-C or by a signal (SPEC 5.7)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from time import sleep

import apsw
import pytest
from claude_client import SESSION, Client, Model
from server import Loopback
from wire_anthropic import AnthropicWire

import foldmark
from foldmark.live.status import status
from patience import LIMIT


@pytest.mark.skipif(os.name == "nt", reason="no such signals")
@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_what_has_passed_is_recorded_before_it_ends(tmp_path: Path, by: signal.Signals) -> None:
    path = tmp_path / "live.db"
    foldmark.open(path, settings={}).close()
    wire = AnthropicWire()
    with Loopback(wire, Model(wire)) as upstream:
        words = [sys.executable, "-m", "foldmark", "--db", str(path), "live", "--serve", "--upstream", upstream.url]
        served = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=tmp_path)
        assert served.stdout is not None
        client = Client(served.stdout.readline().strip().partition("=")[2])
        client.say("one")
        sleep(0.3)
        other = apsw.Connection(str(path))
        other.set_busy_timeout(10_000)
        other.execute("BEGIN IMMEDIATE")  # so that nothing of the second answer is recorded yet
        client.say("two")
        served.send_signal(by)
        sleep(0.3)
        other.execute("ROLLBACK")
        other.close()
        assert served.wait(LIMIT) == (0 if by == signal.SIGINT else 128 + by)
        served.stdout.close()
    with foldmark.open(path, settings={}) as log:
        (agent,) = log.agents()
        assert [each.content for each in agent.context().messages if each.kind == "user"][-2:] == ["one", "two"]
        assert status(agent, SESSION).ledger.answers == 2
