"""The chat: `controller.py` runs turns, commands, questions and notices and shows them on a `View`.

`line_mode.py` is the view that prints lines, with `screen.py` (turns), `keyboard.py` (lines, the prompt), `person.py`
(questions and the editor) and `foreground.py` (the main thread). Another terminal application is another `View`.
"""
