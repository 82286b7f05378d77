"""Adds lists of items to a session in a process of its own: `python sdk_writer.py KIND FOLDER NAME LISTS LENGTH`."""

import sys
from pathlib import Path

from sdk_sessions import now, session, user


def main(kind: str, folder: str, name: str, lists: str, length: str) -> None:
    with session(kind, Path(folder)) as talk:
        print("ready", flush=True)
        sys.stdin.readline()
        for number in range(int(lists)):
            now(talk.add_items([user(f"{name} {number} {place}") for place in range(int(length))]))


if __name__ == "__main__":
    main(*sys.argv[1:])
