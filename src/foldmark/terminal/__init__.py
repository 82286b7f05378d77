"""The terminal application: the chat's controller on a full screen, drawn by Textual.

`application.py` is the screen of the chat, `view.py` connects it with the controller, which runs in a thread of its
own. `scrollback/` draws the conversation, `side_screens/` holds the screens beside the chat. Screens read the log
themselves, in workers, and change nothing: what a person does there becomes a command line, as if it was typed.
"""
