"""`/attach`: a file as a message of the person [SPEC 4]."""

import os
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest
from spoken import said

import foldmark
from foldmark.log import Agent
from foldmark.log.doctor import examine
from foldmark.text.attachment import LARGEST_TEXT

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20
PDF = b"%PDF-1.4\n1 0 obj << /Type /Page >> endobj\n"


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Agent]:
    monkeypatch.chdir(tmp_path)
    with foldmark.open(":memory:", settings={}) as log:
        yield log.agent("default")
        assert list(examine(log)) == []


def test_a_text_stands_in_a_fence(agent: Agent) -> None:
    Path("my notes.md").write_bytes(b"\xef\xbb\xbf# Notes\n```\ncode\n```\n")
    done = agent.do('/attach "my notes.md"')
    assert done.text == f"Attached as message {done.data['message']}: my notes.md, a text of 4 lines."
    assert done.data["type"] == "text/plain"
    assert said(agent) == "File my notes.md:\n````\n# Notes\n```\ncode\n```\n````"
    assert agent.open_turn is None
    agent.do("/undo")
    assert said(agent) == ""


@pytest.mark.parametrize(
    ("begin", "media"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a\1", "image/gif"),
        (b"RIFF1234WEBPVP8 ", "image/webp"),
    ],
)
def test_an_image_is_what_its_content_says(agent: Agent, begin: bytes, media: str) -> None:
    Path("picture.txt").write_bytes(begin)
    assert agent.do("/attach picture.txt").text.endswith(": picture.txt, an image.")
    agent.do("/note What is this?")
    url = f"data:{media};base64,{b64encode(begin).decode()}"
    assert url in str(agent.request(provider="openai", model="gpt-5").body)
    source = {"type": "base64", "media_type": media, "data": b64encode(begin).decode()}
    assert str(source) in str(agent.request(provider="anthropic", model="claude-opus-4-5").body)


def test_a_pdf_keeps_its_name_and_its_pages_are_counted(agent: Agent) -> None:
    Path("report.pdf").write_bytes(PDF)
    agent.do("/attach report.pdf")
    (message,) = agent.context().messages
    (block,) = (message.data or {})["blocks"]
    assert (block["title"], block["pages"]) == ("report.pdf", 1)
    assert "report.pdf" in str(agent.request(provider="openai", model="gpt-5").body)


def test_files_that_cannot_be_attached(agent: Agent) -> None:
    Path("binary").write_bytes(b"\xfe\xff\0\1")
    Path("empty").touch()
    Path("huge.txt").write_bytes(b"a" * (LARGEST_TEXT + 1))
    Path("huge.png").write_bytes(PNG)
    os.truncate("huge.png", 10_000_000)
    Path("vast").touch()
    os.truncate("vast", 100_000_000)
    os.mkfifo("pipe")
    head = agent.standing().newest
    for named, why in (
        ("binary", r"binary is neither text in UTF-8, nor an image \(PNG, JPEG, GIF, WebP\), nor a PDF"),
        ("empty", "empty is empty"),
        ("huge.txt", r"huge.txt has 2,000,001 bytes; at most 2,000,000"),
        ("huge.png", r"huge.png has 10,000,000 bytes; at most 3,750,000"),
        ("vast", r"vast has 100,000,000 bytes; no model takes more than 21,000,000"),
        ("pipe", "pipe is no file"),
        (".", r"\. is no file"),
        ("away", "away cannot be read: No such file or directory"),
        ("a\0b", "cannot be read"),
        ("~nobody-here/x", "cannot be read"),
    ):
        with pytest.raises(foldmark.CommandError, match=why):
            agent.do(f"/attach {named}")
    assert agent.standing().newest == head


def test_a_key_in_a_file_is_hidden(agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-1234567890abcdef")
    Path("keys.env").write_text("KEY=sk-test-1234567890abcdef\n")
    with foldmark.open(tmp_path / "log.db", settings={}) as log:
        log.agent("default").do("/attach ~/keys.env" if Path.home() == tmp_path else "/attach keys.env")
        assert "sk-test-1234567890abcdef" not in said(log.agent("default"))
