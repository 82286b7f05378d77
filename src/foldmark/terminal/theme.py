"""The light and the dark theme: one accent colour, a colour for what a person, a tool and an operation did, and red for
errors and irreversible actions."""

from collections.abc import Mapping

from rich.style import Style
from textual.theme import Theme
from textual.widget import Widget

SHARES = {
    **dict.fromkeys(("system", "form", "images", "other", "client"), "grey"),
    "tools": "accent",
    "state": "operation",
    "memos": "operation",
    "summaries": "operation",
    "user": "user",
    **dict.fromkeys(("assistant", "thinking"), "model"),
}
"""The colour of each kind of content in the bar; tool results have that of tools."""

INKS = ("muted", "accent", "error", "strong", "left", "plain", "user", "tool", "operation", "model", "grey", "line")
"""The styles of what is drawn line by line, each a component `ink--NAME` of the style sheet."""

COMPONENTS = {f"ink--{name}" for name in INKS}
"""The components of a widget that draws its lines itself."""


def _theme(
    name: str, red: str, background: str, surface: str, panel: str, line: str, muted: str, **colours: str
) -> Theme:
    """Return a theme with an `accent` among its `colours`, which are variables of the style sheets.

    `line` is the colour of lines and scrollbars, with a contrast of at least 3 to the background. Text has at least
    4.5, `muted` text in a highlighted row included. It has a colour of its own because Textual loses the transparency
    of its automatic one in texts with several styles.
    """
    accent = colours["accent"]
    bar = {f"scrollbar{state}": line for state in ("", "-hover")} | {"scrollbar-active": accent}
    track = {f"scrollbar-background{state}": background for state in ("", "-hover", "-active")}
    chosen = {f"block-cursor{state}-background": panel for state in ("", "-blurred")}
    chosen |= {f"block-cursor{state}-foreground": accent for state in ("", "-blurred")}
    chosen |= {f"block-cursor{state}-text-style": "bold" for state in ("", "-blurred")}  # in 16 colours, too
    others = {
        "line": line,
        "text-accent": accent,
        "text-error": red,
        "text-muted": muted,
        "text-disabled": muted,
        "scrollbar-corner-color": background,
        "removed": red,
        "added": colours["user"],
        **colours,
    }
    return Theme(
        name,
        primary=accent,
        secondary=accent,
        accent=accent,
        warning=colours["tool"],
        success=colours["user"],
        error=red,
        background=background,
        surface=surface,
        panel=panel,
        dark=name == "dark",
        variables={**bar, **track, **chosen, **others, "footer-background": background},
    )


DARK = _theme(
    "dark", "#ff7b72", "#14161b", "#1b1e25", "#262b33", "#6e7681", "#9aa2ad",
    accent="#79c0ff", user="#7ee787", tool="#e3b341", operation="#d2a8ff", model="#d7dae0", grey="#7d8590",
)  # fmt: skip
LIGHT = _theme(
    "light", "#b42318", "#ffffff", "#f6f8fa", "#eaeef2", "#7d858e", "#59636e",
    accent="#0550ae", user="#116329", tool="#8a5a00", operation="#6639ba", model="#57606a", grey="#7d858e",
)  # fmt: skip

THEMES = {theme.name: theme for theme in (DARK, LIGHT)}


def ink(widget: Widget, name: str) -> Style:
    """Return one of the `INKS` in a widget, without a background.

    An automatic colour, such as `$text-muted`, is computed for the widget's background. `get_component_rich_style`
    returns white for it, whatever the background is.
    """
    styles = widget.get_component_styles(f"ink--{name}")
    if not styles.has_rule("color"):
        return styles.text_style
    _, background = widget.background_colors
    colour = background.get_contrast_text(styles.color.a) if styles.auto_color else styles.color
    return Style.from_color((background + colour).rich_color) + styles.text_style


def selected_style(widget: Widget) -> Style:
    """Return the style of selected text in a widget: the background of a selection, and a contrasting colour."""
    _, background = widget.background_colors
    chosen = background + widget.screen.get_component_styles("screen--selection").background
    return Style.from_color((chosen + chosen.get_contrast_text(1.0)).rich_color, chosen.rich_color)


def named(name: str, environment: Mapping[str, str]) -> Theme:
    """Return the theme that the setting `theme` names; `auto` fits the terminal."""
    return THEMES[name] if name in THEMES else fitting(environment)


def fitting(environment: Mapping[str, str]) -> Theme:
    """Return the theme that fits the terminal, dark by default. The last number of `COLORFGBG` (`15;0`,
    `0;default;15`) is the background colour; of the 16 colours, 7 and those from 9 on are light."""
    background = environment.get("COLORFGBG", "").rpartition(";")[2]
    return LIGHT if background.isdecimal() and (background == "7" or 9 <= int(background) <= 15) else DARK
