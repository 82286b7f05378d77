"""The program, as `python -m foldmark`."""

import sys

from foldmark.cli import main

if __name__ == "__main__":
    sys.exit(main())
