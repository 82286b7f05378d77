"""Append messages, for tests that run several writers: writer.py DATABASE CONVERSATION COUNT.

It prints "ready" once the conversation is open, waits for a line on its standard input, and prints "ID CONTENT" after
each append has returned. A Foldmark error ends it with "error CLASS MESSAGE".
"""

import sys

import foldmark


def main(path: str, name: str, count: int) -> None:
    with foldmark.open(path) as log:
        agent = log.agent(name)
        print("ready", flush=True)
        run = sys.stdin.readline().strip()
        for n in range(count):
            text = f"{name}/{run}/{n}"
            event_id = agent.append("user", text)
            print(event_id, text, flush=True)


try:
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
except foldmark.FoldmarkError as error:
    print("error", type(error).__name__, error, flush=True)
