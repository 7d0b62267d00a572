"""Figures on P2 show shares, accuracies and p-values that they were given."""

import numpy as np
import pandas as pd
from figure_parts import legend, lines

from lib.studies.suitability import figures

STEPS = pd.DataFrame({"low": [-0.2, -0.1, 0.0], "high": [-0.1, 0.0, 0.1], "share": [0.0, 0.4, 1.0]})


def test_share_of_suitable_decisions():
    (ax,) = figures.plot_share_suitable(STEPS, margin=0.02, reach=0.15).axes
    bars = [(bar.get_x(), bar.get_height()) for bar in ax.patches]
    np.testing.assert_allclose(bars, [[-10, 40], [0, 100]])  # what lies further out is not shown
    np.testing.assert_allclose(lines(ax)["ideal"].get_data(), [[-15, -2, -2, 15], [0, 0, 100, 100]])
    assert set(legend(ax)) == {"filter", "ideal"}


RESULTS = pd.DataFrame(
    {
        "seed": [0, 0, 2],
        "user_fold": ["b", "b", "a"],
        "test_accuracy": [0.9, 0.8, 0.8],
        "user_accuracy": [0.7, 0.8, 0.6],
        "estimated_test_accuracy": [0.9, 0.8, 0.8],
        "estimated_user_accuracy": [0.8, 0.8, 0.75],
    }
)


def test_points_of_folds_by_model():
    per_fold = pd.DataFrame({"seed": [0, 0, 2], "difference": [0.1, -0.1, 0], "share": [1, 0, 0.5]})
    (ax,) = figures.plot_per_fold(per_fold, margin=0.02).axes
    np.testing.assert_allclose(lines(ax)["model 0"].get_data(), [[10, -10], [100, 0]])
    np.testing.assert_allclose(lines(ax)["model 2"].get_data(), [[0], [50]])
    assert ax.lines[-1].get_xdata() == [-2, -2]
    (ax,) = figures.plot_error_against_drop(RESULTS).axes
    np.testing.assert_allclose(lines(ax)["model 0"].get_data(), [[10], [5]])
    np.testing.assert_allclose(lines(ax)["model 2"].get_data(), [[20], [15]])
    np.testing.assert_allclose(lines(ax)["drop not seen at all"].get_data(), [[0, 20]] * 2)
