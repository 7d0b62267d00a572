"""Choices among numbers that differ by rounding alone."""

import numpy as np
import pandas as pd
import pytest

from lib.studies.interplay import tables as studies
from lib.ties import first_largest, first_smallest

SUM = 0.1 + 0.2  # 0.30000000000000004


@pytest.mark.parametrize(
    ("values", "largest", "smallest"),
    [
        ([0.3, SUM], 0, 0),
        ([SUM, 0.3], 0, 0),
        ([-SUM, -0.3, -0.2], 2, 0),
        ([0.3, 0.3 * (1 + 1e-8)], 1, 0),
        ([0.0, 0.0], 0, 0),
        ([np.nan, 0.3, SUM, 0.1], 1, 3),
        ([1.0, np.inf, np.inf], 1, 0),
        ([-np.inf, -np.inf, 1.0], 2, 0),
        ([7], 0, 0),
    ],
)
def test_the_first_of_equals(values, largest, smallest):
    assert (first_largest(values), first_smallest(values)) == (largest, smallest)


def test_tables_of_methods_do_not_choose_by_rounding():
    table = pd.DataFrame(
        {"epsilon": [1.0] * 3, "method": ["DE", "SR", "SCTD"], "score": [SUM, 0.3, 0.4]}
    )
    assert studies.best_methods(table) == {1.0: "DE"}
    steps = pd.DataFrame({"epsilon": [8.0, 4.0, 2.0], "method": "SR", "score": [0.3, SUM, 0.5]})
    assert studies.worsening_share(steps) == 0.5
