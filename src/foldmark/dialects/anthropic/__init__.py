"""Anthropic's Messages API: bodies, the thinking that they may contain, streams, refusals."""
