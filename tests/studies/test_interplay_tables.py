"""Tables and facts of the chapters on P1, from a panel with chosen numbers."""

import math
from dataclasses import replace

import numpy as np
import pytest
from panel_by_hand import EPSILONS, panel
from scipy import stats

from lib import selective
from lib.privacy import PrivacyLedger, SampledGaussian, find_noise_multiplier
from lib.studies.drawn import Run
from lib.studies.interplay import figures
from lib.studies.interplay import tables as studies
from lib.studies.interplay.experiments import Predictions


def test_privacy_costs():
    table = studies.privacy_costs([3.0], 1000, 100, 20).set_index("method")
    assert table["models"].to_dict() == {
        each.name: each.releases for each in selective.METHODS.values()
    }
    for row in table.to_dict("records"):
        noise, each = row["noise, epsilon = 3"], row["each, epsilon = 3"]
        wanted = find_noise_multiplier(3.0, 1e-3, 0.1, 20, releases=row["models"])
        assert noise == wanted
        one = SampledGaussian(0.1, noise, 20)
        assert each == PrivacyLedger((one,)).epsilon(1e-3)
        together = PrivacyLedger((one,) * row["models"]).epsilon(1e-3)
        assert 0.98 * 3 < together <= 3


def test_relative_scores_are_fractions_of_a_random_order():
    made = panel(seeds=3)
    accuracy = made.predictions["SR", 1.0].correct.mean(1)
    wanted = studies.normalized_scores(made, "SR", 1.0) / (-accuracy * np.log(accuracy))
    assert studies.relative_scores(made, "SR", 1.0) == pytest.approx(wanted)
    table = studies.order_table(made).set_index(["method", "epsilon"])
    assert set(table.index.get_level_values("method")) == {"SR", "SCTD", "MCDO"}
    row = table.loc["SR", 1.0]
    half = stats.t.isf(0.025, 2) * wanted.std(ddof=1) / math.sqrt(3)
    assert (row["relative"], row["low"], row["high"]) == pytest.approx(
        (wanted.mean(), wanted.mean() - half, wanted.mean() + half)
    )
    assert studies.order_table(panel(seeds=1)).iloc[:, -2:].isna().all(axis=None)


def test_an_order_that_knows_nothing_is_at_one_whatever_the_accuracy():
    """Scores drawn without a look at the truth; equal orders at two accuracies are far from it."""
    rng, n = np.random.default_rng(0), 4000
    made = panel(seeds=4)
    for accuracy in (0.9, 0.6):
        correct = np.array([rng.permutation(n) < accuracy * n for _ in range(4)])
        found = {("SR", 1.0): Predictions(correct, rng.random((4, n)))}
        each = studies.relative_scores(replace(made, predictions=found), "SR", 1.0)
        assert each.mean() == pytest.approx(1, abs=0.1)


def test_recorded_orders_are_those_of_the_run():
    """But for the digits that the table of scores has, the spread of the accuracy, and its limit.

    Of 60 points the area of a perfect order is a few percent below that of ever more.
    """
    made = panel(seeds=3)
    texts = studies.pivot(studies.summary(made), "score")
    tables = {"metrics": studies.metric_table(made), "scores_mlp": texts}
    parameters = {"dataset": "made", "models": ["mlp"], "epochs": 1.0, "rates": [1.0]}
    run = Run(tables, {}, parameters | {"n_seeds": 3, "epsilons": [e for e in EPSILONS if e < 9]})
    found = studies.recorded_order(run).set_index(["method", "epsilon"])
    wanted = studies.order_table(made).set_index(["method", "epsilon"]).loc[found.index]
    assert found["accuracy"].tolist() == pytest.approx(wanted["accuracy"].tolist(), abs=0.02)
    assert found["relative"].tolist() == pytest.approx(wanted["relative"].tolist(), rel=0.1)
    width = found["high"] - found["low"]
    assert width.tolist() == pytest.approx((wanted["high"] - wanted["low"]).tolist(), rel=0.2)
    single = run._replace(parameters=run.parameters | {"n_seeds": 1})
    assert studies.recorded_order(single)[["low", "high"]].isna().all(axis=None)
    # Rates that more points chose are open marks; those of another network or of fewer are none.
    better = run._replace(parameters=run.parameters | {"validation": 20})
    other = better._replace(parameters=better.parameters | {"models": ["linear"]})
    for shown, recorded, marks in ((run, better, 2), (run, other, 1), (better, run, 1)):
        drawn = figures.draw_order(shown._replace(recorded=[recorded]))
        lines = [line for line in drawn.figure.axes[0].lines if line.get_marker() == "o"]
        assert len(lines) == marks
        assert ("20 validation points chose" in drawn.caption) == (marks == 2)
