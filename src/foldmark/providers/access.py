"""How a provider is reached: what stands in the environment or the settings, never in the log."""

from msgspec import Struct

NO_KEY = "no-key-needed"
"""The key for a server that needs none: without a key, some SDKs would send the key of another server."""


class Access(Struct, frozen=True):
    """A key and an address; each None where the SDK's own default is to serve. A key is never shown.

    `foreign` says that the server is not the one that the SDK is for: it gets nothing that the SDK would take from the
    environment.
    """

    key: str | None = None
    base_url: str | None = None
    project: str | None = None
    foreign: bool = False

    @property
    def given_key(self) -> str | None:
        """Return the key to give to an SDK. A foreign server that needs no key must not get the SDK's own."""
        return self.key or (NO_KEY if self.foreign else None)

    def __repr__(self) -> str:
        return f"Access(key={'…' if self.key else None}, base_url={self.base_url!r}, project={self.project!r})"

    def hidden(self, text: str) -> str:
        """Return `text` without the key, in case an error repeats it."""
        return text.replace(self.key, "…") if self.key else text
