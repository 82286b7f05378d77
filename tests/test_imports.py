"""Circular imports that import-linter's contract in pyproject.toml cannot see: between a package and its own modules.

The contract compares only the modules and packages of one package with each other.
"""

from collections.abc import Iterator

import grimp
import pytest


def circles(graph: grimp.ImportGraph) -> Iterator[tuple[str, ...]]:
    """Yield the chain of imports from each package through one of its own modules back to the package."""
    for package in sorted(graph.modules):
        for module in sorted(graph.find_modules_directly_imported_by(package)):
            if module.startswith(f"{package}.") and (way := graph.find_shortest_chain(module, package)):
                yield (package, *way)


@pytest.fixture
def graph() -> grimp.ImportGraph:
    return grimp.build_graph("foldmark", cache_dir=None)


def test_no_package_imports_what_imports_it(graph: grimp.ImportGraph) -> None:
    assert list(circles(graph)) == []


def test_such_a_circle_is_found(graph: grimp.ImportGraph) -> None:
    graph.add_import(importer="foldmark.tools.tool", imported="foldmark.tools")
    assert ("foldmark.tools", "foldmark.tools.tool", "foldmark.tools") in set(circles(graph))
