"""A skill of ours: a `SKILL.md` that is Foldmark's from its first line to its last."""

import re

from foldmark.sessions.install.kinds import Edited
from foldmark.sessions.install.texts import template


class SkillFile:
    """`command`: how a shell runs Foldmark. `other`: the file of a command of the same name that is the person's own,
    and that a skill would hide."""

    def __init__(self, name: str, command: str, other: str | None = None) -> None:
        self._template = template(name)
        self._text = self._template.replace("{foldmark}", command)
        self._name, self._other = name, other

    def put_in(self, text: str | None, ours: bool) -> Edited:
        """Our text; another skill of that name, or one of ours that somebody has changed, is kept."""
        if text is None:
            if self._other:
                return Edited(None, (f"it would hide your own /{self._name} in {self._other}",), kept=True)
            return Edited(self._text)
        if ours or self._is_ours(text):
            return Edited(self._text)
        return Edited(text, (f"is not as Foldmark writes it and is kept; /{self._name} does what it says",), kept=True)

    def take_out(self, text: str, replaced: str | None) -> Edited:
        """No file; one that somebody has changed stays."""
        if self._is_ours(text):
            return Edited(None)
        return Edited(text, ("is not as Foldmark writes it and is kept",), kept=True)

    def _is_ours(self, text: str) -> bool:
        """Whether this is our text, with whatever path of a program in it."""
        return re.fullmatch(re.escape(self._template).replace(r"\{foldmark\}", "[^\n]+"), text) is not None
