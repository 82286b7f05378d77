"""How an adapter talks with the suite: one JSON object a line, in and out. Needs nothing but Python.

The suite starts the adapter with the interpreter of its peer and sends `{"do": NAME, ...}`; the function of that name
gets the rest as arguments, and its answer goes back as `{"ok": answer}`, or `{"error": message}`.
"""

import contextlib
import json
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any


def serve(**functions: Callable[..., Any]) -> None:
    """Answer requests until the input ends. What the peer prints goes to the standard error."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            with contextlib.redirect_stdout(sys.stderr):
                answer = {"ok": functions[request.pop("do")](**request)}
        except BaseException as error:
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
