"""What a page loads that comes from packages, so that no other host is asked."""

from importlib.util import find_spec
from pathlib import Path

from sphinx.util.fileutil import copy_asset


def copy_assets(static: Path) -> None:
    """Write what pages load of MathJax into a site's folder ``_static``."""
    _copy_mathjax(_package("sphinx-mathjax-offline") / "static" / "mathjax", static / "mathjax")


def _package(name: str) -> Path:
    found = find_spec(name)
    if found is None:
        raise FileNotFoundError(f"{name} is not installed: pip install -r requirements.txt")
    return Path(found.origin).parent


def _copy_mathjax(source: Path, target: Path) -> None:
    """The part of MathJax that pages use."""
    fonts = Path("output", "chtml", "fonts", "woff-v2")
    copy_asset(source / fonts, target / fonts)  # not their modes: they may be read-only
    copy_asset(source / "tex-mml-chtml.js", target)
