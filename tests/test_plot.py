"""A figure that is cut off or squeezed is an error where figures are checked, as in these tests."""

import numpy as np
import pytest
from matplotlib import pyplot as plt

from lib.plot import CHECK_FIGURES, new_figure, plain_log, svg_bytes


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
    [(cut_off, r"figure s goes \d.\d+ inches beyond its 4 x 3$"), (squeezed, "s has axes of 3")],
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


def test_a_short_logarithmic_axis_has_plain_numbers():
    figure, ax = new_figure()
    ax.plot([3, 20], [0.02, 0.06])
    ax.set(xscale="log", yscale="log")
    for axis in (ax.xaxis, ax.yaxis):
        plain_log(axis)
    figure.canvas.draw()
    found = [text.get_text() for text in ax.get_xticklabels()]
    assert {"3", "5", "10", "20"} <= set(found)
    assert {"0.02", "0.03", "0.05"} <= {text.get_text() for text in ax.get_yticklabels()}
    assert not ax.get_xticks(minor=True).size
    plt.close(figure)
