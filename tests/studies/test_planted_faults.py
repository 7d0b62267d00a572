"""Faults that are planted into the engine: what finds them, and that nothing else does."""

import numpy as np
import pandas as pd
import pytest

from lib.audit.white_box import GradientCanaries, step_audit
from lib.studies.audit import figures
from lib.studies.audit.planted_faults import AUDITS, FAULTS, Problem, faulty_training
from lib.studies.drawn import Run
from lib.training import DataSpec, train_audited

SMALL = Problem(DataSpec(train=300, test=40), canaries=2000, steps=20, hidden=32, records=10)


def audited(fault):
    loaded = SMALL.data.load()
    canaries = GradientCanaries(SMALL.canaries, seed=40)
    _, scores = faulty_training(SMALL, fault, loaded.training, loaded.evaluation, 3, canaries)
    return scores, step_audit(scores.counts, scores.coins, SMALL.epsilon_of, level=0.999)


def test_nothing_planted_is_the_engine_itself():
    loaded, canaries = SMALL.data.load(), GradientCanaries(SMALL.canaries, seed=40)
    scores, _ = audited("none")
    config = SMALL.config("none", 3)
    alone = train_audited(config, loaded.training, loaded.evaluation, canaries).canaries
    assert (alone.known == scores.known).all()


@pytest.mark.parametrize("fault", FAULTS)
def test_single_steps_tell_what_is_wrong(fault):
    """Each fault moves what it should, and nothing else."""
    _, found = audited(fault)
    factor = {"unscaled": 0.5}.get(fault, 1.0)
    factor = float(fault.split()[1]) if fault.startswith("noise ") else factor
    noise = factor * SMALL.config(fault, 0).noise_multiplier
    assert found.noise[0] < noise < found.noise[1]
    assert (found.norm[0] > 1.2) == (fault in ("layer", "batch"))
    assert (found.p_sampling < 1e-4) == (fault == "shuffled")
    assert (found.p_fresh < 1e-4) == (fault == "twice")
    if fault != "leaked":  # which looks a little as if canaries added more
        unseen = ("none", "twice", "shuffled")
        assert (found.epsilon > SMALL.epsilon) == (fault not in unseen)


def test_leaked_coins_are_no_fault_that_is_found():
    """They make audits find something in a sound training."""
    rows = [
        {"fault": fault, "audit": audit, "found": float(fault != "none"), "could show": np.inf}
        for fault in ("none", "noise 0.5", "leaked")
        for audit in AUDITS
    ]
    table = pd.DataFrame(rows).replace({"fault": FAULTS, "audit": AUDITS})
    given = {"epsilon": 3.0, "runs": 2, "sound_runs": 2, "canaries": 1000}
    given |= {"outside_models": 16, "level": 0.95}
    drawn = figures.draw_planted(Run({"planted": table}, {"often": 0.9}, given))
    assert "find 1 of 1 faults" in drawn.figure.get_suptitle()
    assert "the training is sound" in drawn.caption
