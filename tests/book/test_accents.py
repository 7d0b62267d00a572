"""The two accent colors of the site can be read on the grounds that the theme puts them on."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

import lib

LEAST = 4.5  # WCAG 2.1, 1.4.3: text of ordinary size
OURS = (Path(lib.__file__).parent / "book/static/companion.css").read_text(encoding="utf-8")
COLOR = r"--pst-color-{}: ?(#[0-9a-f]{{3,6}})\b"


def rules(name: str) -> str:
    """The compiled style sheet of a theme."""
    folder = Path(find_spec(name).origin).parent
    return next(folder.rglob(f"{name.replace('_', '-')}.css")).read_text(encoding="utf-8")


def luminance(color: str) -> float:
    digits = color[1:] if len(color) == 7 else "".join(2 * digit for digit in color[1:])
    parts = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_contrast_is_that_of_the_definition():
    assert contrast("#000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#fff") == pytest.approx(4.48, abs=0.005)  # WebAIM's example


@pytest.mark.parametrize("accent", ["primary", "secondary"])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_an_accent_can_be_read_in_a_theme(theme, accent):
    selector = {"light": 'html:not([data-theme="dark"])', "dark": 'html[data-theme="dark"]'}[theme]
    (rule,) = re.findall(re.escape(selector) + r" \{ (--pst-color-primary[^}]*)\}", OURS)
    (color,) = re.findall(COLOR.format(accent), rule)
    sheets = rules("pydata_sphinx_theme") + rules("sphinx_book_theme")
    grounds = {each for name in ("background", "surface") for each in
               re.findall(COLOR.format(name), sheets)}  # fmt: skip
    grounds = {each for each in grounds if (luminance(each) > 0.5) == (theme == "light")}
    assert len(grounds) >= 2
    assert {each: contrast(color, each) for each in grounds if contrast(color, each) < LEAST} == {}
