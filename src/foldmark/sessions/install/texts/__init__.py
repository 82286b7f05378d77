"""What Foldmark tells Claude Code: two skills and a paragraph for CLAUDE.md, each a file beside this one."""

from importlib.resources import files


def template(name: str) -> str:
    """A text by its name: `trim`, `rollover` or `context`. `{foldmark}` in it stands for the program."""
    return files(__package__).joinpath(f"{name}.md").read_bytes().decode()
