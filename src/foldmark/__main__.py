"""The program, as `python -m foldmark`."""

import sys

from foldmark.interfaces.entry import main

if __name__ == "__main__":
    sys.exit(main())
