"""P5's attack: rates and epsilons, intervals and bounds."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import check, levels, ordered, seeds, units

from lib.audit import (
    Guesses,
    epsilon_of_rate,
    one_label_bound,
    rate_of_epsilon,
    top_label_bound,
    top_label_guesses,
)

THRESHOLDS = (0.2, 0.4, 0.6, 0.8)


@st.composite
def audited(draw):
    """Confidences of canaries, the labels they were trained with, and the right ones."""
    rng = np.random.default_rng(draw(seeds))
    n, classes = draw(st.integers(1, 40)), draw(st.integers(3, 6))
    true = rng.integers(0, classes, n)
    trained = (true + rng.integers(1, classes, n)) % classes
    logits = rng.normal(size=(n, classes)) * draw(st.sampled_from([0.5, 2.0, 6.0]))
    logits[np.arange(n), trained] += draw(st.sampled_from([0.0, 2.0, 30.0]))
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True), trained, true


@check
@given(ordered(units), ordered(st.floats(0, 30)))
def test_rates_and_epsilons(rates, epsilons):
    low, high = map(epsilon_of_rate, rates)
    assert 0 <= low <= high
    a, b = map(rate_of_epsilon, epsilons)
    assert 0.5 <= a <= b <= 1
    if rates[0] > 0.5:
        assert rate_of_epsilon(low) == pytest.approx(rates[0], abs=1e-14)
    # One minus the rate keeps a relative accuracy of e^epsilon 1e-16.
    assert epsilon_of_rate(a) == pytest.approx(
        epsilons[0], abs=1e-15 + 4e-16 * math.exp(epsilons[0])
    )


@check
@given(st.integers(1, 80), units, st.integers(2, 9), ordered(levels))
def test_intervals_of_guesses(n, part, options, pair):
    right = round(part * n)
    game = Guesses(np.ones(n, bool), np.arange(n) < right, options)
    narrow, wide = (game.interval(level) for level in pair)
    rate = right / n
    seen = 0.0
    if rate > 1 / options:
        seen = math.inf if rate == 1 else math.log(rate * (options - 1) / (1 - rate))
    assert 0 <= wide[0] <= narrow[0] <= seen + 1e-12
    assert seen <= narrow[1] + 1e-12 <= wide[1] + 2e-12
    low, lower = (game.lower_bound(level) for level in pair)
    assert 0 <= lower <= low
    assert game.lower_bound((1 + pair[0]) / 2) == pytest.approx(narrow[0], abs=1e-9)
    if right < n:
        better = Guesses(np.ones(n, bool), np.arange(n) <= right, options)
        assert better.lower_bound(pair[0]) >= low
    silent = Guesses(np.zeros(n, bool), np.zeros(n, bool), options)
    assert silent.interval() == (0.0, math.inf)
    assert silent.lower_bound() == 0


@check
@given(audited(), ordered(levels), seeds)
def test_valid_bounds(given_, pair, seed):
    low, lower = (top_label_bound(*given_, THRESHOLDS, level=lv) for lv in pair)
    assert 0 <= lower <= low < math.inf
    assert top_label_bound(*given_, THRESHOLDS[:1], level=pair[0]) >= (
        top_label_guesses(*given_, THRESHOLDS[0]).lower_bound((1 + pair[0]) / 2)
    )
    one, other = (one_label_bound(*given_, THRESHOLDS, level=lv, draws=3, seed=seed) for lv in pair)
    assert 0 <= other <= one < math.inf
    with_delta = one_label_bound(*given_, THRESHOLDS, level=pair[0], delta=1e-3, draws=3, seed=seed)
    assert 0 <= with_delta <= one + 1e-9
