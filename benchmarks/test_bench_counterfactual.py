"""A doubly robust interval against DoubleML, and against scikit-learn's stack of its learners."""

import warnings

import numpy as np
import pytest
from comparing import compare, sizes
from peer_learners import PAIR, quiet, stack_classifier, stack_regressor
from scipy import stats

from lib.counterfactual import counterfactual_score, fold_numbers
from lib.studies.counterfactual import simulation

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of plotting and tuning packages that it imports
    doubleml = pytest.importorskip("doubleml", minversion="0.11")
    from doubleml.utils import PSProcessorConfig


def sample(n):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 3))
    r = rng.random(n) < 1 / (1 + np.exp(-x @ [0.8, -0.5, 0.0]))
    return x, np.where(r, np.nan, x @ [0.5, 0.2, -0.3] + rng.normal(size=n)), r


def by_doubleml(x, s, r, fold):
    """E[Y(d = 1)] with d = "answered", by its own fits on the same folds."""
    with quiet():
        model = doubleml.DoubleMLAPO(
            doubleml.DoubleMLData.from_arrays(x, np.nan_to_num(s), (~r).astype(float)),
            ml_g=PAIR[1],
            ml_m=PAIR[0],
            treatment_level=1,
            score="APO",
            normalize_ipw=False,
            ps_processor_config=PSProcessorConfig(clipping_threshold=1e-9),
            draw_sample_splitting=False,
        )
        splits = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in (0, 1)]
        model.set_sample_splitting([splits])
        model.fit()
        return model.coef[0], *model.confint(level=0.95).to_numpy()[0]


def normal(estimate):
    """As theirs is; ours is Student's."""
    half = stats.norm.isf(0.025) * estimate.stderr
    return estimate.value, estimate.value - half, estimate.value + half


@pytest.mark.parametrize("n", sizes(200, 1000, 10_000, 100_000))
def test_interval_of_linear_learners(benchmark, n):
    x, s, r = sample(n)
    fold = fold_numbers(n, 2, 7)

    compare(
        benchmark,
        comparison="interval, linear learners",
        peer_name="DoubleML",
        size=n,
        unit="points",
        ours=lambda: counterfactual_score(x, s, r, learner=PAIR, folds=2, clip=1e-9, rng=7),
        peer=lambda: by_doubleml(x, s, r, fold),
        agreements=[
            (
                "estimate and both ends of its normal interval",
                lambda ours, theirs: (float(np.abs(np.subtract(normal(ours), theirs)).max()), 1e-8),
            )
        ],
        remark="DoubleML also fits an outcome model to the points that are not answered",
    )


@pytest.mark.parametrize("n", sizes(300, 250, 500, 1000))
def test_interval_of_super_learners(benchmark, n):
    """The same folds and estimator, so that only the learners differ."""
    drawn = simulation.simulate(n, rng=0)
    x, s, r = drawn.X, drawn.scores[1], drawn.abstained[1]
    trees = 100 if n != 300 else 20  # to be short
    pair = stack_classifier(trees=trees), stack_regressor(trees=trees)

    def by_stack():
        with warnings.catch_warnings():
            # scikit-learn advises against the probabilities that this stack is to have.
            warnings.simplefilter("ignore", FutureWarning)
            return counterfactual_score(x, s, r, learner=pair, clip=0.2, rng=3)

    compare(
        benchmark,
        comparison="interval, super learner",
        peer_name="scikit-learn's stack",
        size=n,
        unit="points",
        ours=lambda: counterfactual_score(x, s, r, clip=0.2, rng=3),
        peer=by_stack,
        agreements=[
            (
                # Stacks with other folds and forests are other estimates of the same nuisance
                # functions; their product of errors is small beside the standard error.
                "estimate, within one standard error",
                lambda ours, theirs: (abs(ours.value - theirs.value), theirs.stderr),
            ),
            (
                "standard errors, relative",
                lambda ours, theirs: (abs(ours.stderr / theirs.stderr - 1), 0.25),
            ),
        ],
        warm_peer=False,
    )
