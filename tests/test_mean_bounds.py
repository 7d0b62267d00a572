"""Limits for means do not depend on the unit of the values."""

import numpy as np
import pytest

from lib.bounds import gaffke_limit, gaffke_tail, mean_interval


@pytest.mark.parametrize("scale", [1e-100, 1e-14, 1e-13 / 3, 1e13 / 7])
def test_limits_have_no_unit(scale):
    values, unseen = np.r_[np.zeros(3), np.ones(40)], -0.5
    found = gaffke_limit(scale * values, scale * unseen, 1.0, 0.025) / scale
    assert found == pytest.approx(gaffke_limit(values, unseen, 1.0, 0.025), rel=1e-9)
    found = gaffke_tail(scale * values, scale * unseen, 1.0, scale * 0.8)
    assert found == pytest.approx(gaffke_tail(values, unseen, 1.0, 0.8), rel=1e-9)
    for few in (values, np.r_[np.zeros(40), np.linspace(0, 1, 60)]):
        mean = few.mean()
        one = mean_interval(mean, few - mean, -mean, 1 - mean, 0.95)
        given = (scale * v for v in (mean, few - mean, -mean, 1 - mean))
        other = mean_interval(*given, 0.95)
        assert other.bounds == one.bounds
        assert other.low / scale == pytest.approx(one.low, rel=1e-9)
        assert other.high / scale == pytest.approx(one.high, rel=1e-9)


def test_levels_that_floats_cannot_tell():
    assert gaffke_limit(np.array([1.0]), 0.0, 1.0, 1e-200) == 0.0
    assert gaffke_tail(np.r_[np.ones(5), 0.5], 0.0, 1.0, 1e-140) == 0.0
