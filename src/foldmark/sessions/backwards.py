"""Read the lines of a file from its end. Standard library only, because hooks use it to read the end of a session."""

import os
from collections.abc import Iterator

FIRST_BLOCK, LARGEST_BLOCK = 64 << 10, 1 << 20


def lines_backwards(descriptor: int, most: int, longest: int) -> Iterator[bytes]:
    """Yield the lines in the last `most` bytes of an open file, the last line first, without their line ends.

    Lines longer than `longest` bytes are left out. Raises OSError.
    """
    size = end = os.fstat(descriptor).st_size
    length = FIRST_BLOCK
    rest: list[bytes] = []  # pieces of a line whose beginning is not read yet, the last piece first
    rest_length = 0
    while end > 0 and size - end < most:
        start = max(0, end - length)
        os.lseek(descriptor, start, os.SEEK_SET)
        first, *others = os.read(descriptor, end - start).split(b"\n")
        if others:
            if rest_length + len(others[-1]) <= longest:
                yield b"".join((others[-1], *reversed(rest)))
            yield from (line for line in reversed(others[:-1]) if len(line) <= longest)
            rest, rest_length = [], 0
        rest.append(first)
        rest_length += len(first)
        if rest_length > longest:
            rest.clear()
        end, length = start, min(2 * length, LARGEST_BLOCK)
    if end == 0 and rest_length <= longest:
        yield b"".join(reversed(rest))
