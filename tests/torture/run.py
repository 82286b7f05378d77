"""Tortures the stores and writes the results to docs/development/reliability.md: `make torture`.

Exits with 1 if anything was lost, torn, doubled or unclear.
"""

import sys

if __name__ == "__main__":
    # Child processes import this file too. They do not need this import.
    from report import main

    sys.exit(main())
