"""The screens beside the chat, each opened with its own key."""
