"""What can be set from outside: so far, where the database is [SPEC 9, 10]."""

from collections.abc import Mapping
from pathlib import Path


def database(environment: Mapping[str, str]) -> str:
    """`FOLDMARK_DB`, or `foldmark.db` in the platform's data folder for this user."""
    named = environment.get("FOLDMARK_DB")
    if named:
        return named
    from platformdirs import user_data_path

    return str(user_data_path("foldmark", appauthor=False) / "foldmark.db")


def is_default(path: str, environment: Mapping[str, str]) -> bool:
    """Whether the database is where Foldmark itself chose to put it; then its folder is made as needed."""
    return not environment.get("FOLDMARK_DB") and Path(path) == Path(database(environment))
