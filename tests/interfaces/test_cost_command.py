"""`foldmark cost`: the table, the recommendation, the plot, and errors [SPEC 5.3, 9]."""

from __future__ import annotations

import json
import re
import shlex
import sys
from importlib.resources import files as resources
from pathlib import Path

import pytest
from command_line import Cli, files

import foldmark
from foldmark.cost import comparison
from foldmark.installation import package_command
from foldmark.rendering import counter
from sampled import DEEP

SAMPLE = str(resources("foldmark") / "samples" / "notes-cli.jsonl")
ROW = re.compile(
    r"^(full history|steady [\d.]+|eager|newest messages|provider clearing) +([\d,]+) +([\d,]+) +([\d,]+) +\d+%"
)
TURNS = 40 if DEEP else 20
BUDGET = 600 * TURNS
"""Two thirds of the tokens of the conversation below."""
EVERY = ["steady 0.75", "eager", "full history", "newest messages", "provider clearing"]


@pytest.fixture
def agent(log: foldmark.Log) -> foldmark.Agent:
    """A long conversation, each of whose turns has its own state."""
    agent = log.agent("long")
    with agent.batch():
        for number in range(TURNS):
            agent.append("user", f"question {number} ".ljust(1500, "q"))
            agent.append("assistant", f"answer {number} ".ljust(2100, "a"))
            agent.record("state", f"Goal: {number}".ljust(300, "s"))
            agent.end_turn()
    return agent


def rows(text: str) -> dict[str, int]:
    """Return the tokens of each policy in the table."""
    found = [match for line in text.splitlines() if (match := ROW.match(line))]
    return {match[1]: sum(int(match[n].replace(",", "")) for n in (2, 3, 4)) for match in found}


def test_a_session_file_is_replayed_in_memory(cli: Cli, tmp_path: Path) -> None:
    before = files(tmp_path)
    done = cli("cost", SAMPLE)
    assert (done.code, done.err) == (0, "")
    assert re.match(r"notes-cli: \d+ requests to anthropic/claude-sonnet-5-5, budget 100,000 tokens$", done.lines[0])
    assert list(rows(done.out)) == EVERY
    assert done.lines[-1].startswith("The budget was never reached. steady 0.75 costs ")
    assert files(tmp_path) == before


def test_a_conversation_of_the_database_with_a_small_budget(cli: Cli, agent: foldmark.Agent) -> None:
    newest = agent.standing().newest
    done = cli(
        "cost", "long", "--budget", str(BUDGET), "--low-water", "0.75, 0.5", "--model", "anthropic/claude-haiku-4-5"
    )
    assert (done.code, done.err) == (0, "")
    assert done.lines[0] == f"long: {TURNS} requests to anthropic/claude-haiku-4-5, budget {BUDGET:,} tokens"
    tokens = rows(done.out)
    assert list(tokens) == ["steady 0.75", "steady 0.5", *EVERY[1:]]
    assert tokens["full history"] > tokens["eager"] > tokens["steady 0.75"] > tokens["steady 0.5"]
    assert re.match(
        r"steady 0\.75 costs \d+% of eager\. full history keeps as many tokens in view and costs \d+% less\.$",
        done.lines[-1],
    )
    assert agent.standing().newest == newest


def test_only_the_policies_that_are_wanted_in_their_order(cli: Cli, agent: foldmark.Agent) -> None:
    done = cli("cost", "long", "--budget", str(BUDGET), "--policy", "eager", "--policy", "steady", "--json")
    found = json.loads(done.out)
    assert [(each["policy"], each["low_water"]) for each in found["policies"]] == [("eager", None), ("steady", 0.75)]
    eager, steady = found["policies"]
    assert steady["rewritten"] < eager["rewritten"]
    assert steady["thinking"]["blocks"] < eager["thinking"]["blocks"]


def test_a_cheaper_policy_that_shows_as_much_is_named(cli: Cli, agent: foldmark.Agent) -> None:
    done = cli("cost", "long", "--budget", str(BUDGET), "--policy", "eager", "--policy", "full")
    assert re.match(r"full history keeps as many tokens in view and costs \d+% less\.$", done.lines[-1])
    done = cli("cost", "long", "--policy", "steady", "--low-water", "0.5")
    assert done.lines[-1] == "The budget was never reached."


def test_the_output_says_whether_thinking_was_recorded(cli: Cli, agent: foldmark.Agent) -> None:
    done = cli("cost", "long", "--policy", "eager")
    assert "assuming that every answer began with one, since none is recorded.\n" in done.out
    with agent.batch():
        agent.append("user", "go", dialect="anthropic")
        block = {"type": "thinking", "thinking": "hm", "signature": "s"}
        agent.append("assistant", "Done.", data={"blocks": [block]}, dialect="anthropic")
    assert "bound to the messages before it, as recorded.\n" in cli("cost", "long", "--policy", "eager").out


def test_only_the_provider_that_clears_results_has_that_row(cli: Cli, agent: foldmark.Agent) -> None:
    assert list(rows(cli("cost", "long", "--model", "openai/gpt-5.6").out)) == EVERY[:-1]


def test_the_model_and_the_budget_are_the_agents_own(cli: Cli, agent: foldmark.Agent) -> None:
    agent.do("/model openai/gpt-5.4")
    agent.do("/config set sliding_context_tokens=7000")
    data = json.loads(cli("cost", "long", "--json").out)
    assert (data["provider"], data["model"], data["budget"]) == ("openai", "gpt-5.4", 7000)
    assert {each["write"] for each in data["policies"]} == {0}


def test_every_row_of_the_json_adds_up(cli: Cli, agent: foldmark.Agent) -> None:
    data = json.loads(cli("cost", "long", "--budget", str(BUDGET), "--json").out)
    assert data["conversation"] == "long"
    assert data["answered"] > 0
    for each in data["policies"]:
        tokens = each["fresh"] + each["write"] + each["read"]
        assert tokens // each["requests"] == each["mean"] <= each["largest"]
        worth = each["fresh"] + each["write"] * data["factors"]["write"] + each["read"] * data["factors"]["read"]
        assert each["equivalents"] == round(worth)


def test_without_a_price_the_cost_is_in_tokens(cli: Cli, agent: foldmark.Agent) -> None:
    done = cli("cost", "long", "--model", "ollama/llama")
    assert "cost in fresh input tokens' worth" in done.out
    assert "$" not in done.out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["nobody"], "there is no conversation or agent 'nobody'; conversations: long"),
        (["long", "--model", "gpt-5"], "a model must be 'offline' or PROVIDER/MODEL"),
        (["long", "--low-water", "0"], "sliding_context_low_water must be a share above 0 and up to 1, not '0'"),
        (["long", "--low-water", "1,x"], "sliding_context_low_water must be a share above 0 and up to 1, not 'x'"),
        (["long", "--policy", "none"], "'none' is not one of"),
        (["long", "--budget", "-1"], "--budget must be a number from 1 to 1,000,000,000, not '-1'; for example 100000"),
    ],
)
def test_wrong_wishes(cli: Cli, agent: foldmark.Agent, arguments: list[str], told: str) -> None:
    done = cli("cost", *arguments)
    assert (done.code, done.out) == (2, "")
    assert told in done.err
    assert done.err.count("\n") == 1


def test_nothing_to_compare(cli: Cli, log: foldmark.Log) -> None:
    log.agent("new").append("user", "hello")
    done = cli("cost", "new")
    assert (done.code, done.err) == (
        2,
        "foldmark: no model was asked in 'new' yet: there is nothing to compare\n",
    )


def test_neither_a_file_nor_a_database(cli: Cli, db: str) -> None:
    done = cli("cost", "nobody")
    told = f"there is no session file 'nobody', and no database at {db}; name another file, or the database with --db"
    assert (done.code, done.err) == (2, f"foldmark: {told}\n")


def test_a_file_that_is_not_a_session(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "letter.txt"
    path.write_text("Dear all,\n")
    done = cli("cost", str(path))
    assert done.code == 1
    assert "is not a session of Claude Code or Codex" in done.err


def test_a_plot_without_matplotlib(cli: Cli, agent: foldmark.Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    done = cli("cost", "long", "--plot", "cost.svg")
    assert (done.code, done.out) == (1, "")
    command = shlex.join(package_command("matplotlib"))
    assert done.err == f"foldmark: a plot needs matplotlib, which is not installed; this installs it: {command}\n"
    assert not Path("cost.svg").exists()


def test_a_plot(cli: Cli, agent: foldmark.Agent) -> None:
    pytest.importorskip("matplotlib")
    done = cli("cost", "long", "--budget", str(BUDGET), "--plot", "cost.svg")
    assert (done.code, done.err) == (0, "")
    assert "steady 0.75" in Path("cost.svg").read_text()


def test_progress_is_shown_only_on_a_terminal(
    agent: foldmark.Agent, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    options = comparison.CostOptions(policy=["steady", "full"])
    comparison.compare(agent, options, counter("making request"))
    assert f"\rmaking request {2 * TURNS} of {2 * TURNS}\n" in capsys.readouterr().err
