"""Read the lines of a file from its end. Standard library only, because hooks use it to read the end of a session."""

from collections.abc import Callable, Iterator

FIRST_BLOCK, LARGEST_BLOCK = 64 << 10, 1 << 20


def lines_backwards(read: Callable[[int, int], bytes], size: int, most: int, longest: int) -> Iterator[bytes]:
    """Yield the lines in the last `most` of `size` bytes, the last line first, without their line ends.

    `read` returns the bytes from an offset to another. Lines longer than `longest` bytes are left out.
    """
    end, length = size, FIRST_BLOCK
    rest: list[bytes] = []  # pieces of a line whose beginning is not read yet, the last piece first
    rest_length = 0
    while end > 0 and size - end < most:
        start = max(0, end - length)
        first, *others = read(start, end).split(b"\n")
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
