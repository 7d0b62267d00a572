"""How much the count of labels computes, which is its speed on every machine."""

import numpy as np
import pytest

from lib.suitability import labels, labels_for_power

MILLION = 10**6
#: Numbers that each function may give in all, which takes a second: at least one and a half times
#: what it needs. With 2,000 numbers sought exactly, and not 24, it is 35 times that, and 30 s.
MOST = {"two_samples": 600, "_error": 1_500_000, "_pmf": 7_000_000}


def work(monkeypatch, **asked):
    """Answer, and how many numbers the inner functions gave for it."""
    done = dict.fromkeys(MOST, 0)

    def counted(name, inner):
        def outer(*args, **kwargs):
            found = inner(*args, **kwargs)
            done[name] += np.size(found)
            return found

        return outer

    labels._critical.cache_clear()
    with monkeypatch.context() as patch:
        for name in MOST:
            patch.setattr(labels, name, counted(name, getattr(labels, name)))
        return labels_for_power(n_test=MILLION, **asked), done


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({"test_accuracy": 0.8, "margin": 0.005}, 42_170),
        ({"test_accuracy": 0.99, "margin": 0.001, "power": 0.9}, 98_791),
        ({"test_accuracy": 0.95, "margin": 0.02}, 927),
        ({"test_accuracy": 0.9, "margin": 0.05}, 280),
        ({"test_accuracy": 0.9, "margin": 0.1}, 87),
    ],
)
def test_a_million_test_points_are_bounded_work(monkeypatch, asked, found):
    answer, done = work(monkeypatch, **asked)
    assert answer == found
    assert all(0 < done[name] <= most for name, most in MOST.items()), done


@pytest.mark.parametrize(
    ("name", "value", "asked"),
    [
        ("_DENSE", MILLION, {"test_accuracy": 0.8, "margin": 0.005}),
        ("_NODES", 100, {"test_accuracy": 0.95, "margin": 0.02}),
    ],
)
def test_the_bounds_see_a_loss_of_speed(monkeypatch, name, value, asked):
    """Without lines between counts, or with more numbers that are sought exactly."""
    monkeypatch.setattr(labels, name, value)
    _, done = work(monkeypatch, **asked)
    assert any(done[function] > most for function, most in MOST.items()), done
