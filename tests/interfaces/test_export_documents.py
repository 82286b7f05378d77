"""`foldmark export --to`, `/export --to` and `foldmark import` of a document, as a person types them (SPEC 9)."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import PROGRAM, Cli, files

import foldmark
import forked
from foldmark.documents.exporting import write_document


@pytest.fixture
def talk(log: foldmark.Log) -> foldmark.Agent:
    agent = log.find("talk", create=True)
    agent.append("user", "Hello", created_at="2026-03-01T12:00:00Z")
    agent.append("assistant", "Hi \x1b[31m", created_at="2026-03-01T12:00:01Z")
    agent.end_turn()
    return agent


@pytest.mark.usefixtures("talk")
def test_markdown_goes_to_standard_output(cli: Cli) -> None:
    done = cli("export", "talk", "--to", "markdown")
    assert (done.code, done.err) == (0, "")
    assert done.lines[0] == "# talk"
    assert "Hi \\x1b[31m" in done.lines
    assert not list(Path().iterdir())


@pytest.mark.usefixtures("talk")
def test_times_are_local_or_in_utc(program: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    assert "## Turn 1 · 2026-03-01 17:30+05:30" in program("export", "talk", "--to", "markdown").lines
    assert "## Turn 1 · 2026-03-01 12:00" in program("export", "talk", "--to", "markdown", "--utc").lines


@pytest.mark.usefixtures("talk")
def test_json_goes_to_standard_output_and_back_into_a_database(cli: Cli, tmp_path: Path) -> None:
    done = cli("export", "talk", "--to", "json")
    assert done.code == 0
    Path("t.json").write_text(done.out, encoding="utf-8")
    made = cli("--db", str(tmp_path / "other.db"), "import", "t.json")
    assert (made.code, made.err) == (0, "")
    assert made.lines == ["Conversation 'talk': 1 turn (1 user, 1 assistant), 0 operations"]
    again = cli("--db", str(tmp_path / "other.db"), "export", "talk", "--to", "json")
    assert json.loads(again.out)["events"] == json.loads(done.out)["events"]
    report = cli("--db", str(tmp_path / "other.db"), "import", "t.json", "--as", "second", "--json")
    assert json.loads(report.out)["conversation"] == "second"
    assert json.loads(report.out)["messages"] == {"user": 1, "assistant": 1}


@pytest.mark.usefixtures("talk")
@pytest.mark.parametrize(
    "arguments",
    [("--to", "notes.md"), ("notes.md", "--to", "markdown"), ("--to", "talk.json"), ("any.txt", "--to", "json")],
)
def test_a_file_is_private_and_named_in_the_answer(cli: Cli, arguments: tuple[str, ...]) -> None:
    done = cli("export", "talk", *arguments)
    (file,) = Path().iterdir()
    form = "JSON" if "json" in "".join(arguments) else "Markdown"
    size = file.stat().st_size
    assert done.lines == [f"Wrote the whole history as {form} to {file}: {size:,} bytes."]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.usefixtures("talk")
def test_a_file_that_ends_in_jsonl_is_a_session(cli: Cli) -> None:
    done = cli("export", "talk", "--to", "talk.jsonl")
    assert done.code == 0
    assert json.loads(Path("talk.jsonl").read_text(encoding="utf-8").splitlines()[0])["type"] == "user"


@pytest.mark.usefixtures("talk")
def test_as_json_the_answer_tells_of_the_file(cli: Cli) -> None:
    done = cli("export", "talk", "--to", "c.json", "--context", "--json")
    size = Path("c.json").stat().st_size
    assert json.loads(done.out) == {"file": "c.json", "format": "JSON", "context": True, "bytes": size}
    assert [each["content"] for each in json.loads(Path("c.json").read_bytes())["messages"]] == ["Hello", "Hi \x1b[31m"]


@pytest.mark.usefixtures("talk")
def test_home_is_meant_by_a_tilde(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    assert cli("export", "talk", "--to", "~/n.md").code == 0
    assert (tmp_path / "home" / "n.md").exists()


@pytest.mark.usefixtures("talk")
@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--to", "there.md"), 1, "there.md already exists and was not changed; name another file, or remove this one"),
        (("--to", "no/where/x.md"), 1, "there is no folder no/where; create it, or name another"),
        (("--to", f"{'x' * 300}/x.md"), 1, "there is no folder xxx"),
        (("--to", f"{'x' * 300}.md"), 1, "File name too long"),
        (("--to", "notes.txt"), 2, "notes.txt does not tell the format: name a file that ends in .md, .json or .jsonl"),
        (("--to", ""), 2, "does not tell the format"),
        (("a.md", "--to", "b.md"), 2, "--to names a file, and so does the second argument"),
        (("a.jsonl", "--to", "b.jsonl"), 2, "--to names a file, and so does the second argument"),
        (("--to", "json", "--json"), 2, "--json prints where the document is"),
        (("--context",), 2, "--context needs --to"),
        (("--to", "x.jsonl", "--context"), 2, "--context needs --to"),
        (("--to", "markdown", "--cwd", "."), 2, "--cwd is the folder of a session"),
    ],
)
def test_a_wrong_target_is_refused_and_nothing_is_written(
    cli: Cli, arguments: tuple[str, ...], code: int, said: str
) -> None:
    Path("there.md").write_text("mine")
    before = files(Path())
    done = cli("export", "talk", *arguments)
    assert done.code == code
    assert said in done.err
    assert files(Path()) == before


@pytest.mark.usefixtures("log")
def test_an_unknown_conversation_writes_no_file(cli: Cli) -> None:
    done = cli("export", "nobody", "--to", "n.md")
    assert (done.code, files(Path())) == (2, {})


def test_an_interruption_leaves_no_file(talk: foldmark.Agent, tmp_path: Path) -> None:
    def interrupt(*_: int) -> None:
        raise KeyboardInterrupt

    folder = tmp_path / "documents"
    folder.mkdir()
    with pytest.raises(KeyboardInterrupt):
        write_document(talk, "markdown", folder / "n.md", interrupt, only_context=False)
    with pytest.raises(KeyboardInterrupt):
        write_document(talk, "json", folder / "n.json", interrupt, only_context=False)
    assert files(folder) == {}


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_an_export_in_the_middle(talk: foldmark.Agent, number: int) -> None:
    """The export waits in the middle, because the conversation is longer than what its reader takes."""
    with talk.batch():
        for _ in range(200):
            talk.append("user", "x" * 10_000)
            talk.end_turn()
    process = forked.Popen([PROGRAM, "export", "talk", "--to", "json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.read(1)
    os.kill(process.pid, number)
    process.communicate()
    assert process.returncode in (130, 143, -number)
    assert files(Path()) == {}


@pytest.mark.parametrize("content", [b"", b"[]", b'{"format": "notes"}', b'{"format": "foldmark conversation"}', b"{"])
def test_a_file_that_is_no_document_is_refused_before_a_database_is_made(cli: Cli, db: str, content: bytes) -> None:
    Path("x.json").write_bytes(content)
    done = cli("import", "x.json")
    assert done.code == 1
    assert done.err.startswith("foldmark: x.json ")
    assert len(done.err.splitlines()) == 1
    assert not Path(db).exists()


def test_slash_export_writes_documents_into_the_working_folder(talk: foldmark.Agent) -> None:
    result = talk.do("/export --to markdown")
    assert result.text == f"Wrote the whole history as Markdown to talk.md: {Path('talk.md').stat().st_size:,} bytes."
    assert result.data == {
        "file": "talk.md",
        "format": "Markdown",
        "context": False,
        "bytes": Path("talk.md").stat().st_size,
    }
    assert talk.do('/export --context --to "my talk.json"').data["file"] == "my talk.json"
    assert json.loads(Path("my talk.json").read_bytes())["format"] == "foldmark context"
    assert stat.S_IMODE(Path("talk.md").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("/export --to markdown", "talk.md already exists and was not changed; name another file, or remove this one"),
        ("/export --to no/x.md", "there is no folder no; create it"),
        ("/export --to notes.txt", "notes.txt does not tell the format"),
        ("/export --context", "--context needs --to markdown, --to json or --to FILE"),
        ("/export --context --to x.jsonl", "a session always has only the context"),
        ("/export folder --to json", "unexpected argument 'folder'"),
        ("/export notes.md", "/export --to notes.md writes a document"),
        ("/export markdown", "/export --to markdown writes a document"),
    ],
)
def test_slash_export_refuses_a_wrong_target(talk: foldmark.Agent, line: str, said: str) -> None:
    Path("talk.md").write_text("mine")
    before = files(Path())
    with pytest.raises(foldmark.FoldmarkError) as refused:
        talk.do(line)
    assert said in str(refused.value)
    assert files(Path()) == before


def test_slash_import_makes_a_conversation_of_a_document_and_goes_there(talk: foldmark.Agent) -> None:
    talk.do("/export --to json")
    talk.do("/rename first")
    result = talk.do("/import talk.json")
    assert result.data["conversation"] == "talk"
    assert result.data["switch"] == talk.log.agent("talk").id
    assert [each.content for each in talk.log.agent("talk").context().messages] == ["Hello", "Hi \x1b[31m"]
