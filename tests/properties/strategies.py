"""What the property tests draw from, and the profile that they run under."""

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

__all__ = ["check", "levels", "ordered", "ranked", "seeds", "tables", "units"]

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


def tables(largest=60):
    """Counts of an attack: true and false positives, true and false negatives."""
    number = st.integers(0, largest)
    return st.tuples(number, number, number, number).filter(
        lambda c: c[0] + c[3] > 0 and c[1] + c[2] > 0
    )
