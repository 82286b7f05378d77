"""The terminal application: the chat's controller on a full screen, drawn by Textual.

`application.py` runs the controller in its own thread, `view.py` connects it with `chat.py`, the screen of the chat.
`scrollback/` draws the conversation, and `side_screens/` holds the other screens. `application.tcss` says how all of
them look. Screens read the log in threads (`screens.py`) and change nothing: a person's action becomes a command line,
as if it had been typed.
"""
