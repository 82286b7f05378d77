"""Anthropic's Messages API. `messages` writes and reads bodies; `thinking` and `binding` are about thinking."""
