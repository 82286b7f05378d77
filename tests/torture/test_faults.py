"""A fault of the machine ends in a clear message, and nothing acknowledged is lost."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from faults import Fault, clock_back, full_disk, full_files, read_only

from sampled import DEEP

linux = pytest.mark.skipif(sys.platform != "linux", reason="mounts a disk or limits files as Linux does")


def found(fault: Fault) -> None:
    """Assert that something failed, always with a clear message, and that nothing was missing."""
    assert fault.toll.faults == []
    assert fault.errors.total() > 0


@linux
def test_a_full_disk(tmp_path: Path) -> None:
    """If this user may not mount disks, a file size limit is used instead."""
    found(full_disk(tmp_path, 4, "sample") or full_files(tmp_path, 4, "sample"))


@linux
def test_a_read_only_folder(tmp_path: Path) -> None:
    found(read_only(tmp_path, "sample"))


def test_a_clock_that_is_set_back(fresh: Callable[[], str]) -> None:
    found(clock_back(fresh(), 3 if DEEP else 2, "sample"))
