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
    with pytest.raises(ValueError, match=message):
        svg_bytes(make(), "s")
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
    tops = {round(ax.get_position().y1, 3) for ax in axes}
    assert len(tops) == 1
    assert [bool(ax.get_ylabel() + ax.get_xlabel()) for ax in axes] == [True, False, False]
    assert len(figure.legends) == 1
    assert not plt.get_fignums()


def test_words_under_a_title_may_reach_over_the_plot_beside_it():
    figure, axes = panels(2, 2.0)
    axes[0].set_title("a title", loc="left", pad=20)
    axes[0].annotate(45 * "o", (0, 1.1), xycoords="axes fraction", fontsize=9)
    svg_pair(figure, "s")
    first, second = (ax.get_position().width for ax in axes)
    assert first == pytest.approx(second, rel=0.1)


def test_panels_of_several_scales_keep_their_axes():
    figure, axes = panels(2, 2.0)
    for factor, ax in zip((1, 10), axes, strict=True):
        ax.plot([0, factor])
        ax.set_ylabel("accuracy")
    svg_pair(figure, "s")
    assert len({round(ax.get_position().y1, 3) for ax in axes}) == 1
    assert all(ax.yaxis.get_tick_params()["labelleft"] for ax in axes)


def test_panels_with_legends_of_their_own_stay_stacked():
    figure, axes = panels(2, 2.0)
    for ax in axes:
        ax.plot([0, 1], label="a line")
        ax.legend()
    assert size(svg_pair(figure, "s")[1]) == pytest.approx((7, 4), abs=0.3)
    assert all(ax.get_legend() for ax in axes)


def test_one_panel_becomes_wider_and_four_stand_two_by_two():
    figure, _ = new_figure(height=3)
    assert size(svg_pair(figure, "s")[1]) == pytest.approx((7, 3), abs=0.3)
    figure, axes = panels(4, 2)
    svg_pair(figure, "s")
    assert len({round(ax.get_position().x0, 3) for ax in axes}) == 2


def test_a_pair_is_checked_and_closed(monkeypatch):
    monkeypatch.setenv(CHECK_FIGURES, "1")
    with pytest.raises(ValueError, match="figure s goes"):
        svg_pair(cut_off(), "s")
    assert not plt.get_fignums()
