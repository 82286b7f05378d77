"""The working tools: files of a folder, and a shell, within what a person has agreed to [SPEC 4.1].

`files.py`, `grep.py` and `bash.py` are the tools. `places.py` says which path is meant and whether somebody has to
agree, `opening.py` opens exactly that; `walking.py` goes through folders, `kinds.py` tells text from binary files,
`nearby.py` says what there is instead. `searching.py` and `matcher.py` search in a process of its own, `running.py`
runs a command.
"""
