"""Against DoubleML: the average potential outcome of "answered" is the counterfactual score."""

import functools
import math
import warnings

import numpy as np
import pytest
from peer_learners import PAIR, quiet
from scipy import stats

from lib.counterfactual import (
    Nuisances,
    counterfactual_difference,
    counterfactual_score,
    estimate_from_nuisances,
    fit_nuisances,
    fold_numbers,
)

CLOSE = {"rel": 0, "abs": 1e-8}
Z = stats.norm.isf(0.025)


@functools.cache
def peer():
    """DoubleML, imported where it is used: for seconds, and with warnings that are not ours."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("doubleml", minversion="0.11")


def interval(result):
    with quiet():
        return result.confint(level=0.95).to_numpy()[0]


def sample(n, rng):
    x = rng.normal(size=(n, 3))
    r = rng.random(n) < 1 / (1 + np.exp(-x @ [1.5, -1.0, 0.0]))
    s = x @ [0.5, 0.2, -0.3] + rng.normal(size=n)
    return x, np.where(r, np.nan, s), r


def splits(fold):
    return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in np.unique(fold)]


def average_potential_outcome(x, known, folds, clip, external=True):
    """DoubleML's E[Y(d = 1)] with d = 1 - R; `known` and `folds` are lists over repetitions.

    It clips the probability of the treatment, here of an answer, at both ends, so at `clip` it also
    takes 1 - clip where more is predicted.  We do not: a large probability of an answer does no
    harm.  So the predictions that it is given are clipped as ours are, and its own clipping is put
    out of the way.
    """
    r, s = known[0].abstained, known[0].scores
    doubleml = peer()
    data = doubleml.DoubleMLData.from_arrays(x, s, (~r).astype(float))
    with quiet():
        model = doubleml.DoubleMLAPO(
            data,
            ml_g=PAIR[1],
            ml_m=PAIR[0],
            treatment_level=1,
            score="APO",
            normalize_ipw=False,
            ps_processor_config=doubleml.utils.PSProcessorConfig(clipping_threshold=clip),
            draw_sample_splitting=False,
        )
        model.set_sample_splitting([splits(fold) for fold in folds])
        given = None
        if external:
            given = {
                "d": {
                    # Of the points not answered it wants a model too, for its sensitivity analysis.
                    "ml_g_d_lvl0": np.zeros((len(s), len(known))),
                    "ml_g_d_lvl1": np.column_stack([k.outcome for k in known]),
                    "ml_m": np.column_stack([1 - k.propensity for k in known]),
                }
            }
        return model.fit(external_predictions=given)


def clipped(known, clip):
    """As ours are clipped: at 1 - clip, not at clip."""
    pi = np.clip(known.propensity, 1e-9, 1 - clip)
    return Nuisances(known.abstained, known.scores, pi, known.outcome)


def assert_student(ours, normal, p_value):
    """Theirs is the normal interval and p-value; ours are Student's, with the same error."""
    assert ours.reach is None
    np.testing.assert_allclose(normal, ours.value + np.array([-Z, Z]) * ours.stderr, atol=1e-8)
    assert p_value == pytest.approx(2 * stats.norm.sf(abs(ours.value) / ours.stderr), **CLOSE)
    n = len(ours.influence)
    half = stats.t.isf(0.025, ours.degrees) * ours.stderr * math.sqrt(n / (n - 1))
    np.testing.assert_allclose(ours.interval, [ours.value - half, ours.value + half], atol=1e-8)
    t = abs(ours.value) / ours.stderr * math.sqrt((n - 1) / n)
    assert ours.p_value == pytest.approx(2 * stats.t.sf(t, ours.degrees), **CLOSE)
    assert ours.p_value >= p_value


@pytest.mark.parametrize(("learner", "folds"), [("linear", 2), ("forest", 5), ("super", 2)])
def test_score_given_the_same_nuisances(learner, folds):
    rng = np.random.default_rng(folds)
    x, s, r = sample(200, rng)
    fold = fold_numbers(200, folds, rng)
    known = fit_nuisances(x, s, r, fold, learner, rng=rng)
    for clip in (0.01, 0.1, 0.3):
        ours = estimate_from_nuisances(known, clip=clip)
        theirs = average_potential_outcome(x, [clipped(known, clip)], [fold], 1e-9)
        assert ours.value == pytest.approx(theirs.coef[0], **CLOSE)
        assert ours.stderr == pytest.approx(theirs.se[0], **CLOSE)
        assert_student(ours, interval(theirs), theirs.pval[0])
        centred = ours.influence - ours.value
        np.testing.assert_allclose(centred, theirs.psi[:, 0, 0], rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("folds", [2, 3])
def test_score_by_its_own_fits(folds):
    """Same folds, same learners, each fits for itself: nothing is handed over."""
    rng = np.random.default_rng(0)
    x, s, r = sample(500, rng)
    ours = counterfactual_score(x, s, r, learner=PAIR, folds=folds, clip=1e-9, rng=7)
    fold = fold_numbers(500, folds, 7)
    theirs = average_potential_outcome(x, ours.nuisances, [fold], 1e-9, external=False)
    assert ours.value == pytest.approx(theirs.coef[0], **CLOSE)
    assert ours.stderr == pytest.approx(theirs.se[0], **CLOSE)
    predictions = theirs.predictions
    np.testing.assert_allclose(
        1 - ours.nuisances[0].propensity, predictions["ml_m"][:, 0, 0], atol=1e-9
    )
    np.testing.assert_allclose(
        ours.nuisances[0].outcome, predictions["ml_g_d_lvl1"][:, 0, 0], atol=1e-12
    )


@pytest.mark.parametrize("learner", ["linear", "forest"])
def test_difference(learner):
    """DoubleML's own arithmetic subtracts its two influence functions."""
    rng = np.random.default_rng(1)
    x, s, r = sample(300, rng)
    _, t, q = sample(300, rng)
    ours = counterfactual_difference(x, s, r, t, q, learner=learner, clip=0.05, rng=3)
    fold = fold_numbers(300, 2, 3)
    a, b = (
        average_potential_outcome(x, [clipped(known, 0.05)], [fold], 1e-9)
        for known in ours.nuisances
    )
    with quiet():
        theirs = a.construct_framework() - b.construct_framework()
    assert ours.value == pytest.approx(theirs.thetas[0], **CLOSE)
    assert ours.stderr == pytest.approx(theirs.ses[0], **CLOSE)
    assert_student(ours, interval(theirs), theirs.pvals[0])
    # And by hand from its psi.
    psi = a.psi[:, 0, 0] - b.psi[:, 0, 0]
    assert ours.stderr == pytest.approx(math.sqrt((psi**2).mean() / 300), **CLOSE)


def test_repeated_splits():
    """The same estimates split by split, and the same median; its standard error is another rule.

    DoubleML takes the median of the upper ends, theta_s + 1.96 se_s, and divides its distance to
    the median estimate by 1.96.  Ours is Definition 3.3, which adds the spread of the estimates.
    """
    rng = np.random.default_rng(4)
    x, s, r = sample(200, rng)
    generator, folds, known = np.random.default_rng(5), [], []
    for _ in range(5):
        folds.append(fold_numbers(200, 2, generator))
        known.append(fit_nuisances(x, s, r, folds[-1], "forest", rng=generator))
    ours = counterfactual_score(x, s, r, learner="forest", clip=0.1, repeats=5, rng=5)
    theirs = average_potential_outcome(x, [clipped(k, 0.1) for k in known], folds, 1e-9)
    singles = [estimate_from_nuisances(k, clip=0.1) for k in known]
    values = np.array([e.value for e in singles])
    errors = np.array([e.stderr for e in singles])
    np.testing.assert_allclose(values, theirs.all_coef[0], rtol=0, atol=1e-8)
    np.testing.assert_allclose(errors, theirs.all_se[0], rtol=0, atol=1e-8)
    assert ours.value == pytest.approx(theirs.coef[0], **CLOSE)
    upper = (np.median(values + 1.96 * errors) - np.median(values)) / 1.96
    assert theirs.se[0] == pytest.approx(upper, **CLOSE)
    ours_by_hand = math.sqrt(np.median(errors**2 + (values - ours.value) ** 2))
    assert ours.stderr == pytest.approx(ours_by_hand, **CLOSE)
    assert ours.stderr > np.median(errors)
