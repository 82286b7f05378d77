"""A home folder with a project in it, and the settings that a program would read there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from foldmark.settings.given import Settings
from foldmark.settings.loading import load


class Place:
    """`home`, the user's settings folder and a project, all in the test's own folder."""

    def __init__(self, folder: Path) -> None:
        self.home, self.user = folder / "home", folder / "home" / ".config" / "foldmark"
        self.project, self.deep = self.home / "project", self.home / "project" / "src" / "parts"
        for each in (self.user, self.deep):
            each.mkdir(parents=True)

    def user_file(self, text: str | bytes) -> Path:
        return self._write(self.user / "config.toml", text)

    def project_file(self, text: str | bytes, name: str = ".foldmark.toml", folder: Path | None = None) -> Path:
        return self._write((folder or self.project) / name, text)

    def load(
        self, environment: Mapping[str, str] = {}, options: Mapping[str, Any] = {}, working: Path | None = None
    ) -> Settings:
        return load({"HOME": str(self.home), **environment}, working or self.deep, self.user, options)

    @staticmethod
    def _write(path: Path, text: str | bytes) -> Path:
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path
