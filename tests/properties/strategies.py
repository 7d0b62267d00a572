"""What the property tests draw from, and the profile that they run under."""

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

__all__ = [
    "INCREASING",
    "check",
    "levels",
    "never_nan",
    "ordered",
    "ranked",
    "seeds",
    "tables",
    "units",
]

#: Decorator: the settings of all property tests.
check = settings(settings.get_profile("properties"))

seeds = st.integers(0, 2**32 - 1)
levels = st.floats(0.01, 0.999)
units = st.floats(0, 1)


def ranked(low=1, high=30, values=6):
    """Correctness and scores that are small whole numbers, so that they tie."""
    return st.integers(low, high).flatmap(
        lambda n: st.tuples(
            st.lists(st.booleans(), min_size=n, max_size=n).map(np.array),
            st.lists(st.integers(-values, values), min_size=n, max_size=n).map(
                lambda s: np.array(s, dtype=float)
            ),
        )
    )


def ordered(values):
    """Two different values, ascending."""
    return st.tuples(values, values).map(sorted).filter(lambda pair: pair[0] < pair[1])


#: Strictly increasing maps that stay injective in floating point on whole numbers up to 100.
INCREASING = {
    "affine": lambda s: 3.0 * s - 7.0,
    "cube": lambda s: s**3,
    "exp": lambda s: np.exp(s / 8),
    "arctan": np.arctan,
    "reciprocal": lambda s: -1.0 / (s + 1000.0),
    "ranks": lambda s: np.unique(s, return_inverse=True)[1].astype(float),
    "integers": lambda s: (10 * s).astype(int),
    "single precision": lambda s: s.astype(np.float32),
}


def tables(largest=60):
    """Counts of an attack: true and false positives, true and false negatives."""
    number = st.integers(0, largest)
    return st.tuples(number, number, number, number).filter(
        lambda c: c[0] + c[3] > 0 and c[1] + c[2] > 0
    )


def never_nan(result):
    """Whether no float within a result is NaN."""
    if isinstance(result, float | np.floating):
        return not np.isnan(result)
    if isinstance(result, np.ndarray):
        return result.dtype.kind != "f" or not np.isnan(result).any()
    if isinstance(result, tuple | list):
        return all(map(never_nan, result))
    if hasattr(result, "select_dtypes"):
        return not result.select_dtypes("number").isna().any().any()
    if hasattr(result, "__dict__"):
        return all(map(never_nan, vars(result).values()))
    return True
