"""Times are shown in local time, with the offset where it is not that of UTC; `--utc` and `--json` show UTC."""

import json
import time
from collections.abc import Iterator

import pytest
from command_line import Cli

import foldmark
from foldmark.settings.given import local_minute

NOW = "2026-03-01T23:30:00.000000Z"


@pytest.fixture(params=["Asia/Kolkata", "UTC"])
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("TZ", {"Asia/Kolkata": "IST-5:30", "UTC": "UTC0"}[request.param])
    time.tzset()
    yield request.param
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def local(zone: str) -> str:
    return "2026-03-02 05:00+05:30" if zone != "UTC" else "2026-03-01 23:30"


def test_a_time_in_the_zone_of_this_machine(zone: str, local: str) -> None:
    assert local_minute(NOW) == local_minute("2026-03-01 23:30") == local
    assert local_minute("damaged") == "damaged"


@pytest.mark.parametrize(
    "line", ["/message list", "/operations", "/marks", "/session list", "/context at 1", "/memo show 1"]
)
def test_the_texts_of_commands(cli: Cli, log: foldmark.Log, line: str, local: str) -> None:
    log.clock = lambda: NOW
    agent = log.agent("default")
    agent.append("user", "Hello", created_at=NOW)
    agent.end_turn(created_at=NOW)
    agent.do("/mark M")
    agent.do("/memo add Use tabs.")
    assert local in cli("do", "default", line).out
    assert local in cli("chat", stdin=f"{line}\n").out
    both = cli("do", "default", line, "--utc"), cli("--utc", "do", "default", line)
    for shown in (*both, cli("chat", "--utc", stdin=f"{line}\n")):
        assert "2026-03-01 23:30" in shown.out
        assert "+05:30" not in shown.out
    assert json.loads(cli("do", "default", line, "--json").out)["text"] == agent.do(line).text
    assert "+05:30" not in agent.do(line).text, "the library shows times in UTC"
