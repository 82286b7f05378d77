"""The commands: each defined once, reached from every interface through the one registry [SPEC 4].

`registry.py` parses and dispatches; each other module holds the commands of one area and is listed in `REGISTRY`.
"""

from foldmark.commands.context import CONTEXT
from foldmark.commands.evicting import EVICTING
from foldmark.commands.general import GENERAL
from foldmark.commands.mail import MAIL
from foldmark.commands.memo import MEMO
from foldmark.commands.messages import MESSAGES
from foldmark.commands.notebook import NOTEBOOK
from foldmark.commands.operations import OPERATIONS
from foldmark.commands.planning import PLANNING
from foldmark.commands.points import POINTS
from foldmark.commands.recall import RECALL
from foldmark.commands.registry import Registry
from foldmark.commands.retrying import RETRYING
from foldmark.commands.sent import SENT
from foldmark.commands.sessions import SESSIONS
from foldmark.commands.settings import SETTINGS
from foldmark.commands.show import SHOW

REGISTRY = Registry(
    (
        *CONTEXT,
        *EVICTING,
        *OPERATIONS,
        *PLANNING,
        *SHOW,
        *SENT,
        *POINTS,
        *MESSAGES,
        *RETRYING,
        *NOTEBOOK,
        *SETTINGS,
        *MEMO,
        *RECALL,
        *MAIL,
        *SESSIONS,
        *GENERAL,
    )
)
