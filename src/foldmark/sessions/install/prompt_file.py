"""Our paragraph in a `CLAUDE.md`, between two marks. Claude Code leaves such comments out of what a model reads."""

import re

from foldmark.sessions.install.json_text import NotMergeableError
from foldmark.sessions.install.kinds import Edited
from foldmark.sessions.install.texts import template

BEGIN, END = "<!-- foldmark:begin -->", "<!-- foldmark:end -->"
_BLOCK = re.compile(rf"{BEGIN}.*?{END}", re.DOTALL)
_OUT = re.compile(rf"(?:\A|(?<=\n)\r?\n|){BEGIN}.*?{END}(?:\r?\n)?", re.DOTALL)


class PromptFile:
    """What a worker should know of its context [S4 component 5], at the end of the file.

    `command`: how a shell runs Foldmark.
    """

    def __init__(self, command: str) -> None:
        self._text = template("context").strip().replace("{foldmark}", command)

    def put_in(self, text: str | None, ours: bool) -> Edited:
        """Our block at the end, or where it is already. Raises NotMergeableError if one of its marks is missing."""
        newline = "\r\n" if text and "\r\n" in text else "\n"
        block = f"{BEGIN}\n{self._text}\n{END}".replace("\n", newline)
        if not text:
            return Edited(block + newline)
        if _has_block(text):
            return Edited(_BLOCK.sub(lambda _: block, text))
        gap = newline if text.endswith("\n") else newline * 2
        return Edited(f"{text}{gap}{block}{newline}")

    def take_out(self, text: str, replaced: str | None) -> Edited:
        """Without the block and the empty line before it."""
        return Edited(_OUT.sub("", text) if _has_block(text) else text)


def _has_block(text: str) -> bool:
    """Raises NotMergeableError where the marks are not one pair."""
    marks = re.findall(f"{BEGIN}|{END}", text)
    if marks not in ([], [BEGIN, END]):
        raise NotMergeableError(f"its marks {BEGIN} and {END} are not one pair; put that right, or use --no-prompt")
    return bool(marks)
