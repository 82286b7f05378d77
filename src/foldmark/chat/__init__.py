"""The chat: `controller.py` runs turns, commands, questions and notices and shows them on a `View`.

`lines/` is the view that prints lines; the application in `foldmark.terminal` is another. `display/` holds what they
show, as values.
"""
