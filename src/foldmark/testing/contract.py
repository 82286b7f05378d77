"""`StoreContract`: everything that a store promises, as one suite of tests."""

from foldmark.testing.parts.blocks import Blocks
from foldmark.testing.parts.brute_force import BruteForce
from foldmark.testing.parts.budgets import Budgets
from foldmark.testing.parts.connections import Connections
from foldmark.testing.parts.copying import CopyingTests
from foldmark.testing.parts.damaged import Damaged
from foldmark.testing.parts.inbox import InboxTests
from foldmark.testing.parts.listening import ListeningTests
from foldmark.testing.parts.memos import MemoTests
from foldmark.testing.parts.round_trips import RoundTrips
from foldmark.testing.parts.searching import Searching
from foldmark.testing.parts.transactions import Transactions


class StoreContract(
    RoundTrips,
    Transactions,
    Blocks,
    Connections,
    ListeningTests,
    BruteForce,
    InboxTests,
    MemoTests,
    Searching,
    Damaged,
    Budgets,
    CopyingTests,
):
    """What `foldmark.core.ports.Store` promises. Derive a class of tests from it and override the fixture `harness`."""
