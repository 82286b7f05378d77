"""The working tools: files of a folder, and a shell, within what a person has agreed to [SPEC 4.1].

`files.py`, `grep.py` and `bash.py` are the tools. `paths.py` resolves a path and decides whether a person has to agree,
`opening.py` opens exactly that path; `walking.py` walks folders, `kinds.py` tells text from binary files,
`path_errors.py` explains errors and suggests similar names. `matcher_process.py` runs `matcher.py`, the search, in a
process of its own; `running.py` runs a command.
"""
