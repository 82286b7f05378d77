"""Providers of models. `registry` maps each provider to its dialect, its module and its address. The modules `*_api`
send requests over a provider's SDK, which is imported on first use; `sdk` contains the code that they share. `retrying`
wraps any provider, and `offline` is a model that needs no network."""
