"""The list of messages (program_messages.py) is complete enough to be read, and every message keeps the house rules."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from textwrap import dedent

import pytest
from program_messages import VALUE, Message, listed, messages

INTERNAL = re.compile(r"\b(?:None|True|False|NotImplemented|self|[A-Z][a-z]+(?:[A-Z][a-z]+)+Error|[a-z]+_[a-z]+\(\))\b")
"""Names of Python and of classes, which mean nothing to a person."""

FOR_PROGRAMS = re.compile(r"\(first id, None\)|, None\) does not")
"""A message about a pair that only a program passes."""

OTHERS = {
    r"\bdirector(?:y|ies)\b": "folder",
    r"\bcannot (?:read|write) \{…\}": "… cannot be read",
    r"\bin the PATH\b": "on your PATH",
    r"\bordinary file\b": "regular file",
    r"\b(?:please|sorry|oops|successfully|failed to)\b": "the plain fact",
}
"""Words that the messages do not use, and what they say instead."""


@pytest.fixture(scope="module")
def found() -> list[Message]:
    """All messages. Reading them takes seconds, so only the worker that runs these tests does it."""
    return messages()


def test_the_list_has_messages_of_each_kind(found: list[Message]) -> None:
    kinds = Counter(each.kind for each in found)
    assert kinds["error"] > 500
    assert kinds["problem"] > 50
    assert kinds["printed"] > 30
    assert kinds["result"] > 30
    assert kinds["usage"] > 10
    assert kinds["help"] > 150
    known = {(each.file, each.taken_by) for each in found}
    assert ("foldmark/stores/sqlite/file.py", "StoreError") in known
    assert ("foldmark/providers/sdk.py", "ProviderError") in known
    assert ("foldmark/cli/checkup.py", "problem") in known


def test_a_message_is_read_from_the_syntax() -> None:
    module = dedent("""
        LIMIT = "at most 5"
        def check(name, number):
            why = "it is empty" if not name else f"it has {len(name)} letters"
            text = f"{name} is wrong: {why}. "
            text += f"Give {LIMIT}."
            raise CommandError(text)
        def other():
            print("name it with --name")
            unrelated("no message at all")
    """)
    one, two = listed("some.py", ast.parse(module), {"CommandError"})
    assert one.text == f"{VALUE} is wrong: {{it is empty/it has {VALUE} letters}}. Give {{at most 5}}."
    assert (one.kind, one.line, one.next_step) == ("error", 7, "Give {at most 5}.")
    assert (two.kind, two.taken_by, two.next_step) == ("printed", "print", "name it with --name")


def test_every_message_keeps_the_house_rules(found: list[Message]) -> None:
    broken = [f"{each.file}:{each.line}: {rule}: {each.text!r}" for each in found for rule in broken_rules(each.text)]
    assert broken == []


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (" It is so.", "space at an end"),
        ("It is  so.", "two spaces"),
        ("It is None.", "a name of Python"),
        ("This directory is full.", "say folder"),
        ("Run `it.", "an unpaired `"),
    ],
)
def test_a_broken_rule_is_named(text: str, rule: str) -> None:
    assert [*broken_rules(text)] == [rule]


def broken_rules(text: str) -> Iterator[str]:
    """Yield the house rules that a message breaks."""
    if text != text.strip():
        yield "space at an end"
    if "  " in text:
        yield "two spaces"
    if INTERNAL.search(text.replace(VALUE, "")) and not FOR_PROGRAMS.search(text):
        yield "a name of Python"
    for wrong, right in OTHERS.items():
        if re.search(wrong, text):
            yield f"say {right}"
    if text.count("`") % 2:
        yield "an unpaired `"


def test_most_errors_say_what_to_do(found: list[Message]) -> None:
    """The others state a fact that leaves one thing to do, or are a part of another message."""
    errors = [each for each in found if each.kind in ("error", "usage")]
    silent = [each for each in errors if not each.next_step]
    assert len(silent) < 0.35 * len(errors)
