"""The access to a provider, from the environment or the settings, never from the log."""

from msgspec import Struct

NO_KEY = "no-key-needed"
"""The key for a server that needs no key. Without one, some SDKs would send the key of another server."""


class Access(Struct, frozen=True):
    """A key and an address, each None for the SDK's own default. A key is never shown.

    `foreign` is True if the server is not the one that the SDK is made for: it gets nothing that the SDK would take
    from the environment.
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
