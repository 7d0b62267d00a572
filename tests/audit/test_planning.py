"""What audits can see: agreement with the library's bounds, error rates, and an exact case."""

import math

import numpy as np
import pytest
from scipy import stats

from lib.audit import epsilon_lower_bounds, planning, true_best_epsilon, union_lower_bound
from lib.audit.gaussian import bound_at, mu_limits
from lib.audit.one_run import best_one_run
from lib.audit.selection import chosen_threshold, counts_at, roc_counts, roc_thresholds
from lib.studies.audit.detection import one_run_growth

DELTA = 1e-5


def library_bound(audit, scores, members):
    """The bound of the library's own functions, one audit at a time."""
    if audit == "union":
        return union_lower_bound(roc_counts(scores, members), DELTA, 0.95)[1]
    if audit == "one run":
        return best_one_run(scores, members, DELTA)
    half = len(scores) // 2
    first, second = (scores[:half], members[:half]), (scores[half:], members[half:])
    if audit == "held-out":
        threshold = chosen_threshold(*first, DELTA, 0.95)
        return epsilon_lower_bounds(
            [counts_at(*second, threshold)], DELTA, 0.95, "clopper-pearson"
        )[0]
    mus = mu_limits(roc_counts(*first), 0.025)
    threshold = roc_thresholds(first[0])[int(np.argmax(mus > mus.max() - 1e-9))]
    return bound_at(counts_at(*second, threshold), DELTA, 0.95, threshold).epsilon


@pytest.mark.parametrize("audit", planning.AUDITS)
def test_rates_are_those_of_the_library_s_bounds(audit):
    models, repetitions, found = 128, 8, []
    for mu in (0.0, 1.0, 1.6, 2.4):
        rng = np.random.default_rng(3)
        noise = rng.standard_normal((repetitions, models))
        members = np.tile(np.arange(models) % 2 == 0, (repetitions, 1))
        if audit == "one run":
            members = rng.random(noise.shape) < 0.5
        scores = noise + mu * members
        bounds = [library_bound(audit, *row) for row in zip(scores, members, strict=True)]
        found.append(np.mean(np.array(bounds) > 1.0))
    rates = planning.detection_rate(
        audit, [0.0, 1.0, 1.6, 2.4], models, 1.0, repetitions=repetitions, seed=3
    )
    assert rates.tolist() == found
    assert rates[0] == 0
    assert rates[-1] > 0.3


@pytest.mark.parametrize("audit", planning.AUDITS)
@pytest.mark.parametrize("models", [16, 400])
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 4.0])
def test_a_correct_claim_is_rarely_accused(audit, models, epsilon):
    repetitions = 500
    mu = planning.gaussian_mu(epsilon, DELTA)
    rate = planning.detection_rate(audit, mu, models, epsilon, repetitions=repetitions, seed=1)[0]
    assert rate * repetitions <= stats.binom.ppf(1 - 1e-6, repetitions, 0.05)


@pytest.mark.slow
@pytest.mark.parametrize("audit", planning.AUDITS)
def test_more_models_see_more(audit):
    limits = [planning.detection_limit(audit, n, 1.0, repetitions=60, seed=2) for n in (128, 512)]
    assert limits[1] < 0.85 * limits[0] < math.inf
    easy = planning.detection_limit(audit, 512, 1.0, repetitions=60, power=0.5, seed=2)
    assert planning.gaussian_mu(1.0, DELTA) < easy < limits[1]


def test_too_few_models_see_nothing():
    assert planning.detection_limit("held-out", 16, 4.0, repetitions=20, seed=0) == math.inf


def test_a_fixed_threshold_is_computed_exactly(monkeypatch):
    cut, mu, models, repetitions = 1.5, 2.4, 128, 4000
    monkeypatch.setattr(planning, "_thresholds", lambda scores, *_: np.full(len(scores), cut))
    each = models // 4
    fn, fp = (grid.ravel() for grid in np.mgrid[: each + 1, : each + 1])
    table = np.stack([each - fn, fp, each - fp, fn], axis=1)
    better = fn + fp < each  # the others are no attack at all
    bounds = epsilon_lower_bounds(table, DELTA, 0.95, "clopper-pearson")
    weights = stats.binom.pmf(fn, each, stats.norm.cdf(cut - mu))
    weights = weights * stats.binom.pmf(fp, each, stats.norm.sf(cut))
    exact = weights[(bounds > 1.0) & better].sum()
    assert 0.1 < exact < 0.9
    (rate,) = planning.detection_rate("held-out", mu, models, 1.0, repetitions=repetitions, seed=5)
    assert abs(rate - exact) < 4.5 * math.sqrt(exact * (1 - exact) / repetitions)


def test_delta_can_only_lower_the_one_run_bound():
    table = one_run_growth(8.0, DELTA, [1000, 10_000], seed=0)
    assert (table["delta"] <= table["delta = 0"]).all()
    assert (table["delta = 0"] < 8.0).all()
    assert table["Gaussian curve"].between(table["delta"], 8.0).all()


@pytest.mark.parametrize("epsilon", [1e-12, 1e-3, 1.0, 100.0, 1e9, 1e300])
@pytest.mark.parametrize("delta", [1e-300, 1e-5, 0.9])
def test_mu_of_an_epsilon_of_any_size(epsilon, delta):
    mu = planning.gaussian_mu(epsilon, delta)
    assert true_best_epsilon(mu * (1 + 1e-6), delta) >= epsilon * (1 - 1e-9)
    assert true_best_epsilon(mu * (1 - 1e-6), delta) <= epsilon * (1 + 1e-9)


def test_what_an_audit_without_an_error_shows():
    # No error in n trials of each kind leaves a rate of at most 1 - tail^(1 / n).
    rate = 1 - 0.025 ** (1 / 50)
    assert planning.error_free_bound(50, 50, 0.0) == pytest.approx(math.log((1 - rate) / rate))
    for n, bound in ((150, 3.693), (148, 3.706), (268, 4.177)):
        for pair in ((n, 300 - n), (300 - n, n)):
            assert planning.error_free_bound(*pair, 1e-5) == pytest.approx(bound, abs=5e-4)
    assert planning.error_free_bound(0, 300, 1e-5) == 0
    for level in (0.5, 0.9, 0.99):
        half = planning.trials_needed(2.0, 1e-5, level) // 2
        bounds = [planning.error_free_bound(n, n, 1e-5, level) for n in (half - 1, half)]
        assert bounds[0] <= 2.0 < bounds[1]
