"""What attacks on the shipped configuration show: about one record, and about labels."""

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import special

from lib import audit
from lib.audit import AttackCounts
from lib.audit.canaries import THRESHOLDS
from lib.audit.planning import error_free_bound
from lib.privacy import PrivacyLedger, SampledGaussian
from lib.privacy.accounting import label_guarantee
from lib.runs import run_all
from lib.studies.audit import system
from lib.studies.audit.system import ATTACKS, AuditResult, AuditSettings, attacked
from lib.studies.beyond.six_lenses.lens_jobs import RecordTrainings
from lib.studies.beyond.six_lenses.settings import LensSettings
from lib.studies.canaries.draws import CanaryDraw, canary_labels
from lib.studies.canaries.mechanisms import MechanismResult, _seed
from lib.studies.canaries.mechanisms import require_consistent as require_consistent_labels
from lib.training import LabelTrainings, plan

#: The attack whose bound is quoted: fixed before any model was attacked. It sees the parameters
#: before and after training, which the guarantee covers.
HEADLINE = "gradient alignment"
_CHECK = 0.999  # how sure a contradiction must be
_DRAWS_COST = 2  # by which lib.audit.one_label_bound divides the error for several draws


@dataclass(frozen=True, eq=False)
class RecordAudit:
    """The audit of one inserted record."""

    # Scores and membership of the trials by attack, and of the shadow models that thresholds are
    # chosen on; its ``proven`` is what is claimed
    result: AuditResult
    level: float  # Of the intervals

    @property
    def trials(self) -> int:
        """Number of models attacked."""
        return len(self.result.members)

    @property
    def ceiling(self) -> float:
        """The bound if every guess had been right: nothing larger can come out of these coins."""
        members = int(np.sum(self.result.members))
        return error_free_bound(members, self.trials - members, self._delta, self.level)

    @property
    def _delta(self) -> float:
        return self.result.settings.training.delta

    def counts(self, attack: str = HEADLINE) -> AttackCounts:
        """Right and wrong guesses at the threshold that is best on the shadow models."""
        return self.result.held_out_counts(attack, self.level)

    def lower(self, attack: str = HEADLINE) -> float:
        """Clopper-Pearson's lower bound on epsilon at `level`, valid in finite samples."""
        how = "clopper-pearson", "lower"
        return audit.epsilon_interval(self.counts(attack), self._delta, self.level, *how)[0]

    def bayesian(self, attack: str = HEADLINE) -> tuple[float, float]:
        """The Bayesian interval for the epsilon that this attack demonstrates, two-sided."""
        return audit.epsilon_interval(self.counts(attack), self._delta, self.level, "bayesian")

    def table(self) -> pd.DataFrame:
        """One row per attack."""
        rows = []
        for attack in self.result.scores:
            counts, (low, high) = self.counts(attack), self.bayesian(attack)
            rows.append(
                {
                    "attack": attack,
                    "AUC": self.result.auc(attack),
                    "FPR": counts.fp / max(1, counts.negatives),
                    "FNR": counts.fn / max(1, counts.positives),
                    "low": low,
                    "high": high,
                    "at least": self.lower(attack),
                    "claimed": self.result.proven,
                }
            )
        return pd.DataFrame(rows)

    def require_consistent(self, level: float = _CHECK) -> None:
        """Stop if an attack refutes the claim, see ``require_consistent``."""
        system.require_consistent([self.result], level)


def audit_record(
    settings: LensSettings, n_shadow: int, n_target: int, *, level: float = 0.95
) -> RecordAudit:
    """Train with and without one inserted record, many times, and guess which it was."""
    config, seed = settings.config("audit"), 2 * settings.seed
    job = RecordTrainings(config, settings.data, n_shadow + n_target, seed=seed)
    (run,) = run_all([job])
    members = np.asarray(run.arrays["members"])
    inside, asked = np.split(members, [n_shadow])
    scores, held_out = {}, {}
    for attack, observes in ATTACKS:
        shadows, targets = np.split(np.asarray(run.arrays[observes]), [n_shadow])
        scores[attack.name], own = attacked(attack, shadows, inside, targets)
        held_out[attack.name] = own, inside
    ledger, training = ledger_of(settings), settings.training
    result = AuditResult(
        settings=AuditSettings(
            settings.data, training, n_shadow, n_target, n_challenges=1, seed=settings.seed
        ),
        proven=ledger.epsilon(training.delta, training.accountant),
        noise_multiplier=ledger.entries[0].noise_multiplier,
        accuracy=float(run.metrics["accuracy"]),
        challenges=np.array([settings.data.train]),
        weights=np.array([(held_out["LiRA"][0] > 0) == inside]).mean(axis=1),
        members=asked,
        scores=scores,
        held_out=held_out,
        shadows=np.asarray(run.arrays["confidence"])[:n_shadow, None],
        shadow_members=inside[:, None],
        seconds=float(run.metrics["training_seconds"]),
    )
    return RecordAudit(result, level)


def ledger_of(settings: LensSettings) -> PrivacyLedger:
    """What the private training spends, as the accountant sees it, without training."""
    config = settings.config("private")
    found = plan(config, settings.data.train)
    step = SampledGaussian(found.sample_rate, found.effective_noise_multiplier, config.steps)
    return PrivacyLedger((step,))


@dataclass(frozen=True, eq=False)
class LabelEvidence:
    """What wrong labels in the training set show about label privacy."""

    # Of the private training, whose claim is that of :func:`label_guarantee`, and of the
    # competitor's, which claims nothing
    private: MechanismResult
    plain: MechanismResult
    level: float  # Of the bounds
    seed: int  # Of the guesses' alternatives

    def lower(self, which: str = "private") -> float:
        """Lower bound on the epsilon of a label at the claim's delta, for any dependence."""
        return getattr(self, which).one_label_bound(self.level, seed=self.seed)

    @property
    def ceiling(self) -> float:
        """The bound of :meth:`lower`, as corrected, if all canaries were guessed rightly."""
        count = len(self.private.true_labels)
        level = 1 - (1 - self.level) / len(THRESHOLDS) / _DRAWS_COST
        return audit.one_run_epsilon(count, count, count, self.private.delta, level, fixed=False)

    def remembered(self, which: str = "private") -> float:
        """Rate of canaries of which the model prefers their wrong label to the true one."""
        p, wrong, true = getattr(self, which).final
        rows = np.arange(len(true))
        return float((p[rows, wrong] > p[rows, true]).mean())

    def table(self) -> pd.DataFrame:
        """A row a training."""
        rows = [
            {
                "training": name,
                "canaries": len(each.true_labels),
                "accuracy": float(np.mean(each.accuracy)),
                "remembered": self.remembered(name),
                "at least": self.lower(name),
                "ceiling": self.ceiling,
                "claimed": each.claimed,
            }
            for name, each in (("private", self.private), ("plain", self.plain))
        ]
        return pd.DataFrame(rows)

    def require_consistent(self, level: float = _CHECK) -> None:
        """Stop if the canaries refute what is proven for labels."""
        require_consistent_labels([self.private], level)


def label_canaries(
    settings: LensSettings, count: int, n_models: int, *, level: float = 0.95
) -> LabelEvidence:
    """Train both models with wrong labels among their points, and see what they remember."""
    training, truth = settings.training, settings.data.load().training.targets
    claim = label_guarantee(ledger_of(settings), training.delta, training.accountant)
    results = []
    for number, (name, purpose, claimed) in enumerate(
        (("DP-SGD", "canaries", claim), ("no privacy", "plain canaries", math.inf))
    ):
        draws = tuple(
            CanaryDraw(count, training.model.classes, _seed(settings.seed, number, i, 73))
            for i in range(n_models)
        )
        job = LabelTrainings(settings.config(purpose), settings.data, None, draws)
        # One after the other: a few training runs are done before another process has started.
        (run,) = run_all([job])
        logits = np.concatenate(run.arrays["logits"]).astype(float)
        labels, true = canary_labels(draws, truth)
        results.append(
            MechanismResult(
                name=name,
                level=0,
                claimed=claimed,
                delta=training.delta,
                accuracy=np.asarray(run.arrays["accuracy"]),
                confidences=special.softmax(logits, axis=1)[None],
                canary_labels=labels,
                true_labels=true,
            )
        )
    return LabelEvidence(*results, level=level, seed=settings.seed)
