"""Processes that are bound by file modes, even if root runs the tests."""

import ctypes
import os
import sys

import pytest

_BY_MODES = (1, 2, 3)  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER
_DROP = 24  # PR_CAPBSET_DROP
_VERSION = 0x20080522  # _LINUX_CAPABILITY_VERSION_3

bound = pytest.mark.skipif(
    sys.platform != "linux" and hasattr(os, "geteuid") and os.geteuid() == 0, reason="root may do everything here"
)
"""Mark for a test in which a process calls `obey_modes`."""


def obey_modes() -> None:
    """Drop the capabilities that exempt this process from file modes, if root runs it. Call this in a forked process.

    It still runs as root, so that it can read the code under test, wherever that is.
    """
    if os.geteuid() != 0:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    for capability in _BY_MODES:  # otherwise programs that it starts would regain them
        libc.prctl(_DROP, capability, 0, 0, 0)
    if libc.capset((ctypes.c_uint32 * 2)(_VERSION, 0), (ctypes.c_uint32 * 6)()):
        raise OSError(ctypes.get_errno(), "capset")
