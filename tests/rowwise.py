"""Every public function that takes rows, with an example call and what leaves its answer alone.

All numbers are multiples of 1/1024, which half, single and double precision hold alike.
A table is read best with a call on a line or two, so the formatter is off.
"""
# ruff: noqa: C408
# fmt: off

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lib import audit as A
from lib import counterfactual as C
from lib import privacy as V
from lib import selective as L
from lib import suitability as S
from lib.counterfactual import forecasts as F

#: What an argument is by its name: the forms that it is given in, and what must be refused in it.
KIND = {
    name: kind
    for kind, names in {
        "flags": "correct other_correct test_correct user_correct fit_correct labelled_correct "
        "reference_correct abstained abstained_a abstained_b chosen members answered asked",
        "number": "score other_score second selection recalibrated scores in_scores out_scores "
        "loss values thresholds X observed scores_a scores_b influence shadows bounds propensities "
        "outcomes variances covariance logits signals fit_signals test_signals user_signals rows "
        "test user estimates outcome likelihood prior",
        "unit": "probability estimated reference test_estimated user_estimated "
        "labelled_estimated full_accuracy coverage batch propensity fpr p_values",
        "simplex": "probabilities confidences",
        "class": "labels canary_labels true_labels predictions votes counts fold",
        "group": "groups",
    }.items()
    for name in names.split()
}
#: Arguments whose columns have names.
NAMED = {"signals", "fit_signals", "test_signals", "user_signals", "rows", "X"}


@dataclass(frozen=True, eq=False)
class Row:
    """One function, an example call, and which arguments have the same rows.

    ``groups`` name arguments whose rows belong together, with the axis of the rows.  Those in
    ``fixed`` keep their order, as ``order`` explains; rows of the parts ``per_row`` of the result
    are in the order of group ``follow``.  ``recode`` changes arguments, together if several are
    named, without changing the question; parts in ``but`` are not compared.
    """

    name: str
    call: Callable[..., Any] = field(repr=False)
    given: Mapping[str, Any] = field(repr=False)
    groups: tuple[dict[str, int], ...]
    kinds: Mapping[str, str]
    fixed: frozenset[int]
    order: str
    follow: int
    per_row: tuple[str, ...]
    recode: Mapping[str, Any] = field(repr=False)
    rtol: float
    but: frozenset[str]
    only: str  # the one property that the row is for, or nothing


ROWS: list[Row] = []


def add(
    name, given, *groups, call=None, per_row="", order="", kinds=(), recode=(), rtol=1e-9, but="",
    only=""
):
    """Add a row.  Groups: "a b", "a@1 b@1" by axis; ">a": the result's rows; "~a": fixed."""
    package, own = name.split(".")[:2]
    call = call or getattr(importlib.import_module(f"lib.{package}"), own)
    fixed = frozenset(i for i, g in enumerate(groups) if "~" in g)
    follow = next((i for i, g in enumerate(groups) if ">" in g), 0)
    split = [[part.partition("@") for part in g.lstrip(">~").split()] for g in groups]
    parsed = tuple({a: int(axis or 0) for a, _, axis in g} for g in split)
    kinds = {a: dict(kinds).get(a, KIND.get(a)) for g in parsed for a in g}
    assert all(kinds.values()), (name, kinds)
    if order and not fixed:
        fixed = frozenset(range(len(groups)))
    assert bool(order) == bool(fixed), name
    ROWS.append(Row(name, call, given, parsed, kinds, fixed, order, follow, tuple(per_row.split()),
                    dict(recode), rtol, frozenset(but.split()), only))


def dyadic(values, parts=256):
    """The nearest multiples of 1/256."""
    return np.round(np.asarray(values) * parts) / parts


#: Increasing maps, which leave an acceptance score as good as it is.
INCREASING = {
    "times 1e-13 / 3": lambda s: s * (1e-13 / 3),
    "times 1e13 / 7": lambda s: s * (1e13 / 7),
    "affine": lambda s: 3.0 * s - 7.0,
    "exp": lambda s: np.exp(s / 8),
    "arctan": lambda s: np.arctan(s / 8),
    "times 1e-300": lambda s: (s + 10) * 1e-300,
}
RANKS = INCREASING | {"ranks": lambda s: np.unique(s, return_inverse=True)[1]}
RANK, RANK_BOTH = {"score": RANKS}, {"score": RANKS, "other_score": RANKS}
#: Features are as good in other units.
UNITS = {
    f"times {c:g} plus {a:g}": lambda x, c=c, a=a: c * np.asarray(x) + a
    for c, a in ((1e-13 / 3, 0.0), (1e13 / 7, 0.0), (1.0, 1000.1), (1e-100, 0.0))
}
MIRRORED = UNITS | {"times -1": lambda x: -np.asarray(x)}
#: Of three columns.
PLACED = MIRRORED | {
    "columns in another order": lambda x: x[:, [2, 0, 1]],
    "a unit for each": lambda x: x * [1e-200, -1e150, 3.0] + [0.0, 0.0, -50.0],
}
PLACES = np.array([2, 0, 3, 1])
OTHER_CLASSES = {
    "classes in another order":
        lambda v: v[..., PLACES] if v.dtype.kind == "f" else np.argsort(PLACES)[v]}
WITHIN = {"probabilities": OTHER_CLASSES}
DRAWN = "rows are drawn at random, by their places: another order is another draw"
STREAM = "a stream: its order is its meaning"

rng = np.random.default_rng(0)
N = 120
CORRECT, OTHER_CORRECT = rng.random(N) < 0.75, rng.random(N) < 0.7
SCORE = dyadic(rng.normal(size=N) + CORRECT)
OTHER = dyadic(rng.normal(size=N) + OTHER_CORRECT)
LABELS = rng.integers(0, 4, N)
LOGITS = dyadic(2.0 * np.eye(4)[LABELS] + rng.normal(size=(N, 4)))
P = (rng.multinomial(1020, rng.dirichlet(np.ones(4), 2 * N)) + 1) / 1024
P = P[(np.diff(np.sort(P)) > 0).all(axis=1)][:N]  # no two classes tie
PAIR, BOTH = dict(correct=CORRECT, score=SCORE), "correct score other_correct other_score"
FOUR = {**PAIR, "other_correct": OTHER_CORRECT, "other_score": OTHER}

# ------------------------------------------------------------------------------ selective

for f in ("accuracy_coverage", "augrc", "aurc", "e_aurc", "normalized_score", "selective_auc"):
    add(f"selective.{f}", PAIR, "correct score", recode=RANK)
for more in (dict(), dict(randomized=True)):
    add("selective.coverage_at_accuracy", {**PAIR, "target": 0.8, **more}, "correct score",
        recode=RANK)
add("selective.guaranteed_threshold", {**PAIR, "target": 0.7}, "correct score", recode=RANK,
    but="threshold")
add("selective.private_threshold",
    {**PAIR, "target": 0.7, "thresholds": [0.25, 0.5, 1.0], "epsilon": 5.0, "rng": 0},
    "correct score", "thresholds")
add("selective.private_threshold",
    {**PAIR, "target": 0.7, "thresholds": [0.25, 0.5, 1.0], "epsilon": 5.0, "rng": 0},
    "correct score", "thresholds", only="units",
    call=lambda thresholds, **given: np.flatnonzero(
        L.private_threshold(thresholds=thresholds, **given).threshold == np.asarray(thresholds)),
    recode={"score thresholds": UNITS})
add("selective.risk_areas", dict(loss=dyadic(rng.random(N)), score=SCORE, labels=LABELS),
    "loss score labels", recode=RANK, kinds={"labels": "group"})
add("selective.gap_decomposition",
    {**PAIR, "probability": dyadic(rng.random(N)), "recalibrated": dyadic(rng.random(N), 8)},
    "correct score probability recalibrated",
    recode={**RANK, "recalibrated": RANKS})
add("selective.estimate", PAIR, "correct score", recode=RANK)
add("selective.influence", PAIR, "correct score", per_row="*", recode=RANK)
add("selective.compare", FOUR, BOTH, recode=RANK_BOTH)
add("selective.points_needed", {**FOUR, "difference": 0.05}, BOTH, recode=RANK_BOTH)
add("selective.bootstrap", {**FOUR, "seed": 0, "repetitions": 100}, BOTH, order=DRAWN,
    recode=RANK_BOTH)
STACKS = {k: np.stack([v, np.roll(v, 7), np.roll(v[::-1], 3)]) for k, v in FOUR.items()}
for axis in (0, 1):
    add("selective.compare_over_seeds", STACKS, " ".join(f"{a}@{axis}" for a in STACKS),
        recode=RANK_BOTH)
add("selective.mean_over_seeds", dict(values=dyadic(rng.random(9))), "values")
for f in ("bound_area", "random_order_score", "worst_order_score"):
    add(f"selective.{f}", dict(full_accuracy=dyadic(rng.random(9))), "full_accuracy", per_row="*")
add("selective.accuracy_bound",
    dict(full_accuracy=dyadic(rng.random(9)), coverage=dyadic(rng.random(9) * 0.9 + 0.1)),
    "full_accuracy coverage", per_row="*")
for f in ("softmax_response", "entropy", "margin", "conformal_set_size"):
    add(f"selective.{f}", dict(probabilities=P), "probabilities", per_row="*", recode=WITHIN)
for of in ("softmax response", "margin", "entropy"):
    for a, values in (("probabilities", P), ("logits", LOGITS)):
        add("selective.log_odds", {a: values, "of": of}, a, per_row="*", recode={a: OTHER_CLASSES})
    add("selective.log_odds", dict(logits=LOGITS, of=of), "logits", per_row="*",
        recode={"logits": {"shifted rows": lambda z: z + 64 * np.sign(z[:, :1])}})
for f in ("deep_gamblers", "self_adaptive_training"):
    add(f"selective.{f}", dict(probabilities=P), "probabilities", per_row="*",
        recode={"probabilities": {"classes": lambda p: p[:, [1, 2, 0, 3]]}})
MODELS = np.stack([P, P[::-1], np.roll(P, 5, axis=0)])
for f in ("deep_ensemble", "mc_dropout"):
    add(f"selective.{f}", dict(probabilities=MODELS), "probabilities@1", per_row="*",
        recode=WITHIN)
    add(f"selective.{f}", dict(probabilities=MODELS), "probabilities@0")
add("selective.energy", dict(logits=LOGITS), "logits", per_row="*",
    recode={"logits": OTHER_CLASSES})
add("selective.sctd", dict(labels=rng.integers(0, 3, (5, 40))), "labels@1", per_row="*",
    recode={"labels": {"classes renamed": lambda y: np.array([7, 0, 3])[y]}})
add("selective.ties_broken_by", dict(score=np.round(SCORE), second=SCORE), "score second",
    per_row="*",
    recode={"score": RANKS, "second": RANKS})

# ------------------------------------------------------------------------------ suitability

TABLE = dyadic(rng.normal(size=(N, 3)) + 1.5 * CORRECT[:, None] * [1, 0.5, 0])
TEST, USER = TABLE[::-1][:70], dyadic(rng.normal(size=(60, 3)) + 0.75)
FIT = dict(signals=TABLE, correct=CORRECT)
TESTED, USED = dyadic(rng.beta(8, 2, 70)), dyadic(rng.beta(8, 2, 60))
RIGHT_TESTED, RIGHT_USED = rng.random(70) < TESTED, rng.random(60) < USED

def then(name, given, *groups, **more):
    """A method after a fit, both in one call."""
    add(name, {**FIT, **given}, "signals correct", *groups, **more)


for test in ("fitted", "paper"):
    then("suitability.SuitabilityFilter.decide", dict(test_signals=TEST, user_signals=USER),
        "test_signals", "user_signals",
        call=lambda signals, correct, t=test, **two: S.SuitabilityFilter(0.1, test=t).fit(
            signals, correct).decide(**two),
        recode={"signals test_signals user_signals": PLACED}, rtol=1e-6)
then("suitability.SuitabilityFilter.estimate", dict(rows=TEST), ">rows", per_row="*",
    call=lambda signals, correct, rows: S.SuitabilityFilter().fit(signals, correct).estimate(rows),
    recode={"signals rows": PLACED}, rtol=1e-6)
then("suitability.RefinedFilter.decide", dict(test_correct=RIGHT_TESTED, user_signals=USER),
    "test_correct", "user_signals",
    call=lambda signals, correct, **two: S.RefinedFilter(0.1).fit(signals, correct).decide(**two),
    recode={"signals user_signals": PLACED}, rtol=1e-6)
then("suitability.RefinedFilter.estimate", dict(rows=TEST), ">rows",
    call=lambda signals, correct, rows: S.RefinedFilter().fit(signals, correct).estimate(rows),
    recode={"signals rows": PLACED}, rtol=1e-6)
then("suitability.CorrectnessEstimator.predict", dict(rows=TEST), ">rows", per_row="*",
    call=lambda signals, correct, rows: S.CorrectnessEstimator().fit(
        signals, correct).predict(rows),
    recode={"signals rows": PLACED}, rtol=1e-6)
# All wrap a model of scikit-learn in one class, but for the paper's own.
for m in (("logistic", "platt"), ("svm", "none"), ("decision-tree", "isotonic")):
    then("suitability.make_estimator", dict(rows=TEST), ">rows", per_row="*",
        call=lambda signals, correct, rows, m=m: S.make_estimator(*m).fit(
            signals, correct).predict_proba(rows),
        recode={"signals rows": UNITS}, rtol=1e-3)
WIDE = dyadic(rng.normal(size=(N, 12)) + CORRECT[:, None])
add("suitability.anova_table", dict(signals=WIDE, correct=CORRECT), "signals correct",
    recode={"signals": UNITS}, rtol=1e-6)
add("suitability.shap_values",
    dict(fit_signals=WIDE, fit_correct=CORRECT, signals=WIDE[:20]), "fit_signals fit_correct",
    ">signals", per_row="0", recode={"fit_signals signals": UNITS}, rtol=1e-6)
add("suitability.signals", dict(logits=LOGITS), "logits", per_row="*",
    recode={"logits": OTHER_CLASSES})
IN_GROUPS = np.column_stack([np.arange(N) % 2 == 0, np.arange(N) % 3 == 0])
add("suitability.Multicalibrator.fit",
    dict(estimates=dyadic(rng.beta(8, 2, N)), correct=CORRECT, groups=IN_GROUPS),
    "estimates correct groups", per_row="*", kinds={"groups": "flags"},
    call=lambda estimates, correct, groups: S.Multicalibrator(least=10).fit(
        estimates, correct, groups).predict(estimates, groups))
for f in ("non_inferiority_test", "equivalence_test"):
    add(f"suitability.{f}", dict(test=TESTED, user=USED, margin=0.1), "test", "user")
GROUPS = np.array(["north", "south", "west"])[rng.integers(0, 3, 70)]
add("suitability.equivalence_between_groups", dict(estimates=TESTED, groups=GROUPS, margin=0.1),
    "estimates groups")
for by in ("rows", "bins"):
    add("suitability.calibration_errors",
        dict(probabilities=TESTED, correct=RIGHT_TESTED, bins=10, by=by),
        "probabilities correct", kinds={"probabilities": "unit"})
add("suitability.calibration_offset", dict(estimated=TESTED, correct=RIGHT_TESTED),
    "estimated correct")
add("suitability.adjusted_margin",
    dict(margin=0.05, test_estimated=TESTED, test_correct=RIGHT_TESTED,
        user_estimated=USED, user_correct=RIGHT_USED),
    "test_estimated test_correct", "user_estimated user_correct")
for reference in ("distribution", "sample"):
    add("suitability.labels_test",
        dict(test_correct=RIGHT_TESTED, user_correct=RIGHT_USED, margin=0.1, reference=reference),
        "test_correct", "user_correct")
    add("suitability.prediction_powered_test",
        dict(test_correct=RIGHT_TESTED, user_estimated=USED[20:], labelled_estimated=USED[:20],
            labelled_correct=RIGHT_USED[:20], margin=0.1, reference=reference),
        "test_correct", "user_estimated", "labelled_estimated labelled_correct")
add("suitability.labelling_probabilities", dict(estimated=USED, rate=0.3, reference=TESTED),
    "estimated", "reference", per_row="*")
add("suitability.labelling_probabilities",
    dict(estimated=USED, rate=0.3, reference=TESTED, reference_correct=RIGHT_TESTED), "estimated",
    "reference reference_correct", per_row="*")
CHOSEN = rng.random(60) < 0.5
ACTIVE = dict(estimated=USED, chosen=CHOSEN, correct=RIGHT_USED[CHOSEN],
    probability=np.where(USED < 0.75, 0.75, 0.5))
add("suitability.active_accuracy", {**ACTIVE, "least_probability": 0.25},
    "estimated chosen probability", "correct", order="labels are in the order of chosen rows")
add("suitability.active_accuracy", {**ACTIVE, "correct": RIGHT_USED, "least_probability": 0.25},
    "estimated chosen probability correct", only="order", call=lambda chosen, correct, **given:
        S.active_accuracy(chosen=chosen, correct=correct[chosen], **given))
add("suitability.ActiveMonitor.update", ACTIVE, "estimated chosen probability", "correct",
    order=STREAM,
    call=lambda **batch: S.ActiveMonitor(0.7, least_probability=0.25).update(**batch))
add("suitability.Monitor.update",
    dict(reference=TESTED, reference_correct=RIGHT_TESTED, batch=USED, correct=RIGHT_USED),
    "reference reference_correct", "~batch", "~correct", order=STREAM,
    call=lambda batch, correct, **own: S.Monitor(**own, margin=0.3).update(batch, correct))
add("suitability.test_upper_bound", dict(test=TESTED, level=0.05), "test", kinds={"test": "unit"})
add("suitability.EProcess.update", dict(values=TESTED), "values", order=STREAM,
    kinds={"values": "unit"},
    call=lambda values: (p := S.EProcess(0.7)).update(values) or p.p_value)
add("suitability.SequentialDesign.decide", dict(p_values=dyadic([0.5, 0.1, 0.01])), "p_values",
    order="looks, one after another",
    call=lambda p_values: S.SequentialDesign(4).decide(p_values))

# ------------------------------------------------------------------------------ audit

MEMBERS = np.arange(N) % 2 == 0
ATTACK = dict(scores=dyadic(rng.normal(size=N) + 1.5 * MEMBERS), members=MEMBERS)
COUNTS = np.array([[8, 2, 9, 3], [5, 5, 6, 6], [10, 4, 7, 1], [5, 5, 6, 6]])
add("audit.roc_counts", ATTACK, "scores members", recode={"scores": RANKS})
add("audit.roc_thresholds", dict(scores=ATTACK["scores"]), "scores")
add("audit.counts_at", {**ATTACK, "threshold": 0.5}, "scores members")
add("audit.held_out_lower_bound", {**ATTACK, "delta": 1e-5, "seed": 0}, "scores members",
    order=DRAWN, recode={"scores": RANKS}, but="0")
IN_OUT = dict(in_scores=ATTACK["scores"][MEMBERS], out_scores=ATTACK["scores"][~MEMBERS])
for choice in ("held-out", "union"):
    own = dict(order=DRAWN) if choice == "held-out" else {}
    add("audit.gaussian_lower_bound", {**IN_OUT, "delta": 1e-5, "choice": choice}, "in_scores",
        "out_scores", **own, recode={"in_scores out_scores": INCREASING}, but="threshold")
for f in ("attack_curve", "union_lower_bound", "best_lower_bound", "epsilon_lower_bounds"):
    add(f"audit.{f}", dict(counts=COUNTS, **({} if f == "attack_curve" else {"delta": 1e-5})),
        "counts", per_row={"attack_curve": "fpr@1 fnr@1", "epsilon_lower_bounds": "*"}.get(f, ""),
        but={"union_lower_bound": "0", "best_lower_bound": "0"}.get(f, ""))
add("audit.AttackCurve.tpr", dict(counts=COUNTS, fpr=dyadic([0.125, 0.5, 0.25])), "counts", ">fpr",
    per_row="*@1", call=lambda counts, fpr: A.attack_curve(counts).tpr(fpr))
add("audit.AttackCurve.accuracy", dict(counts=COUNTS), "counts",
    call=lambda counts: A.attack_curve(counts).accuracy())
add("audit.AttackCurve.margin", dict(counts=COUNTS), "counts",
    call=lambda counts: A.attack_curve(counts).margin(lambda fpr: 1 - fpr))
add("audit.gaussian_fnr", dict(fpr=dyadic([0.125, 0.5, 0.25]), mu=1.0), "fpr", per_row="*")
SHADOWS = dyadic(rng.normal(size=(60, 8)))
INSIDE = rng.random((60, 8)) < 0.5
SHADOWS = SHADOWS + INSIDE * np.arange(8) / 4
add("audit.LiRA.score", dict(observed=SHADOWS[:9, 0], shadows=SHADOWS[:, 3], members=INSIDE[:, 3]),
    "observed", "shadows members", call=A.LiRA().score, per_row="*",
    recode={"observed shadows": MIRRORED})
add("audit.Threshold.score",
    dict(observed=SHADOWS[:9, 0], shadows=SHADOWS[:, 3], members=INSIDE[:, 3]), "observed",
    call=A.Threshold().score, per_row="*")
add("audit.select_worst", dict(shadows=SHADOWS, members=INSIDE, count=3), "shadows@1 members@1",
    per_row="1", but="0")
add("audit.select_worst", dict(shadows=SHADOWS, members=INSIDE, count=3), "shadows members",
    order="the first shadow models fit, the others test, as in P3", recode={"shadows": MIRRORED})
add("audit.one_run_guesses", dict(scores=rng.permutation(N) / 64, members=MEMBERS, guesses=20),
    "scores members", recode={"scores": RANKS})  # of scores that tie, chance decides
CANARY_LABELS = (LABELS + rng.integers(1, 4, N)) % 4
CANARIES = dict(confidences=P, canary_labels=CANARY_LABELS, true_labels=LABELS)
TOGETHER = " ".join(CANARIES)
RENAMED = {TOGETHER: OTHER_CLASSES}
SOME = dict(thresholds=(0.25, 0.5))
add("audit.canary_epsilon", {**CANARIES, **SOME}, TOGETHER, recode=RENAMED)
add("audit.top_label_bound", {**CANARIES, **SOME}, TOGETHER, recode=RENAMED)
add("audit.top_label_guesses", {**CANARIES, "threshold": 0.25}, TOGETHER, recode=RENAMED,
    call=lambda **given: (g := A.top_label_guesses(**given)) and (g.n_made, g.n_correct))
add("audit.one_label_bound", {**CANARIES, **SOME, "seed": 0}, TOGETHER, order=DRAWN)
add("audit.single_label_guesses", {**CANARIES, "threshold": 0.25, "seed": 0}, TOGETHER,
    order=DRAWN)
add("audit.insert_canaries", dict(labels=LABELS, n=20, n_classes=4, seed=0), "labels", order=DRAWN)
add("audit.Canaries.apply", dict(labels=LABELS), "labels", order="positions name rows",
    call=A.insert_canaries(LABELS, 20, n_classes=4, seed=0).apply)

# ------------------------------------------------------------------------------ counterfactual

X = dyadic(rng.normal(size=(N, 2)))
ABSTAINED, ABSTAINED_B = (rng.random(N) < 0.25 + 0.25 * (X[:, 0] > s) for s in (0, 0.5))
VALUES, VALUES_B = (dyadic(rng.random(N) / 2 + (X[:, 0] > s) / 4) for s in (0, 0.25))
ONE = dict(X=X, scores=VALUES, abstained=ABSTAINED)
TWO = dict(X=X, scores_a=VALUES, abstained_a=ABSTAINED, scores_b=VALUES_B, abstained_b=ABSTAINED_B)
NUMBERS = {"scores": "number"}


def in_units(function):
    """An estimate in units of the range of the scores, whatever their unit."""

    def call(scores, **given):
        found, (low, high) = function(scores=scores, **given), (np.min(scores), np.max(scores))
        ends = np.array([found.value, *found.interval])
        return (ends - low) / (high - low), found.stderr / (high - low)

    return call


for learner in ("linear", "forest"):
    own = dict(learner=learner, rng=1, clip=0.2)
    loose = dict(recode={"X": MIRRORED}, rtol=1e-6) if learner == "linear" else dict(
        recode={"X": UNITS}, only="units")
    add("counterfactual.counterfactual_score", {**ONE, **own}, "X scores abstained", order=DRAWN,
        kinds=NUMBERS, **loose)
    add("counterfactual.counterfactual_difference", {**TWO, **own}, " ".join(TWO), order=DRAWN,
        **loose)
    add("counterfactual.mixed_difference", {**TWO, **own}, " ".join(TWO), order=DRAWN, **loose)
    add("counterfactual.counterfactual_score", {**ONE, **own}, "X scores abstained", order=DRAWN,
        kinds=NUMBERS, call=in_units(C.counterfactual_score), recode={"scores": UNITS}, rtol=1e-6,
        only="units")
add("counterfactual.fit_nuisances",
    {**ONE, "fold": np.arange(N) % 2, "learner": "linear", "rng": 0}, "X scores abstained fold",
    kinds=NUMBERS, per_row="*", recode={"X": MIRRORED}, rtol=1e-6)
KNOWN = dict(abstained=ABSTAINED, scores=np.where(ABSTAINED, 0, VALUES),
    propensity=dyadic(0.25 + 0.25 * (X[:, 0] > 0)), outcome=dyadic(rng.random(N)))
OF = "abstained scores propensity outcome"


def from_nuisances(function, **more):
    """A function of what is known of each point."""
    return lambda abstained, scores, propensity, outcome: function(
        C.Nuisances(abstained, scores, propensity, outcome), **more)


def from_estimate(function, **more):
    """A function of an estimate."""
    return from_nuisances(
        lambda nuisances: function(C.estimate_from_nuisances(nuisances), **more))


def by_group(groups, **known):
    """Estimates and intervals within groups."""
    return from_estimate(lambda found: {
        name: (e.value, e.interval) for name, e in found.by_group(groups).items()})(**known)


for estimator in ("dr", "ipw", "plug-in"):
    add("counterfactual.estimate_from_nuisances", KNOWN, OF, kinds=NUMBERS,
        per_row="influence nuisances",
        call=from_nuisances(C.estimate_from_nuisances, estimator=estimator))
add("counterfactual.Estimate.by_group", {**KNOWN, "groups": np.array(list("abca"))[LABELS]},
    "~" + OF, "~groups", kinds=NUMBERS, call=by_group,
    order="of the estimate, whose rows have no names")
add("counterfactual.Estimate.by_group", {**KNOWN, "groups": np.array(list("abca"))[LABELS]},
    OF + " groups", kinds=NUMBERS, call=by_group, only="order")
add("counterfactual.influence_values", KNOWN, OF, kinds=NUMBERS, per_row="*",
    call=from_nuisances(C.influence_values))
for function, more in ((C.breakdown_share, {}), (C.clipping_sensitivity, dict(clips=[0.1, 0.2])),
    (C.contamination_bounds, dict(shares=[0.1, 0.2])), (C.classification_quality_estimate, {})):
    add(f"counterfactual.{function.__name__}", KNOWN, OF, kinds=NUMBERS,
        per_row="influence nuisances", call=from_estimate(function, **more))
add("counterfactual.exact_sequence", KNOWN, OF, kinds=NUMBERS, order=STREAM,
    call=from_nuisances(C.exact_sequence, floor=0.4))
add("counterfactual.confidence_sequence", dict(influence=VALUES), "influence", order=STREAM)
add("counterfactual.predictable_nuisances", {**ONE, "start": 50, "rng": 0},
    "X scores abstained", kinds=NUMBERS, order=STREAM)
FORECAST = dict(p=dyadic(rng.random(N) / 2 + 0.25), q=dyadic(rng.random(N) / 2 + 0.25),
    outcomes=CORRECT)
add("forecasts.winkler_score", FORECAST, "p q outcomes", per_row="*", call=F.winkler_score,
    kinds=dict(p="unit", q="unit", outcomes="flags"))
for f, more in (("one_sided_e_process", {}), ("lagged_p_values", dict(lag=3))):
    add(f"forecasts.{f}", dict(values=VALUES - 0.5, lowest=-1.0, **more), "values", order=STREAM,
        call=getattr(F, f))
SCORED = dict(scores=VALUES, abstained=ABSTAINED)
for f, more in (("selective_score", {}), ("classification_quality", {}),
    ("chow_score", dict(reward=0.5))):
    add(f"counterfactual.{f}", {**SCORED, **more}, "scores abstained",
        kinds={"scores": "unit"} if f == "classification_quality" else NUMBERS)
add("counterfactual.coverage", dict(abstained=ABSTAINED), "abstained")
for rule in ("zero-one", "brier", "log"):
    add("counterfactual.score", dict(rule=rule, probabilities=P, labels=LABELS),
        "probabilities labels", per_row="*",
        recode={} if rule == "zero-one" else {"probabilities labels": OTHER_CLASSES})
for measure in C.CONFIDENCE_MEASURES:
    add("counterfactual.confidence", dict(probabilities=P, measure=measure), "probabilities",
        per_row="*", recode=WITHIN)
add("counterfactual.abstain", dict(probabilities=P, threshold=0.5), "probabilities", per_row="*",
    recode=WITHIN)
add("counterfactual.abstain", dict(probabilities=P, rng=0), "probabilities", order=DRAWN)
halves = dyadic(rng.random(9) / 2 + 0.25)
add("counterfactual.efficiency_bound",
    dict(propensities=halves, outcomes=halves, variances=halves, covariance=halves),
    "propensities outcomes variances covariance",
    call=lambda propensities, outcomes, variances, covariance: C.efficiency_bound(
        [propensities] * 2, [outcomes] * 2, [variances] * 2, covariance))
for kind in ("Classifier", "Regressor"):
    for family in ("Forest", "SuperLearner"):
        model = getattr(C, family + kind)
        add(f"counterfactual.{family}{kind}.predict",
            dict(X=X, y=CORRECT * 1 if kind == "Classifier" else VALUES, rows=X[:9]),
            "X y", ">rows",
            kinds={"y": "class" if kind == "Classifier" else "number"}, order=DRAWN, per_row="*",
            call=lambda X, y, rows, model=model: (
                m := model(n_estimators=10, random_state=0).fit(X, y)) and getattr(
                    m, "predict_proba", m.predict)(rows),
            recode={"X rows": UNITS | ({"exp": np.exp} if family == "Forest" else {})}, rtol=1e-6)

def linear(X, y, rows):
    """Of a pipeline of scikit-learn, whose last step reads `y` in its own way."""
    model = C.learner_pair("linear", np.random.default_rng(0))[y.dtype.kind == "f"].fit(X, y)
    return getattr(model, "predict_proba", model.predict)(rows)


for y, kind in ((CORRECT * 1, "class"), (VALUES, "number")):
    add("counterfactual.learner_pair", dict(X=X, y=y, rows=X[:9]), "X y", ">rows",
        kinds={"y": kind}, call=linear, per_row="*", recode={"X rows": MIRRORED}, rtol=1e-6,
        only="names")

# ------------------------------------------------------------------------------ privacy

VOTES = rng.multinomial(60, [0.8, 0.1, 0.1], size=30)
RUN = dict(votes=VOTES, sigma1=10.0, sigma2=5.0, threshold=40.0)
ANSWERED = np.arange(30) % 3 > 0
for f, more in (("pate_epsilon", {}), ("publish_epsilon", dict(seed=0))):
    add(f"privacy.{f}", {**RUN, "delta": 1e-5, "answered": ANSWERED, **more}, "votes answered",
        recode={"votes": {"classes": lambda v: v[:, [2, 0, 1]]}})
add("privacy.confident_gnmax", {**RUN, "seed": 0}, "votes", order=STREAM)
add("privacy.vote_histogram", dict(predictions=rng.integers(0, 3, (7, 9)), n_classes=3),
    "predictions@1", per_row="*")
add("privacy.vote_histogram", dict(predictions=rng.integers(0, 3, (7, 9)), n_classes=3),
    "predictions@0")
add("privacy.smooth_sensitivity", dict(bounds=dyadic([1, 2, 1.5]), beta=0.1), "bounds",
    order="by distance")
add("privacy.posterior", dict(likelihood=P, prior=P[::-1].copy()), "likelihood prior", per_row="*")
add("privacy.project_to_simplex", dict(observed=LOGITS), "observed", per_row="*",
    recode={"observed": {"shifted rows": lambda v: v + 1024 * np.sign(v[:, :1])}})
add("privacy.rr_with_prior", dict(labels=LABELS, prior=P, epsilon=1.0, seed=0), "labels prior",
    order=DRAWN, recode={"prior": {"up to a factor": lambda p: 1e-7 * p}})
for mechanism in (V.LaplaceLabels(1.0), V.GaussianLabels(1.0), V.RandomizedResponse(1.0)):
    name = f"privacy.{type(mechanism).__name__}"
    add(f"{name}.observe", dict(labels=LABELS, n_classes=4, seed=0), "labels", order=DRAWN,
        call=mechanism.observe)
    observed = np.eye(4)[LABELS] if name.endswith("Response") else LOGITS
    add(f"{name}.likelihood", dict(observed=observed), "observed", per_row="*",
        call=mechanism.likelihood, rtol=1e-6)
