"""The commands, each defined once and available to every interface through one registry [SPEC 4].

`registry.py` parses and dispatches; each other module holds the commands of one area.
"""

from itertools import chain

from foldmark.commands.agents import AGENTS, CONVERSION, MAIL
from foldmark.commands.context import CONTEXT, PLANNING
from foldmark.commands.cost import COST
from foldmark.commands.history import OPERATIONS, POINTS
from foldmark.commands.memory import MEMO, NOTEBOOK
from foldmark.commands.messages import MESSAGES
from foldmark.commands.recall import RECALL
from foldmark.commands.registry import GENERAL, Registry
from foldmark.commands.settings import SETTINGS
from foldmark.commands.show import SHOW

REGISTRY = Registry(
    chain(
        *(CONTEXT, OPERATIONS, PLANNING, SHOW, POINTS, COST, MESSAGES, NOTEBOOK, SETTINGS),
        *(MEMO, RECALL, MAIL, AGENTS, CONVERSION, GENERAL),
    )
)
