"""Canaries: points that get a wrong label."""

import numpy as np
import pytest
from scipy import stats

from lib.audit import insert_canaries

LABELS = np.arange(5000) % 10


@pytest.mark.parametrize("legacy", [False, True])
def test_canaries_have_a_wrong_label(legacy):
    found = insert_canaries(LABELS, 300, 10, seed=1, legacy=legacy)
    assert len(found) == len(np.unique(found.positions)) == 300
    np.testing.assert_array_equal(found.true_labels, LABELS[found.positions])
    assert (found.canary_labels != found.true_labels).all()
    changed = found.apply(LABELS)
    assert np.count_nonzero(changed != LABELS) == 300
    np.testing.assert_array_equal(changed[found.positions], found.canary_labels)


@pytest.mark.parametrize("legacy", [False, True])
def test_every_wrong_label_is_equally_likely(legacy):
    found = insert_canaries(LABELS, 5000, 10, seed=3, legacy=legacy)
    shift = (found.canary_labels - found.true_labels) % 10
    assert stats.chisquare(np.bincount(shift, minlength=10)[1:]).pvalue > 1e-3


def test_positions_are_uniform():
    counts = np.zeros(20)
    rng = np.random.default_rng(0)
    for _ in range(2000):
        counts[insert_canaries(np.zeros(20, int), 5, 3, rng).positions] += 1
    # Each position is in with probability 1/4; the counts sum to 5 * 2000.
    assert stats.chisquare(counts).pvalue > 1e-3


def test_legacy_draw_by_its_description():
    """Positions first; then for each in turn a choice among the wrong labels in ascending order."""
    old = np.random.RandomState(11337)
    positions = old.choice(5000, 40, replace=False)
    wrong = [old.choice([c for c in range(10) if c != LABELS[p]]) for p in positions]
    found = insert_canaries(LABELS, 40, 10, legacy=True)
    assert found.positions.tolist() == positions.tolist()
    assert found.canary_labels.tolist() == wrong
