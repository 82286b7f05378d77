"""Anthropic's Messages API: bodies, what of a model's thinking they may hold, streams, refusals."""
