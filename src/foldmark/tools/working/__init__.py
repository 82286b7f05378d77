"""The working tools: files and a shell, within the limits that a person has agreed to [SPEC 4.1].

`files.py`, `grep.py` and `bash.py` define the tools. `paths.py` resolves a path, decides whether a person has to agree,
and opens exactly that path. `matcher.py` is the program that searches for `grep`.
"""
