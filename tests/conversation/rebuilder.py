"""A process that rebuilds all sent requests: rebuilder.py DATABASE. It prints agent, id, verdict, SHA-256 of each."""

import sys
from hashlib import sha256

import foldmark
from foldmark.request.recorded import newest_requests
from foldmark.sending.rebuilding import rebuilt


def main(path: str) -> None:
    with foldmark.open(path, create=False, settings={}) as log:
        for agent in log.agents():
            with log.store.read() as moment:
                for each in reversed(newest_requests(moment, agent.id, 1000)):
                    found = rebuilt(agent, each.number)
                    print(agent.id, each.id, found.verdict, sha256(found.request.bytes).hexdigest())


main(*sys.argv[1:])
