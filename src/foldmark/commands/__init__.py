"""The commands: each defined once, reached from every interface through the one registry [SPEC 4].

`registry.py` parses and dispatches; each other module holds the commands of one area and is listed in `REGISTRY`.
"""

from foldmark.commands.context import CONTEXT
from foldmark.commands.general import GENERAL
from foldmark.commands.registry import Registry

REGISTRY = Registry((*CONTEXT, *GENERAL))
