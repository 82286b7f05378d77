"""Documents in messages: valid ones, their pages, and the tokens they count as (SPEC 5.4)."""

from __future__ import annotations

import zlib
from base64 import b64encode
from math import ceil
from typing import Any

import msgspec
import pytest

import foldmark
from caches import blocks
from foldmark.core import selections
from foldmark.core.assembly.media import LARGEST_DOCUMENT, PAGE, TOKENS, Document, counted, media_of, pages_of
from foldmark.core.assembly.wire import DOCUMENT, TEXT, weight
from foldmark.log.doctor import examine
from foldmark.tokens.counting import BytesRuler
from foldmark.tokens.openai import prompt_tokens
from stored import connection, stored

PAGES = b"<</Type/Page/Parent 1 0 R>>\n"
TREE = b"1 0 obj\n<< /Type /Pages /Kids [] /Count 3 >>\nendobj\n"


def pdf(pages: int, *, packed: bool = False, more: bytes = b"") -> str:
    """Return a PDF in base64 as older programs write it or, if `packed`, as newer ones, which pack the descriptions of
    pages."""
    held = PAGES * pages
    if packed:
        body = zlib.compress(held)
        held = b"9 0 obj\n<< /Type /ObjStm /N %d /Filter /FlateDecode >>\nstream\r\n%b\nendstream\n" % (pages, body)
    return b64encode(b"%PDF-1.5\n" + TREE + held + more + b"%%EOF\n").decode()


def document(data: Any = None, **more: Any) -> dict[str, Any]:
    source = {"type": "base64", "media_type": "application/pdf", "data": pdf(3) if data is None else data}
    return {"type": "document", "source": source, **more}


@pytest.mark.parametrize("packed", [False, True])
def test_the_pages_of_a_file_are_counted(packed: bool) -> None:
    assert pages_of(pdf(3, packed=packed)) == 3


def test_unreadable_pages_are_estimated_from_the_size() -> None:
    assert pages_of(pdf(0)) == 1
    assert pages_of(pdf(0, more=b"x" * 450_000)) == 5
    torn = b"<< /Type /ObjStm >> stream\nno zlib" * 3
    assert pages_of(pdf(0, more=torn)) == 1
    assert pages_of("JVBERi0") == 1


def test_a_packed_stream_that_never_ends_is_read_in_part() -> None:
    huge = zlib.compress(PAGES * 200_000)
    assert 1 < pages_of(pdf(0, more=b"<< /Type /ObjStm >> stream\n" + huge)) < 100_000


@pytest.mark.parametrize(
    "block",
    [
        document(""),
        document("PGh0bWw+"),  # another file labelled as a PDF: the whole request would be refused
        document("JVBERi0"),
        document(7),
        document("JVBERi" + "A" * (LARGEST_DOCUMENT - 2)),
        {**document(), "source": {"type": "url", "url": "https://example.org/a.pdf"}},
        {**document(), "source": {**document()["source"], "media_type": "text/html"}},
    ],
)
def test_an_invalid_document_is_not_sent(block: dict[str, Any]) -> None:
    assert media_of({"blocks": [block]}) == ([], 1)
    assert counted({"blocks": [block, 7]}) == {"blocks": [block, 7]}


def test_pages_are_counted_when_a_message_is_recorded() -> None:
    with foldmark.open(":memory:") as log:
        agent = log.agent("default")
        event = selections.event(
            stored(log), agent.append("user", "Read.", data={"blocks": [document(title="A", pages=-5)], "x": 1})
        )
        assert event is not None
        assert event.data == {"blocks": [document(title="A", pages=3)], "x": 1}
        (held,), others = media_of(event.data)
        assert (held, others) == (Document(pdf(3), "A", 3), 0)
        assert held.tokens == 3 * PAGE


def test_the_note_says_what_is_missing() -> None:
    assert Document("JVBERi0=", "a.pdf", 12).note == (
        "[The PDF document a.pdf (12 pages) is not shown: this model does not take it.]"
    )
    assert Document("JVBERi0=").note == "[The PDF document is not shown: this model does not take it.]"


def test_a_document_weighs_its_pages_and_an_uncounted_one_its_text() -> None:
    text = len("Read.")
    assert weight("user", "Read.", {"blocks": [document(pages=3, title='"A"')]}, False, 1) == (
        TEXT + text + DOCUMENT + len('\\"A\\"') + 3 * PAGE * 4
    )
    assert weight("user", "Read.", {"blocks": [document()]}, False, 1) == TEXT + text
    assert weight("user", "", {"blocks": [document()]}, False, 1) == 0


@pytest.mark.parametrize(("provider", "model"), [("anthropic", "claude-opus-5"), ("gemini", "gemini-3-pro-preview")])
def test_the_pages_of_a_document_count_but_not_its_bytes(provider: str, model: str) -> None:
    def tokens(more: bytes) -> int:
        with foldmark.open(":memory:") as log:
            agent = log.agent("default")
            agent.append("user", "Read.", data={"blocks": [document(pdf(3, more=more))]})
            return agent.request(provider=provider, model=model).tokens

    assert tokens(b"") == tokens(b"x" * 300_000)
    assert 3 * PAGE < tokens(b"") < 3 * PAGE + 4000


def test_a_document_that_a_model_does_not_take_costs_only_its_note() -> None:
    held = Document(pdf(3), "a.pdf", 3)
    measured = BytesRuler(4.0)
    body = held.note.encode()
    assert measured.size({}, body, [held]) == len(body)
    assert measured.size({}, body + held.data.encode(), [held]) == len(body) + ceil(3 * PAGE * 4.0)


@pytest.mark.parametrize("nested", [True, False])
def test_openai_counts_the_pages_of_a_document(nested: bool) -> None:
    def body(*more: Any) -> dict[str, Any]:
        return {"messages": [{"role": "user", "content": [{"type": "text", "text": "Look"}, *more]}]}

    file = Document(pdf(3)).file
    part = {"type": "file", "file": file} if nested else {"type": "input_file", **file}
    assert prompt_tokens(body(part)) - prompt_tokens(body()) == 3 * PAGE


@pytest.mark.parametrize(
    ("dialect", "part"),
    [
        ("anthropic", document(pdf(2, more=b"x" * 9000))),
        ("anthropic", {"type": "tool_result", "tool_use_id": "c", "content": [document(pdf(2, more=b"x" * 9000))]}),
        ("openai", {"type": "file", "file": Document(pdf(2, more=b"x" * 9000)).file}),
        ("openai", {"type": "input_file", **Document(pdf(2, more=b"x" * 9000)).file}),
        ("gemini", {"inlineData": {"mimeType": "application/pdf", "data": pdf(2, more=b"x" * 9000)}}),
    ],
)
def test_a_document_in_a_cache_counts_by_its_estimate(dialect: str, part: dict[str, Any]) -> None:
    messages = {"messages": [{"role": "user", "content": [part]}]}
    (block,) = blocks(dialect, {"contents": [{"role": "user", "parts": [part]}]} if dialect == "gemini" else messages)
    assert 2 * PAGE * 4 <= len(block.data) < 2 * PAGE * 4 + 200


def test_arguments_that_look_like_a_file_are_not_a_document() -> None:
    part = {"type": "tool_use", "id": "c", "name": "n", "input": {"file": {"file_data": "x" * TOKENS}, "source": {}}}
    (block,) = blocks("anthropic", {"messages": [{"role": "assistant", "content": [part]}]})
    assert len(block.data) == len(msgspec.json.encode(part)) + len("assistant")


def test_the_doctor_accepts_documents_without_counted_pages() -> None:
    with foldmark.open(":memory:") as log:
        agent = log.agent("default")
        event_id = agent.append("user", "Read.", data={"blocks": [{"type": "document"}]})
        connection(log).execute(
            "UPDATE events SET data = ?, checksum = NULL WHERE id = ?",
            (msgspec.json.encode({"blocks": [document()]}).decode(), event_id),
        )
        assert [finding.text for finding in examine(log) if "weight" in finding.text] == []
        assert agent.request(provider="anthropic", model="claude-opus-5").body["messages"][0]["content"][0] == {
            **document(),
        }
