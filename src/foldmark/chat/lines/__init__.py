"""The line-by-line chat: the `ChatView` that prints, to a terminal or a pipe.

`line_mode.py` is the view, with `screen.py` (turns), `keyboard.py` (the prompt and typed lines), `person.py` (questions
and the editor) and `foreground.py` (the main thread). `one_answer.py` and `one_command.py` run
one turn and one command without a chat.
"""
