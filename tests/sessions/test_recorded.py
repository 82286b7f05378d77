"""`foldmark doctor --session` says where a session's file and its conversation differ [SPEC 8]."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest
from random_chains import chain
from rollout_records import REAL_FILES as CODEX_FILES
from session_mutations import damaged
from session_records import REAL_FILES

import foldmark
from foldmark.cli.program import run
from foldmark.core.errors import FoldmarkError
from foldmark.formats.places import recognized, session_path
from foldmark.sessions.conversion.importing import import_session
from foldmark.sessions.doctor.recorded import compare
from sampled import sampled

ID = "0199aaaa-1111-7222-8333-{:012x}"


def differences(log: foldmark.Log, path: Path) -> list[str]:
    """Return the notes without the conversation's name."""
    found = list(compare(log, recognized(session_path(path), damaged=True)))
    assert {each.weight for each in found} <= {"note"}
    return [each.text.partition("' ")[2] for each in found]


def write(path: Path, records: list[dict[str, object]]) -> None:
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records), encoding="utf-8")


SAME = ["shows what is sent on resuming"]


@pytest.mark.parametrize("path", [*REAL_FILES, *CODEX_FILES], ids=lambda path: path.stem)
def test_an_imported_session_is_what_resuming_sends(log: foldmark.Log, path: Path) -> None:
    assert differences(log, path) == []
    import_session(log, path)
    assert differences(log, path) == SAME


@pytest.mark.parametrize("seed", sampled(range(300), 25))
def test_a_grown_session_lacks_nothing_once_it_is_imported_again(log: foldmark.Log, tmp_path: Path, seed: int) -> None:
    records, path = chain(seed), tmp_path / f"{ID.format(seed)}.jsonl"
    write(path, records[: Random(seed).randrange(1, len(records))])
    try:
        import_session(log, path)
    except FoldmarkError:  # without a message yet
        assert differences(log, path) == []
        return
    assert differences(log, path) == SAME
    write(path, records)
    import_session(log, path)
    assert differences(log, path) == SAME


@pytest.mark.parametrize("part", [0])
def test_damage_makes_no_difference(tmp_path: Path, part: int) -> None:
    compared = 0
    for session in damaged(part):
        path = tmp_path / session.name
        path.write_bytes(session.content)
        with foldmark.open(":memory:", settings={}) as log:
            try:
                import_session(log, path)
            except FoldmarkError:
                continue
            assert differences(log, path) == SAME, path.name
            compared += 1
    assert compared > 5


def test_edits_new_messages_and_lost_ones_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    path = Path(f"{ID.format(1)}.jsonl")
    said: list[dict[str, object]] = [
        {
            "type": kind,
            "uuid": f"u{number}",
            "parentUuid": f"u{number - 1}" if number else None,
            "sessionId": path.stem,
            "timestamp": f"2026-11-22T12:00:0{number}Z",
            "message": {"role": kind, "content": text, **({"model": "m"} if kind == "assistant" else {})},
        }
        for number, (kind, text) in enumerate(
            (kind, [{"type": "text", "text": f"{kind} {at}"}]) for at in range(3) for kind in ("user", "assistant")
        )
    ]
    write(path, said[:4])
    assert run(["--db", "d.db", "import", str(path), "--as", "talk"]) == 0
    assert run(["--db", "d.db", "do", "talk", "/undo"]) == 0
    write(path, said)
    capsys.readouterr()
    assert run(["--db", "d.db", "doctor", "--session", str(path)]) == 0
    out = capsys.readouterr().out
    assert "conversation 'talk' lacks 2 messages of it: `foldmark import` brings them" in out
    assert "conversation 'talk' leaves out 2 messages that resuming sends" in out
    write(path, said[:3])
    run(["--db", "d.db", "doctor", "--session", str(path), "--json"])
    texts = [each["text"] for each in json.loads(capsys.readouterr().out)["findings"]]
    assert (
        "conversation 'talk' leaves out 1 message that resuming sends: `foldmark export` writes a session without"
        in texts
    )
    assert "conversation 'talk' has 1 record that the file no longer has" in texts


def test_a_database_that_cannot_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    path = Path(f"{ID.format(1)}.jsonl")
    write(path, chain(1))
    Path("d.db").write_bytes(b"no database" * 100)
    run(["--db", "d.db", "doctor", "--session", str(path)])
    assert "not compared with d.db: " in capsys.readouterr().out
