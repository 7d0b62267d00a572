"""Tables and facts of the chapters on P1, from a panel with chosen numbers."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from chapter_cells import settings_for
from panel_by_hand import COVERAGES, EPSILONS, imbalance, panel

from lib import data, selective
from lib.privacy import PrivacyLedger, SampledGaussian, find_noise_multiplier
from lib.studies.interplay import experiments as panels
from lib.studies.interplay import tables as studies
from lib.training import ModelSpec


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


def test_summary_has_selective_net_without_a_coverage():
    made = panel()
    table = studies.summary(made).set_index(["method", "epsilon"])
    assert list(dict.fromkeys(table.index.get_level_values(0))) == ["SR", "MCDO", "SCTD", "SN"]
    for epsilon in EPSILONS:
        row = table.loc[("SN", epsilon)]
        found = made.selective[epsilon]
        assert row["accuracy"] == found.correct[:, -1].mean()
        scores = [
            studies.selective_net_score(c, s, COVERAGES)
            for c, s in zip(found.correct, found.score, strict=True)
        ]
        assert row["score"] == pytest.approx(np.mean(scores))
        assert row["score sd"] == pytest.approx(np.std(scores, ddof=1))
        assert math.isnan(row["coverage"])
    assert math.isnan(table.loc[("SR", math.inf), "coverage"])
    private, free = made.predictions["SR", 1.0], made.predictions["SR", math.inf]
    reached = [
        selective.coverage_at_accuracy(c, s, target)
        for c, s, target in zip(private.correct, private.score, free.correct.mean(1), strict=True)
    ]
    assert table.loc[("SR", 1.0), "coverage"] == pytest.approx(np.mean(reached))


def test_pivot_is_as_the_paper_prints():
    table = pd.DataFrame(
        {
            "method": ["SR", "SR", "SN", "SN"],
            "epsilon": [math.inf, 1.0] * 2,
            "coverage": [math.nan, 0.5, math.nan, math.nan],
            "coverage sd": [math.nan, 0.01, math.nan, math.nan],
            "score": [0.01234, 0.1, 0.02, 0.3],
            "score sd": [0.001, 0.0, 0.0, 0.0],
        }
    )
    found = studies.pivot(table, "coverage").set_index("method")
    assert found.loc["SR"].tolist() == ["", "0.500 (± 0.010)"]
    assert found.loc["SN"].tolist() == ["", ""]
    found = studies.pivot(table, "score").set_index("method")
    assert found.loc["SR", "epsilon = ∞"] == "0.0123 (± 0.0010)"


@pytest.mark.parametrize("best", ["SR", "SN"])
def test_sctd_against_the_best_of_the_others(best):
    made = panel(selective_net=best == "SN")
    if best == "SN":  # as good as can be: all its models are always right
        found = made.selective[1.0]
        perfect = replace(found, correct=np.ones_like(found.correct))
        made = replace(made, selective={**made.selective, 1.0: perfect})
    name, gap = studies.sctd_against_best(made, 1.0)
    assert name == best
    scores = studies.summary(made).set_index(["method", "epsilon"])["score"]
    assert gap.value == pytest.approx(scores[best, 1.0] - scores["SCTD", 1.0])
    assert gap.standard_error > 0


def test_counts_of_the_best():
    table = pd.DataFrame(
        {
            "method": ["a", "b"] * 3,
            "epsilon": [math.inf, math.inf, 3.0, 3.0, 1.0, 1.0],
            "score": [0.1, 0.2, 0.3, 0.2, 0.1, 0.4],
        }
    )
    assert studies.best_methods(table) == {math.inf: "a", 3.0: "b", 1.0: "a"}
    # a: 0.1, 0.3, 0.1; b: 0.2, 0.2, 0.4 from the largest budget to the smallest
    assert studies.worsening_share(table) == 2 / 4


def test_growth_of_the_area():
    made = panel()
    grown = studies.area_growth(made, "SR")
    scores = studies.summary(made).set_index(["method", "epsilon"])["score"]
    assert grown.value == pytest.approx(scores["SR", 1.0] - scores["SR", math.inf])


def test_ties_broken_and_regularization():
    made = panel()
    table = studies.regularization(made).set_index("epsilon")
    for epsilon in EPSILONS:
        for name in ("SR", "SCTD", "SR, no entropy", "SCTD, no entropy"):
            each = made.predictions[name, epsilon]
            expected = [
                selective.normalized_score(c, s)
                for c, s in zip(each.correct, each.score, strict=True)
            ]
            assert table.loc[epsilon, name] == pytest.approx(np.mean(expected))
    assert studies.wins_with_ties_broken(made) == 0
    perfect = replace(
        made,
        predictions=made.predictions
        | {
            ("SCTD, ties by SR", e): replace(
                made.predictions["SCTD", e], score=made.predictions["SCTD", e].correct.astype(float)
            )
            for e in EPSILONS
        },
    )
    assert studies.wins_with_ties_broken(perfect) == len(EPSILONS)


def test_rates_budgets_and_words():
    made = panel()
    table = studies.chosen_rates({"mlp": made}).set_index(["model", "family"])
    assert table.loc[("mlp", "plain"), "epsilon = ∞"] == "1* (0.600)"  # the largest
    assert table.loc[("mlp", "MCDO"), "epsilon = 3"] == "1*"
    for rates, word in (((0.1, 0.2, 0.3), "0.2 (0.500)"), ((0.2,), "0.2 (0.500)")):
        rows = [("plain", 1.0, rate, 0.5, 1, rate == 0.2) for rate in rates]
        tried = pd.DataFrame(rows, columns=made.rates.columns)
        inner = studies.chosen_rates({"mlp": replace(made, rates=tried)})
        # Neither the least nor the most, or the only one.
        assert inner["epsilon = 1"].item() == word
    spent = studies.budget_cells(made)
    # Families that train as many models spend the same; without privacy nothing is spent.
    assert spent[["models", "epsilon"]].to_numpy().tolist() == [[1, 3], [1, 1], [5, 3], [5, 1]]
    words = studies.describe(made.settings)
    assert words.startswith("MLPs with 8 hidden units, 2 seeds, 1,000 training examples")
    assert words.endswith("batches of 50, 40 steps (2 epochs)")

    def with_model(model):
        return replace(made.settings, training=replace(made.settings.training, model=model))

    linear = with_model(ModelSpec("linear", (64,), 10))
    assert studies.describe(linear).startswith("linear models, 2 seeds")
    cnn = with_model(ModelSpec("small_cnn", (1, 28, 28), 10))
    assert studies.describe(cnn).startswith("small_cnn, 2 seeds")


def test_imbalance_table():
    table = studies.imbalance_table(imbalance()).set_index(["p0", "epsilon"])
    assert table.loc[(0.5, 1.0), "right first"] == 1.0
    assert math.isnan(table.loc[(0.01, 1.0), "right first"])
    assert table.loc[(0.5, 1.0), "position"] == pytest.approx(0.9)


@pytest.mark.parametrize(("model", "public"), [("mlp", 2000), ("small_cnn", 0)])
def test_settings_for_images_leave_points_to_choose_rates_on(model, public, monkeypatch):
    sizes = {"train": 40_000, "test": 5_000}
    asked = {}

    def default_problem(dataset, name, **options):
        asked.update(options, dataset=dataset, model=name)
        return panel().settings.data, panel().settings.training.model

    def images(dataset, part):
        shape = (sizes[part], 1, 1, 3)
        return data.ImageSet(dataset, np.zeros(shape, np.uint8), np.zeros(shape[0], int), ("0",))

    monkeypatch.setattr(panels, "load_images", images)
    monkeypatch.setattr(panels, "default_problem", default_problem)
    settings = settings_for("svhn", model, seed=3, n_seeds=4)
    assert settings.n_seeds == 4
    expected = {"train": 37_000 - public, "validation": 3000, "test": 5000, "seed": 3}
    assert expected.items() <= asked.items()
    assert (asked["dataset"], asked["model"]) == ("svhn", model)


def test_coverage_with_ties_is_both_ways():
    made = panel()
    table = studies.coverage_with_ties({"one": made}).set_index("epsilon")
    assert list(table.index) == [e for e in EPSILONS if math.isfinite(e)]
    free = made.predictions["SCTD", math.inf]
    for epsilon, row in table.iterrows():
        found = made.predictions["SCTD", epsilon]
        for flag, column in ((False, "whole"), (True, "random")):
            reached = [
                selective.coverage_at_accuracy(c, s, t, randomized=flag)
                for c, s, t in zip(found.correct, found.score, free.correct.mean(1), strict=True)
            ]
            assert row[column] == pytest.approx(np.mean(reached))
        assert row["whole"] <= row["random"]
        assert 0 < row["largest group"] <= 1
