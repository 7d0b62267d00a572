"""Searches for a learning rate whose trials count: what is trained, chosen and spent."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from chapter_cells import settings_for

from lib.studies.beyond import choosing
from lib.studies.beyond.choosing import WAYS, Choosing, run_choosing, summary


@pytest.fixture(scope="module")
def settings():
    experiments = settings_for(
        "digits",
        "mlp",
        hidden=4,
        families=("plain",),
        n_seeds=1,
        epsilons=(7.0, 1.0),
        rates=(0.5, 0.05, 2.0),
        steps=20,
        clipping_norm=1.0,
    )
    return Choosing(experiments, searches=3, mean_trials=4.0)


@pytest.fixture(scope="module")
def found(settings, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COMPANION_RUNS", str(tmp_path_factory.mktemp("runs")))
        patch.setattr("lib.runs.executors.own_cores", lambda: 1)  # others would import PyTorch
        return run_choosing(settings)


def test_no_two_trainings_share_their_noise(settings):
    seeds = [
        config.seed
        for epsilon in settings.budgets
        for way in WAYS
        for search in settings.configs(epsilon, way)
        for config in search
    ]
    assert len(set(seeds)) == len(seeds)


def test_each_way_tries_what_it_says(settings):
    assert settings.trials(7.0, WAYS[0]) == [[0.05, 0.5, 2.0]] * 3
    assert settings.trials(7.0, WAYS[1]) == [[0.5]] * 3
    many = replace(settings, searches=400).trials(1.0, WAYS[3])
    assert abs(np.mean([len(each) for each in many]) - 4) < 1.2
    rates, counts = np.unique(np.concatenate(many), return_counts=True)
    assert rates.tolist() == [0.05, 0.5, 2.0]
    share = counts / counts.sum()
    assert np.abs(share - 1 / 3).max() < 4.5 * math.sqrt(2 / 9 / counts.sum())


def test_the_best_on_validation_points_is_released(settings, found):
    assert len(found) == 2 * len(WAYS) * 3
    assert (found[found["way"] == WAYS[1]]["rate"] == 0.5).all()
    free = found[(found["way"] == WAYS[0]) & (found["epsilon"] == 7.0)]
    assert free["accuracy"].mean() > 0.5
    drawn = found[found["way"] == WAYS[3]]
    trials = [len(t) for e in settings.budgets for t in settings.trials(e, WAYS[3])]
    assert drawn["trials"].tolist() == trials


def test_all_but_one_way_keep_the_budget(settings, found):
    table = summary(settings, found).set_index(["way", "epsilon"])
    for epsilon in settings.budgets:
        spent = table.xs(epsilon, level="epsilon")["spent"]
        assert (spent[[*WAYS[1:]]] <= epsilon).all()
        assert (spent[[*WAYS[1:]]] > 0.99 * epsilon).all()
        assert spent[WAYS[0]] > 1.2 * epsilon
    assert (table["accuracy se"] > 0).sum() >= 6


def test_changes_are_against_the_search_that_is_not_counted(settings, found):
    table = summary(settings, found)
    changes = choosing.changes(table)
    assert len(changes) == 6
    row = changes.iloc[1]
    free, other = (
        table[(table["epsilon"] == row["epsilon"]) & (table["way"] == way)].iloc[0]
        for way in (WAYS[0], row["way"])
    )
    assert row["accuracy"] == pytest.approx(other["accuracy"] - free["accuracy"])
    assert row["se"] == pytest.approx(np.hypot(other["accuracy se"], free["accuracy se"]))


def test_costs_grow_with_the_trials(settings):
    table = choosing.costs(settings, 1.0, (2, 8, 64))
    for name in table.columns[1:]:
        assert table[name].is_monotonic_increasing
    assert table["logarithmic"].iloc[-1] < table["every trial counted"].iloc[-1]
    assert len(choosing.plot_costs(table).axes[0].lines) == 3


def test_the_figure_shows_every_way(settings, found):
    table = summary(settings, found)
    ax = choosing.plot_accuracy(table, settings.searches).axes[0]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [*WAYS]
    # Intervals from three searches: Student's t with two degrees of freedom, 4.303.
    ends = ax.containers[0].lines[2][0].get_segments()[0][:, 1]
    first = table[table["way"] == WAYS[0]].sort_values("epsilon", ascending=False).iloc[0]
    assert np.ptp(ends) == pytest.approx(2 * 4.302653 * first["accuracy se"], rel=1e-6)


def test_every_clipping_norm_and_batch_sees_as_many_examples_and_goes_as_far(monkeypatch):
    asked = []

    def run_all(jobs):
        asked.extend(jobs)
        model = iter([0.5, 0.25] * len(jobs))
        return [
            SimpleNamespace(metrics={"models": [{"accuracy": next(model)} for _ in job.configs]})
            for job in jobs
        ]

    monkeypatch.setattr(choosing, "run_all", run_all)
    table = choosing.run_regimes(
        settings_for("digits", "mlp", hidden=4, epsilons=(7.0, 1.0), seed=3),
        [0.5, 2.0],
        [50, 200],
        [30.0, 10.0],
        2.0,
    )
    configs = [config for job in asked for config in job.configs]
    assert {(c.steps * c.batch_size, c.epsilon) for c in configs} == {(2000, 1.0)}
    went = [c.learning_rate * c.clipping_norm * c.steps for c in configs]
    np.testing.assert_allclose(went, [10.0, 30.0] * 4)
    assert {job.points for job in asked} == {"validation"}
    columns = ["clipping norm", "batch", "rate", "accuracy"]
    rows = [(c.clipping_norm, c.batch_size, c.learning_rate) for c in configs]
    assert list(table.columns) == columns
    assert table[columns[:3]].to_numpy().tolist() == [list(row) for row in rows]
    assert table["accuracy"].tolist() == [0.5, 0.25] * 4
