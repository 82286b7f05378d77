"""A process that reads its mail in an endless loop, for tests that kill it: mail_reader.py DATABASE UUID.

It says "ready" once the database is open and prints the ids of the mail that each /check-mail delivered.
"""

import sys

import foldmark

with foldmark.open(sys.argv[1], create=False) as log:
    agent = log.agent(sys.argv[2])
    print("ready", flush=True)
    while True:
        agent.context()
        if mail := agent.do("/check-mail").data["mail"]:
            print(*(each["id"] for each in mail), flush=True)
