"""What is set from outside: files, environment and command line [SPEC 10]. Nothing is read when this is imported."""

from foldmark.settings.given import Settings, Value
from foldmark.settings.places import database, is_default, offline_delay

__all__ = ["Settings", "Value", "database", "is_default", "offline_delay"]
