"""The list of messages (program_messages.py) is complete enough to be read, and every message keeps the house rules."""

from __future__ import annotations

import re
from collections import Counter
from textwrap import dedent

import pytest
from program_messages import VALUE, Message, listed, messages

FOUND = messages()
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


def where(message: Message) -> str:
    return f"{message.file}:{message.line}"


def test_the_list_has_messages_of_each_kind() -> None:
    kinds = Counter(each.kind for each in FOUND)
    assert kinds["error"] > 500
    assert kinds["problem"] > 50
    assert kinds["printed"] > 30
    assert kinds["result"] > 30
    assert kinds["usage"] > 10
    assert kinds["help"] > 150
    known = {(each.file, each.taken_by) for each in FOUND}
    assert ("foldmark/stores/sqlite/file.py", "StoreError") in known
    assert ("foldmark/providers/sdk.py", "ProviderError") in known
    assert ("foldmark/cli/checkup.py", "Problem") in known


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
    one, two = listed("some.py", module, {"CommandError"})
    assert one.text == f"{VALUE} is wrong: {{it is empty/it has {VALUE} letters}}. Give {{at most 5}}."
    assert (one.kind, one.line, one.next_step) == ("error", 7, "Give {at most 5}.")
    assert (two.kind, two.taken_by, two.next_step) == ("printed", "print", "name it with --name")


@pytest.mark.parametrize("message", FOUND, ids=where)
def test_a_message_keeps_the_house_rules(message: Message) -> None:
    assert message.text == message.text.strip()
    assert "  " not in message.text
    assert not INTERNAL.search(message.text.replace(VALUE, "")) or FOR_PROGRAMS.search(message.text), message.text
    for wrong, right in OTHERS.items():
        assert not re.search(wrong, message.text), f"say {right}"
    assert message.text.count("`") % 2 == 0, message.text


def test_most_errors_say_what_to_do() -> None:
    """The others state a fact that leaves one thing to do, or are a part of another message."""
    errors = [each for each in FOUND if each.kind in ("error", "usage")]
    silent = [each for each in errors if not each.next_step]
    assert len(silent) < 0.35 * len(errors)
