"""One model under six lenses: what thresholds rest on, ceilings, and what is seen from inside."""

from dataclasses import replace

import numpy as np
import pytest
from chapter_cells import settings_of

from lib import audit
from lib.studies.audit.system import AuditResult, AuditSettings
from lib.studies.beyond.six_lenses.inside import inside_one_run, require_room
from lib.studies.beyond.six_lenses.lens_audits import HEADLINE, LabelEvidence, RecordAudit
from lib.studies.beyond.six_lenses.settings import on_digits
from lib.studies.beyond.six_lenses.views import Classified, abstention
from lib.studies.canaries.mechanisms import MechanismResult


@pytest.fixture(scope="module")
def settings():
    given = {"model": "mlp", "epsilon": 1.0, "learning_rate": 2.0, "plain_learning_rate": 1.0}
    given |= {"points": 300, "validation": 300, "test": 400, "hidden": 8, "batch_size": 60}
    given |= {"steps": 40, "plain_steps": 60, "gradient_canaries": 500}
    return settings_of("six_lenses", given, "digits")


def test_the_threshold_is_chosen_on_the_validation_points_alone(settings):
    rng, arrays = np.random.default_rng(0), {"users": np.zeros(0, int)}
    for points, labels, n in (("validation", "validation_labels", 300), ("test", "labels", 400)):
        arrays[labels] = rng.integers(10, size=n)
        arrays[points] = 2 * np.eye(10)[arrays[labels]] + rng.normal(size=(2, n, 10))
    models = Classified(settings, (), arrays, {})
    found = abstention(models, 0.9)
    known = models.probabilities("validation").max(axis=1)
    right = models.correct("validation")
    assert right[known >= found.threshold].mean() >= 0.9
    assert right[known >= known[known < found.threshold].max()].mean() < 0.9
    other = replace(models, arrays=arrays | {"labels": arrays["labels"][::-1]})
    assert abstention(other, 0.9).threshold == found.threshold


def test_the_ceiling_is_that_of_the_coins(settings):
    """No guesses about these trials show more, and a perfect attack is not above its ceiling."""
    members, none = np.arange(240) % 9 < 4, np.zeros(0)
    n, m = int(members.sum()), int((~members).sum())
    scores, held_out = {HEADLINE: 1.0 * members}, {HEADLINE: (1.0 * members, members)}
    own = AuditSettings(settings.data, settings.training, 240, 240, n_challenges=1)
    found = AuditResult(own, 1.0, 1.0, 1.0, none, none, members, scores, held_out, none, none, 0.0)
    right = RecordAudit(found, 0.95)
    tp, tn = np.meshgrid(np.arange(n + 1), np.arange(m + 1), indexing="ij")
    rows = np.stack([tp, m - tn, tn, n - tp], axis=-1).reshape(-1, 4)
    delta = settings.training.delta
    bounds = audit.epsilon_lower_bounds(rows, delta, 0.95, "clopper-pearson")
    assert right.lower() == pytest.approx(bounds.max(), rel=1e-12) == right.ceiling


def test_the_ceiling_of_labels_is_what_one_shows_that_tells_every_label():
    rng, true = np.random.default_rng(0), np.arange(30) % 10
    canary = (true + rng.integers(1, 10, 30)) % 10
    given = {"level": 0, "delta": 1e-5, "accuracy": np.ones(1)}
    given |= {"canary_labels": canary, "true_labels": true}
    sure, unsure = (
        MechanismResult(name="ALIBI", claimed=8.0, confidences=p[None], **given)
        for p in (np.eye(10)[canary], rng.dirichlet(np.ones(10), 30))
    )
    found = LabelEvidence(sure, unsure, 0.95, 0)
    assert found.lower() == pytest.approx(found.ceiling, rel=1e-9)
    assert found.lower("plain") < found.ceiling
    assert (found.remembered(), found.remembered("plain") < 0.9) == (1, True)


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
    require_room(settings, 2410)  # as many as the network has coordinates
    with pytest.raises(ValueError, match="gradient_canaries must be at most 2410"):
        require_room(settings, 2411)
