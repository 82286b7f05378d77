"""`StoreContract`: everything that a store promises, as one suite of tests."""

from foldmark.testing.brute_force import BruteForce
from foldmark.testing.budgets import Budgets
from foldmark.testing.connections import Connections
from foldmark.testing.damaged import Damaged
from foldmark.testing.memos import MemoTests
from foldmark.testing.round_trips import RoundTrips
from foldmark.testing.searching import Searching
from foldmark.testing.towards import Towards
from foldmark.testing.transactions import Transactions


class StoreContract(
    RoundTrips, Transactions, Connections, BruteForce, Towards, MemoTests, Searching, Damaged, Budgets
):
    """The contract of `foldmark.core.ports.Store`."""
