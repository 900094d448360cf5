"""Theme: Gradio's colours and shapes; the studio's own pages take them from its variables."""

from gradio.themes import Base, Color

_INK = Color("#f6f7f9", "#eceef2", "#dde1e8", "#c4cad6", "#949db0", "#687189", "#4b5368", "#363d50",
             "#232939", "#171b28", "#0f121c")  # fmt: skip
_TEAL = Color("#effcf9", "#c9f7ee", "#95eedd", "#59dcc7", "#2bc2ad", "#12a594", "#0a7d71",
              "#0c655c", "#0f504a", "#10423d", "#032725")  # fmt: skip
_SANS = ("system-ui", "-apple-system", "Segoe UI", "Roboto", "Noto Sans", "sans-serif")
_MONO = ("ui-monospace", "SFMono-Regular", "Menlo", "DejaVu Sans Mono", "monospace")


def theme() -> Base:
    """Return the theme; its fonts are the system's, so that nothing is fetched from elsewhere."""
    return Base(
        primary_hue=_TEAL, secondary_hue=_TEAL, neutral_hue=_INK, font=_SANS, font_mono=_MONO,
        radius_size="md", spacing_size="md", text_size="md",
    ).set(
        body_background_fill="*neutral_50",
        body_background_fill_dark="*neutral_950",
        body_text_color_subdued="*neutral_600",
        body_text_color_subdued_dark="*neutral_300",
        block_info_text_color="*neutral_600",
        block_info_text_color_dark="*neutral_300",
        block_background_fill="white",
        block_background_fill_dark="*neutral_900",
        block_border_width="0px",
        block_label_text_color="*neutral_700",
        block_label_text_color_dark="*neutral_200",
        block_title_text_color="*neutral_800",
        block_title_text_color_dark="*neutral_100",
        input_background_fill="white",
        input_background_fill_dark="*neutral_800",
        input_border_color="*neutral_300",
        input_border_color_dark="*neutral_700",
        input_border_width="1px",
        input_placeholder_color="*neutral_500",
        input_placeholder_color_dark="*neutral_400",
        button_primary_background_fill="*primary_600",
        button_primary_background_fill_hover="*primary_700",
        button_primary_background_fill_dark="*primary_600",
        button_primary_background_fill_hover_dark="*primary_700",
        button_primary_text_color="white",
        button_primary_text_color_dark="white",
        button_secondary_background_fill="*neutral_100",
        button_secondary_background_fill_dark="*neutral_800",
    )  # fmt: skip
