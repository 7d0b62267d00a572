"""Figures of the six lenses show drops and differences that they were given."""

import numpy as np
import pandas as pd

from lib.studies.beyond.six_lenses import figures
from lib.studies.beyond.six_lenses.views import DROP


def test_populations():
    table = pd.DataFrame(
        {
            "shift": ["none", "gaussian_noise", "blur"],
            "severity": [0.0, 0.25, 1.0],
            DROP: [0.0, 0.1, 0.3],
            "low": [-0.02, 0.05, 0.2],
            "high": [0.02, 0.2, 0.35],
            "estimated drop": [0.01, 0.12, 0.2],
            "decision": ["SUITABLE", "INCONCLUSIVE", "INCONCLUSIVE"],
        }
    )
    (ax,) = figures.plot_populations(table, 0.05).axes
    suitable, inconclusive = ax.containers
    assert suitable[0].get_xydata().tolist() == [[0.0, 2]]  # the first population is at the top
    assert inconclusive[0].get_xydata().tolist() == [[0.1, 1], [0.3, 0]]
    ends = [segment[:, 0].tolist() for segment in inconclusive[2][0].get_segments()]
    np.testing.assert_allclose(ends, [[0.05, 0.2], [0.2, 0.35]])
    (estimated,) = [c for c in ax.collections if c.get_label() == "estimated drop"]
    assert estimated.get_offsets().tolist() == [[0.01, 2], [0.12, 1], [0.2, 0]]
