"""Every worker collects these tests, and most run none of them. The SDKs take three seconds to import, so what a module
imports under `if TYPE_CHECKING` is imported when its first test begins."""

import ast
import gc
from pathlib import Path

import httpx2  # noqa: F401 - the certificates are read once if it is imported by then
import pytest


@pytest.fixture(scope="module", autouse=True)
def _imported(request: pytest.FixtureRequest) -> None:
    module = request.module
    gc.disable()
    for node in ast.parse(Path(module.__file__).read_text(encoding="utf-8")).body:
        match node:
            case ast.If(test=ast.Name(id="TYPE_CHECKING"), body=body):
                exec(compile(ast.Module(body, []), module.__file__, "exec"), vars(module))
    gc.freeze()
    gc.enable()
