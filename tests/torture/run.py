"""Tortures the stores and writes docs/reliability.md with what was done and found: `make torture`.

Exit code 1 if anything was lost, torn, doubled or unclear.
"""

import sys

if __name__ == "__main__":
    # Processes that are started import this file as well: what they do not need is not imported for them.
    from report import main

    sys.exit(main())
