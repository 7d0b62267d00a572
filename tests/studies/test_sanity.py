"""Audits whose answer is known: of the book's engines, and of DP-SGD with a mistake."""

import numpy as np
import pytest
from scipy import stats

from lib.studies.audit.sanity import FAULTS, SanityCheck, engine_scores, sanity_table, sgd_scores


def test_mistakes_are_caught_and_correct_training_is_not():
    table = sanity_table(SanityCheck(), 600, 1, ["kernel"])
    wrong = table["wrong"] != FAULTS["none"]
    assert table.loc[wrong, "caught"].all(), table
    assert not table.loc[~wrong, "caught"].any(), table
    assert (table[["tp", "fp", "tn", "fn"]].sum(axis=1) == 400).all()


@pytest.fixture(scope="module")
def plainly():
    """A check and the scores of 4,000 models by a few lines of NumPy."""
    check = SanityCheck(points=20, sample_rate=0.25, steps=8, epsilon=3.0)
    return check, *sgd_scores(check, 4000, seed=3)


@pytest.mark.parametrize("engine", ["kernel", "taps", "batched", "single"])
def test_engines_do_what_a_plain_implementation_does(engine, plainly):
    """The challenge's shift has the same distribution as in a few lines of NumPy."""
    check, plain, others = plainly
    found, members = engine_scores(check, 60, seed=2, engine=engine)
    for inside in (True, False):
        p = stats.ks_2samp(found[members == inside], plain[others == inside]).pvalue
        assert p > 1e-4, (engine, inside)
    # Without the challenge nothing but noise moves its feature's weights.
    expected = (
        check.learning_rate
        / check.batch_size
        * check.noise_multiplier
        * check.clipping_norm
        * np.sqrt(2 * check.steps)
    )
    spread = np.sqrt(np.mean(found[~members] ** 2))
    assert spread == pytest.approx(expected, rel=4 / np.sqrt(2 * (~members).sum()))


def test_the_gradient_is_clipped_to_the_full_norm():
    check = SanityCheck(points=20, sample_rate=1.0, steps=4, epsilon=1.0)
    scores, members = sgd_scores(check, 4000, seed=4)
    shift = scores[members].mean() - scores[~members].mean()
    # The gradient is opposite for the two classes, and 4 / sqrt(17) of it is in the feature.
    expected = (
        check.learning_rate / check.batch_size * 4 * check.clipping_norm * np.sqrt(2) * 4 / 17**0.5
    )
    error = np.sqrt(scores[members].var() / members.sum() + scores[~members].var() / 2000)
    assert abs(shift - expected) < 4 * error
