"""``python -m lib.book.card``: draw the social card, ``lib/book/static/card.png``.

The curve is the best possible accuracy of a classifier that answers only part of the points, for
three accuracies when it answers all: 1 up to that fraction, then accuracy divided by coverage.
"""

import argparse
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt

from lib.book.site import CARD
from lib.plot import COLOURS

CARD_FILE = Path(__file__).parent / "static" / "card.png"
_TITLE = "Knowing when\nnot to answer,\nand proving\nhow private"
_SUBTITLE = "A reproducible companion\nto five papers"


def draw_card(path: Path) -> None:
    """Draw the card as a PNG of 1200 by 630 pixels."""
    with plt.style.context("default", after_reset=True):  # whatever the session has set
        dpi = 100
        figure = plt.figure(figsize=(CARD[0] / dpi, CARD[1] / dpi), dpi=dpi, facecolor="#14202b")
        figure.text(0.06, 0.88, _TITLE, color="white", size=44, weight="bold", va="top")
        figure.text(0.06, 0.10, _SUBTITLE, color="#c9d6e2", size=22, va="bottom", linespacing=1.4)
        axes = figure.add_axes((0.60, 0.17, 0.35, 0.68), facecolor="#14202b")
        coverage = np.linspace(0.01, 1, 400)
        for accuracy, colour in ((0.9, COLOURS[5]), (0.75, COLOURS[4]), (0.6, COLOURS[3])):
            axes.plot(coverage, np.minimum(1, accuracy / coverage), color=colour, linewidth=5)
            axes.plot(1, accuracy, "o", color=colour, markersize=12, clip_on=False)
        axes.set(xlim=(0, 1), ylim=(0.5, 1.02), xticks=(0, 0.5, 1), yticks=(0.5, 0.75, 1))
        axes.set_xlabel("fraction of points answered", color="#c9d6e2", size=18)
        axes.set_ylabel("best accuracy", color="#c9d6e2", size=18)
        axes.tick_params(colors="#c9d6e2", labelsize=16)
        for name, spine in axes.spines.items():
            spine.set_visible(name in ("left", "bottom"))
            spine.set_color("#7f93a6")
        # Without the version of matplotlib: the same picture is the same file.
        figure.savefig(path, dpi=dpi, facecolor=figure.get_facecolor(), metadata={"Software": None})
        plt.close(figure)


def main(arguments: list[str] | None = None) -> int:
    """Draw the card, by default over the one that the site uses."""
    parser = argparse.ArgumentParser(prog="python -m lib.book.card", description=__doc__)
    parser.add_argument("path", type=Path, nargs="?", default=CARD_FILE)
    path = parser.parse_args(arguments).path
    draw_card(path)
    print(path)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
