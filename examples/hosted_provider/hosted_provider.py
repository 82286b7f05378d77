"""A hosted service that speaks OpenAI's Chat Completions: `foldmark chat --model hosted/some-model`.

Foldmark's own client connects to it. Only the name, the address and the environment variables are new.
"""

from foldmark.providers.registry import ProviderSpec

HOSTED = ProviderSpec(
    name="hosted",
    dialect="openai",
    module="foldmark.providers.openai_api",
    keys=("HOSTED_API_KEY",),
    address="HOSTED_BASE_URL",
    default="https://models.example.com/v1",
    needs_key=True,
)
