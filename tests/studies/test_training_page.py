"""What the page on training shows: tables and times from small numbers."""

import math
from dataclasses import replace

import pandas as pd
import pytest

from lib.privacy import PrivacyLedger, SampledGaussian
from lib.studies.training import figures
from lib.studies.training import tables as studies
from lib.training import DataSpec, ModelSpec, TrainingConfig, train_many

LINEAR = ModelSpec("linear", inputs=(64,), classes=10)


@pytest.fixture(scope="module")
def small():
    spec = DataSpec(train=120, validation=60, test=100)
    return TrainingConfig(LINEAR, epsilon=math.inf, batch_size=20, steps=4), spec


def test_rates_are_chosen_budget_by_budget(small):
    config, spec = small
    data = spec.load()
    table = studies.tune(config, spec, [math.inf, 3.0], [0.001, 1.0], 1)
    assert table.columns.tolist() == ["epsilon", "0.001", "1", "chosen"]
    assert table["epsilon"].tolist() == [math.inf, 3.0]

    for number, epsilon in enumerate([math.inf, 3.0]):
        for place, rate in enumerate([0.001, 1.0]):
            each = replace(
                config, epsilon=epsilon, learning_rate=rate, seed=10_000 * (number + 1) + place
            )
            (result,) = train_many([each], data.training, data.validation)
            accuracy = result.accuracy(data.validation_labels)
            assert table.loc[number, f"{rate:g}"] == accuracy
    assert table["chosen"][0] == 1
    table = studies.tune(replace(config, steps=8), spec, [math.inf], [3e38, 0.1], 1)
    assert table.loc[0, ["3e+38", "chosen"]].tolist() == [0.0, 0.1]  # one that diverges is not


def test_agreement_of_both_paths(small):
    config, spec = small
    table = studies.agreement(config, spec.load(), {math.inf: 0.5, 3.0: 0.5}, 2)
    assert table["epsilon"].tolist() == [math.inf, 3.0]
    assert (table["largest_difference"] < 1e-5).all()
    assert table["same_seeds"].tolist() == pytest.approx(table["opacus"].tolist(), abs=0.011)
    assert table["noise_multiplier"][0] == 0
    assert table["noise_multiplier"][1] > 0


def test_chance_of_the_largest_of_several():
    table = pd.DataFrame({"z": [0.5, -2.776445105]})  # 97.5% point of t with 4 degrees of freedom
    assert studies.chance_of_largest(table, 3) == pytest.approx(1 - 0.95**2)
    assert studies.chance_of_largest(pd.DataFrame({"z": [0.0]}), 3) == 1


def test_spending():
    (ax,) = figures.plot_spending(studies.spending(1000, 100, 5, 1.5)).axes
    for line in ax.lines:
        assert line.get_xdata().tolist() == [1, 2, 3, 4, 5]
        for k, spent in zip(*line.get_data(), strict=True):
            ledger = PrivacyLedger((SampledGaussian(0.1, 1.5, int(k)),))
            assert spent == ledger.epsilon(1e-3, line.get_label().lower())


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
