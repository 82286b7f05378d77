"""The pictures of the documentation: they fit a light and a dark page."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from foldmark.terminal.theme import DARK, LIGHT

DOCS = Path(__file__).parents[2] / "docs"
SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=lambda theme: theme.name)
def test_the_picture_of_a_context_has_colours_for_light_and_dark(theme: object) -> None:
    root = ElementTree.fromstring((DOCS / "context.svg").read_text(encoding="utf-8"))
    style = root.findtext(f"{SVG}style") or ""
    light, dark = style.split("@media (prefers-color-scheme: dark)")
    rules, chosen = (light, LIGHT) if theme is LIGHT else (dark, DARK)
    looks = {each.get("class") for each in root.iter(f"{SVG}rect")}
    assert looks == {"page", "shell", "in", "out"}
    for name, colour in (("page", chosen.background), ("in", chosen.accent), ("shell", chosen.surface)):
        assert re.search(rf"\.{name} {{ fill: {colour}\b", rules)
    assert f"stroke: {chosen.error}" in rules
    assert not [each.get("fill") for each in root.iter() if each.get("fill")]  # it would be the same in both


def test_the_text_of_a_picture_fits_into_it() -> None:
    root = ElementTree.fromstring((DOCS / "context.svg").read_text(encoding="utf-8"))
    lines = [each for each in root.iter(f"{SVG}text") if "monospace" in (each.get("font-family") or "")]
    widest = max(len(each.text or "") * float(each.get("font-size") or 0) * 0.61 for each in lines)
    assert lines[-1].text is not None
    assert "/restore" in lines[-1].text
    assert widest < 880 - 2 * 20 - 2 * 10


@pytest.mark.parametrize("picture", sorted((DOCS / "screens").glob("*-light.svg")), ids=lambda path: path.stem)
def test_a_light_picture_stands_beside_its_dark_one(picture: Path) -> None:
    dark = picture.with_name(picture.name.replace("-light", ""))
    assert dark.exists()
    shown = "".join(page.read_text(encoding="utf-8") for page in (*DOCS.glob("*.md"), DOCS.parent / "README.md"))
    assert f"screens/{picture.name}" in shown
    assert f"screens/{dark.name}" in shown
