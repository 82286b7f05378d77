"""The screens other than the chat, each opened with its own key."""
