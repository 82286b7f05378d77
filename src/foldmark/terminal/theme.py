"""The light and the dark theme, each with one accent colour, and red for irreversible actions."""

from collections.abc import Mapping

from rich.style import Style
from textual.theme import Theme
from textual.widget import Widget


def _theme(name: str, accent: str, red: str, background: str, surface: str, panel: str, line: str) -> Theme:
    """Return a theme that uses the accent for all emphasis.

    `line` is the colour of lines and scrollbars, with a contrast of at least 3 to the background. Text has at least
    4.5, muted text in a highlighted row included.
    """
    bar = {f"scrollbar{state}": line for state in ("", "-hover")} | {"scrollbar-active": accent}
    track = {f"scrollbar-background{state}": background for state in ("", "-hover", "-active")}
    chosen = {f"block-cursor{state}-background": panel for state in ("", "-blurred")}
    chosen |= {f"block-cursor{state}-foreground": accent for state in ("", "-blurred")}
    others = {"line": line, "text-disabled": "auto 60%", "scrollbar-corner-color": background}
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
        variables={**bar, **track, **chosen, **others, "footer-background": background},
    )


DARK = _theme("dark", "#5aa9e6", "#f2555a", "#121212", "#1c1c1c", "#262626", "#787878")
LIGHT = _theme("light", "#0b5cad", "#b3261e", "#ffffff", "#f5f5f5", "#e8e8e8", "#808080")


def component_style(widget: Widget, name: str) -> Style:
    """Return the style of a component of a widget, without a background.

    An automatic colour, such as `$text-muted`, is computed for the widget's background. `get_component_rich_style`
    returns white for it, whatever the background is.
    """
    styles = widget.get_component_styles(name)
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


def fitting(environment: Mapping[str, str]) -> Theme:
    """Return the theme that fits the terminal, dark by default. The last number of `COLORFGBG` (`15;0`,
    `0;default;15`) is the background colour; of the 16 colours, 7 and those from 9 on are light."""
    background = environment.get("COLORFGBG", "").rpartition(";")[2]
    return LIGHT if background.isdecimal() and (background == "7" or 9 <= int(background) <= 15) else DARK
