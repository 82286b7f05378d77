"""What can be set from outside: so far, where the database is and how fast the offline model talks [SPEC 9, 10]."""

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


def offline_delay(environment: Mapping[str, str], terminal: bool) -> float:
    """Seconds between the offline model's words: `FOLDMARK_OFFLINE_DELAY`, otherwise a little on a terminal."""
    try:
        return min(max(float(environment["FOLDMARK_OFFLINE_DELAY"]), 0.0), 10.0)
    except (KeyError, ValueError):
        return 0.02 if terminal else 0.0
