"""The map of SCTD against SR: what is trained, what noise means, and how its tables decide."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import special

from lib.runs import RunStore
from lib.selective import areas, scores
from lib.studies.beyond import noise_map as studies
from lib.studies.beyond.noise_map import MapSettings, Regime
from lib.training import DataSpec, ManyTrainings, ModelSpec

REGIMES = (Regime(32, 10.0, 0.0, 2, 2), Regime(64, 0.5, 0.9, 3, 1))
SETTINGS = MapSettings(
    DataSpec(train=200, test=150),
    ModelSpec("mlp", (64,), 10, hidden=(8,)),
    REGIMES,
    moves=(0.01, 0.3),
    epsilons=(8.0, 1.0),
    checkpoints=5,
)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COMPANION_RUNS", str(tmp_path_factory.mktemp("runs")))
        patch.setattr("lib.runs.executors.own_cores", lambda: 1)  # others would import PyTorch
        table = studies.run_map(SETTINGS)
        runs = {place: RunStore().run(job) for place, job in SETTINGS.jobs().items()}
    return table, runs


def test_every_model_has_its_own_randomness_and_the_step_that_was_asked_for():
    configs = [c for job in SETTINGS.jobs().values() for c in job.configs]
    assert len(configs) == (2 + 1) * 2 * 2
    assert len({c.seed for c in configs}) == len(configs)
    moves = [c.learning_rate * c.clipping_norm / c.batch_size / (1 - c.momentum) for c in configs]
    assert np.allclose(np.reshape(moves, (-1, 2)), SETTINGS.moves)
    assert {c.steps for c in configs} == {round(2 * 200 / 32), round(3 * 200 / 64)}


def test_noise_is_how_far_noise_alone_moves_the_parameters(found):
    """Gradient descent with momentum, fed with nothing but DP-SGD's noise."""
    rng = np.random.default_rng(0)
    models = found[0].models
    assert len(models.groupby(studies.SETTING)) == 8
    for _, row in models.drop_duplicates(studies.SETTING).iterrows():
        # Momentum reaches its full effect after some 10 steps: many steps, then scaled back.
        d, steps = 500, 2000
        position, velocity = np.zeros(d), np.zeros(d)
        for _ in range(steps):
            noise = rng.normal(size=d) * row["noise multiplier"] * row["clipping norm"]
            velocity = row["momentum"] * velocity + noise / row["batch"]
            position -= row["rate"] * velocity
        each = np.linalg.norm(position) / math.sqrt(steps * d)
        parameters = 64 * 8 + 8 + 8 * 10 + 10
        assert row["noise"] == pytest.approx(each * math.sqrt(parameters), rel=0.15)
        trained = round(row["epochs"] * 200 / row["batch"])
        assert row["all noise"] == pytest.approx(row["noise"] * math.sqrt(trained))


def test_scores_are_those_of_the_stored_models(found):
    table, runs = found
    regime = REGIMES[0]
    for seed in range(2):
        arrays = runs[regime, 8.0, seed].arrays
        assert arrays["checkpoints"].shape[1] == 4  # every third of twelve steps
        p = special.softmax(arrays["logits"][1], -1)
        correct, response = p.argmax(-1) == arrays["labels"], p.max(-1)
        row = {"batch": 32, "epsilon": 8.0, "seed": seed}
        rows = table.models[
            np.logical_and.reduce([table.models[k] == v for k, v in row.items()])
            & np.isclose(table.models["rate"], 0.3 * 32 / 10)
        ]
        every_second = arrays["checkpoints"][1][::-1][::2][::-1]
        assert np.array_equal(every_second[-1], arrays["checkpoints"][1][-1])
        watched = scores.sctd(every_second, 3.0, "equation")
        last_half = scores.sctd(arrays["checkpoints"][1][-2:], 3.0, "equation")
        for method, variant, score in (
            ("SR", None, response),
            ("SCTD", (3.0, 2, 1.0), watched),
            ("SCTD", (3.0, 1, 0.5), last_half),
            ("SCTD, ties by SR", (3.0, 2, 1.0), scores.ties_broken_by(watched, response)),
        ):
            at = rows[rows["method"] == method]
            if variant:
                at = at[(at[["k", "spacing", "part"]] == list(variant)).all(axis=1)]
            (value,) = at["score"]
            assert value == pytest.approx(areas.normalized_score(correct, score), abs=1e-12)
        (value,) = rows[rows["method"] == "SR, probabilities of the last 25%"]["accuracy"]
        mean = arrays["of_probabilities"][1, studies.PARTS.index(0.25)]
        assert value == (mean.argmax(-1) == arrays["labels"]).mean()


def test_a_cell_is_the_mean_over_seeds_with_an_interval(found):
    models, cells = found[0].models, found[0].cells
    keys = [*studies.SETTING, "method"]
    first = (models[["k", "spacing", "part"]] == list(studies.VARIANTS[0])).all(axis=1)
    wide = models[models["k"].isna() | first]
    mean = wide.groupby(keys)["score"].mean()
    for row in cells.itertuples():
        place = cells.loc[row.Index, keys]
        response = mean[(*place[:-1], "SR")]
        assert row.difference == pytest.approx(mean[tuple(place)] - response, abs=1e-12)
        assert row.low <= row.difference <= row.high
        assert row.seeds == (2 if place["batch"] == 32 else 1)
    overview = studies.overview(found[0])
    assert len(overview) == 8
    assert overview[["SCTD low", "mean parameters accuracy"]].notna().all(axis=None)


def by_hand(rows) -> pd.DataFrame:
    """Settings from (epsilon, rate, noise, accuracy, SR, difference, half the interval)."""
    table = []
    for epsilon, rate, noise, accuracy, response, difference, half in rows:
        row = dict(zip(studies.SETTING, (128, 10.0, 0.0, 15, epsilon, rate), strict=True))
        row |= {"noise": noise / 9, "all noise": noise, "accuracy": accuracy, "SR": response}
        for method in studies.SHOWN:
            row |= {method: difference, f"{method} low": difference - half}
            row[f"{method} high"] = difference + half
        row |= {"mean probabilities": -0.02, "mean probabilities accuracy": accuracy + 0.01}
        table.append(row | {"mean parameters accuracy": accuracy})
    return pd.DataFrame(table)


TABLE = by_hand(
    [
        (3.0, 0.01, 10, 0.80, 0.03, +0.05, 0.01),
        (3.0, 0.05, 50, 0.83, 0.03, +0.01, 0.02),
        (3.0, 0.20, 200, 0.70, 0.09, -0.04, 0.01),
        (1.0, 0.01, 30, 0.81, 0.04, +0.02, 0.01),
        (1.0, 0.05, 20, 0.78, 0.05, -0.01, 0.005),
    ]
)


def test_who_is_ahead_is_decided_by_the_interval():
    assert studies.ahead(TABLE).tolist() == ["SR", "undecided", "SCTD", "SR", "SCTD"]
    # Of the pairs of (200, 20) with (10, 30) all but (20, 30) are in order.
    assert studies.ordered_pairs(TABLE, "all noise") == (3, 4)
    assert studies.ordered_pairs(TABLE[:2], "all noise") == (0, 0)


def test_best_pairs_by_region():
    pairs = studies.best_pairs(TABLE).set_index(["epsilon", "ahead"])
    row = pairs.loc[3.0, "SCTD"]
    assert (row["highest accuracy"], row["method"]) == (pytest.approx(0.71), "mean probabilities")
    assert row["its score"] == pytest.approx(0.07)
    assert (row["lowest score"], row["accuracy there"]) == (pytest.approx(0.05), 0.70)
    assert row["its method"] == "SCTD"
    row = pairs.loc[1.0, "SR"]
    assert (row["its method"], row["accuracy there"]) == ("mean probabilities", pytest.approx(0.82))
    assert row["lowest score"] == pytest.approx(0.02)
    assert studies.accuracy_lost(TABLE) == pytest.approx(0.13)
    assert studies.accuracy_lost(TABLE[:2]) == 0


def test_of_models_of_equal_accuracy_the_better_score_stands_beside_it():
    alone = TABLE[:1].assign(**{"mean probabilities accuracy": 0.5, "mean parameters": -0.015})
    row = studies.best_pairs(alone).iloc[0]
    assert (row["highest accuracy"], row["method"]) == (0.80, "mean parameters")
    assert row["its score"] == pytest.approx(0.015)


def test_a_region_is_better_where_accuracy_and_score_both_are():
    pairs = studies.best_pairs(TABLE)
    assert studies.both_better(pairs) == (2, 2)
    assert studies.both_better(pairs[pairs["ahead"] == "SR"]) == (0, 0)
    pairs.loc[1, "lowest score"] = 0.06  # of SR's region at the larger budget
    assert studies.both_better(pairs) == (1, 2)


def test_more_epochs_are_compared_with_fewer_of_the_same_regime():
    assert studies.by_epochs(TABLE).empty
    longer = TABLE.assign(
        epochs=60, accuracy=0.9, SCTD=0.0, **{"all noise": 2 * TABLE["all noise"]}
    )
    longest = longer.assign(epochs=120)
    assert len(studies.by_epochs(pd.concat([longest, TABLE, longer]))) == 2 * len(TABLE)
    both = studies.by_epochs(pd.concat([longer, TABLE]))  # in any order
    assert len(both) == len(TABLE)
    assert (both["noise"] == 2).all()
    assert both["accuracy"].tolist() == pytest.approx((0.9 - TABLE["accuracy"]).tolist())
    assert both["SCTD"].tolist() == pytest.approx((-TABLE["SCTD"]).tolist())
    assert both["mean parameters"].tolist() == pytest.approx([0.0] * len(TABLE))


def test_printed_rates_have_the_noise_of_the_border():
    rates = studies.printed_rates(SETTINGS, TABLE)
    assert rates["epsilon"].tolist() == [8.0, 1.0]
    steps = round(200 * 200 / 128)
    for row in rates.to_dict("records"):
        scale = row["noise multiplier"] * 10 / 128 * math.sqrt(610 * steps)
        assert row["SR up to rate"] * scale == pytest.approx(20)
        assert row["SCTD from rate"] * scale == pytest.approx(30)
        assert row["noise at rate 0.01"] == pytest.approx(0.01 * scale)


def test_variants_count_settings(found):
    rows = studies.variants(found[0])
    assert len(rows) == 2 * 2 * len(studies.VARIANTS)
    assert (rows["settings"] == 8).all()
    assert rows["better than SR"].between(0, 8).all()


def test_averages_of_more_and_of_fewer_models_stand_side_by_side(found):
    rows = studies.averages(found[0]).set_index("mean of")
    assert list(rows.index)[:2] == ["parameters of the last 10%", "probabilities of the last 10%"]
    assert len(rows) == 2 * len(studies.PARTS)
    assert (rows["settings"] == 8).all()
    assert (rows["better"] + rows["worse"] <= 8).all()
    overview = studies.overview(found[0])
    row = rows.loc["probabilities of the last 25%"]
    assert row["score"] == pytest.approx(overview["mean probabilities"].mean())
    gained = overview["mean probabilities accuracy"] - overview["accuracy"]
    assert row["accuracy"] == pytest.approx(gained.mean())
    assert row["better"] == (overview["mean probabilities high"] < 0).sum()


def test_figures_show_every_setting():
    figure = studies.plot_differences(TABLE, ["SCTD", "mean parameters"], ["one", "two"])
    first = figure.axes[0]
    drawn = np.concatenate([c.lines[0].get_ydata() for c in first.containers])
    assert sorted(drawn) == sorted(TABLE["SCTD"])
    figure = studies.plot_pairs(TABLE)
    arrows = [a for a in figure.axes[0].texts if a.arrow_patch is not None]
    assert len(arrows) == len(TABLE)
    assert {a.xy for a in arrows} == set(
        zip(TABLE["accuracy"], TABLE["SR"] + TABLE["SCTD"], strict=True)
    )


def test_what_is_not_allowed():
    with pytest.raises(ValueError, match="regimes must be 1 to 9, got 0 of them"):
        MapSettings(SETTINGS.data, SETTINGS.model, (), (0.1,))


def test_jobs_are_the_stored_kind():
    assert all(isinstance(job, ManyTrainings) for job in SETTINGS.jobs().values())
