"""The code blocks of a text in Markdown."""

from foldmark.text.state import fence_behind


def code_blocks(text: str) -> list[str]:
    """Return the contents of the fenced code blocks, in order. The last one may still be open at the end."""
    found: list[list[str]] = []
    fence = ""
    for line in text.split("\n"):
        inside, fence = fence, fence_behind(line, fence)
        if inside and fence:
            found[-1].append(line)
        elif fence:
            found.append([])
    return ["\n".join(lines) for lines in found]
