"""Thinking that a later request may still send, because everything before it is unchanged [SPEC 5.7]."""

from __future__ import annotations

from foldmark.core.assembly.caching import Beginnings, Block, Bound


class Talk:
    """Requests of one conversation, each a text with one letter per message; capitals are answers with thinking."""

    def __init__(self) -> None:
        self._bound, self._request, self._text = Bound(), Beginnings(), ""

    def ask(self, text: str, answer: str | None = None) -> tuple[int, int, int]:
        """Send a request and return the sums so far: thinking kept, thinking lost, and different blocks lost."""
        same = next((i for i, pair in enumerate(zip(text, self._text, strict=False)) if pair[0] != pair[1]), None)
        same = min(len(text), len(self._text)) if same is None else same
        self._request.follow(same, [Block(letter.encode()) for letter in text[same:]])
        self._text = text
        shared = sum(letter.isupper() for letter in text[:same])
        shown = [ord(letter) for letter in text[same:] if letter.isupper()]
        self._bound.add(self._request, shared, shown, None if answer is None else ord(answer))
        return tuple(self._bound.thoughts)  # type: ignore[return-value]


def test_a_growing_request_loses_no_thinking() -> None:
    talk = Talk()
    assert talk.ask("a", "B") == (0, 0, 0)
    assert talk.ask("aBc", "D") == (1, 0, 0)
    assert talk.ask("aBcDe", "F") == (3, 0, 0)


def test_only_thinking_after_a_change_is_lost() -> None:
    talk = Talk()
    talk.ask("a", "B")
    talk.ask("aBc", "D")
    assert talk.ask("aBxDe", "F") == (2, 1, 1)
    # Thinking after the change was made without the lost block, so it stays valid.
    assert talk.ask("aBxDeFg") == (4, 2, 1)


def test_lost_thinking_is_valid_again_when_its_prefix_returns() -> None:
    talk = Talk()
    talk.ask("a", "B")
    talk.ask("aBc", "D")
    assert talk.ask("xBcDe") == (1, 2, 2)
    assert talk.ask("aBcDe") == (3, 2, 2)


def test_thinking_after_a_returning_block_is_lost() -> None:
    talk = Talk()
    talk.ask("a", "B")
    talk.ask("xBc", "D")
    assert talk.ask("xBcDe") == (1, 2, 1)


def test_thinking_out_of_view_is_not_lost() -> None:
    talk = Talk()
    talk.ask("a", "B")
    talk.ask("aBc", "D")
    assert talk.ask("cDe") == (1, 1, 1)
