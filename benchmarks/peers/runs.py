"""What one run of the suite knows: the peers, the data, and how much to measure."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from peers.adapter import PeerError
from peers.environments import Pinned
from peers.report import Failure


@dataclass(frozen=True)
class Run:
    """Handed to each section."""

    peers: dict[str, Pinned]
    """Those that are installed."""
    failures: dict[str, Failure]
    """Those that are not, by name."""
    data: Path | None
    """A folder with recorded sessions, if one was named."""
    clients: Path
    """Where `make clients` installs the real clients; may be missing."""
    quick: bool
    """Whether to measure with small numbers, to try the suite."""

    def say(self, text: str) -> None:
        """Show progress."""
        print(f"  {text}", file=sys.stderr, flush=True)

    @contextmanager
    def failing(self, failures: list[Failure], peer: str, doing: str) -> Iterator[None]:
        """Turn what a peer fails with into a line of the page."""
        try:
            yield
        except (PeerError, OSError, ValueError, TimeoutError) as error:
            failures.append(Failure(peer, doing, str(error)))
            self.say(f"{peer}, {doing}: {error}")
