"""A figure that is cut off or squeezed is an error where figures are checked, as in these tests."""

import re

import numpy as np
import pytest
from matplotlib import pyplot as plt

from lib.plot import CHECK_FIGURES, new_figure, panels, svg_bytes, svg_pair


def cut_off():
    figure, ax = new_figure()
    ax.plot([0, 1])
    ax.legend(["a line with a name that is much too long for its figure"], loc="center")
    return figure


def squeezed():
    figure, _ = new_figure(rows=6, height=0.6)
    return figure


def fits():
    figure, ax = new_figure()
    image = ax.imshow(np.eye(3))
    ax.set_xlabel("place")
    figure.colorbar(image, ax=ax)  # narrow, as it should be
    figure.legend(["a"], loc="outside upper center")
    return figure


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (cut_off, r"figure s goes \d.\d+ inches beyond its 4 x 3 at the (left|right)$"),
        (squeezed, "s has axes of 3"),
    ],
)
def test_what_is_wrong_with_a_figure(make, message, monkeypatch):
    monkeypatch.setenv(CHECK_FIGURES, "1")
    for svg in (svg_bytes, svg_pair):
        with pytest.raises(ValueError, match=message):
            svg(make(), "s")
        assert not plt.get_fignums()
    monkeypatch.delenv(CHECK_FIGURES)
    assert b"<svg" in svg_bytes(make(), "s")  # a reader's own parameters never fail for it


def test_a_figure_that_fits(monkeypatch):
    monkeypatch.setenv(CHECK_FIGURES, "1")
    assert b"<svg" in svg_bytes(fits(), "s")


def size(svg: bytes) -> tuple[float, float]:
    width, height = re.search(rb'width="([\d.]+)pt" height="([\d.]+)pt"', svg).groups()
    return float(width) / 72, float(height) / 72


def test_stacked_panels_stand_side_by_side_on_a_page(monkeypatch):
    monkeypatch.setenv(CHECK_FIGURES, "1")
    figure, axes = panels(3, 2.4)
    for ax in axes:
        ax.plot([0, 1], label="a line")
        ax.set_ylabel("accuracy")
    axes[-1].set_xlabel("coverage")
    axes[0].legend()
    narrow, wide = map(size, svg_pair(figure, "s"))
    assert narrow[0] == pytest.approx(4, abs=0.3)
    assert narrow[1] > 6
    assert wide[0] == pytest.approx(7, abs=0.3)
    assert wide[1] < 4
    figure.canvas.draw()
    assert len({round(ax.get_position().y1, 3) for ax in axes}) == 1
    assert [bool(ax.get_ylabel() + ax.get_xlabel()) for ax in axes] == [True, False, False]
    assert len(figure.legends) == 1
    assert not plt.get_fignums()
