"""One model under six lenses: each agrees with a direct call of the package that it comes from."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from chapter_cells import settings_of

from lib import audit
from lib.audit import one_label_bound
from lib.privacy import label_guarantee
from lib.runs import Checkpoint
from lib.studies.audit.system import AuditContradiction
from lib.studies.beyond.six_lenses.inside import faulty, inside_one_run, require_room
from lib.studies.beyond.six_lenses.lens_audits import (
    HEADLINE,
    audit_record,
    label_canaries,
    ledger_of,
)
from lib.studies.beyond.six_lenses.lens_jobs import RecordTrainings
from lib.studies.beyond.six_lenses.settings import on_digits
from lib.studies.beyond.six_lenses.views import abstention, classify
from lib.studies.canaries.mechanisms import CanaryContradiction

ROOT = Path(__file__).parents[2]
SHIFTS = (("rotation", 0.0), ("rotation", 60.0), ("gaussian_noise", 0.05))


GIVEN = {"model": "mlp", "epsilon": 1.0, "learning_rate": 2.0, "plain_learning_rate": 1.0}
GIVEN |= {"points": 300, "validation": 300, "test": 400, "hidden": 8, "batch_size": 60}
GIVEN |= {"steps": 40, "plain_steps": 60, "gradient_canaries": 500}


def small(dataset="digits", **changes):
    return settings_of("six_lenses", GIVEN | changes, dataset)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COMPANION_RUNS", str(tmp_path_factory.mktemp("runs")))
        yield


@pytest.fixture(scope="module")
def models(store):
    return classify(small(epsilon=20.0), SHIFTS)


@pytest.fixture(scope="module")
def broken(store):
    """Claims epsilon = 1 and has noise for a thousand."""
    found = audit_record(small(epsilon=1000.0), 40, 240)
    return replace(found, result=replace(found.result, proven=1.0))


@pytest.fixture(scope="module")
def right(store):
    return audit_record(small(), 40, 240)


def test_the_threshold_is_chosen_on_the_validation_points_alone(models):
    found = abstention(models, 0.9)
    known = models.probabilities("validation").max(axis=1)
    right = models.correct("validation")
    assert right[known >= found.threshold].mean() >= 0.9
    lower = known[known < found.threshold].max()
    assert right[known >= lower].mean() < 0.9
    other = replace(models, arrays=dict(models.arrays) | {"labels": models.arrays["labels"][::-1]})
    assert abstention(other, 0.9).threshold == found.threshold


def test_a_broken_mechanism_contradicts_its_claim(broken, right):
    right.require_consistent()
    assert right.lower() <= right.result.proven
    with pytest.raises(AuditContradiction, match=r"proves 1\.000"):
        broken.require_consistent()
    assert broken.lower() > 1.0


def test_trainings_go_on_after_a_chunk(tmp_path):
    job = RecordTrainings(faulty(small(), 0.01), small().data, 6, chunk=4)
    whole = job.execute(Checkpoint())
    np.testing.assert_array_equal(whole.arrays["members"], job.coins())
    assert 0 < job.coins().sum() < 6
    assert whole.privacy["noise_multiplier"] == job.config.noise_multiplier
    interrupted = Checkpoint(tmp_path)
    save = interrupted.save
    interrupted.save = lambda *state: (save(*state), 1 / 0)
    with pytest.raises(ZeroDivisionError):
        job.execute(interrupted)
    resumed = job.execute(Checkpoint(tmp_path))
    for name, array in whole.arrays.items():
        np.testing.assert_array_equal(array, resumed.arrays[name])


def test_the_ceiling_is_that_of_the_coins(right):
    """No guesses about these trials show more, and a perfect attack is not above its ceiling."""
    members = np.asarray(right.result.members)
    n, m = int(members.sum()), int((~members).sum())
    assert n != m
    tp, tn = np.meshgrid(np.arange(n + 1), np.arange(m + 1), indexing="ij")
    rows = np.stack([tp, m - tn, tn, n - tp], axis=-1).reshape(-1, 4)
    bounds = audit.epsilon_lower_bounds(rows, 1e-5, right.level, "clopper-pearson")
    assert right.ceiling == bounds.max()
    _, shadow = right.result.held_out[HEADLINE]
    perfect = replace(
        right.result,
        scores={HEADLINE: members.astype(float)},
        held_out={HEADLINE: (shadow.astype(float), shadow)},
    )
    assert replace(right, result=perfect).lower() == right.ceiling


def test_canaries_are_lib_canaries(store):
    settings = small(plain_steps=600, steps=20)
    found = label_canaries(settings, 30, 3)
    found.require_consistent()
    private, plain = found.private, found.plain
    assert private.claimed == label_guarantee(ledger_of(settings), 1e-5)
    assert math.isinf(plain.claimed)
    for name, each in (("private", private), ("plain", plain)):
        options = {"level": 0.95, "delta": 1e-5, "seed": 0}
        assert found.lower(name) == one_label_bound(*each.final, **options)
    # A model that tells every trained label shows the ceiling, at the same correction.
    perfect = replace(private, confidences=np.eye(10)[private.canary_labels][None])
    assert replace(found, private=perfect).lower() == pytest.approx(found.ceiling, rel=1e-9)
    # Trained to remember, the competitor leaks more; a false claim about it is refuted.
    assert found.lower() < found.lower("plain") <= found.ceiling
    lying = replace(found, private=replace(plain, claimed=0.01))
    with pytest.raises(CanaryContradiction, match=r"0\.010"):
        lying.require_consistent(0.99)  # delta takes its part of the error


def test_inside_one_run_a_twentieth_of_the_noise_is_seen():
    settings = on_digits(8.0, 1e-5, "cpu", 0)
    whole, broken = (inside_one_run(settings, 1500, noise_factor=f) for f in (1.0, 0.05))
    assert (whole["known"] < whole["proven"]).all()
    assert whole["known"].iloc[0] > whole["released"].iloc[0] > 0
    by_name = broken.set_index("statement")
    # Of 1,500 guesses without a hypothesis none can refute 8, whatever is wrong.
    assert by_name.loc["one_run", "known"] <= by_name.loc["one_run", "could show"] < 8
    assert by_name.loc["gaussian", "known"] <= by_name.loc["gaussian", "could show"] < 50
    assert (by_name.loc[["gaussian", "steps"], "known"] > by_name["proven"].iloc[0]).all()


def test_more_canaries_than_the_network_has_coordinates_are_refused():
    settings = on_digits(8.0, 1e-5, "cpu", 0)
    require_room(settings, 2410)
    with pytest.raises(ValueError, match=r"gradient_canaries must be at most 2410, .* got 2411"):
        require_room(settings, 2411)


def test_the_recorded_run_shows_much_of_what_is_proven():
    """The page's promise: one run of the recorded network, on the data that it asked for."""
    path = ROOT / "book/records/standard/six_lenses.json"
    record = json.loads(path.read_text(encoding="utf-8"))
    asked, shown = record["parameters"], record["values"]
    assert record["used"]["dataset"] == asked["dataset"] == "fashion-mnist"
    assert (asked["model"], asked["epsilon"]) == ("small_cnn", 8.0)
    assert shown["gradient_canaries"] >= 5000
    assert 2.0 <= shown["inside_free"] < shown["epsilon"]
    assert 3.5 <= shown["inside_gaussian"] < shown["epsilon"]
    # What is wrong with a twentieth of the noise only hypotheses can show.
    assert shown["broken_gaussian"] > shown["epsilon"] > shown["broken_free"]
