"""A log with the same ids and times in every run, and style sheets that are parsed once."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from foldmark.log import Log

if TYPE_CHECKING:
    from textual.css.stylesheet import Stylesheet


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    from driven import open_log

    with open_log(tmp_path / "log.db") as log:
        yield log


@pytest.fixture(scope="package", autouse=True)
def _style_sheets_parsed_once() -> Iterator[None]:
    """Parsed style sheets, shared by all applications. Parsing takes a sixth of the start of an application."""
    from textual.css.stylesheet import Stylesheet

    parse, parsed = Stylesheet._parse_rules, dict[object, Any]()

    def parse_once(sheet: "Stylesheet", *given: Any, **more: Any) -> Any:
        key = (given, frozenset(more.items()), frozenset(sheet._variables.items()))
        if key not in parsed:
            parsed[key] = parse(sheet, *given, **more)
        return parsed[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Stylesheet, "_parse_rules", parse_once)
        yield
