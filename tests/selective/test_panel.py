"""The panel: what is trained, what it spends, and how its scores come about."""

import math
from dataclasses import replace

import numpy as np
import pytest
from chapter_cells import settings_for
from scipy import special

from lib import selective
from lib.privacy import PrivacyLedger, SampledGaussian, find_noise_multiplier
from lib.studies.interplay import by_seed
from lib.studies.interplay import tables as studies
from lib.studies.interplay.experiments import (
    FAMILIES,
    Experiments,
    ExperimentSettings,
    calibrated,
    decide,
    leading,
    middle,
    run_experiments,
    run_imbalance,
)
from lib.training import DataSpec, ModelSpec, TrainingConfig, train_many

SETTINGS = ExperimentSettings(
    DataSpec(train=300, validation=100, test=200),
    TrainingConfig(
        ModelSpec("mlp", (64,), 10, hidden=(8,)), steps=40, batch_size=64, checkpoint_every=8
    ),
    epsilons=(math.inf, 3.0, 1.0),
    n_seeds=2,
    rates=(0.01, 1.0),
    dropout_passes=3,
    members=3,
    coverages=(0.5, 1.0),
    families=tuple(FAMILIES),
)


@pytest.fixture(scope="module")
def panel(tmp_path_factory) -> Experiments:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COMPANION_RUNS", str(tmp_path_factory.mktemp("runs")))
        # In this process, as others would import PyTorch first; the faults' tests have others.
        patch.setattr("lib.runs.executors.own_cores", lambda: 1)
        found = run_experiments(SETTINGS)
        again = run_experiments(SETTINGS)  # read, not trained
    for place, each in found.predictions.items():
        assert np.array_equal(each.score, again.predictions[place].score)
    return found


def test_no_two_models_share_their_randomness():
    seeds = []
    for family in FAMILIES:
        for epsilon in SETTINGS.epsilons:
            seeds += [c.seed for c in SETTINGS.configs(family, epsilon, 1.0)]
            for repetition in (0, 1, 49):
                tuning = SETTINGS.tuning(family, epsilon, repetition=repetition)
                seeds += [c.seed for c in tuning]
                if family == "SN":
                    smallest = SETTINGS.tuning("SN", epsilon, None, repetition, smallest=True)
                    seeds += [c.seed for c in smallest]
    for rare in SETTINGS.with_rare_class((0.5,), 2, dict.fromkeys(SETTINGS.epsilons, 1.0)).values():
        seeds += [c.seed for c in rare.configs]
    assert len(seeds) == len(set(seeds))


def test_models_of_one_method_keep_the_budget_together(panel):
    n = SETTINGS.data.train
    several = {"DE": 3, "SN": 2, "DE adversarial": 3}
    for name in ("plain", "SAT", "MCDO", "DG", *several):
        models = several.get(name, 1)
        for epsilon in (3.0, 1.0):
            table = panel.privacy.set_index(["family", "epsilon"])
            row = table.loc[(name, epsilon)]
            assert row["models"] == models
            assert 0.98 * epsilon < row["spent"] <= epsilon
            # independently: as many steps of the same mechanism as all models take
            ledger = PrivacyLedger(
                (
                    SampledGaussian(
                        64 / n, row["noise_multiplier"], SETTINGS.training.steps * models
                    ),
                )
            )
            assert ledger.epsilon(1 / n) == pytest.approx(row["spent"])
            alone = find_noise_multiplier(epsilon, 1 / n, 64 / n, SETTINGS.training.steps)
            assert row["noise_multiplier"] >= alone * (1 - 1e-9)
    assert np.isinf(panel.privacy.query("family == 'plain'")["spent"].iloc[0])


def test_selectivenet_is_tuned_where_it_answers_everything_and_spends_little_on_statistics():
    n = SETTINGS.data.train
    for epsilon in (3.0, 1.0):
        needed = find_noise_multiplier(
            epsilon, 1 / n, 64 / n, SETTINGS.training.steps, releases=len(SETTINGS.coverages)
        )
        for each in SETTINGS.tuning("SN", epsilon):
            assert each.objective.coverage == 1.0
            # 1 / s^2 = 1 / gradient^2 + 1 / statistic^2: 15% more noise for the gradients
            gradient = (1 / needed**2 - 1 / each.objective.statistic_noise**2) ** -0.5
            assert gradient / needed == pytest.approx(math.sqrt(4 / 3))


def test_scores_are_those_of_models_trained_alone(panel):
    rates = panel.rates[panel.rates["chosen"]].set_index(["family", "epsilon"])["rate"]
    data = SETTINGS.data.load()
    configs = SETTINGS.configs("plain", 3.0, rates["plain", 3.0])
    results = train_many(configs, data.training, data.evaluation)
    found = panel.predictions["SR", 3.0]
    for k, result in enumerate(results):
        assert np.array_equal(found.correct[k], result.logits.argmax(1) == data.labels)
        odds = special.logit(result.probabilities.max(1).astype(float))
        assert found.score[k] == pytest.approx(odds, rel=1e-3, abs=1e-3)
        expected = selective.sctd(result.checkpoints)
        assert np.array_equal(panel.predictions["SCTD", 3.0].score[k], expected)
    members = SETTINGS.configs("DE", 3.0, rates["DE", 3.0])[:3]
    ensemble = np.mean(
        [r.probabilities for r in train_many(members, data.training, data.evaluation)], axis=0
    )
    odds = special.logit(ensemble.max(1).astype(float))
    assert panel.predictions["DE", 3.0].score[0] == pytest.approx(odds, rel=1e-3, abs=1e-3)
    assert np.array_equal(
        panel.predictions["DE", 3.0].correct[0], ensemble.argmax(1) == data.labels
    )


def test_every_method_is_there_and_same_models_share_their_predictions(panel):
    expected = [m for f, methods in FAMILIES.items() if f != "SN" for m in methods]
    assert panel.methods == expected
    for epsilon in SETTINGS.epsilons:
        for family, methods in FAMILIES.items():
            if family == "SN":
                continue
            first = panel.predictions[methods[0], epsilon].correct
            assert first.shape == (2, 200)
            for method in methods:
                assert np.array_equal(panel.predictions[method, epsilon].correct, first)
        assert panel.selective[epsilon].correct.shape == (2, 2, 200)
        assert panel.checkpoints[epsilon].shape == (2, 5, 200)
        final = panel.checkpoints[epsilon][:, -1] == panel.labels
        assert np.array_equal(final, panel.predictions["SR", epsilon].correct)


def test_temperature_scaling_finds_the_scale_and_never_the_own_labels():
    rng = np.random.default_rng(5)
    logits = rng.normal(size=(20_000, 4)) * 2
    p = special.softmax(logits, axis=1)
    labels = (rng.random((20_000, 1)) > p.cumsum(1)).sum(1).clip(max=3)
    # The standard error of log T is 0.011 here, by the information of 10,000 points.
    # A standard error of log T, 0.0136 by the information of 10,000 points, moves a score by at
    # most 0.0056: four of them.
    for factor in (0.2, 1.0, 7.0):
        assert calibrated(factor * logits, labels) == pytest.approx(p.max(1), abs=0.0225)
    other = labels.copy()
    other[::2] = rng.integers(4, size=10_000)
    before, after = calibrated(logits, labels), calibrated(logits, other)
    assert np.array_equal(before[::2], after[::2])
    assert not np.allclose(before[1::2], after[1::2], atol=0.01)


def test_the_better_rate_on_validation_points_is_taken(panel):
    for (_, _), rows in panel.rates.groupby(["family", "epsilon"]):
        assert rows["chosen"].sum() == 1
        assert rows.loc[rows["chosen"], "accuracy"].item() == rows["accuracy"].max()
    plain = panel.rates.query("family == 'plain' and epsilon == inf")
    assert plain.set_index("rate")["chosen"].to_dict() == {0.01: False, 1.0: True}


def test_several_trainings_decide_between_the_best_rate_and_its_neighbours(tmp_path, monkeypatch):
    monkeypatch.setenv("COMPANION_RUNS", str(tmp_path))
    monkeypatch.setattr("lib.runs.executors.own_cores", lambda: 1)  # others would import PyTorch
    three = replace(SETTINGS, families=("plain",), rates=(0.01, 0.5, 1.0, 2.0), rate_seeds=3)
    found = run_experiments(three)
    data, turned = three.data.load(), 0
    for epsilon, rows in found.rates.groupby("epsilon"):
        rows = rows.set_index("rate")
        first = run_rates(three.tuning("plain", epsilon), data)
        rates = list(first)
        place = int(np.argmax(list(first.values())))
        best = rates[max(0, place - 1) : place + 2]
        assert rows["trainings"].to_dict() == {r: 3 if r in best else 1 for r in first}
        each = [first]
        each += [run_rates(three.tuning("plain", epsilon, best, r), data) for r in (1, 2)]
        for rate in best:
            mean = np.mean([accuracies[rate] for accuracies in each])
            assert rows.loc[rate, "accuracy"] == pytest.approx(mean)
        chosen = rows.index[rows["chosen"]].item()
        assert chosen in best
        assert rows.loc[chosen, "accuracy"] == rows.loc[best, "accuracy"].max()
        turned += chosen != rates[place]
        results = train_many(
            three.configs("plain", epsilon, chosen), data.training, data.evaluation
        )
        for right, result in zip(found.predictions["SR", epsilon].correct, results, strict=True):
            assert np.array_equal(right, result.logits.argmax(1) == data.labels)
    assert turned  # somewhere the later trainings decide against the first


def run_rates(configs, data):
    results = train_many(configs, data.training, data.validation)
    return {
        c.learning_rate: np.mean(r.logits.argmax(1) == data.validation_labels)
        for c, r in zip(configs, results, strict=True)
    }


def test_decisions_between_rates_err_as_often_as_they_should():
    rng, n = np.random.default_rng(11), 20_000
    gap, sd = 0.004, 0.004
    for trainings in (1, 3):
        draws = rng.normal(0, sd, (n, 2, trainings)) + np.array([[0.0], [gap]])
        wrong = np.mean(
            [decide(dict(zip((1.0, 2.0), d.tolist(), strict=True))) == 1.0 for d in draws]
        )
        error = special.ndtr(-gap / (sd * math.sqrt(2 / trainings)))
        assert wrong == pytest.approx(error, abs=4 * math.sqrt(error * (1 - error) / n))


@pytest.mark.parametrize(("shared", "most"), [(0.001, 0.65), (0.003, 0.85)])
def test_two_rounds_lose_less_accuracy_than_one_training_a_rate(shared, most):
    """Accuracies spread over trainings, and by points they share, which no training averages away.

    0.0045 is the former on Fashion-MNIST, about 0.003 the latter. Simulated, three trainings lose
    0.52 and 0.72 of what one does; the bounds allow for four standard errors of 20,000 draws.
    """
    rng, n, sd = np.random.default_rng(12), 20_000, 0.0045
    true = {1.0: 0.83, 2.0: 0.845, 4.0: 0.852, 8.0: 0.855, 16.0: 0.848}
    lost = {}
    for trainings in (1, 3):
        each = []
        for _ in range(n):
            seen = {rate: a + shared * rng.normal() for rate, a in true.items()}
            tried = {rate: [a + sd * rng.normal()] for rate, a in seen.items()}
            for rate in leading(tried):
                tried[rate] += (seen[rate] + sd * rng.normal(size=trainings - 1)).tolist()
            each.append(max(true.values()) - true[decide(tried)])
        lost[trainings] = np.mean(each), np.std(each) / math.sqrt(n)
    assert lost[3][0] < most * lost[1][0] - 4 * (lost[1][1] + lost[3][1])


def test_equal_rates_are_decided_alike_everywhere():
    assert leading({4.0: [0.5], 1.0: [0.5], 2.0: [0.5]}) == [1.0, 2.0]
    assert leading({4.0: [0.5], 1.0: [0.1 + 0.2], 2.0: [0.3]}) == [2.0, 4.0]
    assert decide({2.0: [0.1, 0.2, 0.3], 1.0: [0.3, 0.2, 0.1], 4.0: [0.9]}) == 1.0
    assert decide({0.1: []}) == 0.1


def test_a_search_goes_on_while_the_best_rate_is_at_an_end(tmp_path, monkeypatch):
    monkeypatch.setenv("COMPANION_RUNS", str(tmp_path))
    monkeypatch.setattr("lib.runs.executors.own_cores", lambda: 1)  # others would import PyTorch
    ladder = (1e-5, 1e-4, 1e-3, 0.1, 1.0, 3.0)
    walks = replace(SETTINGS, families=("plain",), rates=ladder, first_rates=2, rate_seeds=2)
    data, lengths = walks.data.load(), []
    for epsilon, rows in run_experiments(walks).rates.groupby("epsilon"):
        tried = rows["rate"].tolist()
        low, high = ladder.index(tried[0]), ladder.index(tried[-1])
        assert tried == list(ladder[low : high + 1])
        assert low <= 2
        assert high >= 3
        first = run_rates(walks.tuning("plain", epsilon), data)  # of all rates
        best = ladder.index(max(tried, key=first.get))
        assert low <= max(0, best - 1) < min(len(ladder) - 1, best + 1) <= high
        near = list(ladder[max(0, best - 1) : best + 2])
        assert rows.loc[rows["trainings"] == 2, "rate"].tolist() == near
        again = run_rates(walks.tuning("plain", epsilon, near, 1), data)
        for row in rows.itertuples():
            each = [first[row.rate], again[row.rate]] if row.rate in near else [first[row.rate]]
            assert row.accuracy == pytest.approx(np.mean(each))
        lengths.append(len(tried))
    assert max(lengths) > 2  # a search went on
    assert min(lengths) < len(ladder)  # and one stopped


def test_selective_nets_largest_and_smallest_target_choose_its_rate(tmp_path, monkeypatch):
    monkeypatch.setenv("COMPANION_RUNS", str(tmp_path))
    monkeypatch.setattr("lib.runs.executors.own_cores", lambda: 1)  # others would import PyTorch
    rates = (0.01, 0.1, 0.3)
    few = replace(
        SETTINGS,
        families=("plain", "SN"),
        epsilons=(math.inf,),
        rates=rates,
        coverages=(0.25, 0.5, 1.0),
        rate_seeds=2,
    )
    data, accuracy = few.data.load(), {}
    for smallest, target in ((False, 1.0), (True, 0.25)):
        configs = sum((few.tuning("SN", math.inf, None, r, smallest=smallest) for r in (0, 1)), ())
        assert {c.objective.coverage for c in configs} == {target}
        for result in train_many(configs, data.training, data.validation):
            p = special.softmax(result.logits, axis=1)
            right = (p.argmax(1) == data.validation_labels)[np.argsort(-p.max(1))]
            where = result.config.learning_rate
            accuracy.setdefault((where, target), []).append(right[: round(target * 100)].mean())
    assert accuracy[0.3, 0.25] > accuracy[0.3, 1.0]  # a quarter is easier than all
    rows = run_experiments(few).rates.query("family == 'SN'")
    first = {r: accuracy[r, 1.0][0] + accuracy[r, 0.25][0] for r in rates}
    near = leading({r: [v] for r, v in first.items()})
    assert rows["trainings"].tolist() == [1 + (r in near) for r in rates]
    for row in rows.itertuples():
        each = [accuracy[row.rate, target][: row.trainings] for target in (1.0, 0.25)]
        assert row.accuracy == pytest.approx(np.mean(each))


@pytest.mark.parametrize("low", range(5))
def test_a_search_that_stops_early_loses_no_accuracy(low):
    """Against all rates, the best one anywhere between the ends; spread as of two rounds above."""
    rng, n, sd = np.random.default_rng(13), 4000, 0.0045
    curve = [0.40, 0.435, 0.46, 0.477, 0.47, 0.44, 0.40, 0.37, 0.33][low : low + 5]
    true = dict(zip((0.5, 1.0, 2.0, 4.0, 8.0), curve, strict=True))
    lost, number = {}, {}
    for first in (0, 3):
        each = []
        for _ in range(n):
            new, tried = middle(list(true), first), {}
            while new:
                tried |= {rate: [true[rate] + sd * rng.normal()] for rate in new}
                new = [rate for rate in leading(tried, list(true)) if rate not in tried]
            each.append((max(true.values()) - true[decide(tried)], len(tried)))
        lost[first], number[first] = np.transpose(each)
    error = math.hypot(*(np.std(each) / math.sqrt(n) for each in lost.values()))
    assert np.mean(lost[3]) <= np.mean(lost[0]) + 4 * error
    assert np.mean(number[3]) < 4.1


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (0, [1, 2, 3, 4]),
        (1, [2]),
        (2, [2, 3]),
        (3, [1, 2, 3]),
        (4, [1, 2, 3, 4]),
        (9, [1, 2, 3, 4]),
    ],
)
def test_a_search_begins_in_the_middle(number, expected):
    assert middle([1, 2, 3, 4], number) == expected


def test_a_search_that_begins_with_fewer_rates_than_none_is_refused():
    with pytest.raises(ValueError, match="first_rates must not be negative, got -1"):
        replace(SETTINGS, first_rates=-1)


@pytest.mark.parametrize("wrong", [0, 51])
def test_so_many_trainings_that_seeds_would_meet_are_refused(wrong):
    with pytest.raises(ValueError, match=f"rate_seeds must be 1 to 50, got {wrong}"):
        replace(SETTINGS, rate_seeds=wrong)


def test_imbalance(panel, tmp_path, monkeypatch):
    monkeypatch.setenv("COMPANION_RUNS", str(tmp_path))
    monkeypatch.setattr("lib.runs.executors.own_cores", lambda: 1)  # others would import PyTorch
    study = run_imbalance(panel, (0.5, 0.1), 2)
    assert study.rare_examples[0.5] > study.rare_examples[0.1] > 0
    table = studies.imbalance_table(study)
    assert len(table) == 6
    rare = study.labels == 0
    row = table.query("p0 == 0.1 and epsilon == inf").iloc[0]
    found = study.predictions[0.1, math.inf]
    assert row["rare accuracy"] == pytest.approx(found.correct[:, rare].mean())
    ranks = np.array([[np.mean(s > x) for x in s[rare]] for s in found.score])
    assert row["position"] == pytest.approx(ranks.mean() + 1 / 200, abs=1e-9)
    facts = by_seed.rare_class(study)
    free, strict = (table.query(f"epsilon == {e}").set_index("p0") for e in ("inf", "1.0"))
    lost = (free["rare accuracy"] - strict["rare accuracy"])[free["rare accuracy"] > 0]
    assert [v.mean() for v in facts["lost accuracy"]] == pytest.approx(lost.tolist())
    assert [v.mean() for v in facts["position"]] == pytest.approx(free["position"].tolist())


def test_right_first_is_the_share_of_ordered_pairs():
    rng = np.random.default_rng(0)
    correct, score = rng.random(30) < 0.5, np.round(rng.random(30), 1)
    pairs = [(a > b) + 0.5 * (a == b) for a in score[correct] for b in score[~correct]]
    assert studies.right_first(correct, score) == pytest.approx(np.mean(pairs))
    assert math.isnan(studies.right_first(np.ones(3, bool), np.ones(3)))


def test_early_stopping_spends_what_the_accountant_says(panel):
    table = studies.early_stopping(panel).set_index("epsilon")
    assert table.loc[1.0, "spent"] == pytest.approx(1.0, rel=0.02)
    row = table.loc[3.0]
    accuracies = (panel.checkpoints[3.0] == panel.labels).mean((0, 2))
    target = panel.predictions["SR", 1.0].correct.mean()
    place = int(row["step"] // 8) - 1
    assert accuracies[place] >= target
    assert (accuracies[:place] < target).all()
    assert row["spent"] <= 3.0
    wrong = (panel.labels + 1) % 10  # a model that never gets there is not stopped
    never = {e: kept * 0 + wrong if e == 3.0 else kept for e, kept in panel.checkpoints.items()}
    row = studies.early_stopping(replace(panel, checkpoints=never)).set_index("epsilon").loc[3.0]
    assert row["spent"] == pytest.approx(3.0, rel=0.02)


def test_sensitivity_keeps_the_final_model_and_finds_the_default(panel, monkeypatch):
    monkeypatch.setattr(studies, "KS", (3,))
    monkeypatch.setattr(studies, "SPACINGS", (1, 2))
    table = studies.checkpoint_sensitivity(panel)
    default = table.query("form == 'equation' and spacing == 8").set_index("epsilon")
    for epsilon in SETTINGS.epsilons:
        for column, method in (("score", "SCTD"), ("ties by SR", "SCTD, ties by SR")):
            expected = studies.normalized_scores(panel, method, epsilon).mean()
            assert default.loc[epsilon, column] == pytest.approx(expected)
    wide = table.query("form == 'equation' and spacing == 16")
    assert set(wide["checkpoints"]) == {3}
    labels = panel.checkpoints[3.0][0]
    assert studies.rank_agreement(labels[[4]], 3) != studies.rank_agreement(labels, 3)
    alike = np.array([[0, 0], [1, 1], [1, 1]])  # (checkpoints, points): both disagree once
    assert studies.rank_agreement(alike, 3) == 1.0


def test_selective_net_score_by_hand():
    correct = np.array([[1, 1, 0, 0], [1, 0, 1, 0]], bool)
    score = np.array([[4, 3, 2, 1], [4, 3, 2, 1]], float)
    assert studies.selective_net_curve(correct, score, (0.5, 1.0)).tolist() == [1.0, 0.5]
    # bound of a = 1/2, which both have, at 1/4 .. 1: 1, 1, 2/3, 1/2; curve: 1, 1, 3/4, 1/2
    assert studies.selective_net_score(correct, score, (0.5, 1.0)) == pytest.approx(
        (2 / 3 - 3 / 4) / 4
    )
    collapsed = np.array([[1, 1, 1, 0], [0, 0, 0, 1]], bool)  # the bound is that of the first
    assert studies.selective_net_score(collapsed, score, (0.5, 1.0)) == pytest.approx(
        (0 + 0 + 1 - (1 + 0.25) / 2 + 3 / 4 - 0.25) / 4
    )


def test_closed_forms_and_bound():
    table = studies.closed_forms(480, 597).set_index("order")
    assert table.loc["perfect", "n = 597"] == 0.0
    limit = table["n to infinity"]
    assert table["n = 597"].to_numpy() == pytest.approx(limit.to_numpy(), abs=0.01)
    curves, largest = studies.bound_reached((0.3, 0.9), 500, 0)
    assert largest < 1e-12
    assert curves[0.3][-1] == pytest.approx(0.3)


def test_needed_points_and_metrics(panel):
    table = studies.needed_points(panel)
    assert set(table["method"]) == {"SAT", "MCDO", "DE", "SCTD"}
    assert (table["points"] > 0).all()
    metrics = studies.metric_table(panel)
    assert metrics["normalized"].to_numpy() == pytest.approx(metrics["E-AURC"].to_numpy())
    odd = studies.ranking_disagreements(metrics)
    assert set(odd["pairs"]) == {10}
    one = metrics[metrics["epsilon"] == 1.0]
    ranked = np.sign(np.subtract.outer(*[one["normalized"].to_numpy()] * 2))
    other = np.sign(np.subtract.outer(*[one["AUGRC"].to_numpy()] * 2))
    found = odd.query("epsilon == 1.0 and metric == 'AUGRC'")["disagree"].item()
    assert found == (ranked * other < 0).sum() / 2


def test_bad_settings():
    with pytest.raises(ValueError, match="epsilons must be at most 9, got 10"):
        replace(SETTINGS, epsilons=tuple(range(10, 0, -1)))
    with pytest.raises(ValueError, match="families must have 'plain' among them"):
        replace(SETTINGS, families=("DE",))


def test_settings_for_the_digits():
    found = settings_for("digits", "linear", n_seeds=2)
    assert found.data == DataSpec(train=1000, validation=200, test=597)
    assert found.training.model == ModelSpec("linear", (64,), 10)
    found = settings_for("digits", "small_cnn")
    assert found.data.features == "images"
    assert found.training.model.inputs == (1, 8, 8)
    found = settings_for("digits", "mlp", hidden=7, activation="relu", seed=3)
    assert found.training.model.hidden == (7,)
    assert found.data.seed == 3
