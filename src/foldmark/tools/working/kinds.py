"""Detection of binary files."""

_KINDS = (
    (b"\x89PNG", "PNG image"),
    (b"\xff\xd8\xff", "JPEG image"),
    (b"GIF8", "GIF image"),
    (b"%PDF-", "PDF document"),
    (b"PK\x03\x04", "ZIP archive, or a document in one"),
    (b"\x1f\x8b", "gzip data"),
    (b"BZh", "bzip2 data"),
    (b"\xfd7zXZ", "xz data"),
    (b"\x28\xb5\x2f\xfd", "zstd data"),
    (b"7z\xbc\xaf", "7-Zip archive"),
    (b"\x7fELF", "ELF program"),
    (b"\xcf\xfa\xed\xfe", "Mach-O program"),
    (b"MZ", "Windows program"),
    (b"\0asm", "WebAssembly"),
    (b"SQLite format 3\0", "SQLite database"),
    (b"\xff\xfe", "UTF-16 text; iconv -f utf-16 reads it"),
    (b"\xfe\xff", "UTF-16 text; iconv -f utf-16 reads it"),
)


def binary(beginning: bytes) -> str | None:
    """Return the kind of a file that begins with these bytes; None for text. A NUL, or a PDF's signature, makes it
    binary."""
    if b"\0" not in beginning and not beginning.startswith(b"%PDF-"):
        return None
    return next((kind for magic, kind in _KINDS if beginning.startswith(magic)), "binary")
