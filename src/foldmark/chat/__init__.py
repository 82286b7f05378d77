"""The chat: `controller.py` runs turns, commands, questions and notices, and shows them on a `ChatView`.

`lines/` is the view that prints lines; the application in `foldmark.terminal` is another view. `display/` provides the
data for both, as plain values.
"""
