"""OpenAI's tokenizer as shipped: complete, exact, and fast on any text."""

import base64
import random
import subprocess
import sys
import time
from hashlib import sha256
from typing import Any

import pytest

from foldmark.core.errors import CommandError
from foldmark.tokens import openai
from sampled import DEEP

PUBLISHED = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
"""The SHA-256 of o200k_base.tiktoken that tiktoken itself checks after downloading it."""


def whole(text: Any) -> Any:
    """Return the tokenizer's count for the text in one piece."""
    return len(openai.encoding().encode_ordinary(text))


def test_the_shipped_ranks_are_those_that_openai_published() -> None:
    ranks = openai.ranks()
    lines = (base64.b64encode(token) + b" %d\n" % rank for token, rank in ranks.items())
    assert sha256(b"".join(lines)).hexdigest() == PUBLISHED


def test_known_texts_have_the_known_tokens() -> None:
    assert openai.encoding().encode_ordinary("hello world") == [24912, 2375]
    assert openai.count("") == 0
    assert openai.count("Foldmark counts tokens.") == whole("Foldmark counts tokens.")


def test_the_words_are_split_as_tiktoken_splits_them() -> None:
    import inspect

    from tiktoken_ext import openai_public  # type: ignore[import-untyped]

    stated = inspect.getsource(openai_public.o200k_base)
    for part in openai._PATTERN.replace(openai._ENDING, "ENDING").split("|"):
        assert part.replace("ENDING", openai._ENDING) in stated, part


def test_special_tokens_in_a_text_are_text() -> None:
    assert openai.count("<|endoftext|>") > 1
    assert openai.count("<|endofprompt|> and then") > 4


@pytest.mark.parametrize(
    "text",
    [
        "The quick brown fox's den, 12345 of them!\n\n" * 1000,
        "    indented = {'a': 1,  'b': [2,   3]}\n" * 1000,
        "don't  stop \t now … – ok?\r\n" * 1500,
    ],
)
def test_a_long_text_with_spaces_counts_exactly_although_it_is_cut(text: str) -> None:
    assert len(list(openai.pieces(text))) > 3
    assert "".join(openai.pieces(text)) == text
    assert sum(whole(piece) for piece in openai.pieces(text)) == whole(text)
    assert openai.count(text) == whole(text)


def test_random_long_texts_count_exactly_as_long_as_there_are_spaces() -> None:
    dice = random.Random(5)
    alphabet = "  aAbB1'./\n\t-{}é汉😀"
    for _ in range(20 if DEEP else 5):
        text = "".join(dice.choices(alphabet, k=30_000))
        assert openai.count(text) == whole(text)


def test_a_long_text_without_spaces_is_off_by_a_token_or_two_per_cut() -> None:
    text = "学而时习之不亦说乎有朋自远方来不亦乐乎" * 2000
    cuts = len(text) // openai.LONGEST
    assert whole(text) <= openai.count(text) <= whole(text) + 2 * cuts


PATHOLOGICAL = {
    "letters": "a" * 200_000,
    "spaces": " " * 200_000,
    "a million spaces": " " * 1_000_000,
    "newlines": "\n" * 200_000,
    "dots": "." * 200_000,
    "Chinese": "汉" * 200_000,
    "random letters": "".join(random.Random(1).choices("abcdefghijklmnopqrstuvwxyz", k=200_000)),
    "combining": "e\u0301" * 100_000,
}


@pytest.mark.parametrize("name", PATHOLOGICAL)
def test_no_text_takes_seconds(name: Any) -> None:
    openai.encoding()
    began = time.process_time()
    assert openai.count(PATHOLOGICAL[name]) > 0
    assert time.process_time() - began < len(PATHOLOGICAL[name]) / 100_000


def test_counting_again_is_much_quicker_than_counting() -> None:
    texts = [f"{number}: " + "some words of a message " * 40 for number in range(500)]
    began = time.process_time()
    first = [openai.count(text) for text in texts]
    between = time.process_time()
    assert [openai.count(text) for text in texts] == first
    assert (time.process_time() - between) * 3 < between - began


def test_importing_counts_nothing_and_loads_nothing() -> None:
    code = (
        "import sys, foldmark, foldmark.tokens.counting; "
        "print([name for name in ('tiktoken', 'lzma', 'foldmark.tokens.openai') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_without_tiktoken_the_error_names_the_package_and_the_alternative(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    openai.encoding.cache_clear()
    with pytest.raises(CommandError, match=r"/config set token_counting=bytes needs nothing\. .* -m pip install"):
        openai.count("a text that nobody counted before")
    openai.encoding.cache_clear()
