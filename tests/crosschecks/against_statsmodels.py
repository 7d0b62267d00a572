"""Tests and intervals against statsmodels."""

import math
import warnings

import mpmath
import numpy as np
from agreements import agreement, check
from scipy import optimize, special
from statsmodels.stats.proportion import proportion_confint
from statsmodels.stats.weightstats import CompareMeans, DescrStatsW, ttest_ind, ttost_ind

from lib.audit import AttackCounts, Guesses, epsilon_lower_bounds, epsilon_of_rate, epsilon_point
from lib.audit.counts import rate_interval
from lib.counterfactual import Nuisances, estimate_from_nuisances
from lib.studies.beyond.six_lenses.views import _share
from lib.studies.counterfactual.simulation import share_interval
from lib.suitability import (
    adjusted_margin,
    calibration_offset,
    equivalence_test,
    non_inferiority_test,
    welch_non_inferiority,
)


def samples():
    """Pairs of samples in [0, 1] of unequal sizes and variances, and margins."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        n, m = (int(v) for v in 10 ** rng.uniform(0.4, 3, 2))
        yield rng.beta(5, 2, n), rng.beta(*rng.uniform(0.5, 6, 2), m), rng.uniform(0.01, 0.3)


@check
def welch():
    """Non-inferiority: statistic, degrees of freedom and p-value."""
    ours, theirs = [], []
    for test, user, margin in samples():
        found = non_inferiority_test(test, user, margin)
        ours.append((found.statistic, found.p_value, found.dof))
        theirs.append(ttest_ind(test, user, "smaller", "unequal", value=margin))
    # Sums of at most 1000 numbers; t and dof lose digits where the drop is close to the margin.
    for i, name, unit in ((0, "t", "absolute"), (1, "p", "absolute"), (2, "dof", "relative")):
        yield agreement(
            f"Welch's {name}",
            "statsmodels ttest_ind",
            [row[i] for row in ours],
            [row[i] for row in theirs],
            1e-10,
            unit,
        )


@check
def welch_from_moments():
    """From means, variances and sizes: a sample given by values and how often each occurs."""
    rng = np.random.default_rng(0)
    ours, theirs = [], []
    for _ in range(30):
        margin, parts, moments = rng.uniform(-0.2, 0.2), [], []
        for _ in range(2):
            values, weights = rng.random(6), rng.integers(1, 40, 6)
            parts.append(DescrStatsW(values, weights, ddof=0))
            full = np.repeat(values, weights)
            moments += [full.mean(), full.var(ddof=1), len(full)]
        statistic, p_value, dof = welch_non_inferiority(*moments, margin)
        ours.append((statistic, p_value, dof))
        compared = CompareMeans(*parts)
        theirs.append(compared.ttest_ind("smaller", "unequal", value=margin))
    yield agreement(
        "Welch's t, p, dof from moments", "statsmodels, weights", ours, theirs, 1e-10, "relative"
    )


@check
def equivalence():
    """TOST, and the interval that belongs to it."""
    ours, theirs, ends, their_ends = [], [], [], []
    for test, user, margin in samples():
        found = equivalence_test(test, user, margin, 0.04)
        ours.append((found.p_value, found.p_lower, found.p_upper))
        p, lower, upper = ttost_ind(test, user, -margin, margin, usevar="unequal")
        theirs.append((p, lower[1], upper[1]))
        ends.append(found.interval)
        compared = CompareMeans(DescrStatsW(test), DescrStatsW(user))
        their_ends.append(compared.tconfint_diff(0.08, usevar="unequal"))
    yield agreement("TOST's p-values", "statsmodels ttost_ind", ours, theirs, 1e-10)
    yield agreement("interval of a difference", "statsmodels CompareMeans", ends, their_ends, 1e-10)


@check
def offsets():
    """Offset of estimates, and the margin's interval."""
    rng = np.random.default_rng(1)
    ours, theirs, ends, their_ends = [], [], [], []
    for _ in range(20):
        estimated = [rng.random(int(n)) for n in rng.integers(5, 300, 2)]
        correct = [rng.random(len(e)) < e for e in estimated]
        parts = [DescrStatsW(e - c) for e, c in zip(estimated, correct, strict=True)]
        for e, c, part in zip(estimated, correct, parts, strict=True):
            found = calibration_offset(e, c)
            ours.append((found.value, found.stderr))
            # Ours counts eight right and eight wrong answers into the variance.
            far = [e.mean() - part.mean, e.mean() - 1 - part.mean]
            added = 8 * np.square(far).sum() / (len(e) * (len(e) - 1))
            theirs.append((part.mean, np.sqrt(part.std_mean**2 + added)))
        margin = adjusted_margin(0.05, estimated[0], correct[0], estimated[1], correct[1])
        ends.append(margin.value)
        their_ends.append(0.05 + CompareMeans(*parts).d1.mean - parts[1].mean)
    yield agreement("calibration offset, error", "statsmodels DescrStatsW", ours, theirs, 1e-12)
    yield agreement("adjusted margin", "statsmodels CompareMeans", ends, their_ends, 1e-10)


# Trials and successes; tails.
SHARES = sorted(
    {
        (k, n)
        for n in (1, 2, 3, 10, 137, 10_000)
        for k in (0, 1, 2, n // 3, n // 2, n - 2, n - 1, n)
        if 0 <= k <= n
    }
)
TAILS = (0.25, 0.05, 0.025, 0.005, 1e-6)


def clopper_pearson(k, n, tail):
    """Rates at which k successes or more, or k or fewer, have the probability of the tail."""
    # In the variable log(p / (1 - p)), of which both probabilities are monotone.
    ends = [0.0, 1.0]
    if k:
        ends[0] = _root(lambda p: special.bdtrc(k - 1, n, p) - tail)
    if k < n:
        ends[1] = _root(lambda p: tail - special.bdtr(k, n, p))
    return ends


def jeffreys(k, n, tail):
    """Quantiles of Beta(k + 1/2, n - k + 1/2) by bisection, but 0 and 1 at the ends."""
    a, b = k + 0.5, n - k + 0.5
    low = _root(lambda p: special.betainc(a, b, p) - tail) if k else 0.0
    high = _root(lambda p: tail - special.betainc(b, a, 1 - p)) if k < n else 1.0
    return [low, high]


def _root(function):
    found = optimize.brentq(
        lambda z: function(special.expit(z)), -60, 36, xtol=1e-13, rtol=1e-14, maxiter=500
    )
    return float(special.expit(found))


@check
def shares():
    """Clopper-Pearson's and Jeffreys' interval of a share, also without and with only successes."""
    for method, name, other in (
        ("clopper-pearson", "beta", clopper_pearson),
        ("jeffreys", "jeffreys", jeffreys),
    ):
        ours, theirs, roots = [], [], []
        for k, n in SHARES:
            for tail in TAILS:
                ours.append(rate_interval(k, n, tail, method))
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", RuntimeWarning)  # of Beta(0, n + 1)
                    low, high = proportion_confint(k, n, 2 * tail, method=name)
                # P3's ends without any success or failure; statsmodels has Jeffreys' quantiles.
                theirs.append((low if k else 0.0, high if k < n else 1.0))
                roots.append(other(k, n, tail))
        yield agreement(f"{method} share", "statsmodels", ours, theirs, 1e-11)
        yield agreement(f"{method} share", "roots of the binomial tails", ours, roots, 1e-10)


@check
def shares_at_high_precision():
    """The tails of Clopper-Pearson's ends, by sums of 40 digits."""
    ours, wanted = [], []
    with mpmath.workdps(40):
        for k, n, tail in ((0, 1, 0.025), (1, 1, 0.05), (3, 20, 0.025), (99, 100, 1e-6)):
            low, high = rate_interval(k, n, tail, "clopper-pearson")
            for p, terms in ((low, range(k, n + 1)), (high, range(k + 1))):
                if 0 < p < 1:
                    p = mpmath.mpf(p)
                    total = sum(mpmath.binomial(n, j) * p**j * (1 - p) ** (n - j) for j in terms)
                    ours.append(float(total))
                    wanted.append(tail)
    assert len(ours) == 6  # without success no lower end, without failure no upper one
    # An end that is rounded by 1.1e-16 moves its tail by at most n times that.
    yield agreement("tails of Clopper-Pearson", "mpmath, sums", ours, wanted, 1.2e-14)


@check
def other_places():
    """The same interval wherever else the book computes it."""
    views, simulation, guesses, bounds, theirs, odds, lower = [], [], [], [], [], [], []
    for k, n in SHARES:
        if n > 200:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            ends = proportion_confint(k, n, 0.05, method="beta")
            one_sided = proportion_confint(k, n, 0.1, method="beta")[0]
        ends = [0.0 if k == 0 else ends[0], 1.0 if k == n else ends[1]]
        theirs.append(ends)
        views.append(_share(np.arange(n) < k)[1:])
        simulation.append(share_interval(k, n))
        game = Guesses(np.ones(n, bool), np.arange(n) < k, 2)
        guesses.append(game.interval(0.95))
        odds.append([epsilon_of_rate(min(1.0, end)) for end in ends])
        bounds.append(game.lower_bound(0.95))
        lower.append(epsilon_of_rate(one_sided if k else 0.0))
    yield agreement("shares of the six lenses", "statsmodels", views, theirs, 1e-11)
    yield agreement("shares of the simulations", "statsmodels", simulation, theirs, 1e-11)
    yield agreement("epsilon of guesses", "statsmodels", guesses, odds, 1e-9)
    yield agreement("lower bound of guesses", "statsmodels", bounds, lower, 1e-9)


@check
def rectangles():
    """Lower bounds on epsilon, from statsmodels' intervals for both error rates."""
    rng = np.random.default_rng(3)
    rows = [(90, 0, 100, 10), (10, 0, 12, 0), (0, 7, 0, 9), (65, 25, 75, 35), (2, 30, 1, 40)]
    rows += rng.integers(1, 60, (15, 4)).tolist()
    for method, name in (("clopper-pearson", "beta"), ("jeffreys", "jeffreys")):
        ours = epsilon_lower_bounds(rows, 1e-3, 0.9, method)
        theirs = []
        for row in rows:
            counts = AttackCounts(*row)
            ends = []
            for k, n in ((counts.fn, counts.positives), (counts.fp, counts.negatives)):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", RuntimeWarning)
                    low, high = proportion_confint(k, n, 0.1, method=name)
                ends.append(np.linspace(low if k else 0.0, high if k < n else 1.0, 201))
            grid = epsilon_point(ends[1][:, None], ends[0][None, :], 1e-3)
            # A rectangle that meets the region of epsilon = 0 need not have a node in it.
            inside = abs(1 - ends[0][:, None] - ends[1][None, :]) <= 1e-3
            straddles = (ends[0][0] + ends[1][0] <= 1.001) and (ends[0][-1] + ends[1][-1] >= 0.999)
            theirs.append(0.0 if inside.any() or straddles else float(grid.min()))
        yield agreement(f"{method} bound on epsilon", "statsmodels, grid", ours, theirs, 1e-9)


@check
def doubly_robust():
    """E[Y(1)] by augmented inverse propensity weighting, given the nuisance functions."""
    import statsmodels.api as sm
    from statsmodels.treatment.treatment_effects import TreatmentEffect

    ours, theirs = [], []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        n = 400
        x = rng.normal(size=(n, 2))
        answered = rng.random(n) < special.expit(0.5 + x @ [0.6, -0.4])
        score = 0.5 + x @ [0.2, 0.1] + 0.3 * rng.normal(size=n)
        exog = sm.add_constant(x)
        share = sm.Logit(answered.astype(float), exog).fit(disp=0)
        effect = TreatmentEffect(sm.OLS(score, exog), answered.astype(float), results_select=share)
        theirs.append(effect.aipw(return_results=False)[2])
        line = sm.OLS(score[answered], exog[answered]).fit()
        known = Nuisances(
            ~answered, np.where(answered, score, 0.0), 1 - share.predict(exog), line.predict(exog)
        )
        ours.append(estimate_from_nuisances(known, clip=1e-9).value)
        assert math.isfinite(ours[-1])
    yield agreement("doubly robust mean", "statsmodels AIPW", ours, theirs, 1e-10)
