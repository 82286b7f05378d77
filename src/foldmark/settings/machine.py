"""Which machine and user this is, as a word that tells nothing of them: what a person agreed to holds only there."""

import os
from contextlib import suppress
from functools import cache
from pathlib import Path


@cache
def machine() -> str:
    """The same for the same user on the same machine; 16 hexadecimal digits."""
    import socket  # 4 ms with the next one, for whoever looks what tools may do
    from hashlib import sha256

    marks = [socket.gethostname(), os.path.expanduser("~"), str(os.getuid()) if hasattr(os, "getuid") else ""]  # noqa: PTH111
    with suppress(OSError):
        marks.append(Path("/etc/machine-id").read_text().strip())
    return sha256("\n".join(marks).encode()).hexdigest()[:16]
