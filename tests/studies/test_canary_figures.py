"""Figures on P5 show the intervals, bounds and confidences that they were given."""

import math

import numpy as np
import pandas as pd

from lib.studies.canaries import figures


def test_published_intervals_and_claims():
    rows = [
        ("cifar10", "ALIBI", "HH", "1 x 1000", math.nan, 3.0, math.inf),
        ("cifar10", "ALIBI", "H", "1 x 1000", 8.0, 2.0, 4.0),
        ("cifar10", "ALIBI", "H", "10 x 100", 8.0, 1.0, 3.0),
        ("cifar100", "PATE", "L", "1 x 1000", math.nan, 0.0, 1.5),
    ]
    columns = ["data", "mechanism", "level", "runs", "claimed epsilon", "low", "high"]
    first, second = figures.plot_published(pd.DataFrame(rows, columns=columns)).axes
    # From the bottom: the last row of the table first; an infinite end is at the edge.
    intervals = [line.get_xdata().tolist() for line in first.lines if line.get_marker() == "|"]
    assert intervals == [[1, 3], [2, 4], [3, 20]]
    claims = [line for line in first.lines if line.get_marker() != "|"]
    assert [(line.get_xdata()[0], line.get_ydata()[0]) for line in claims] == [(8.0, 0), (8.0, 1)]
    assert len(second.lines) == 1


def test_confidences_in_another_wrong_label():
    p = np.tile([0.07, 0.17, 0.32, 0.44], (3, 1))
    canary, true = np.array([0, 1, 3]), np.array([1, 0, 2])
    # The next wrong label: 2 (1 is true), 2, 0.
    (ax,) = figures.plot_confidences({"a": (p, canary, true)}).axes
    own, other = ([bar.get_height() for bar in group] for group in ax.containers)
    assert own == [0, 1, 0, 1, 0, 0, 0, 0, 1, *[0] * 11]  # bins of 0.05
    assert other == [0, 1, 0, 0, 0, 0, 2, *[0] * 13]
