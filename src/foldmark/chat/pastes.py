"""Long pastes: the line being edited shows a short label for each; the line is sent with the full text."""

import re
from typing import NamedTuple

from foldmark.core.wording import count
from foldmark.rendering import harmless

LINES, CHARACTERS = 10, 1000
"""A text that exceeds either limit is folded."""


class Label(NamedTuple):
    """A label in a line: its position, and the text that it stands for."""

    first: int
    last: int
    text: str


class Pastes:
    """The long pasted texts of one line."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def folded(self, text: str) -> str:
        """Return what to insert into the line for a pasted text: a label if the text is long, otherwise the text itself
        without terminal control sequences."""
        text = re.sub("\r\n?", "\n", text)
        lines = text.count("\n") + (not text.endswith("\n"))
        if lines <= LINES and len(text) <= CHARACTERS:
            return harmless(text)
        size = count(lines, "line") if lines > LINES else count(len(text), "character")
        number = sum(label.startswith(f"[pasted {size}") for label in self._texts) + 1
        label = f"[pasted {size}]" if number == 1 else f"[pasted {size}, {number}]"
        self._texts[label] = text
        return label

    def labels(self, line: str) -> list[Label]:
        """Return the labels in a line, in order."""
        if not self._texts:
            return []
        pattern = "|".join(map(re.escape, self._texts))
        return [Label(*found.span(), self._texts[found[0]]) for found in re.finditer(pattern, line)]

    def whole(self, line: str) -> str:
        """Return the line with every label replaced by its text."""
        parts, at = [], 0
        for label in self.labels(line):
            parts += [line[at : label.first], label.text]
            at = label.last
        return "".join((*parts, line[at:]))

    def refolded(self, text: str) -> str:
        """Return a line that was edited in full, with the label restored for each pasted text that is still in it."""
        for label, pasted in self._texts.items():
            text = text.replace(pasted, label, 1)
        return self.folded(text) if len(text) > CHARACTERS * LINES else harmless(text)
