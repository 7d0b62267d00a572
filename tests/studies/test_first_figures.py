"""Figures of first screens: titles that say what the data do, and points that are the data's."""

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt

from lib.studies.suitability import figures as suitability


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


@pytest.mark.parametrize(
    ("slope", "said"),
    [
        (0.494, "misses 0.49 points"),
        (0.996, "misses all of it"),
        (1.3, "misses all of it"),
        (0.004, "is no further off"),
        (-0.2, "is no further off"),
    ],
)
def test_how_much_of_a_drop_is_missed(slope, said):
    assert suitability.missed_in_words(slope).endswith(said)


def test_a_user_folds_error_and_drop_are_means_by_model():
    rows = [(0, "a", 0.9, 0.8, 0.86), (0, "a", 0.9, 0.7, 0.78), (1, "a", 0.9, 0.95, 0.9)]
    names = ["seed", "user_fold", "test_accuracy", "user_accuracy", "estimated_user_accuracy"]
    figure = suitability.plot_error_against_drop(pd.DataFrame(rows, columns=names), (0.5, 0.01))
    points, *lines = figure.axes[0].lines
    assert points.get_xydata().ravel() == pytest.approx([15, 7, -5, -5])
    at_zero = [np.interp(0, *line.get_data()) for line in lines]
    assert at_zero == pytest.approx([0, 0, 1])  # unseen, seen, and the trend's intercept
