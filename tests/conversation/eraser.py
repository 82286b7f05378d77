"""A process that erases turns, for tests that kill it: eraser.py DATABASE HOW TURN...

It says "ready", waits for a line, and prints each turn once it is erased. `command` does the same as `/message remove`;
with `commit`, it kills itself between the commit of the erasure and the truncation of the write-ahead log.
"""

import os
import signal
import sys

import foldmark


def main(path: str, how: str, *turns: str) -> None:
    with foldmark.open(path) as log:
        agent = log.agent("root")
        print("ready", flush=True)
        sys.stdin.readline()
        for turn in turns:
            if how == "commit":
                agent.redact(int(turn))
                os.kill(os.getpid(), signal.SIGKILL)
            agent.do(f"/message remove {turn} --yes")
            print(turn, flush=True)


main(*sys.argv[1:])
