"""Adds lists of items to sessions in separate processes: `python sdk_writer.py FOLDER LISTS LENGTH NAME...`.

It imports the SDK once and forks a process for each NAME and each kind of session. Each process opens the session,
prints "ready" and begins when it has read a character.
"""

import os
import sys
from itertools import product
from pathlib import Path

from sdk_sessions import KINDS, now, session, user


def write(kind: str, folder: str, lists: str, length: str, name: str) -> None:
    """Add the lists of one process."""
    with session(kind, Path(folder)) as talk:
        os.write(1, b"ready\n")
        os.read(0, 1)
        for number in range(int(lists)):
            now(talk.add_items([user(f"{name} {number} {place}") for place in range(int(length))]))


def main(folder: str, lists: str, length: str, *names: str) -> None:
    processes = []
    for kind, name in product(KINDS, names):
        if (process := os.fork()) == 0:
            write(kind, folder, lists, length, name)
            os._exit(0)
        processes.append(process)
    codes = [os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in processes]
    sys.exit(any(codes))


if __name__ == "__main__":
    main(*sys.argv[1:])
