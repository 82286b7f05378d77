"""How many tokens a serialized request is [S3, SPEC 5.4]: the one place that knows.

Estimates of bytes; a tokenizer for a provider or a model becomes one more branch here and changes no caller.
"""

BYTES_PER_TOKEN = {"anthropic": 3}
"""Bytes that make a token, 4 where nothing else was measured."""


def estimate(provider: str, model: str, size_in_bytes: int) -> int:
    """The estimated tokens of `size_in_bytes` of a request to `model` of `provider`, rounded up."""
    return -(-size_in_bytes // BYTES_PER_TOKEN.get(provider, 4))
