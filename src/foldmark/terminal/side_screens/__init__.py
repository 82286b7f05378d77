"""The screens beside the chat, each opened with a key of its own."""
