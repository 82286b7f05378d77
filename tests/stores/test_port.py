"""The port of a store is small, every method of it has a caller, and no class behind it is derived deeply."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import pytest

import foldmark
from foldmark.core.ports import Transaction

METHODS = [name for name in dir(Transaction) if name[0] != "_"]
SOURCE = Path(foldmark.__file__).parent


def test_the_port_has_at_most_forty_methods() -> None:
    assert 30 < len(METHODS) <= 40


def test_every_method_has_a_caller_above_the_stores() -> None:
    rooms = [each for each in SOURCE.rglob("*.py") if each.relative_to(SOURCE).parts[0] not in ("stores", "testing")]
    text = "".join(each.read_text(encoding="utf-8") for each in rooms)
    assert [name for name in METHODS if not re.search(rf"\w\.{name}\(", text)] == []


@pytest.mark.parametrize("package", ["foldmark.stores", "foldmark.log"])
def test_no_class_has_more_than_three_ancestors_of_ours(package: str) -> None:
    path = importlib.import_module(package).__path__
    modules = [importlib.import_module(each.name) for each in pkgutil.walk_packages(path, f"{package}.")]
    classes = {each for module in modules for _, each in inspect.getmembers(module, inspect.isclass)}
    ours = {each for each in classes if each.__module__.startswith(package)}
    ancestors = {each: [one for one in each.__mro__[1:] if one.__module__.startswith("foldmark.")] for each in ours}
    assert len(ours) > 5
    assert {each.__name__: found for each, found in ancestors.items() if len(found) > 3} == {}
