"""The pages about the project agree with the project: front page, index, map of rooms, glossary, changelog."""

import io
import re
import tomllib
from collections import Counter
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from test_citations import anchors
from test_documents import FOLDERS, ROOT

from foldmark.cli.program import run

PACKAGE = ROOT / "src" / "foldmark"
LISTED = re.compile(r"^\| \[(\d+)\]\((\1[\w-]+\.md)\) \| (.+) \|$", re.MULTILINE)
"""A row of the list of decisions: number, page, title."""

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def text(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def rows(page: str) -> list[list[str]]:
    """Return the cells of every row of every table of a page, without the heads."""
    lines = re.findall(r"^\| (?!---)(.*) \|$(?!\n\| ---)", text(page), re.MULTILINE)
    return [[cell.strip() for cell in line.split(" | ")] for line in lines]


def code(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_the_front_page_is_short() -> None:
    assert len(text("README.md").splitlines()) < 120


def test_the_figures_of_the_front_page_are_those_of_its_picture(tmp_path: Path) -> None:
    """The edit is the one in the picture, which docs/picture.py draws."""
    sample, db = PACKAGE / "samples" / "notes-cli.jsonl", str(tmp_path / "notes.db")
    shown = io.StringIO()
    with redirect_stdout(shown):
        run(["--db", db, "import", str(sample), "--as", "notes"])
        run(["--db", db, "do", "notes", "/context drop 130 --preview"])
    after, before = re.findall(r"next request ~([\d,]+) tokens instead of ~([\d,]+)", shown.getvalue())[0]
    ((whole, left),) = re.findall(r"context (\d+) → (\d+) messages", shown.getvalue())
    share = 100 * (1 - int(after.replace(",", "")) / int(before.replace(",", "")))
    page = " ".join(text("README.md").split())
    assert f"{share:.0f}% smaller: {after} tokens instead of {before}" in page
    assert f"The other {left} of {whole} messages" in page


def test_the_first_page_names_every_extra() -> None:
    table = text("docs/start.md").partition("| extra |")[2].partition("\n\n")[0]
    named = [name for line in table.splitlines() for name in code(line.partition(" | ")[0])]
    assert sorted(named) == sorted(PROJECT["project"]["optional-dependencies"])


def test_the_index_has_every_page() -> None:
    docs = ROOT / "docs"
    linked = re.findall(r"\]\(((?:\w+/)?[\w-]+\.md)\)", text("docs/README.md"))
    pages = {str(page.relative_to(docs)) for folder in FOLDERS for page in folder.glob("*.md")}
    assert sorted(linked) == sorted(pages - {"README.md"})


def test_the_list_of_decisions_has_each_with_its_title() -> None:
    folder = ROOT / "docs" / "development" / "decisions"
    titles = {page.name: page.read_text(encoding="utf-8").splitlines()[0] for page in folder.glob("0*.md")}
    listed = {page: f"# {title}" for _, page, title in LISTED.findall(text("docs/development/decisions/README.md"))}
    assert listed == titles


PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files(page: Path) -> None:
    links = re.findall(r"\]\((?!\w+:|#)([^)#]+)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_to_sections_lead_to_headings(page: Path) -> None:
    links = re.findall(r"\]\((?!\w+:)([^)#]*)#([^)]+)\)", page.read_text(encoding="utf-8"))
    there = [(page.parent / file if file else page, section) for file, section in links]
    assert [(file.name, section) for file, section in there if section not in anchors(file)] == []


def test_the_map_has_every_room_and_no_other() -> None:
    there = [f"{room.name}/" for room in PACKAGE.iterdir() if [*room.glob("*.*")] and room.name != "__pycache__"]
    mapped = [code(row[0])[0] for row in rows("docs/development/architecture.md")]
    assert Counter(mapped) == Counter(there)


def test_the_map_goes_from_high_to_low() -> None:
    contract = PROJECT["tool"]["importlinter"]["contracts"][0]
    layer = {room: height for height, line in enumerate(contract["layers"]) for room in re.split(r" [|:] ", line)}
    rooms = [code(row[0])[0].partition("/")[0] for row in rows("docs/development/architecture.md")]
    heights = [layer[room] for room in rooms if room in layer]
    assert len(set(heights)) > 10
    assert heights == sorted(heights)


def test_a_term_of_the_glossary_stands_once() -> None:
    terms = Counter(row[0].lower() for row in rows("docs/development/glossary.md"))
    assert len(terms) > 50
    assert [term for term, count in terms.items() if count > 1] == []


def test_the_glossary_has_the_vocabulary_of_the_specification() -> None:
    vocabulary = text("docs/development/specification.md").partition("## 1. Vocabulary")[2].partition("\n## ")[0]
    named = [
        term
        for cell in re.findall(r"^\| (?!---|term )(.+?) \|", vocabulary, re.MULTILINE)
        for term in cell.split(" / ")
    ]
    assert len(named) > 15
    assert set(named) - {row[0] for row in rows("docs/development/glossary.md")} == set()


def test_names_in_the_glossary_are_names_in_the_package() -> None:
    named = [name for row in rows("docs/development/glossary.md") for name in code(row[-1])]
    assert [name for name in named if not exists(f"foldmark.{name}")] == []


def exists(name: str) -> bool:
    """Return True if a dotted name leads to a module, or to an attribute of a module or class."""
    module, _, rest = name.partition(".")
    found: Any = import_module(module)
    while rest:
        part, _, rest = rest.partition(".")
        module = f"{module}.{part}"
        if hasattr(found, part):
            found = getattr(found, part)
        elif part in getattr(found, "__annotations__", {}):
            return not rest
        else:
            try:
                found = import_module(module)
            except ModuleNotFoundError:
                return False
    return True


def test_such_names_are_told_apart() -> None:
    assert exists("foldmark.core.ports.Store.address")
    assert not exists("foldmark.core.ports.Store.adress")
    assert not exists("foldmark.core.harbours")


def test_the_changelog_begins_with_the_version_of_the_package() -> None:
    versions = re.findall(r"^## (\d+\.\d+\.\d+)", text("CHANGELOG.md"), re.MULTILINE)
    assert versions[0] == PROJECT["project"]["version"]
