"""The gap by budget: what is trained and judged, by whom, and what the page shows of it."""

import numpy as np
import pytest
from chapter_cells import settings_of
from scipy import special

from lib.selective import normalized_score
from lib.studies.beyond import gap_terms as gap

PARAMETERS = {
    **{"dataset": "digits", "model": "mlp", "hidden": 4, "activation": "tanh", "seed": 0},
    **{"epochs": 0, "steps": 20, "batch_size": 128, "clipping_norm": 1.0, "momentum": 0.9},
    **{"schedule": "constant", "device": "cpu", "epsilons": [7.0], "free_rate": 0.3, "rate": 0.6},
    **{"labels": "people", "flip": 0.3, "n_seeds": 2},
}


@pytest.fixture(scope="module")
def study():
    return settings_of("gap", PARAMETERS, "digits")


def test_flips_are_as_often_as_told_and_to_every_other_label(study):
    labels = np.arange(40_000) % 5
    noisy, table = gap.noisy_labels(study, labels, 5)
    assert noisy.shape == (2, 40_000)
    assert table.sum(axis=1) == pytest.approx(1)
    for each in noisy:
        counts = np.zeros((5, 5))
        np.add.at(counts, (labels, each), 1)
        assert np.abs(counts / 8000 - table).max() < 4.5 * np.sqrt(0.3 * 0.7 / 8000)


def test_terms_add_up_and_flips_leave_a_known_part_of_the_ranking(study):
    rng = np.random.default_rng(0)
    labels = rng.integers(10, size=400)
    logits = {
        e: rng.normal(size=(2, 400, 10)) + k * np.eye(10)[labels]
        for e, k in ((np.inf, 4), (7.0, 2))
    }
    found = gap.take_apart(study, labels, logits)
    total = found[[*gap.TERMS, "finite_sample"]].sum(axis=1)
    assert total.to_numpy() == pytest.approx(found["total"].to_numpy(), abs=1e-12)
    clean, noisy = (found[found["labels"] == name] for name in ("clean", "noisy"))
    assert (clean[["noise", "finite_sample"]].abs() < 1e-15).all(axis=None)
    order = [(t["ranking"] + t["calibration"]).to_numpy() for t in (clean, noisy)]
    assert order[1] == pytest.approx((1 - 0.3 - 0.3 / 9) * order[0], rel=1e-9)
    assert (noisy["finite_sample"] / noisy["finite_sample_error"]).abs().max() < 4.5
    p = special.softmax(logits[7.0][1], axis=-1)
    row = clean[(clean["epsilon"] == 7.0) & (clean["seed"] == 1)].iloc[0]
    correct = p.argmax(-1) == labels
    assert row["total"] == pytest.approx(normalized_score(correct, p.max(-1)), abs=1e-9)
    assert row["accuracy"] == correct.mean()
    assert (noisy["published"] > noisy[["noise", "ranking", "calibration"]].sum(axis=1)).all()
