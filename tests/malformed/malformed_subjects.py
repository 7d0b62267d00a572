# ruff: noqa: C408
"""The table of malformed calls: rows of lib.audit, lib.canaries and lib.counterfactual."""

import numpy as np
from malformed_kinds import (
    INF,
    NAN,
    NOT_NEGATIVE,
    NUMBER,
    RNG,
    UNIT,
    Bad,
    Table,
    booleans,
    but,
    labels,
    matrices,
    probabilities,
    vectors,
)

from lib import audit, counterfactual
from lib.studies.counterfactual import simulation

ROWS = Table()
add = ROWS.add

rng = np.random.default_rng(0)
COUNTS = [65, 25, 75, 35]
C = audit.AttackCounts(65, 25, 75, 35)
MEMBERS = np.arange(40) % 2 == 0
SCORES = rng.normal(size=40)
add("audit.AttackCounts", dict(tp=6, fp=2, tn=7, fn=3))
TAB = (
    Bad("negative", [[-1, 2, 3, 4]], ("-1",)),
    Bad("three", [[1, 2, 3]], ("(1, 3)", "3")),
    Bad("NaN", [[NAN, 1, 2, 3]], ("nan",)),
    Bad("fractions", [[0.5, 1, 2, 3]], ("0.5", "float64")),
    Bad("text", "abcd", ("abcd", "<U4")),
    Bad("no positives", [[0, 1, 2, 0]], ("positive",)),
    Bad("empty", np.zeros((0, 4), int), ("(0, 4)",)),
    Bad("infinite", [[INF, 1, 2, 3]], ("inf",)),
    Bad("ragged", [[1], [1, 2]], ("ragged",)),
    Bad("None", None, ("None",)),
)
DELTA = (-0.1, 1.0, *NUMBER)
for f in ("epsilon_interval", "epsilon_posterior"):
    add("audit." + f, dict(counts=C, delta=1e-05))
    add("audit." + f, dict(counts=C, delta=1e-05), error=TypeError, only=True, counts=TAB)
add("audit.attack_curve", dict(counts=[COUNTS]), counts=TAB, fixed=("yes", 1, None))
CURVE = audit.attack_curve([COUNTS])
add("audit.AttackCurve.tpr", dict(fpr=[0.1]), call=CURVE.tpr)
add("audit.AttackCurve.accuracy", call=CURVE.accuracy, prevalence=UNIT)
add("audit.AttackCurve.margin", call=CURVE.margin, least_fnr=(0.5, None))
for f in ("epsilon_lower_bounds", "best_lower_bound", "union_lower_bound"):
    add("audit." + f, dict(counts=[COUNTS], delta=1e-05), counts=TAB)
add(
    "audit.union_lower_bound", dict(counts=[COUNTS], delta=1e-05), only=True, fixed=("yes", 1, None)
)
SM = dict(scores=SCORES, members=MEMBERS)
B = booleans(MEMBERS)
add("audit.roc_counts", SM, members=B)
add("audit.counts_at", {**SM, "threshold": 0.0}, members=B)
add("audit.roc_thresholds", dict(scores=SCORES))
add(
    "audit.held_out_lower_bound",
    {**SM, "delta": 1e-05, "seed": 0},
    members=B,
    splits=(0, 2, 2.5, "3"),
)
add(
    "audit.gaussian_lower_bound",
    dict(in_scores=SCORES, out_scores=SCORES, delta=1e-05),
    delta=(0.0, *DELTA),
)
add("audit.epsilon_point", dict(fpr=0.05, fnr=0.2, delta=1e-05))
add("audit.gaussian_fnr", dict(fpr=0.05, mu=1.0))
add("audit.true_best_epsilon", dict(mu=1.0, delta=1e-05), delta=(0.0, *DELTA))
add("audit.privacy_region", dict(epsilon=1.0, delta=1e-05), epsilon=NOT_NEGATIVE)
G = dict(scores=[[3.0, 1, -1, -2]], members=[[True, False, True, False]], guesses=2)
add(
    "audit.one_run_guesses",
    G,
    scores=but(matrices(G["scores"]), "infinite", "one-dimensional"),
    members=(Bad("shape", [[True]], ("(1, 1)",)), Bad("text", [["a"] * 4], ("<U1",))),
    guesses=(0, 3, 100, 2.5, "2"),
)
P = dict(correct=80, guesses=100, canaries=500, epsilon=1.0, delta=0.0)
add(
    "audit.one_run_p_value",
    P,
    correct=(-1, 101, 2.5, "3"),
    guesses=(-1, 501, 2.5, "3"),
    canaries=(0, 2.5, "3"),
    epsilon=NOT_NEGATIVE,
)
P = dict(correct=80, guesses=100, canaries=500, delta=0.0)
add(
    "audit.one_run_epsilon",
    P,
    correct=(-1, 101, 2.5, "3"),
    guesses=(-1, 501, 2.5, "3"),
    canaries=(0, 2.5, "3"),
)
SH = rng.normal(size=(60, 20))
SHM = rng.random((60, 20)) < 0.5
add(
    "audit.select_worst",
    dict(shadows=SH, members=SHM, count=3),
    members=(
        Bad("shape", SHM[:, :3], ("(60, 3)",)),
        Bad("all inside", np.ones_like(SHM), ()),
        Bad("text", np.full(SHM.shape, "a"), ("<U1",)),
    ),
    count=(0, 21, 2.5, "3"),
)
for n in ("LiRA", "Threshold"):
    a = getattr(audit, n)()
    add(
        "audit." + n,
        dict(observed=np.array([0.0, 1.0]), shadows=SH[:, 0], members=SHM[:, 0]),
        call=a.score,
        only=True,
        observed=but(vectors([0.0, 1.0]), "a number", "empty", "infinite", "two-dimensional"),
    )
add(
    "audit.insert_canaries",
    dict(labels=[0, 1, 2, 0, 1, 2], n=2, n_classes=3, seed=0),
    labels=labels([0, 1, 2, 0, 1, 2], 3),
    n=but((0, 7, 10**12, 2.5, "3"), "0"),
    n_classes=(1, 2, 2.5, "3"),
)
lab = rng.integers(10, size=50)
d = audit.insert_canaries(lab, 20, n_classes=10, seed=1)
conf = rng.dirichlet(np.ones(10), 20)
K = dict(confidences=conf, canary_labels=d.canary_labels, true_labels=d.true_labels)
KW = dict(
    confidences=probabilities(conf),
    canary_labels=labels(d.canary_labels, 10),
    true_labels=labels(d.true_labels, 10),
)
TH = ((), (0.0,), (1.0,), (NAN,), ("a",), 0.5, (-1.0,))
add("audit.canary_epsilon", K, **KW, thresholds=but(TH, "(0.0,)", "(1.0,)", "0.5"))
add("audit.one_label_bound", {**K, "seed": 0}, **KW, thresholds=but(TH, "(0.0,)", "(1.0,)", "0.5"))
add("audit.top_label_bound", K, **KW, thresholds=but(TH, "(0.0,)", "(1.0,)", "0.5"))
add(
    "audit.single_label_guesses",
    {**K, "seed": 0, "threshold": 0.5},
    **KW,
    threshold=UNIT,
    says=dict(threshold="thresholds"),
)
add(
    "audit.top_label_guesses",
    {**K, "threshold": 0.5},
    **KW,
    threshold=UNIT,
    says=dict(threshold="thresholds"),
)
add("audit.epsilon_of_rate", dict(rate=0.7))
add("audit.rate_of_epsilon", dict(epsilon=1.0), epsilon=(NAN, "0.5", -1.0))
cf = counterfactual

dr = simulation.simulate(200, rng=0)
X, (a, b), (r, s) = (dr.X, dr.scores, dr.abstained)
AB = booleans(r)
E = cf.counterfactual_score(X, a, r, rng=1, learner="linear", clip=0.2)
sc = np.where(r, 0, a)
bad_scores = (
    *tuple(x for x in vectors(a) if x.label not in ("NaN", "infinite")),
    Bad("NaN where it answered", np.full(200, NAN), ("nan",)),
)
add(
    "counterfactual.counterfactual_score",
    dict(X=X, scores=a, abstained=r, rng=1, learner="linear", clip=0.2),
    scores=bad_scores,
    abstained=(*AB, Bad("always", np.ones(200, bool), ())),
    folds=(1, 201, 2.5, "2"),
    clip=(-0.1, 0.0, 1.0, NAN, "a"),
    rng=(*RNG, -1),
    takes=dict(X="complex"),
)
add(
    "counterfactual.counterfactual_difference",
    dict(
        X=X, scores_a=a, abstained_a=r, scores_b=b, abstained_b=s, rng=1, learner="linear", clip=0.2
    ),
    scores_a=bad_scores,
    scores_b=bad_scores,
    folds=(1, 201, 2.5, "2"),
    takes=dict(X="complex"),
)
add(
    "counterfactual.mixed_difference",
    dict(
        X=X, scores_a=a, abstained_a=r, scores_b=b, abstained_b=s, rng=1, learner="linear", clip=0.2
    ),
    scores_a=bad_scores,
    scores_b=bad_scores,
    folds=(1, 201, 2.5, "2"),
    weight=(-0.1, 1.1, NAN, "a"),
    takes=dict(X="complex"),
)
halves = [np.full(4, 0.5)]
add(
    "counterfactual.efficiency_bound",
    dict(propensities=halves, outcomes=halves, variances=halves, covariance=np.zeros(4)),
    propensities=([], Bad("1", [np.ones(4)], ("1",)), Bad("NaN", [np.full(4, NAN)], ("nan",))),
    outcomes=([], Bad("short", [np.ones(3)], ("(3,)",)), Bad("NaN", [np.full(4, NAN)], ("nan",))),
    variances=(
        [],
        Bad("negative", [-np.ones(4)], ("-1",)),
        Bad("inf", [np.full(4, INF)], ("inf",)),
    ),
)
pr = rng.dirichlet(np.ones(3), 30)
add(
    "counterfactual.abstain",
    dict(probabilities=pr, threshold=0.5),
    rng=(),
    takes=dict(probabilities="too few dimensions"),
)
add(
    "counterfactual.abstain",
    dict(probabilities=pr, rng=0),
    probabilities=(),
    bounds=but(((0.8, 0.2), (0, 1, 2), "ab", (NAN, 1), (-1, 2), 0.5), "'ab'"),
)
add(
    "counterfactual.confidence",
    dict(probabilities=pr),
    takes=dict(probabilities="too few dimensions"),
)
add(
    "counterfactual.breakdown_share",
    dict(estimate=E),
    score_range=((1, 0), (0, 0), "ab", (NAN, 1), 0.5),
)
add(
    "counterfactual.contamination_bounds",
    dict(estimate=E, shares=[0.1]),
    shares=([], [-0.1], [1.5], [NAN], ["a"], [[0.1]]),
    score_range=((1, 0), (0, 0), "ab", (NAN, 1), 0.5),
)
add(
    "counterfactual.clipping_sensitivity",
    dict(estimate=E, clips=[0.1]),
    clips=([], [-0.1], [1.5], [NAN], ["a"], [[0.1]]),
)
m = dict(scores=sc, abstained=r)
for f in ("selective_score", "classification_quality"):
    add("counterfactual." + f, m, scores=bad_scores, takes=dict(abstained="one too few"))
add("counterfactual.chow_score", {**m, "reward": 0.5}, scores=bad_scores, reward=(*NUMBER, INF))
add("counterfactual.coverage", dict(abstained=r), takes=dict(abstained="one too few"))
add(
    "counterfactual.confidence_sequence",
    dict(influence=a[:100]),
    influence=but(
        (*vectors(a[:100]), Bad("shorter than start", a[:10], ("10",))), "shorter than start"
    ),
    start=(1, 0, 2.5, "3"),
    score_range=((1.0, 0.0), (0.0, 1e-09), (-INF, INF), 5, "ab"),
)
add(
    "counterfactual.predictable_nuisances",
    dict(X=X, scores=a, abstained=r, start=50, rng=0),
    scores=bad_scores,
    start=(1, 0, 200, 2.5, "3"),
    takes=dict(X="complex"),
)
known = cf.Nuisances(r, sc, dr.propensities[0], np.full(200, 0.7))
add(
    "counterfactual.exact_sequence",
    dict(nuisances=known, floor=0.2, level=0.95, planned=100),
    nuisances=but(([], 3, "a"), "3", "[]"),
    floor=(0.0, 1.5, *NUMBER),
    target=("all", 3, None),
)
add("counterfactual.default_clip", dict(n=100))
add("counterfactual.optimal_rho", dict(n=100))
add(
    "counterfactual.estimate_from_nuisances",
    dict(nuisances=E.nuisances),
    nuisances=but(([], 3, "a"), "3", "[]"),
)
add("counterfactual.influence_values", dict(nuisances=E.nuisances[0]))
add("counterfactual.fold_numbers", dict(n=20, folds=2, rng=0), folds=(1, 21, 2.5, "3"))
F = cf.fold_numbers(200, 2, rng=0)
add(
    "counterfactual.fit_nuisances",
    dict(X=X, scores=a, abstained=r, fold=F, learner="linear", rng=0),
    scores=bad_scores,
    fold=but(
        (
            Bad("one fold", np.zeros(200, int), ()),
            Bad("short", F[:-1], ("199",)),
            Bad("floats", F + 0.5, ("float64", "0.5")),
        ),
        "floats",
    ),
    takes=dict(X="complex"),
)
add("counterfactual.learner_pair", dict(learner="linear", rng=np.random.default_rng(0)), rng=())
add(
    "counterfactual.score",
    dict(rule="brier", probabilities=pr, labels=np.zeros(30, int)),
    probabilities=but(probabilities(pr), "too few dimensions"),  # of two classes
    labels=labels(np.zeros(30, int), 3),
    floor=(0.0, 1.0, NAN, "a"),
)
