"""P4's simulations: draws against their definition, jobs against each other, tables by hand."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.base import BaseEstimator

from lib.counterfactual import ESTIMATORS, estimate
from lib.runs import Outcome, RunsFailed, RunStore, run_all
from lib.runs.jobs import code_of
from lib.studies.counterfactual import simulation
from lib.studies.counterfactual.classifiers import simulate, true_difference
from lib.studies.counterfactual.simulation import (
    Repetitions,
    cells_of_experiment_1,
    cells_of_experiment_2,
    cells_of_positivity,
    power_table,
    repetitions,
    run_cells,
    share_interval,
    two_share_z,
)

POINTS = 200_000
NUISANCES = ("cross-fitted", "fresh halves", "fresh sample")
FRESH = NUISANCES[1:]
Z = 1.959963984540054
DR, IPW, PLUG_IN = (ESTIMATORS.index(name) for name in ("dr", "ipw", "plug-in"))
DRAWS = [
    ("curved", 0.2, 0.0),
    ("curved", 0.05, 0.0),
    ("shifted", 0.2, 0.0),
    ("shifted", 0.3, 0.35),
    ("shifted", 0.5, 1.0),
]


@pytest.fixture(scope="module", params=DRAWS, ids=str)
def large(request):
    experiment, epsilon, shift = request.param
    return request.param, simulate(POINTS, experiment, epsilon, shift, rng=11)


@pytest.fixture
def runs(tmp_path, monkeypatch):
    monkeypatch.setenv("COMPANION_RUNS", str(tmp_path))
    return RunStore()


def arrays(job):
    return dict(job.execute(None).arrays)


def same(one, two):
    assert one.keys() == two.keys() == {"value", "stderr", "oracle"}
    for name in one:
        np.testing.assert_array_equal(one[name], two[name])


def joined(parts):
    return {name: np.concatenate([p[name] for p in parts], axis=1) for name in parts[0]}


def binomial(hits, p):
    """Whether a share of independent points is within 4 standard deviations of p."""
    assert len(hits) > 1000
    return abs(hits.mean() - p) <= 4 * math.sqrt(p * (1 - p) / len(hits))


# ------------------------------------------------------------------ the draws


def of_one_point(x0, x1, experiment, epsilon, shift):
    """As NOTES have it: predictions, propensities and the label before any is flipped."""

    def sigmoid(t):
        return 1 / (1 + math.exp(-t))

    a = sigmoid(x0 + x1 - 1), 1 - epsilon if abs(x0 + x1 - 1) < 0.2 else epsilon
    if experiment == "curved":
        square = x0 * x0 + x1 * x1
        b = min(max(0.5 * square + 0.1, 0), 1), 1 - epsilon if abs(square - 0.8) < 0.25 else epsilon
    else:
        near = abs(x0 + x1 - 1 - shift) < 0.2
        b = sigmoid(x0 + x1 - 1 - shift), 1 - epsilon if near else epsilon
    return a, b, x0 + x1 >= 1


def test_points_are_as_defined(large):
    what, drawn = large
    for i in range(1500):
        a, b, _ = of_one_point(*drawn.X[i], *what)
        for k, (prediction, propensity) in enumerate((a, b)):
            assert drawn.probabilities[k][i] == pytest.approx(prediction, abs=1e-14)
            assert drawn.propensities[k][i] == pytest.approx(propensity, abs=1e-14)
            assert drawn.scores[k][i] == ((prediction > 0.5) == drawn.labels[i])


def test_inputs_are_uniform_on_the_square(large):
    _, drawn = large
    assert drawn.X.shape == (POINTS, 2)
    cell = np.floor(drawn.X * 10).astype(int) @ [10, 1]
    assert stats.chisquare(np.bincount(cell, minlength=100)).pvalue > 1e-4


def test_labels_are_flipped_with_probability_015_wherever(large):
    _, drawn = large
    total = drawn.X.sum(axis=1)
    flipped = drawn.labels != (total >= 1)
    close = np.abs(total - 1) < 0.2
    for rows in (total >= 1, total < 1, close, ~close, drawn.X[:, 0] < 0.1):
        assert binomial(flipped[rows], 0.15)
    for r in drawn.abstained:  # missing at random
        assert binomial(flipped[r], 0.15)


def test_abstentions_have_their_propensities(large):
    (experiment, epsilon, shift), drawn = large
    total, square = drawn.X.sum(axis=1), (drawn.X**2).sum(axis=1)
    near_a = np.abs(total - 1) < 0.2
    if experiment == "curved":
        near_b = np.abs(square - 0.8) < 0.25
    else:
        near_b = np.abs(total - 1 - shift) < 0.2
    for k, near in enumerate((near_a, near_b)):
        r = drawn.abstained[k]
        assert r.dtype == bool
        assert binomial(r[near], 1 - epsilon)
        assert binomial(r[~near], epsilon)
        assert set(np.round(drawn.propensities[k], 12)) == {epsilon, 1 - epsilon}
    # A and B toss coins of their own.
    for first in (near_a, ~near_a):
        for second in (near_b, ~near_b):
            rows = first & second
            if rows.sum() > 1000:
                p = drawn.propensities[0][rows][0] * drawn.propensities[1][rows][0]
                assert binomial((drawn.abstained[0] & drawn.abstained[1])[rows], p)


def test_scores_by_monte_carlo(large):
    (experiment, _, shift), drawn = large
    assert binomial(drawn.scores[0], 0.85)
    assert binomial(drawn.scores[1], 0.85 - true_difference(experiment, shift))
    oracle = np.mean(drawn.scores[0] - drawn.scores[1])
    assert drawn.oracle_difference == pytest.approx(oracle, abs=1e-12)
    spread = np.std(drawn.scores[0] - drawn.scores[1]) / math.sqrt(POINTS)
    assert abs(oracle - true_difference(experiment, shift)) <= 4 * spread


def test_a_shift_of_0_is_the_same_classifier_with_other_abstentions():
    drawn = simulate(2000, "shifted", 0.2, 0.0, rng=3)
    for name in ("probabilities", "propensities", "scores"):
        np.testing.assert_array_equal(*getattr(drawn, name))
    assert (drawn.abstained[0] != drawn.abstained[1]).mean() > 0.2
    assert drawn.oracle_difference == 0


def test_the_shift_changes_nothing_of_a():
    one, two = (simulate(500, "shifted", 0.2, shift, rng=4) for shift in (0.0, 0.7))
    for name in ("probabilities", "propensities", "scores", "abstained"):
        np.testing.assert_array_equal(getattr(one, name)[0], getattr(two, name)[0])
    np.testing.assert_array_equal(one.X, two.X)
    np.testing.assert_array_equal(one.labels, two.labels)
    assert (one.scores[1] != two.scores[1]).any()


def test_seed_or_generator():
    one, two = simulate(50, rng=7), simulate(50, rng=np.random.default_rng(7))
    np.testing.assert_array_equal(one.X, two.X)
    np.testing.assert_array_equal(one.abstained, two.abstained)
    assert (simulate(50, rng=8).X != one.X).any()
    assert len(simulate(1, rng=0).labels) == 1


# ------------------------------------------------------------------ the truth


def test_true_difference_is_07_times_an_area():
    x = np.random.default_rng(5).random((1_000_000, 2))
    side = x.sum(axis=1) >= 1
    other = ((x**2).sum(axis=1) > 0.8) != side
    areas = {("curved", 0.0): other}
    for shift in (0.05, 0.3, 0.9):
        areas["shifted", shift] = (x.sum(axis=1) > 1 + shift) != side
    for (experiment, shift), region in areas.items():
        assert binomial(region, true_difference(experiment, shift) / 0.7)


def test_true_difference_in_closed_form():
    # A quarter of the disc, and what a chord cuts off it: both areas of the schoolbook.
    quarter, angle = math.pi * 0.8 / 4, 2 * math.acos(1 / math.sqrt(1.6))
    beyond = 0.4 * (angle - math.sin(angle))
    area = 0.5 + quarter - 2 * (quarter - beyond)
    assert true_difference() == pytest.approx(0.7 * area, abs=1e-12)
    assert true_difference("curved") == true_difference()
    for shift in np.linspace(0, 1, 11):
        expected = 0.7 * (shift - shift**2 / 2)
        assert true_difference("shifted", float(shift)) == pytest.approx(expected, abs=1e-15)
    assert true_difference("shifted", 0) == 0
    assert true_difference("shifted", 1) == pytest.approx(0.35)
    assert (np.diff([true_difference("shifted", t) for t in np.linspace(0, 1, 101)]) > 0).all()


# ------------------------------------------------------------------ repetitions


def test_a_repetition_is_the_same_however_jobs_are_cut():
    whole = arrays(*repetitions(100, "linear", 4, seed=2, chunk=4))
    for chunk in (1, 3):
        jobs = repetitions(100, "linear", 4, seed=2, chunk=chunk)
        assert [job.first for job in jobs] == list(range(0, 4, chunk))
        assert sum(job.count for job in jobs) == 4
        same(joined([arrays(job) for job in jobs]), whole)
    last = arrays(replace(repetitions(100, "linear", 4, seed=2, chunk=4)[0], first=3, count=1))
    np.testing.assert_array_equal(last["value"][:, 0], whole["value"][:, 3])
    # Another seed, other data; repetitions differ among themselves.
    (job,) = repetitions(100, "linear", 1, seed=3)
    assert arrays(job)["oracle"][0, 0] != whole["oracle"][0, 0]
    assert len(set(whole["value"][0, :, 0])) == 4


def test_a_repetition_has_the_same_data_whatever_the_learner():
    found = {
        learner: arrays(*repetitions(100, learner, count, seed=4))
        for learner, count in (("linear", 2), ("forest", 2), ("super", 1))
    }
    oracle = found["linear"]["oracle"]
    np.testing.assert_array_equal(found["forest"]["oracle"], oracle)
    np.testing.assert_array_equal(found["super"]["oracle"], oracle[:, :1])
    apart = arrays(*repetitions(100, "linear", 2, seed=4, nuisances=FRESH[0]))
    np.testing.assert_array_equal(apart["oracle"], oracle)
    assert (found["linear"]["value"] != found["forest"]["value"]).all()
    for j in range(2):
        streams = np.random.SeedSequence([4, j]).spawn(1)
        drawn = simulate(100, rng=np.random.default_rng(streams[0]))
        assert drawn.oracle_difference == oracle[0, j]


@pytest.mark.parametrize("learner", ["linear", "forest"])
def test_shifts_together_are_shifts_alone(learner):
    shifts = (0.0, 0.3, 0.1)
    options = {"experiment": "shifted", "seed": 6}
    together = arrays(*repetitions(100, learner, 2, shifts=shifts, **options))
    assert together["value"].shape == together["stderr"].shape == (3, 2, 3)
    assert together["oracle"].shape == (3, 2)
    alone = [arrays(*repetitions(100, learner, 2, shifts=[s], **options)) for s in shifts]
    same(together, {name: np.concatenate([a[name] for a in alone]) for name in together})
    assert (together["oracle"][0] == 0).all()


def test_positivity_level_is_the_clipping_level(monkeypatch):
    seen = []
    original = simulation.estimate_from_nuisances

    def watched(pair, **options):
        seen.append(options)
        return original(pair, **options)

    monkeypatch.setattr(simulation, "estimate_from_nuisances", watched)
    job = replace(repetitions(100, "linear", 1, epsilon=0.35)[0], level=0.8)
    job.execute(None)
    assert seen == [{"estimator": e, "clip": 0.35, "level": 0.8} for e in ESTIMATORS]


class Recorder(BaseEstimator):
    """A learner that only remembers what it was shown."""

    def __init__(self, log):
        self.log = log
        self.classes_ = np.array([False, True])

    def fit(self, x, y):
        self.log.append(("fit", x, y))
        return self

    def predict_proba(self, x):
        self.log.append(("asked", x, None))
        return np.full((len(x), 2), 0.5)

    def predict(self, x):
        self.log.append(("asked", x, None))
        return np.zeros(len(x))


def test_independent_learns_from_fresh_samples(monkeypatch):
    log, drawn = [], []

    def watched(*args, **options):
        drawn.append(simulate(*args, **options))
        return drawn[-1]

    def pair(learner, rng):
        assert learner == "forest"
        return Recorder(log), Recorder(log)

    monkeypatch.setattr(simulation, "simulate", watched)
    monkeypatch.setattr(estimate, "learner_pair", pair)
    Repetitions("curved", 0.2, (0.0,), 100, "forest", 0, 1, 0, FRESH[0]).execute(None)
    points, *fresh = drawn
    # Two halves for each of two classifiers, each learned from a sample of its own.
    assert [len(s.labels) for s in fresh] == [50] * 4
    everything = np.concatenate([points.X, *(s.X for s in fresh)])
    assert len(np.unique(everything, axis=0)) == 300
    assert [kind for kind, _, _ in log] == ["fit", "asked", "fit", "asked"] * 4
    for i, sample in enumerate(fresh):
        k = i // 2
        (_, x, r), (_, asked, _), (_, answered, s), (_, again, _) = log[4 * i : 4 * i + 4]
        np.testing.assert_array_equal(x, sample.X)
        np.testing.assert_array_equal(r, sample.abstained[k])
        np.testing.assert_array_equal(answered, sample.X[~sample.abstained[k]])
        np.testing.assert_array_equal(s, sample.scores[k][~sample.abstained[k]])
        np.testing.assert_array_equal(asked, again)
        assert len(asked) == 50
    for first in (1, 9):  # what both halves were asked: each point once
        rows = np.concatenate([log[first][1], log[first + 4][1]])
        np.testing.assert_array_equal(np.unique(rows, axis=0), np.unique(points.X, axis=0))


def test_a_fresh_sample_is_as_large_and_the_same_for_both(monkeypatch):
    log, drawn = [], []

    def watched(*args, **options):
        drawn.append(simulate(*args, **options))
        return drawn[-1]

    monkeypatch.setattr(simulation, "simulate", watched)
    monkeypatch.setattr(
        estimate, "learner_pair", lambda learner, rng: (Recorder(log), Recorder(log))
    )
    Repetitions("curved", 0.2, (0.0,), 100, "forest", 0, 1, 0, FRESH[1]).execute(None)
    points, first, second = drawn
    assert len(first.labels) == 100
    np.testing.assert_array_equal(first.X, second.X)
    np.testing.assert_array_equal(first.abstained[1], second.abstained[1])
    assert len(np.unique(np.concatenate([points.X, first.X]), axis=0)) == 200
    assert [kind for kind, _, _ in log] == ["fit", "asked", "fit", "asked"] * 2
    for k in range(2):
        (_, x, r), (_, asked, _), (_, answered, s), (_, again, _) = log[4 * k : 4 * k + 4]
        np.testing.assert_array_equal(x, first.X)
        np.testing.assert_array_equal(r, first.abstained[k])
        np.testing.assert_array_equal(answered, first.X[~first.abstained[k]])
        np.testing.assert_array_equal(s, first.scores[k][~first.abstained[k]])
        np.testing.assert_array_equal(asked, points.X)
        np.testing.assert_array_equal(again, points.X)


def test_independent_halves_do_not_cancel():
    """IPW with linear learners varies more than twice as much without cross-fitting."""
    ours, apart = (
        arrays(*repetitions(400, "linear", 16, seed=1, nuisances=nuisances))
        for nuisances in NUISANCES[:2]
    )
    np.testing.assert_array_equal(ours["oracle"], apart["oracle"])
    assert (ours["value"] != apart["value"]).all()
    ratio = (apart["value"].var(axis=1) / ours["value"].var(axis=1))[0]
    assert stats.f.sf(ratio[IPW], 15, 15) < 1e-3
    assert ratio[IPW] > 4
    assert stats.f.sf(ratio[DR], 15, 15) > 1e-3  # the doubly robust one hardly depends on it


def test_jobs_know_what_they_depend_on():
    (job,) = repetitions(100, "linear", 1)
    assert {"lib.counterfactual.forest", "lib.studies.counterfactual.simulation"} < set(
        code_of(job)
    )
    assert job.data_fingerprint() == ""


def test_an_interrupted_job_starts_over_to_the_same_end(runs, monkeypatch):
    (job,) = repetitions(100, "forest", 4, seed=9)
    expected = arrays(job)
    count = 0

    def breaks(*args, **options):
        nonlocal count
        count += 1
        if count == 3:
            raise OSError("interrupted")
        return simulate(*args, **options)

    monkeypatch.setattr(simulation, "simulate", breaks)
    with pytest.raises(RunsFailed, match="interrupted"):
        run_all([job], store=runs)
    assert count == 3
    assert runs.get(job) is None
    (first,) = run_all([job], store=runs)
    done = count
    (second,) = run_all([job], store=runs)
    assert count == done  # read, not made again
    assert first.key == second.key
    same(first.arrays, expected)
    same(second.arrays, expected)


# ------------------------------------------------------------------ tables


def check_table(table, cells, store):
    """Every number of a table from the stored arrays, by loops."""
    rows = iter(table.to_dict("records"))
    for key, jobs in cells.items():
        stored = [store.get(job).arrays for job in jobs]
        for i, shift in enumerate(jobs[0].shifts):
            truth = true_difference(jobs[0].experiment, shift)
            for j, estimator in enumerate(ESTIMATORS):
                missed = population = rejected = 0
                values, widths, errors = [], [], []
                for part in stored:
                    for k in range(part["oracle"].shape[1]):
                        value, half = part["value"][i, k, j], Z * part["stderr"][i, k, j]
                        missed += abs(value - part["oracle"][i, k]) > half
                        population += abs(value - truth) > half
                        rejected += abs(value) > half
                        values.append(value)
                        widths.append(2 * half)
                        errors.append(part["stderr"][i, k, j])
                n = len(values)
                mean = sum(values) / n
                expected = {
                    "cell": key,
                    "learner": jobs[0].learner,
                    "estimator": estimator,
                    "n": jobs[0].n,
                    "epsilon": jobs[0].epsilon,
                    "shift": shift,
                    "repetitions": n,
                    "miscovered": missed,
                    "miscoverage": missed / n,
                    "population_miscovered": population,
                    "population_miscoverage": population / n,
                    "width": sum(widths) / n,
                    "stderr": sum(errors) / n,
                    "bias": mean - truth,
                    "spread": math.sqrt(sum((v - mean) ** 2 for v in values) / n),
                    "rejected": rejected,
                    "power": rejected / n,
                }
                row = next(rows)
                assert list(row) == list(expected)
                assert row == pytest.approx(expected, abs=1e-12)
    assert next(rows, None) is None


def run_here(cells, store):
    """One after the other: a single missing job is run in this process."""
    for jobs in cells.values():
        for job in jobs:
            run_all([job], store=store)


def test_tables_by_hand(runs, monkeypatch):
    cells = {
        "one": repetitions(80, "linear", 7, seed=1, chunk=3),
        "two": repetitions(
            60, "forest", 4, experiment="shifted", shifts=[0.0, 0.5], epsilon=0.3, chunk=3
        ),
        "one again": repetitions(80, "linear", 7, seed=1, chunk=3),
        "fewer": repetitions(80, "linear", 2, seed=1),
    }
    run_here(cells, runs)
    monkeypatch.setattr(Repetitions, "execute", None)  # all are stored
    table = run_cells(cells)
    check_table(table, cells, runs)
    assert len(table) == 3 + 6 + 3 + 3


def test_tables_of_known_results(runs, monkeypatch):
    """Four repetitions whose intervals hold or miss by construction."""
    truth = true_difference("shifted", 0.4)
    half = 0.1  # of the interval

    def made(self, checkpoint):
        value = np.zeros((1, 4, 3))
        # Holds both; misses the sample's; the population's; both. The latter two hold zero.
        value[0, :, DR] = [truth, truth + 0.05, truth - 0.15, 0.01]
        oracle = np.array([[truth + 0.09, truth - 0.06, truth - 0.1, truth]])
        value[0, :, IPW] = [0.099, 0.101, -0.099, -0.101]  # zero: held, not, held, not
        value[0, :, PLUG_IN] = truth + 1
        return Outcome(
            {"value": value, "stderr": np.full((1, 4, 3), half / Z), "oracle": oracle}, {}
        )

    monkeypatch.setattr(Repetitions, "execute", made)
    job = Repetitions("shifted", 0.2, (0.4,), 100, "linear", 0, 4, 0)
    table = run_cells({"x": [job]}).set_index("estimator")
    columns = ["miscovered", "population_miscovered", "rejected", "repetitions"]
    assert table.loc["dr", columns].tolist() == [2, 2, 2, 4]
    assert table.loc["ipw", "rejected"] == 2
    assert table.loc["plug-in", columns].tolist() == [4, 4, 4, 4]
    assert table.loc["plug-in", "bias"] == pytest.approx(1)
    assert table.loc["plug-in", "spread"] == pytest.approx(0)
    assert table["width"].to_numpy() == pytest.approx(2 * half)
    assert table.loc["dr", "power"] == 0.5


def test_level_of_the_job_counts(runs):
    jobs = {level: [Repetitions("curved", 0.2, (0.0,), 80, "linear", 0, 2, 0, NUISANCES[0], level)]
            for level in (0.95, 0.5)}  # fmt: skip
    run_here(jobs, runs)
    width = run_cells(jobs).pivot(index="cell", columns="estimator", values="width")
    ratio = stats.norm.isf(0.25) / stats.norm.isf(0.025)
    assert (width.loc[0.5] / width.loc[0.95]).to_numpy() == pytest.approx(ratio)


def test_cells():
    cells = cells_of_experiment_1({"linear": 30, "super": 0, "forest": 5}, 100, 0.3, 8, FRESH[1])
    assert list(cells) == ["linear", "forest"]
    assert [(job.first, job.count) for job in cells["linear"]] == [(0, 25), (25, 5)]
    for learner, jobs in cells.items():
        for job in jobs:
            expected = ("curved", 0.3, (0.0,), 100, learner, 8, FRESH[1], 0.95)
            names = [
                "experiment",
                "epsilon",
                "shifts",
                "n",
                "learner",
                "seed",
                "nuisances",
                "level",
            ]
            assert tuple(getattr(job, name) for name in names) == expected

    cells = cells_of_experiment_2([0.0, 0.2], [100, 200], "linear", 12, seed=3)
    assert list(cells) == [100, 200]
    for n, jobs in cells.items():
        assert [(job.first, job.count) for job in jobs] == [(0, 10), (10, 2)]
        for job in jobs:
            assert (job.experiment, job.shifts, job.n) == ("shifted", (0.0, 0.2), n)
            assert (job.learner, job.seed, job.epsilon, job.nuisances) == (
                "linear",
                3,
                0.2,
                "cross-fitted",
            )

    cells = cells_of_positivity([0.1, 0.5], "forest", 3, 100, seed=2)
    assert {epsilon: jobs[0].epsilon for epsilon, jobs in cells.items()} == {0.1: 0.1, 0.5: 0.5}
    assert cells[0.1] == repetitions(100, "forest", 3, epsilon=0.1, seed=2)


def test_power_table():
    rows = [
        {"shift": shift, "n": n, "estimator": estimator, "power": shift + n * scale}
        for estimator, scale in (("dr", 1), ("ipw", 2))
        for n in (800, 200)
        for shift in (0.5, 0.0)
    ]
    for estimator, scale in (("dr", 1), ("ipw", 2)):
        found = power_table(pd.DataFrame(rows), estimator)
        assert found.index.tolist() == [0.0, 0.5]
        assert found.columns.tolist() == [200, 800]
        assert found.to_numpy().tolist() == [
            [200 * scale, 800 * scale],
            [0.5 + 200 * scale, 0.5 + 800 * scale],
        ]
    assert power_table(pd.DataFrame(rows)).equals(power_table(pd.DataFrame(rows), "dr"))
    other = pd.DataFrame([{**row, "width": -row["power"]} for row in rows])
    found = power_table(other, "ipw", "width")
    assert found.equals(-power_table(other, "ipw"))
    assert power_table(other, column="width").equals(-power_table(other, "dr"))


# ------------------------------------------------------------------ what P4 reports, small


@pytest.mark.slow
def test_forests_are_nearly_valid_and_linear_models_are_not(runs):
    """Experiment 1 at n = 500 with forests, and at 2000 with linear learners."""
    cells = {
        "forest": repetitions(500, "forest", 40, seed=1, chunk=40),
        "linear": repetitions(2000, "linear", 12, seed=1, chunk=12),
    }
    run_here(cells, runs)
    table = run_cells(cells).set_index(["cell", "estimator"])
    check_table(table.reset_index()[run_cells(cells).columns], cells, runs)
    forest, linear = table.loc["forest"], table.loc["linear"]
    assert forest.loc["dr", "population_miscoverage"] <= 0.25
    assert forest.loc["dr", "miscovered"] <= stats.binom.ppf(0.999, 40, 0.05)
    assert forest.loc["dr", "width"] < 0.65 * forest.loc["ipw", "width"]
    assert forest.loc["plug-in", "miscoverage"] > 0.5
    # Both models are wrong: the doubly robust interval, too, is in the wrong place.
    assert linear.loc["dr", "population_miscovered"] >= 10
    assert linear.loc["plug-in", "population_miscovered"] == 12
    assert linear.loc["dr", "bias"] < -4 * linear.loc["dr", "spread"]
    assert linear.loc["dr", "width"] == pytest.approx(0.043, abs=0.003)  # as P4 prints
    assert linear.loc["plug-in", "width"] == pytest.approx(0.002, abs=0.001)
    assert linear.loc["ipw", "width"] == pytest.approx(0.090, abs=0.003)


def test_power_rises_with_the_shift(runs):
    cells = cells_of_experiment_2([0.0, 0.15, 0.5], [400], "forest", 8, seed=1)
    run_here(cells, runs)
    power = power_table(run_cells(cells))[400]
    assert power[0.0] * 8 <= stats.binom.ppf(0.999, 8, 0.05)
    assert power[0.0] < power[0.5] == 1
    assert power.is_monotonic_increasing


def test_less_positivity_wider_intervals(runs):
    cells = cells_of_positivity([0.1, 0.5], "forest", 6, 500, seed=1)
    run_here(cells, runs)
    table = run_cells(cells).set_index(["epsilon", "estimator"])["width"]
    for estimator in ("dr", "ipw"):
        assert table[0.1, estimator] > 1.2 * table[0.5, estimator]


# ------------------------------------------------------------------ shares


@pytest.mark.parametrize("level", [0.8, 0.95, 0.999])
@pytest.mark.parametrize(
    ("count", "n"), [(0, 1), (1, 1), (0, 40), (40, 40), (3, 40), (756, 1000), (1, 2)]
)
def test_share_interval_is_clopper_pearsons(count, n, level):
    tail = (1 - level) / 2
    low = stats.beta.ppf(tail, count, n - count + 1) if count else 0.0
    high = stats.beta.isf(tail, count + 1, n - count) if count < n else 1.0
    found = share_interval(count, n, level)
    assert found == pytest.approx((low, high), abs=1e-9)
    assert all(type(end) is float for end in found)
    if count:
        assert stats.binom.sf(count - 1, n, found[0]) == pytest.approx(tail, rel=1e-6)
    mirrored = share_interval(n - count, n, level)
    assert mirrored == pytest.approx((1 - high, 1 - low), abs=1e-9)


def test_share_interval_takes_the_numbers_of_a_table():
    table = pd.DataFrame({"k": [3.0], "n": [40]})
    assert share_interval(table["k"][0], table["n"][0]) == share_interval(3, 40)
    assert share_interval(3, 40) == share_interval(3, 40, 0.95)


@pytest.mark.parametrize(
    ("count", "n", "share", "share_n", "expected"),
    [
        (0, 10, 0.0, 1000, 0.0),
        (10, 10, 1.0, 1000, 0.0),
        (50, 1000, 0.05, 1000, 0.0),
        (0, 10, 1.0, 10, 0.5**-0.5 * 10**0.5),  # 1 / sqrt(1/4 * 2/10)
        (60, 1000, 0.04, 1000, 0.02 / math.sqrt(0.05 * 0.95 * 0.002)),
        (40, 1000, 0.06, 1000, 0.02 / math.sqrt(0.05 * 0.95 * 0.002)),
        (1, 4, 0.75, 12, 0.5 / math.sqrt(0.625 * 0.375 / 3)),
    ],
)
def test_two_share_z_by_hand(count, n, share, share_n, expected):
    assert two_share_z(count, n, share, share_n) == pytest.approx(expected, abs=1e-12)
    # It does not matter whose share is whose, nor whether hits or misses are counted.
    assert two_share_z(share * share_n, share_n, count / n, n) == pytest.approx(expected, abs=1e-12)
    assert two_share_z(n - count, n, 1 - share, share_n) == pytest.approx(expected, abs=1e-12)


def test_two_share_z_is_the_root_of_chi_square():
    rng = np.random.default_rng(0)
    for _ in range(50):
        n, m = rng.integers(5, 1000, 2)
        a, b = rng.integers(1, n), rng.integers(1, m)
        chi = stats.chi2_contingency([[a, n - a], [b, m - b]], correction=False).statistic
        assert two_share_z(a, n, b / m, m) ** 2 == pytest.approx(chi, rel=1e-9, abs=1e-12)


def test_two_share_z_keeps_its_level():
    rng = np.random.default_rng(1)
    ours, theirs = rng.binomial(200, 0.1, 3000), rng.binomial(1000, 0.1, 3000) / 1000
    z = [two_share_z(a, 200, b, 1000) for a, b in zip(ours, theirs, strict=True)]
    far = int((np.array(z) > Z).sum())
    assert stats.binomtest(far, 3000, 0.05).pvalue > 1e-3
