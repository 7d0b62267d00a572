"""The paper cost model of P1's panel."""

import pytest

from lib.studies.training import cost


def test_sample_steps_of_the_panel():
    # 14 trainings x 4 budgets x 5 seeds x 200 epochs over all examples of four data sets
    examples = 60_000 + 50_000 + 73_257 + 39_209
    panel = cost.p1_panel()
    for private, budgets in ((False, 1), (True, 3)):
        steps = panel[panel["private"] == private].eval("sample_steps * count").sum()
        assert steps == 14 * budgets * 5 * 200 * examples


def test_time_by_hand():
    gpu = (100, 1000)
    plain = cost.seconds_per_example(gpu, 1e9, 10**7, private=False, compute_share=0.5)
    assert plain == pytest.approx(3e9 / 50e12)
    private = cost.seconds_per_example(
        gpu, 1e9, 10**7, private=True, compute_share=0.5, bandwidth_share=0.5, passes=4
    )
    assert private - plain == pytest.approx(4 * 4e7 / 500e9)


@pytest.mark.parametrize(
    ("durations", "workers", "expected"),
    [([3, 2, 2], 1, 7), ([3, 2, 2], 2, 4), ([3, 2, 2], 5, 3), ([], 2, 0), ([1] * 10, 3, 4)],
)
def test_makespan(durations, workers, expected):
    assert cost.makespan(durations, workers) == expected
