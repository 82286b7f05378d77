"""The program `foldmark`. Commands that a coding agent runs after each step skip the imports of the command line.

These imports take five times as long as the rest of a hook [SPEC 8]. With a request for help, or if anything precedes
the command's name, the command line handles the command like any other.
"""

import sys


def main() -> int:
    """Run the program with the arguments of the process, and return its exit code."""
    words = sys.argv[1:]
    if words and words[0] in ("hook", "statusline") and not {"-h", "--help"}.intersection(words):
        return hook() if words[0] == "hook" else statusline()
    import gc

    # Imported objects stay alive. Searching them for garbage, repeatedly and at the end, takes a tenth of a start. A
    # command makes few reference cycles, so the objects that it creates are searched rarely, too.
    gc.disable()
    # msgspec takes `typing_extensions` where another package has installed it, in 14 ms, and needs nothing of it.
    if "typing_extensions" not in sys.modules:
        sys.modules["typing_extensions"] = None  # type: ignore[assignment]
        import msgspec  # noqa: F401

        del sys.modules["typing_extensions"]
    from foldmark.cli.outcome import open_streams
    from foldmark.cli.program import run

    gc.freeze()
    gc.set_threshold(100_000, 20, 20)
    gc.enable()
    open_streams()
    return run()


def hook() -> int:
    """Run `foldmark hook`. Always return 0."""
    try:
        from foldmark import __version__
        from foldmark.sessions.hook.answering import run

        run(__version__)
    except BaseException:  # interrupted during the import
        pass
    return 0


def statusline() -> int:
    """Run `foldmark statusline`. Always return 0."""
    try:
        from foldmark.sessions.hook.statusline import run

        run()
    except BaseException:  # interrupted during the import
        pass
    return 0
