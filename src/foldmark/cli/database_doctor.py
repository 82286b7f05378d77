"""`foldmark doctor` and `foldmark backup --verify`: what is wrong with a database."""

import sys
from typing import Any

from foldmark.core.errors import StoreError
from foldmark.core.wording import count
from foldmark.log import Log
from foldmark.log.doctor import examine as findings_of
from foldmark.log.doctor import repair as rebuild
from foldmark.rendering import harmless, json_text


def examine(log: Log, name: str, repair: bool, as_json: bool, schema: int | None = None) -> int:
    """Print what is wrong with a database, mended with `repair` as far as that can be; the exit code, 1 if something is
    wrong and stays so. `schema` is told as well where it is given."""
    findings = [(finding, repair and rebuild(log, finding)) for finding in findings_of(log)]
    agents, unchecked = _amounts(log)
    if repair and not log.store.forget_erased():
        print(
            "another program is reading, or the disk is full: what was erased may still have traces in the write-ahead "
            "log; repeat this later",
            file=sys.stderr,
        )
    left = sum(1 for _, repaired in findings if not repaired)
    if as_json:
        found: list[dict[str, Any]] = [{"text": finding.text, "repaired": done} for finding, done in findings]
        told = {"database": name, "agents": agents, "unchecked": unchecked, "findings": found}
        print(json_text(told if schema is None else {**told, "schema": schema}))
        return 1 if left else 0
    for finding, repaired in findings:
        print(harmless(f"{finding.text}{' (repaired)' if repaired else ''}"))
    if unchecked:
        print(f"{count(unchecked, 'event')} from before there were checksums: a changed byte in these is not found")
    verdict = f"{left} wrong" if left else "all is well"
    version = "" if schema is None else f"schema {schema}, "
    print(harmless(f"{name}: {version}{count(agents, 'agent')}, {verdict}"))
    return 1 if left else 0


def _amounts(log: Log) -> tuple[int, int]:
    """The agents there are, and the events without a checksum; 0 for what cannot be read any more."""
    try:
        return len(log.agents()), log.store.unchecked()
    except StoreError:
        return 0, 0
