"""Answers of a test to the questions that Foldmark asks a model by itself."""

from collections.abc import Callable

from foldmark.core.request import Request
from foldmark.sending import models
from foldmark.settings.given import Settings

_COMPLETE = models.complete


def answered_by(answer: Callable[[Request], str]) -> None:
    """Answer every question with `answer`, until the end of the test, whatever log and thread it comes from."""

    def complete(request: Request, given: Settings) -> str:
        return answer(request)

    models.complete = complete


def restore() -> None:
    """Ask models again."""
    models.complete = _COMPLETE
