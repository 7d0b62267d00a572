"""Abstaining classifiers of real images: what they saw, how they abstain, what intervals hold."""

import math
import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from lib import data
from lib.studies.counterfactual import scenarios
from lib.studies.counterfactual.scenarios import (
    Evaluation,
    Rule,
    Scenario,
    ScenarioRuns,
    Sizes,
    draws_table,
    image_evaluation,
    run_scenario,
    scenario_runs,
    scenario_table,
    scenarios_of,
)
from lib.training import predict

Z = 1.959963984540054
TEN, PAIR = (scenarios_of("digits", pair) for pair in (False, True))
KNOWN = ("known_value", "known_low", "known_high", "known_covers")


class Share(ClassifierMixin, BaseEstimator):
    """The share of abstentions, wherever: wrong."""

    def fit(self, x, y):
        self.classes_ = np.array([False, True])
        self.share_ = np.mean(y)
        return self

    def predict_proba(self, x):
        return np.tile([1 - self.share_, self.share_], (len(x), 1))


class LinearScore(RegressorMixin, BaseEstimator):
    """Ridge regression on standardised features, without the checks that take most of the time."""

    def fit(self, x, y):
        self.mean_, self.scale_ = x.mean(axis=0), np.maximum(x.std(axis=0), 1e-3)
        z = (x - self.mean_) / self.scale_
        self.level_ = y.mean()
        self.slope_ = np.linalg.solve(z.T @ z + np.eye(z.shape[1]), z.T @ (y - self.level_))
        return self

    def predict(self, x):
        return self.level_ + (x - self.mean_) / self.scale_ @ self.slope_


CHEAP = Share(), LinearScore()


@pytest.fixture(scope="module")
def ten():
    return image_evaluation("digits", False, Sizes(900, 300), 1)


@pytest.fixture(scope="module")
def pair():
    return image_evaluation("digits", True, Sizes(900, 897), 1)


@pytest.fixture
def fits(monkeypatch):
    """What pipelines were fitted to."""
    seen, original = [], scenarios.make_pipeline

    def make(*steps):
        pipeline = original(*steps)
        fit = pipeline.fit

        def watched(x, y=None):
            seen.append((x, y))
            return fit(x, y)

        pipeline.fit = watched
        return pipeline

    monkeypatch.setattr(scenarios, "make_pipeline", make)
    return seen


@pytest.fixture
def compared(monkeypatch):
    """What was compared, and what was found."""
    seen, original = [], scenarios.counterfactual_difference

    def watched(*arguments, **options):
        found = original(*arguments, **options)
        seen.append((arguments, options, found))
        return found

    monkeypatch.setattr(scenarios, "counterfactual_difference", watched)
    return seen


def evaluation_of(scenario, ten, pair):
    return pair if scenario in PAIR else ten


def quiet(*arguments, learner=CHEAP, **options):
    return run_scenario(*arguments, learner, **options)


# ------------------------------------------------------------------ evaluations


@pytest.mark.parametrize("is_pair", [False, True])
def test_digits(is_pair, fits):
    train, n, seed = 900, 897, 0
    digits = data.load_digits()
    where = {image.tobytes(): i for i, image in enumerate(digits.images.reshape(1797, 64))}
    assert len(where) == 1797  # no two are alike
    made = image_evaluation("digits", is_pair, Sizes(train, n), seed)
    (full, y_full), (few, y_few) = fits
    used, asked, little = ([where[row.tobytes()] for row in x] for x in (full, made.X, few))

    # Which images: all different, none for both; all there are, if as many are asked for.
    assert len(set(used) | set(asked)) == len(used) + len(asked)
    assert set(little) < set(used)
    assert len(set(little)) == len(little)
    if is_pair:
        kept = np.isin(digits.labels, (3, 5)).sum()
        assert len(used) + len(asked) <= kept
        assert len(used) + len(asked) == kept
        assert len(asked) > 0.12 * n
    else:
        assert (len(used), len(asked)) == (train, n)

    # Labels: of a pair 3 is 0 and 5 is 1.
    code = {3: 0, 5: 1} if is_pair else {c: c for c in range(10)}
    for rows, labels in ((used, y_full), (asked, made.labels), (little, y_few)):
        assert [code[c] for c in digits.labels[rows]] == labels.tolist()
    assert made.labels.dtype == np.int64

    # A twentieth of the labels, every class among them.
    assert set(y_few) == set(code.values())
    assert np.bincount(y_few).min() >= 2
    expected = max(20, len(used) // 20)
    assert abs(len(little) - expected) <= len(code) / 2
    shares = np.bincount(y_few) / len(y_few) - np.bincount(y_full) / len(y_full)
    assert np.abs(shares).max() < 0.06

    assert list(made.probabilities) == ["one layer", "few labels"]
    accuracy = []
    for p in made.probabilities.values():
        assert p.shape == (len(asked), len(code))
        assert (p >= 0).all()
        np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-12)
        accuracy.append((p.argmax(axis=1) == made.labels).mean())
    assert accuracy[0] > 0.93
    assert 0.6 < accuracy[1] <= accuracy[0]


@pytest.mark.parametrize("is_pair", [False, True])
def test_larger_images(is_pair, fits, monkeypatch):
    """Network, output layers and evaluation see different images."""
    rng, made = np.random.default_rng(0), {}
    for split, count in (("train", 900), ("test", 250)):
        labels = rng.integers(0, 10, count)
        shade = 20 * labels[:, None, None, None] + rng.integers(0, 30, (count, 12, 12, 3))
        made[split] = data.ImageSet(
            "made for a test", shade.astype(np.uint8), labels, tuple(map(str, range(10)))
        )
    monkeypatch.setattr(data, "load_images", lambda name, split: made[split])
    learned, original = [], predict.train

    def watched(config, training, points):
        learned.append((config, training))
        return original(config, training, points)

    monkeypatch.setattr(predict, "train", watched)
    scenarios._pretrained.cache_clear()
    train, n, public = (70, 40, 500) if is_pair else (300, 200, 500)
    found = image_evaluation("cifar10", is_pair, Sizes(train, n, public, 2), 3)
    scenarios._pretrained.cache_clear()

    (config, training), *others = learned
    assert config.model.name == "small_cnn"
    assert config.steps == round(2 * public / 64)
    assert math.isinf(config.epsilon)
    assert training.inputs.shape == (public, 3, 12, 12)
    where = {image.tobytes(): i for i, image in enumerate(made["train"].as_float())}
    rows = [where[image.tobytes()] for image in training.inputs]
    assert len(set(rows)) == public
    assert made["train"].labels[rows].tolist() == training.targets.tolist()
    left = np.delete(made["train"].labels, rows)  # none of them is left for the layers

    classes = 2 if is_pair else 10
    (x_train, y_train), *more = fits
    assert x_train.shape == (train, 32)
    if is_pair:
        assert others == []
        (pixels, nothing), (parts, y_pixels) = more
        assert nothing is None
        assert pixels.shape == (train, 3 * 12 * 12)
        assert parts.shape == (train, 64)
        assert y_pixels.tolist() == y_train.tolist()
        assert train <= np.isin(left, (3, 5)).sum()
        assert {image.tobytes() for image in pixels.astype(np.float32)}.isdisjoint(
            image.tobytes() for image in training.inputs
        )
        np.testing.assert_allclose(parts.mean(axis=0), 0, atol=1e-6)
        assert list(found.probabilities) == ["one layer", "pixels"]
    else:
        ((config, second),) = others
        assert config.model.name == "mlp"
        np.testing.assert_allclose(second.inputs.mean(axis=0), 0, atol=1e-5)
        assert second.targets.tolist() == y_train.tolist()
        ((few, y_few),) = more
        assert len(few) == pytest.approx(max(20, train // 20), abs=5)
        assert set(y_few) == set(range(10))
        assert list(found.probabilities) == ["one layer", "few labels", "two layers"]
    assert found.X.shape == (n, 32 + 64 * is_pair)
    assert set(y_train) == set(found.labels) == set(range(classes))
    for p in found.probabilities.values():
        assert p.shape == (n, classes)
        np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-6)
        assert (p.argmax(axis=1) == found.labels).mean() > 1.3 / classes


def test_too_few_images_of_the_classes():
    with pytest.raises(ValueError, match="n must be large enough for 20 images of the classes"):
        image_evaluation("digits", True, Sizes(100, 20), 0)


@pytest.mark.parametrize(("is_pair", "missing"), [(False, (4, 7)), (True, (5,))])
def test_classes_that_are_missing(is_pair, missing, monkeypatch):
    """A class to be told apart of which there are no training images cannot be learned."""
    digits = data.load_digits()
    order = np.random.default_rng(0).permutation(1797)  # as of seed 0
    labels = digits.labels.copy()
    first = order[:300]
    labels[first[np.isin(labels[first], missing)]] = 3
    monkeypatch.setattr(data, "load_digits", lambda: replace(digits, labels=labels))
    named = ", ".join(map(str, missing))
    used = int(np.isin(labels[first], (3, 5)).sum()) if is_pair else 300
    message = (
        f"train must be large enough for every class, got 300: none of {named} is among {used} "
        "images"
    )
    with pytest.raises(ValueError) as caught:
        image_evaluation("digits", is_pair, Sizes(300, 400), 0)
    assert str(caught.value) == message
    image_evaluation("digits", is_pair, Sizes(300, 400), 1)


def test_pair_of_cifar100(fits, monkeypatch):
    """Boys and girls."""
    rng, made = np.random.default_rng(0), {}
    for split in ("train", "test"):
        labels = rng.choice([3, 5, 11, 35], 300)
        images = rng.integers(0, 256, (300, 12, 12, 3), dtype=np.uint8)
        names = tuple(map(str, range(100)))
        made[split] = data.ImageSet("made for a test", images, labels, names)
    monkeypatch.setattr(data, "load_images", lambda name, split: made[split])
    found = image_evaluation("cifar100", True, Sizes(80, 300, 100, 1), 0)
    assert np.bincount(found.labels).tolist() == [
        (made["test"].labels == c).sum() for c in (11, 35)
    ]


# ------------------------------------------------------------------ one comparison


@pytest.mark.parametrize("dataset", ["digits", "cifar10", "cifar100"])
def test_the_scenarios_are_p4s(dataset):
    second = {"digits": ["few labels"], True: ["pixels"], False: ["two layers", "few labels"]}
    for is_pair in (False, True):
        found = scenarios_of(dataset, is_pair)
        end = ", pair" * is_pair
        one, two, *others = found
        bases = second[dataset if dataset == "digits" else is_pair]
        names = ["I", "II", "III", "IV"][: 2 + len(bases)]
        assert [each.name for each in found] == [f"{name}{end}" for name in names]
        assert {each.base_a for each in found} == {one.base_b, two.base_b} == {"one layer"}
        assert [each.base_b for each in others] == bases
        assert None not in (one.rule_a.threshold, one.rule_b.threshold)
        assert one.rule_a.threshold != one.rule_b.threshold
        assert (two.rule_a, two.rule_b) == (Rule(), Rule("gini"))
        assert all(each.rule_a == each.rule_b == Rule() for each in others)
    assert str(Rule(threshold=0.8)) == "SR < 0.8"
    assert str(Rule("gini")) == "Gini, stochastic"


def brier(p, label):
    return 1 - sum((p[c] - (c == label)) ** 2 for c in range(len(p))) / 2


@pytest.mark.parametrize("scenario", TEN + PAIR, ids=lambda s: s.name)
def test_scenarios(scenario, ten, pair, compared):
    evaluation = evaluation_of(scenario, ten, pair)
    found = quiet(evaluation, scenario, rng=np.random.default_rng(3))
    (((x, *given), options, estimate),) = compared
    assert x is evaluation.X
    assert options["clip"] == 0.2
    n = len(x)
    oracles, seen, expected = [], [], []
    for k, (base, rule) in enumerate(
        ((scenario.base_a, scenario.rule_a), (scenario.base_b, scenario.rule_b))
    ):
        p = evaluation.probabilities[base]
        by_hand = [brier(row, label) for row, label in zip(p, evaluation.labels, strict=True)]
        s, r = given[2 * k : 2 * k + 2]
        np.testing.assert_allclose(s, by_hand, atol=1e-12)
        sure = [max(row) if rule.measure == "softmax-response" else sum(row**2) for row in p]
        coverage = found[("coverage_a", "coverage_b")[k]]
        if rule.threshold is not None:
            np.testing.assert_array_equal(r, [value < rule.threshold for value in sure])
            assert coverage == sum(value >= rule.threshold for value in sure) / n
            expected.append(None)
        else:
            answers = np.clip(sure, 0.2, 0.8)
            spread = math.sqrt(np.sum(answers * (1 - answers))) / n
            assert abs(coverage - answers.mean()) <= 4 * spread
            expected.append(1 - answers)
        oracles.append(sum(by_hand) / n)
        seen.append(np.mean([v for v, hidden in zip(by_hand, r, strict=True) if not hidden]))

    assert found["oracle"] == pytest.approx(oracles[0] - oracles[1], abs=1e-12)
    assert found["selective"] == pytest.approx(seen[0] - seen[1], abs=1e-12)
    assert (found["value"], found["stderr"]) == (estimate.value, estimate.stderr)
    assert (found["low"], found["high"]) == estimate.interval
    assert found["rejects"] == (not found["low"] <= 0 <= found["high"])
    assert found["covers"] == (found["low"] <= found["oracle"] <= found["high"])
    if scenario.base_a == scenario.base_b:
        assert found["oracle"] == 0
        assert found["covers"] != found["rejects"]

    if any(propensity is None for propensity in expected):
        assert all(math.isnan(found[key]) for key in KNOWN)
        return
    # The doubly robust interval with the true propensities, by hand.
    influence = np.zeros(n)
    for k, sign in enumerate((1, -1)):
        s, r = given[2 * k : 2 * k + 2]
        outcome, weight = estimate.nuisances[k].outcome, np.where(r, 0, 1 / (1 - expected[k]))
        influence += sign * (outcome + weight * (s - outcome))
    squares = (influence - influence.mean()) ** 2
    degrees = min(n - 1, 2 * n * squares.mean() ** 2 / squares.var())
    half = stats.t.isf(0.025, degrees) * influence.std(ddof=1) / math.sqrt(n)
    assert found["known_value"] == pytest.approx(influence.mean(), abs=1e-12)
    assert found["known_low"] == pytest.approx(influence.mean() - half, abs=1e-12)
    assert found["known_high"] == pytest.approx(influence.mean() + half, abs=1e-12)
    assert found["known_covers"] == (found["known_low"] <= found["oracle"] <= found["known_high"])


def test_rule_and_epsilon(ten, compared):
    found = quiet(ten, TEN[2], rule="zero-one", epsilon=0.45, rng=np.random.default_rng(0))
    right = [(p.argmax(axis=1) == ten.labels).mean() for p in ten.probabilities.values()]
    assert found["oracle"] == pytest.approx(right[0] - right[1], abs=1e-12)
    assert compared[0][1]["clip"] == 0.45
    for name in ("coverage_a", "coverage_b"):
        assert abs(found[name] - 0.5) < 0.05 + 4 * 0.5 / math.sqrt(len(ten.labels))
    answers = [np.clip(p.max(axis=1), 0.45, 0.55).mean() for p in ten.probabilities.values()]
    assert answers[0] > answers[1]


def test_a_rule_that_can_be_seen_warns():
    """Abstention by a threshold on a feature: the forest learns it, and says so."""
    rng = np.random.default_rng(0)
    p = rng.random(400)
    base = Evaluation(p[:, None], (rng.random(400) < p).astype(int), {"x": np.c_[1 - p, p]})
    scenario = Scenario("seen", "x", "x", Rule(threshold=0.75), Rule())
    found = run_scenario(base, scenario, "forest", rng=rng)
    assert found["warned"] is True
    assert found["coverage_a"] == np.mean(np.maximum(p, 1 - p) >= 0.75)


# ------------------------------------------------------------------ the estimator on real images


@pytest.mark.slow
def test_told_propensities_make_the_interval_hold(ten):
    """250 draws of scenario III; the points are fixed, so that the truth is one number.

    Given the true propensities the estimate is unbiased over abstentions whatever the outcome
    model, and its interval, which allows for the choice of points too, misses in at most 5%.
    """
    draws = 250
    found = [quiet(ten, TEN[2], rng=np.random.default_rng([5, k])) for k in range(draws)]
    column = {key: np.array([one[key] for one in found], dtype=float) for key in found[0]}
    assert len(set(column["oracle"])) == 1
    missed = int((column["known_covers"] == 0).sum())
    assert missed <= stats.binom.ppf(0.999, draws, 0.05)
    error = column["known_value"] - column["oracle"]
    assert abs(error.mean()) <= 4 * error.std() / math.sqrt(draws)
    # Standard errors are not too large either: at most half as much again as the spread.
    width = (column["known_high"] - column["known_low"]).mean()
    assert 0.9 * error.std() < width / (2 * Z) < 1.5 * error.std()
    assert column["rejects"].mean() > 0.9
    # With the share of abstentions as propensity it is biased, and misses far more often.
    assert (column["covers"] == 0).sum() > stats.binom.ppf(0.999, draws, 0.05)
    assert (column["covers"] == 0).sum() > 2 * missed


class Warns(Share):
    """Warns of something of its own."""

    def fit(self, x, y):
        warnings.warn("of its own", RuntimeWarning, stacklevel=1)
        return super().fit(x, y)


def test_other_warnings_are_given_on(ten):
    """Warnings about positivity are told in the result alone."""
    for learner, expected in ((CHEAP, []), ((Warns(), LinearScore()), ["of its own"])):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = run_scenario(ten, TEN[0], learner, rng=np.random.default_rng(0))
        assert sorted({str(one.message) for one in caught}) == expected
        assert all(one.category is RuntimeWarning for one in caught)
        assert isinstance(found["warned"], bool | np.bool_)


# ------------------------------------------------------------------ jobs and tables


def test_fingerprints_follow_the_files(monkeypatch):
    job = ScenarioRuns("cifar10", True, "linear", Sizes(400, 200, 100, 1), 2, 0)
    (name,) = data.image_files("cifar10")
    before, entries = job.data_fingerprint(), data.registry()
    changed = {**entries, name: replace(entries[name], sha256="0" * 64)}
    monkeypatch.setattr(data, "registry", lambda: changed)
    assert job.data_fingerprint() != before


@pytest.mark.parametrize("is_pair", [False, True])
def test_a_job_is_its_draws(is_pair):
    job = ScenarioRuns("digits", is_pair, "linear", Sizes(500, 250), 2, 7)
    assert job.scenarios == (PAIR if is_pair else TEN)
    outcome = job.execute(None)
    evaluation = image_evaluation("digits", is_pair, Sizes(500, 250), 7)
    for k, scenario in enumerate(job.scenarios):
        for draw in range(2):
            rng = np.random.default_rng([7, draw])
            one = run_scenario(evaluation, scenario, "linear", rng=rng)
            assert one.keys() == outcome.arrays.keys()
            for key, value in one.items():
                np.testing.assert_equal(outcome.arrays[key][k, draw], float(value))
    assert all(values.shape == (3, 2) for values in outcome.arrays.values())
    assert outcome.metrics["points"] == len(evaluation.labels)
    for base, p in evaluation.probabilities.items():
        share = np.mean([row.argmax() == c for row, c in zip(p, evaluation.labels, strict=True)])
        assert outcome.metrics["accuracy"][base] == pytest.approx(share)


def test_a_network_that_is_never_sure(monkeypatch):
    job = ScenarioRuns("cifar10", False, "linear", Sizes(100, 90, 50, 0.5), 1, 0)
    weak = Evaluation(np.zeros((3, 2)), np.arange(3), {"one layer": np.full((3, 10), 0.1)})
    monkeypatch.setattr(scenarios, "_evaluation", lambda *settings: weak)
    monkeypatch.setattr(ScenarioRuns, "data_fingerprint", lambda self: "made for a test")
    with pytest.raises(
        ValueError, match=r"epochs must be .* confidence of 0\.8, got 0\.5: .* 0\.10"
    ):
        job.execute(None)


TITLES = {
    "I": ("one layer: SR < 0.8", "one layer: SR < 0.5"),
    "II": ("one layer: SR, stochastic", "one layer: Gini, stochastic"),
    "III": ("one layer: SR, stochastic", "two layers: SR, stochastic"),
    "IV": ("one layer: SR, stochastic", "few labels: SR, stochastic"),
}


def test_table_of_known_draws():
    """Counts of results that were made up."""
    labels = ["data", "scenario", "A", "B", "learner", "points"]
    job = ScenarioRuns("cifar10", False, "super", Sizes(100, 90, 50, 1), 4, 0)
    nan, flags = [math.nan] * 4, [1.0, 0.0, 1.0, 0.0]
    arrays = {
        "covers": [[1, 0, 0, 0], [1, 1, 1, 1], [0, 0, 0, 0], [1, 1, 1, 0]],
        "known_covers": [nan, [1, 1, 0, 1], [1, 1, 1, 1], [0, 0, 1, 1]],
        "rejects": [[0, 0, 0, 0], [1, 0, 0, 1], [1, 1, 1, 1], [0, 1, 1, 1]],
        "warned": [flags, *[[0, 0, 0, 0]] * 3],
        "value": [[1, 2, 3, 4]] * 4,
        "oracle": [[1, 1, 1, 1]] * 4,
        "low": [[0, 0, 0, 0]] * 4,
        "high": [[2, 2, 2, 6]] * 4,
        "coverage_a": [[0.5] * 4] * 4,
        "coverage_b": [[0.25] * 4] * 4,
        "selective": [[-1] * 4] * 4,
    }
    run = SimpleNamespace(
        arrays={key: np.array(values, dtype=float) for key, values in arrays.items()},
        metrics={"points": 90},
    )
    table = draws_table([(job, run)])
    counted = ["draws", "missed", "missed, known", "rejected", "warned", "mean error", "mean width"]
    assert table.columns.tolist() == [*labels, *counted]
    assert table["missed"].tolist() == [3, 0, 4, 1]
    assert table["missed, known"].tolist()[1:] == [1, 0, 2]
    assert math.isnan(table["missed, known"][0])
    assert table["rejected"].tolist() == [0, 2, 4, 3]
    assert table["warned"].tolist() == [2, 0, 0, 0]
    assert table["mean error"].tolist() == [1.5] * 4
    assert table["mean width"].tolist() == [3.0] * 4
    first = scenario_table([(job, run)])
    numbers = ["coverage A", "coverage B", "selective difference", "true difference", "low", "high"]
    assert first.columns.tolist() == [*labels, *numbers, "rejects 0", "covers truth", "warned"]
    assert first.loc[0, numbers].tolist() == [0.5, 0.25, -1, 1, 0, 2]
    for shown in (table, first):
        named = shown.set_index("scenario")[["A", "B"]].T.to_dict(orient="list")
        assert {name: tuple(pair) for name, pair in named.items()} == TITLES
    assert first["rejects 0"].tolist() == ["no", "yes", "yes", "no"]
    assert first["covers truth"].tolist() == ["yes", "yes", "no", "yes"]
    assert first["warned"].tolist() == ["yes", "no", "no", "no"]
    assert set(first["points"]) == {90}


def test_which_runs(monkeypatch):
    """Ten classes before pairs, learners in their order, none without draws."""
    asked = []

    def gathered(jobs):
        asked.extend(jobs)
        return [SimpleNamespace() for _ in jobs]

    monkeypatch.setattr(scenarios, "run_all", gathered)
    found = scenario_runs(
        {"digits": Sizes(500, 300), "cifar10": Sizes(100, 50, 70, 2)},
        {"super": 1, "forest": 0, "linear": 7},
        9,
    )
    assert [job for job, _ in found] == asked
    assert asked == [
        ScenarioRuns(name, is_pair, learner, sizes, draws, 9)
        for name, sizes in (("digits", Sizes(500, 300)), ("cifar10", Sizes(100, 50, 70, 2)))
        for is_pair in (False, True)
        for learner, draws in (("super", 1), ("linear", 7))
    ]
