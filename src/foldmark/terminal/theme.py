"""The light and the dark theme, each with one accent colour, and red for irreversible actions."""

from collections.abc import Mapping

from textual.theme import Theme


def _theme(name: str, accent: str, red: str, background: str, surface: str, panel: str) -> Theme:
    """Return a theme that uses the accent for all emphasis."""
    return Theme(
        name,
        primary=accent,
        secondary=accent,
        accent=accent,
        warning=accent,
        success=accent,
        error=red,
        background=background,
        surface=surface,
        panel=panel,
        dark=name == "dark",
        variables={"footer-background": background, "footer-key-foreground": accent},
    )


DARK = _theme("dark", "#5aa9e6", "#f2555a", "#121212", "#1c1c1c", "#262626")
LIGHT = _theme("light", "#0b5cad", "#b3261e", "#ffffff", "#f5f5f5", "#e8e8e8")


def fitting(environment: Mapping[str, str]) -> Theme:
    """Return the theme that fits the terminal, dark by default. The last number of `COLORFGBG` (`15;0`,
    `0;default;15`) is the background colour; of the 16 colours, 7 and those from 9 on are light."""
    background = environment.get("COLORFGBG", "").rpartition(";")[2]
    return LIGHT if background.isdecimal() and (background == "7" or 9 <= int(background) <= 15) else DARK
