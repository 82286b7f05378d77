"""Citations such as `[SPEC 5.2]` and `[S3]` lead to a heading in docs/, and each requirement to its test."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SPECIFICATION, REQUIREMENTS = (ROOT / "docs" / "development" / name for name in ("specification.md", "requirements.md"))

CITED = re.compile(
    r"\bSPEC\s(?P<first>\d+(?:\.\d+)?)(?P<more>(?:(?:[,;]| and|, and)\s+(?:\d+(?:\.\d+)?|[LS]\d)\b(?!%))*)"
)
BRACKETS = re.compile(r"\[(S\d\b[^\]\n]*)\]")
ONE = re.compile(r"\b(?:[LS]\d|\d+(?:\.\d+)?)\b")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
LINK = re.compile(r"(specification|requirements)\.md#([\w-]+)")
ROW = re.compile(r"^\| (S\d\.\d+) \|(.*)\|$", re.MULTILINE)
PROOF = re.compile(r"^\[(?P<path>tests/\S+\.py)::(?P<name>\w+(?:::\w+)?)\]\((?:\.\./){2}(?P=path)\)$")


def cited(text: str) -> Iterator[str]:
    """Yield all sections (5.2), laws (L4) and requirements (S3) that a text cites."""
    for found in CITED.finditer(text):
        yield from (found["first"], *ONE.findall(found["more"]))
    for found in BRACKETS.finditer(text):
        yield from re.findall(r"\bS\d\b", found[1])


def places() -> set[str]:
    """Return all sections, laws and requirements that exist."""
    specification = SPECIFICATION.read_text(encoding="utf-8")
    return {
        *re.findall(r"^##+ (\d+(?:\.\d+)?)\b", specification, re.MULTILINE),
        *re.findall(r"^- \*\*(L\d) ", specification, re.MULTILINE),
        *re.findall(r"^## (S\d):", REQUIREMENTS.read_text(encoding="utf-8"), re.MULTILINE),
    }


def anchors(page: Path) -> set[str]:
    """Return the names by which a link reaches the headings of a page."""
    titles = HEADING.findall(page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def unproved(page: str) -> list[str]:
    """Return the requirements of a page that name no existing test, as `NUMBER: CELL`."""
    wrong = []
    for number, row in ROW.findall(page):
        proof = row.rpartition("|")[2].strip()
        found = PROOF.match(proof)
        if found is None or found["name"] not in names_in(ROOT / found["path"]):
            wrong.append(f"{number}: {proof}")
    return wrong


@cache
def names_in(path: Path) -> set[str]:
    """Return the tests of a module: functions, classes, `Class::method`, and test cases of state machines."""
    names = set()
    for each in ast.parse(path.read_text(encoding="utf-8")).body if path.exists() else []:
        match each:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                names.add(name)
            case ast.ClassDef(name=name, body=body):
                names |= {name, *(f"{name}::{inner.name}" for inner in body if isinstance(inner, ast.FunctionDef))}
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Attribute(attr="TestCase")):
                names.add(name)
    return {name for name in names if name.rpartition("::")[2].startswith(("test_", "Test"))}


def test_every_citation_leads_to_a_heading() -> None:
    known, wrong, count = places(), [], 0
    folders = [ROOT / name for name in ("src", "tests", "docs", "benchmarks", "examples")]
    files = [path for folder in folders for kind in ("*.py", "*.md") for path in folder.rglob(kind)]
    files += [ROOT / "README.md", *(ROOT / "src").rglob("*.json")]
    for path in files:
        if path == Path(__file__):
            continue
        for place in cited(path.read_text(encoding="utf-8")):
            count += 1
            if place not in known:
                wrong.append(f"{path.relative_to(ROOT)}: {place}")
    assert not wrong
    assert count > 400


def test_every_link_to_a_section_leads_there() -> None:
    known = {page.stem: anchors(page) for page in (SPECIFICATION, REQUIREMENTS)}
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    links = [(page.name, *link) for page in pages for link in LINK.findall(page.read_text(encoding="utf-8"))]
    assert links
    assert not [link for link in links if link[2] not in known[link[1]]]


def test_every_requirement_names_a_test_that_exists() -> None:
    page = REQUIREMENTS.read_text(encoding="utf-8")
    numbers = [number for number, _ in ROW.findall(page)]
    assert len(numbers) == len(set(numbers)) == page.count("\n| S")
    assert {number.partition(".")[0] for number in numbers} == {f"S{number}" for number in range(5)}
    assert not unproved(page)


def test_what_is_missing_is_found() -> None:
    here = "tests/docs/test_citations.py"
    rows = [
        f"| S1.1 | proved | [{here}::test_what_is_missing_is_found](../../{here}) |",
        "| S1.2 | without a test | |",
        f"| S1.3 | such a test does not exist | [{here}::test_nothing](../../{here}) |",
        f"| S1.4 | a function that is no test | [{here}::cited](../../{here}) |",
        "| S1.5 | no such file | [tests/nowhere.py::test_it](../../tests/nowhere.py) |",
        f"| S1.6 | a link to another file | [{here}::test_what_is_missing_is_found](../../tests/conftest.py) |",
    ]
    assert [wrong[:5] for wrong in unproved("\n".join(rows))] == ["S1.2:", "S1.3:", "S1.4:", "S1.5:", "S1.6:"]
    assert [*cited("Laws [S4, SPEC 2, 5.7, and 99; L9], not SPEC's 1.0, [S7] as SPEC 3, 40% of it")] == [
        *("2", "5.7", "99", "L9", "3", "S4", "S7"),
    ]
