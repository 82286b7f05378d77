"""The chat line by line: the `ChatView` that prints, in a terminal or through a pipe.

`line_mode.py` is the view, with `screen.py` (turns), `keyboard.py` (the prompt and the lines typed), `person.py`
(questions and the editor) and `foreground.py` (the main thread).
"""
