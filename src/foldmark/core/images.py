"""Images of messages: what `data["blocks"]` holds of them, and what each costs [SPEC 5.4].

An image is kept in one form, whatever dialect it is sent in: `{"type": "image", "source": {"type": "base64",
"media_type": "image/png", "data": "..."}}`, or a source of `{"type": "url", "url": "https://..."}`.
"""

import re
from binascii import Error, a2b_base64
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

GIF = "image/gif"
MEDIA = ("image/png", "image/jpeg", GIF, "image/webp")
"""What is sent; Gemini takes no GIF."""

TOKENS = 1600
"""What an image is counted as: about the most that one costs once a provider has scaled it down."""

LARGEST = 5_000_000
"""Characters of base64 in one image that are sent at most."""

_URL = re.compile(r"https://[!-~]{1,2000}")


class Image(NamedTuple):
    """An image to send: base64 `data` of a `media` type, or else a `url`."""

    media: str = ""
    data: str = ""
    url: str = ""

    @property
    def data_url(self) -> str:
        """The address of it, itself included if it has none elsewhere."""
        return self.url or f"data:{self.media};base64,{self.data}"


def images_of(data: Mapping[str, Any] | None, dialect: str = "") -> tuple[list[Image], int]:
    """The images that a message carries, and how many other blocks or images unusable in `dialect` are beside them."""
    blocks = (data or {}).get("blocks")
    found = [_image(block) for block in blocks] if isinstance(blocks, list) else []
    images = [each for each in found if each is not None and not (each.media == GIF and "gemini" in dialect)]
    return images, len(found) - len(images)


def payload(images: Iterable[Image]) -> int:
    """The bytes of the images' contents in a request."""
    return sum(len(image.data) for image in images)


def _image(block: Any) -> Image | None:
    source = block.get("source") if isinstance(block, dict) and block.get("type") == "image" else None
    if not isinstance(source, dict):
        return None
    data, url = source.get("data"), source.get("url")
    if source.get("type") == "base64" and source.get("media_type") in MEDIA and isinstance(data, str):
        return Image(source["media_type"], data) if 0 < len(data) <= LARGEST and _is_base64(data) else None
    if source.get("type") == "url" and isinstance(url, str) and _URL.fullmatch(url):
        return Image(url=url)
    return None


def _is_base64(text: str) -> bool:
    try:
        a2b_base64(text.encode("ascii"), strict_mode=True)
    except (Error, UnicodeEncodeError):
        return False
    return True
