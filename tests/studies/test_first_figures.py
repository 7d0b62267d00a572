"""Figures of first screens: titles that say what the data do, and points that are the data's."""

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt

from lib.studies.beyond import watch
from lib.studies.counterfactual import figures as counterfactual
from lib.studies.suitability import figures as suitability
from lib.studies.suitability.study_runs import load_study


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


@pytest.mark.parametrize(
    ("alarms", "end", "said"),
    [
        ([4], np.inf, "The alarm comes 1 month after the drop"),
        ([1, 5, 6], 8, "The alarm comes 2 months after the drop,\nthe verdict 4 months after it"),
        ([], np.inf, "No alarm comes after the drop"),
        ([2], 5, "No alarm comes after the drop,\nthe verdict 1 month after it"),
        ([2], 4, "The model is called UNSUITABLE too early"),
    ],
)
def test_when_alarm_and_verdict_come(alarms, end, said):
    """One of the first four months is unsuitable; only after the fourth do all stay so."""
    raised = np.isin(np.arange(8), alarms)
    good = np.array([1, 0, 1, 1, 0, 0, 0, 0], bool)
    assert watch.drop_in_words(good, raised, end) == said


def test_what_stays_suitable_has_false_alarms_at_most():
    good, raised = np.array([False, True, True]), np.array([True, True, False])
    assert watch.drop_in_words(good, raised, np.inf).endswith("suitable: 1 false alarm")
    assert watch.drop_in_words(good, ~good, np.inf).endswith("suitable: no false alarm")


def test_months_beyond_the_last_suitable_one_are_shaded():
    plan = watch.Plan(false_every=24, rate=0.3, months=6, lag=2)
    deployed = watch.Deployment(load_study("digits"), plan, np.random.default_rng(0))
    good, change = deployed.change()
    assert 0 < change < len(good) == 30
    assert good[change - 1]
    assert not good[change:].any()
    figure = watch.plot_watch(deployed, np.random.default_rng(1))
    for ax in figure.axes:
        (span,) = ax.patches
        assert span.get_x() == change + 0.5
    heights = np.concatenate([c.get_segments() for c in figure.axes[0].collections])[..., 1]
    assert (heights >= 0).all()
    assert (heights <= 100).all()


def stream(lower, upper, answered=-0.1):
    """Points 200 to 202, watched."""
    rows = {"n": [200, 201, 202], "lower": lower, "upper": upper, "answered": [0.1, 0.1, answered]}
    return pd.DataFrame(rows | {"centre": [0.0] * 3, "truth": 0.02, "fixed time": -0.05})


@pytest.mark.parametrize(
    ("lower", "upper", "answered", "said"),
    [
        (
            [-3, 0.1, 0.2],
            [3, 1, 1],
            -0.1,
            "A is better: safe to say after 201 points,\nbut * worse",
        ),
        ([-3, 0.1, -1], [3, 1, 1], 0.1, "A is better: safe to say after 201 points,\nand * better"),
        (
            [-3, -1, -1],
            [3, 0, -0.1],
            -0.1,
            "B is better: safe to say after 202 points,\nand * better",
        ),
        (
            [-3, -1, -1],
            [-1, 0, 0],
            0.0,
            "B is better: safe to say after 200 points,\nbut * no better",
        ),
        ([-3, -1, 0], [3, 1, 1], 0.1, "It is not safe to stop: the band never excludes zero"),
    ],
)
def test_when_it_is_safe_to_stop(lower, upper, answered, said):
    watched = stream(lower, upper, answered)
    assert counterfactual.when_to_stop(watched) == said.replace("*", "what it answered scores")
    (ax,) = counterfactual.plot_stream(watched).axes
    dotted = [line.get_xdata()[0] for line in ax.lines if line.get_linestyle() == ":"]
    assert [f"after {n:,} points" in said for n in dotted] == [True] * ("after" in said)
    (band,) = ax.collections
    (path,) = band.get_paths()
    assert np.abs(path.vertices[:, 1]).max() <= 1  # where a difference of scores can be
