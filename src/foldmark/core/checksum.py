"""The checksum of an event, which finds bytes that changed on the disk [SPEC 2].

CRC-32 finds every change of a single bit, and every burst of up to 32 bits; of other damage it misses one in four
billion. It guards against failing disks, not against people.
"""

from collections.abc import Sequence
from zlib import crc32


def checksum(columns: Sequence[str | int | None], content: bytes, data: bytes | None) -> int:
    """Return the CRC-32 of an event: its columns, joined by spaces and ended by a newline, with nothing for a null; its
    content; a zero byte and its data, if it has any."""
    return checksum_of(" ".join(["" if each is None else str(each) for each in columns]).encode(), content, data)


def checksum_of(head: bytes, content: bytes, data: bytes | None) -> int:
    """Return the CRC-32 of an event whose columns are already joined, without the newline."""
    sum = crc32(content, crc32(head + b"\n"))
    return sum if data is None else crc32(data, crc32(b"\0", sum))
