"""To be measured."""

from peers.report import Section
from peers.runs import Run

PEERS: tuple[str, ...] = ()


def measure(run: Run) -> Section:
    """Return the section."""
    return Section("store", "store", "")
