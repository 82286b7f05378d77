"""The whole contract: all parts in one class.

Failed assertions in these modules show their values, as in a test module: `foldmark.testing` sees to that.
"""

from foldmark.testing.parts.answers import Answers
from foldmark.testing.parts.blocks import Blocks
from foldmark.testing.parts.budgets import Budgets
from foldmark.testing.parts.connections import Connections, ListeningTests
from foldmark.testing.parts.copying import CopyingTests
from foldmark.testing.parts.damaged import Damaged
from foldmark.testing.parts.inbox import InboxTests


class StoreContract(Blocks, Connections, ListeningTests, Answers, InboxTests, Damaged, Budgets, CopyingTests):
    """Tests for everything that `foldmark.core.ports.Store` promises. Derive a test class from it and override the
    fixture `harness`."""
