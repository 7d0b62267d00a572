"""What the page on two services that refuse shows: streams, replays and groups, recomputed."""

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import Ridge

from lib.counterfactual import exact_sequence, influence_values
from lib.counterfactual.sequential import predictable_nuisances
from lib.studies.beyond import refusals as studies
from lib.studies.counterfactual.classifiers import simulate


@pytest.fixture(scope="module")
def trial():
    return studies.simulated(300, 1)


def test_a_miss_is_counted_once_and_for_all():
    low, high = np.array([0.0, 0.2, 0.0, 0.0]), np.array([1.0, 1.0, 1.0, 0.05])
    assert studies.missed(low, high, 0.1).tolist() == [False, True, True, True]
    assert studies.missed(low, high, np.array([0.1, 0.3, 0.1, 0.0])).tolist() == [False] * 4


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


def test_replays_count_what_each_draw_misses(trial):
    table = studies.replay(trial, 5, 50, seed=3).set_index("way")["missed"]
    own, missed = studies.running_truth(trial, 50), 0
    for k in range(5):
        rng = np.random.default_rng([3, k])
        low, high = studies.intervals(trial, trial.abstain(rng), 50, "", rng)["fixed time"]
        missed += bool(((low > own) | (high < own)).any())
    assert table["fixed time"] == missed
    assert table["exact, sample"] == 0


def test_groups_are_parts_of_the_whole(trial):
    overall, table = studies.compare(trial, "linear", seed=0)
    assert table["group"].tolist() == ["all", "left", "right"]
    whole, *parts = table.to_dict("records")
    assert whole["points"] == sum(part["points"] for part in parts) == 300
    for name in ("estimate", "true difference", "answered by A"):
        mean = sum(part[name] * part["points"] for part in parts) / 300
        assert whole[name] == pytest.approx(mean)
    assert (whole["low"], whole["high"]) == overall.interval
