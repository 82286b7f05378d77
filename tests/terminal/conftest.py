"""A log with the same ids and times in every run. Style sheets are parsed once, frames are drawn only when read."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from foldmark.log import Log
from sampled import DEEP

if TYPE_CHECKING:
    from textual._compositor import Compositor
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


@pytest.fixture(scope="package", autouse=True)
def _frames_drawn_when_looked_at() -> Iterator[None]:
    """Draw a frame only when a test reads the screen. Textual draws up to 60 frames a second and, without a terminal,
    throws them away, which takes a third of the time of a test. A deep run draws them all."""
    from textual._compositor import Compositor

    draw = Compositor.render_update

    def draw_if_read(found: "Compositor", full: bool = False, **more: Any) -> Any:
        if full:  # `Driven.screen` and a picture
            return draw(found, full, **more)
        found._dirty_regions.clear()  # as drawing does
        return None

    with pytest.MonkeyPatch.context() as patch:
        if not DEEP:
            patch.setattr(Compositor, "render_update", draw_if_read)
        yield
