"""The audit inside one training run: gradient canaries in the shipped configuration."""

import math
from dataclasses import asdict, dataclass, replace
from functools import partial

import numpy as np
import pandas as pd

from lib.audit.gaussian import gaussian_lower_bound
from lib.audit.one_run import FRACTIONS, fixed_guesses, one_run_epsilon
from lib.audit.white_box import GradientCanaries, statements, step_audit
from lib.privacy import PrivacyLedger, SampledGaussian
from lib.runs import Checkpoint, Outcome, run_all
from lib.studies.beyond.six_lenses.lens_audits import ledger_of
from lib.studies.beyond.six_lenses.settings import LensSettings
from lib.training import DataSpec, TrainingConfig, plan, train_audited
from lib.training.jobs import OnData
from lib.training.models import parameter_count

_APART = 900_000  # from the seeds of the training runs that the black box attacks
#: Rows of the table: what each statement rests on.
STATEMENTS = {
    "one_run": "no hypothesis",
    "family": "Gaussian curve",
    "gaussian": "Gaussian curve, independent scores",
    "steps": "the mechanism's form",
}


@dataclass(frozen=True)
class InsideTraining(OnData):
    """One training run with gradient canaries, as a job.

    The metrics of the outcome: ``known`` and ``released``, the statements of the two adversaries as
    mappings; ``single``, the audit by single steps, whose ``bound`` is not called epsilon, as that
    is rounded up where a job is private; ``accuracy`` on the test points.
    """

    config: TrainingConfig
    data: DataSpec
    canaries: GradientCanaries
    level: float = 0.95
    private = True  # it reads what is not released

    def execute(self, checkpoint: Checkpoint) -> Outcome:
        """Train and audit."""
        loaded, config = self.data.load(), self.config
        given = loaded.training, loaded.evaluation, self.canaries
        result = train_audited(config, *given, checkpoint=checkpoint)
        scores, delta = result.canaries, result.plan.delta
        accountant = partial(_epsilon, delta=delta, accountant=config.accountant)
        metrics = {
            who: asdict(statements(scores, delta, self.level, adversary=who))
            for who in ("known", "released")
        }
        steps = step_audit(scores.counts, scores.coins, accountant, self.level)
        single = {"bound" if name == "epsilon" else name: v for name, v in asdict(steps).items()}
        metrics |= {"single": single, "accuracy": result.accuracy(loaded.labels)}
        metrics["training_seconds"] = result.seconds
        return Outcome({"coins": scores.coins}, metrics)


def _epsilon(rate: float, noise: float, steps: int, *, delta: float, accountant: str) -> float:
    return PrivacyLedger((SampledGaussian(rate, noise, steps),)).epsilon(delta, accountant)


def faulty(settings: LensSettings, factor: float) -> TrainingConfig:
    """The private training with a fault: the noise is this factor times what was claimed."""
    config = settings.config("fault")
    noise = factor * plan(config, settings.data.train).noise_multiplier
    return replace(config, epsilon=math.inf, noise_multiplier=noise)


def require_room(settings: LensSettings, gradient_canaries: int) -> None:
    """Stop before anything is trained if the network has not so many coordinates.

    Raises
    ------
    ValueError
        If there are more canaries than parameters.
    """
    size = parameter_count(settings.training.model)
    if gradient_canaries > size:
        raise ValueError(
            f"gradient_canaries must be at most {size}, the network's number of parameters, got"
            f" {gradient_canaries}: each is a coordinate; take fewer, or a larger network"
        )


def inside_one_run(
    settings: LensSettings, canaries: int, *, noise_factor: float = 1.0, level: float = 0.95
) -> pd.DataFrame:
    """What one run with gradient canaries shows, a row a statement.

    Columns: ``known``, who subtracts the other records, and ``released``, who sees what is
    released; ``could show``, if no guess were wrong; ``proven``.  Single steps need to know the
    others.
    """
    config = settings.config("audit") if noise_factor == 1 else faulty(settings, noise_factor)
    config = replace(config, seed=config.seed + _APART, grad_sample_mode="taps")
    secret = GradientCanaries(canaries, seed=2 * settings.seed + (noise_factor != 1) + 1)
    (run,) = run_all([InsideTraining(config, settings.data, secret, level)])
    training, metrics = settings.training, run.metrics
    delta, rows = training.delta, []
    made = [fixed_guesses(canaries, fraction) for fraction in FRACTIONS]
    each = 1 - (1 - level) / len(FRACTIONS)
    for name, rests_on in STATEMENTS.items():
        most = float("inf")
        if name in ("one_run", "family"):
            family = "gaussian" if name == "family" else None
            most = max(one_run_epsilon(n, n, canaries, delta, each, family=family) for n in made)
        if name == "gaussian":
            given = np.ones(canaries // 2), np.zeros(canaries - canaries // 2), delta, level
            most = gaussian_lower_bound(*given, choice="union").epsilon
        known = metrics["single"]["bound"] if name == "steps" else metrics["known"][name]
        released = float("nan") if name == "steps" else metrics["released"][name]
        rows.append((name, rests_on, float(known), float(released), most))
    table = pd.DataFrame(rows, columns=["statement", "rests on", "known", "released", "could show"])
    return table.assign(proven=ledger_of(settings).epsilon(delta, training.accountant))
