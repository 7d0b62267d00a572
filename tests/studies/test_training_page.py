"""What the page on training shows: tables and times from small numbers."""

import pandas as pd
import pytest

from lib.studies.training import tables as studies


def test_chance_of_the_largest_of_several():
    table = pd.DataFrame({"z": [0.5, -2.776445105]})  # 97.5% point of t with 4 degrees of freedom
    assert studies.chance_of_largest(table, 3) == pytest.approx(1 - 0.95**2)
    assert studies.chance_of_largest(pd.DataFrame({"z": [0.0]}), 3) == 1


def test_sample_steps_of_the_panel():
    days = studies.panel_table([1, 8])
    assert days["days, 1"].tolist() == pytest.approx((days["GPU-hours"] / 24).tolist())
    assert days["days, 8"].between(days["days, 1"] / 8, days["days, 1"] / 8 * 1.01).all()
    # 14 trainings x 4 budgets x 5 seeds x 200 epochs over all examples of four data sets
    examples = 60_000 + 50_000 + 73_257 + 39_209
    panel = studies.p1_panel()
    for private, budgets in ((False, 1), (True, 3)):
        steps = panel[panel["private"] == private].eval("sample_steps * count").sum()
        assert steps == 14 * budgets * 5 * 200 * examples


def test_time_by_hand():
    gpu = (100, 1000)
    plain = studies.seconds_per_example(gpu, 1e9, 10**7, private=False)
    assert plain == pytest.approx(3e9 / 30e12)
    private = studies.seconds_per_example(gpu, 1e9, 10**7, private=True)
    assert private - plain == pytest.approx(4 * 4e7 / 600e9)


@pytest.mark.parametrize(
    ("durations", "workers", "expected"),
    [([3, 2, 2], 1, 7), ([3, 2, 2], 2, 4), ([3, 2, 2], 5, 3), ([], 2, 0), ([1] * 10, 3, 4)],
)
def test_makespan(durations, workers, expected):
    assert studies.makespan(durations, workers) == expected
