"""What the page on two services that refuse shows: streams, replays and groups, recomputed."""

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import Ridge

from lib.counterfactual import exact_sequence, influence_values
from lib.counterfactual.sequential import predictable_nuisances
from lib.studies.beyond import refusals as studies
from lib.studies.counterfactual.classifiers import simulate


@pytest.mark.parametrize("stream", [0, 7])
def test_one_stream_by_hand(stream):
    """The exact sequence and its misses, from nuisance functions that are fitted anew here."""
    start, rng = 20, np.random.default_rng([4, stream])
    drawn = simulate(160, epsilon=0.2, rng=rng)
    ends = studies.intervals(drawn, drawn.abstained, start, "", np.random.default_rng(0))
    (low, high), pair = ends["exact"], []
    for s, r, pi in zip(drawn.scores, drawn.abstained, drawn.propensities, strict=True):
        how = (DummyClassifier(), Ridge())
        fit = predictable_nuisances(drawn.X, s, r, start=start, learner=how, rng=0)
        values = dict(vars(fit)) | {"propensity": pi[start:]}
        pair.append(type(fit)(**values))
    sequence = exact_sequence(pair, 0.2, target="population")
    assert np.allclose(low, sequence.lower[start - 1 :])
    assert np.allclose(high, sequence.upper[start - 1 :])
    phi = influence_values(pair[0]) - influence_values(pair[1])
    fixed = ends["fixed time"]
    assert fixed[0][-1] == pytest.approx(phi.mean() - 1.959964 * phi.std() / np.sqrt(140))
    assert len(low) == len(fixed[0]) == 160 - 2 * start + 1
