# ruff: noqa: C408
"""The table of malformed calls: formulas, but for what follows from their examples by rows."""

import numpy as np
import rowwise
from malformed_kinds import (
    CHOICE,
    FLAG,
    INF,
    NAN,
    NUMBER,
    POSITIVE,
    TABLES,
    UNIT,
    Bad,
    Table,
    booleans,
    but,
    matrices,
    probabilities,
    vectors,
)

from lib import audit, counterfactual, privacy, suitability
from lib.audit import white_box
from lib.counterfactual import forecasts

ROWS = Table()
add = ROWS.add

rng = np.random.default_rng(0)
FIT, T, CORRECT, TE = rowwise.FIT, rowwise.TABLE, rowwise.CORRECT, rowwise.TESTED
LEDGER = privacy.PrivacyLedger((privacy.SampledGaussian(0.1, 1.0, 10),))
CURVE = audit.attack_curve([[65, 25, 75, 35]])
TRADE_OFF = privacy.trade_off(LEDGER)
KNOWN = counterfactual.Nuisances(**rowwise.KNOWN)
ESTIMATE = counterfactual.estimate_from_nuisances(KNOWN)
COUNTS = audit.AttackCounts(65, 25, 75, 35)
RUN = dict(epsilon=3.0, delta=1e-05, sample_rate=0.1, steps=10)
OFTEN = (-1, 501, 2.5, "3")
HALVES = [np.full(4, 0.5)]
ONE_RUN = dict(correct=80, guesses=100, canaries=500, delta=0.0)

#: Functions of numbers alone: what is wrong with these follows from their names.
for name, good in {
    "audit.AttackCounts": dict(tp=6, fp=2, tn=7, fn=3),
    "audit.epsilon_of_rate": dict(rate=0.7),
    "audit.epsilon_point": dict(fpr=0.05, fnr=0.2, delta=1e-05),
    "audit.privacy_region": dict(epsilon=1.0, delta=1e-05),
    "audit.rate_of_epsilon": dict(epsilon=1.0),
    "audit.true_best_epsilon": dict(mu=1.0, delta=1e-05),
    "counterfactual.breakdown_share": dict(estimate=ESTIMATE),
    "counterfactual.clipping_sensitivity": dict(estimate=ESTIMATE, clips=[0.1]),
    "counterfactual.contamination_bounds": dict(estimate=ESTIMATE, shares=[0.1]),
    "counterfactual.default_clip": dict(n=100),
    "counterfactual.fold_numbers": dict(n=20, folds=2, rng=0),
    "counterfactual.influence_values": dict(nuisances=KNOWN),
    "counterfactual.optimal_rho": dict(n=100),
    "privacy.GaussianLabels": {},
    "privacy.LaplaceLabels": {},
    "privacy.group_guarantee": dict(ledger=LEDGER, delta=1e-05, records=2),
    "privacy.label_guarantee": dict(ledger=LEDGER, delta=1e-05),
    "privacy.multi_stage_parts": dict(n=10, stages=2, seed=0),
    "privacy.selection_epsilon": dict(ledger=LEDGER, delta=1e-05, mean_trials=5.0),
    "privacy.shards": dict(n=10, n_teachers=2, seed=0),
    "suitability.RefinedFilter": {},
    "suitability.SuitabilityFilter": {},
    "suitability.information_fractions": dict(n_test=100, batch_size=20, looks=3),
    "suitability.labels_for_power": dict(test_accuracy=0.9, n_test=500, margin=0.15),
    "suitability.labels_needed": dict(sd_difference=0.3, half_width=0.05),
    "suitability.make_estimator": dict(name="logistic", seed=0),
}.items():
    add(name, good)
for kind in ("GaussianLabels", "LaplaceLabels"):
    more = dict(delta=1e-05) if kind == "GaussianLabels" else {}
    made = getattr(privacy, kind).for_epsilon
    add(f"privacy.{kind}.for_epsilon", dict(epsilon=1.0, **more), call=made, epsilon=POSITIVE)
for method, name in dict(cdf="eps", ppf="q").items():
    call = getattr(audit.epsilon_posterior(COUNTS, 0.01), method)
    nan = (Bad("NaN", NAN, ("NaN", "nan")),)
    add(f"audit.EpsilonPosterior.{method}", {name: 0.5}, call=call, **{name: nan})

for f in ("epsilon_interval", "epsilon_posterior"):
    add(f"audit.{f}", dict(counts=COUNTS, delta=1e-05), counts=())
    add(f"audit.{f}", dict(counts=COUNTS, delta=1e-05), error=TypeError, only=True, counts=TABLES)
add("audit.AttackCurve.accuracy", call=CURVE.accuracy)
add("audit.AttackCurve.margin", call=CURVE.margin, least_fnr=(0.5, None))
add("audit.PrivacyRegion.lower", call=audit.privacy_region(1.0, 0.1).lower)
add(
    "audit.error_free_bound",
    dict(members=10, others=10, delta=1e-05),
    members=(2.5, "3"),
    others=(2.5, "3"),
)
add("audit.trials_needed", dict(epsilon=1.0, delta=1e-05), epsilon=(-1.0, INF, 1000.0, *NUMBER))
wrong = dict(correct=OFTEN, guesses=OFTEN, canaries=(0, 2.5, "3"))
add("audit.one_run_epsilon", ONE_RUN, **wrong)
add("audit.one_run_p_value", dict(**ONE_RUN, epsilon=1.0), **wrong)
scores = dict(scores=[[3.0, 1, -1, -2]], members=[[True, False, True, False]], guesses=2)
add("audit.one_run_guesses", scores, only=True, guesses=(0, 3, 100, 2.5, "2"))
add(
    "audit.select_worst",
    dict(shadows=rowwise.SHADOWS, members=rowwise.INSIDE, count=3),
    only=True,
    members=(
        Bad("shape", rowwise.INSIDE[:, :3], ("(60, 3)",)),
        Bad("all inside", np.ones_like(rowwise.INSIDE), ()),
        Bad("text", np.full(rowwise.INSIDE.shape, "a"), ("<U1",)),
    ),
)
for f in ("single_label_guesses", "top_label_guesses"):
    given = {**rowwise.CANARIES, "threshold": 0.5}
    given |= dict(seed=0) if f == "single_label_guesses" else {}
    add(f"audit.{f}", given, only=True, threshold=UNIT, says=dict(threshold="thresholds"))


add(
    "counterfactual.abstain",
    dict(probabilities=rowwise.P, rng=0),
    probabilities=(),
    bounds=((0.8, 0.2), (0, 1, 2), (NAN, 1), (-1, 2), 0.5),
)
add(
    "counterfactual.efficiency_bound",
    dict(propensities=HALVES, outcomes=HALVES, variances=HALVES),
    propensities=([], Bad("1", [np.ones(4)], ("1",)), Bad("NaN", [np.full(4, NAN)], ("nan",))),
    outcomes=([], Bad("short", [np.ones(3)], ("(3,)",)), Bad("NaN", [np.full(4, NAN)], ("nan",))),
    variances=([], Bad("-1", [-np.ones(4)], ("-1",)), Bad("inf", [np.full(4, INF)], ("inf",))),
)
add("counterfactual.estimate_from_nuisances", dict(nuisances=KNOWN), nuisances=("a",))
add(
    "counterfactual.exact_sequence",
    dict(nuisances=KNOWN, floor=0.2, level=0.95, planned=100),
    nuisances=("a",),
    floor=(0.0, 1.5, *NUMBER),
    target=("all", 3, None),
)
stream = dict(values=[0.5, -0.5, 0.25], lowest=-1.0)
low, wide = (0.0, 1.0, -INF, *NUMBER), (0.5, INF, *NUMBER)
small = (Bad("below lowest", [0.5, -2.0], ("-2",)),)
call = forecasts.one_sided_e_process
add("forecasts.one_sided_e_process", dict(stream, scale=2.0, tuned=1.0), call=call, values=small,
    lowest=low, scale=wide, tuned=POSITIVE)  # fmt: skip
add("forecasts.lagged_p_values", dict(stream, lag=2, scale=2.0), call=forecasts.lagged_p_values,
    values=small, lowest=low, scale=wide, lag=(0, 4, 2.5, "3"))  # fmt: skip
add("forecasts.winkler_score", dict(p=[0.5], q=[0.25], outcomes=[True], base="brier"),
    call=forecasts.winkler_score, q=(Bad("1", [1.0], ("1",)), Bad("0", [0.0], ("0",))),
    base=CHOICE)  # fmt: skip
add("counterfactual.learner_pair", dict(learner="linear", rng=rng), rng=())


add("privacy.PrivacyLedger.epsilon", dict(delta=1e-05), call=LEDGER.epsilon)
add("privacy.RandomizedResponse", pure_epsilon=(-1.0, 0.0, *NUMBER))
add(
    "privacy.SampledGaussian",
    dict(sample_rate=0.1, noise_multiplier=1.0, steps=10),
    takes=dict(steps="0"),
)
add("privacy.TradeOff.fnr", dict(fpr=[0.1]), call=TRADE_OFF.fnr)
add("privacy.TradeOff.mu", dict(delta=1e-05), call=TRADE_OFF.mu)
add("privacy.smooth_noise_rdp", dict(beta=0.1, noise=1.0, order=2.0), noise=(0.0, *NUMBER))
add("privacy.draw_trials", dict(mean_trials=5.0, rng=0))
add("privacy.find_noise_multiplier", RUN, epsilon=but(POSITIVE, "inf"))
add("privacy.selection_noise_multiplier", {**RUN, "mean_trials": 5.0}, epsilon=but(POSITIVE, "inf"))
add(
    "privacy.budget_table",
    dict(epsilons=[3.0], delta=1e-05, sample_rate=0.01, steps=10, members=5),
    epsilons=([0.0], ["a"], [INF], 3),
    members=(0, 2.5, "3"),
)
add(
    "privacy.joint_epsilon",
    dict(ledger=LEDGER, delta=1e-05, pure=[0.5]),
    pure=("0.5", 0.5, [-0.1], [NAN], ["a"]),
)
add(
    "privacy.trade_off",
    dict(mechanism=LEDGER, neighbours="replace"),
    mechanism=(1.0, None, "L"),
    neighbours=CHOICE,
)
add(
    "privacy.vote_histogram",
    dict(predictions=[[0, 1], [0, 2]], n_classes=3),
    only=True,
    predictions=(
        Bad("no such class", [[3]], ("3",)),
        Bad("negative", [[-1]], ("-1",)),
        Bad("1d", [0, 1], ("(2,)",)),
        Bad("fractions", [[0.5]], ("float64",)),
        Bad("empty", np.zeros((0, 3), int), ("(0, 3)",)),
    ),
)


STACKS = {name: part[:, :40] for name, part in rowwise.STACKS.items()}
add(
    "selective.compare_over_seeds",
    STACKS,
    **{name: matrices(STACKS[name]) for name in ("correct", "other_correct")},
    **{name: but(matrices(STACKS[name]), "infinite") for name in ("score", "other_score")},
)
for f in ("deep_ensemble", "mc_dropout"):
    add(f"selective.{f}", dict(probabilities=rowwise.P[None]), probabilities=probabilities)
add(
    "selective.guaranteed_threshold",
    {**rowwise.PAIR, "target": 0.9, "clusters": np.arange(rowwise.N) % 20, "rng": 0},
    correct=(),
    score=(),
    target=(0.0,),
)
add("selective.normalized_score_extremes", dict(n_correct=90, n=100), n_correct=(-1, 101, "3", NAN))
add(
    "selective.risk_areas",
    dict(loss=rowwise.SCORE, score=rowwise.SCORE, labels=np.arange(rowwise.N) % 3),
    loss=(),
    score=(),
    takes=dict(labels=("negative", "text")),
)
add(
    "selective.sctd",
    dict(labels=np.zeros((3, 5), int)),
    labels=(
        Bad("one-dimensional", np.zeros(3, int), ("(3,)",)),
        Bad("fractions", np.full((2, 3), 0.5), ("float64",)),
        Bad("empty", np.zeros((0, 3), int), ("(0, 3)",)),
    ),
)


ONE_CLASS = (*booleans(CORRECT), Bad("one class", np.ones(len(CORRECT), bool), ()))
for kind, wrong in dict(
    SuitabilityFilter=ONE_CLASS, CorrectnessEstimator=booleans, RefinedFilter=booleans
).items():
    call = getattr(suitability, kind)().fit
    add(f"suitability.{kind}.fit", FIT, call=call, correct=wrong)
FITTED = suitability.SuitabilityFilter(margin=0.05).fit(**FIT)
other = (*matrices(T), Bad("other columns", T[:, :2], ("2",)))
add(
    "suitability.SuitabilityFilter.decide",
    dict(test=T, user=T),
    call=lambda test, user: FITTED.decide(test, user),
    says=dict(test="test_signals", user="user_signals"),
    test=other,
    user=other,
)
groups = np.arange(2 * len(T)).reshape(-1, 2) % 3 == 0
add("suitability.Multicalibrator", dict(bins=10, tolerance=0.02), tolerance=(0.0, 1.0))
add(
    "suitability.Multicalibrator.fit",
    dict(estimates=np.full(len(T), 0.7), correct=CORRECT, groups=groups),
    call=suitability.Multicalibrator().fit,
    groups=(Bad("a vector", groups[:, 0], ("n_groups",)), Bad("short", groups[:9], ("120",))),
)
add(
    "suitability.ActiveMonitor",
    dict(least_accuracy=0.7, least_probability=0.1),
    least_accuracy=(0.0, 1.0, *NUMBER),
)
add("suitability.EProcess", dict(threshold=0.5), threshold=(0.0, *NUMBER))
add(
    "suitability.Monitor",
    dict(reference=TE, margin=-0.05),
    reference=vectors(TE),
    reference_correct=booleans(TE > 0.7)[:-1],
)
design = suitability.SequentialDesign(2)
add(
    "suitability.SequentialDesign",
    dict(looks=2),
    information=([1.0], [0.5, 0.4], [NAN, 1.0], ["a", "b"]),
)
add("suitability.SequentialDesign.power", dict(drift=1.0), call=design.power)
add("suitability.corrected_margin", dict(margin=0.05, eps_source=0, eps_target=0), margin=NUMBER)
add(
    "suitability.equivalence_between_groups",
    dict(estimates=TE, groups=np.repeat(["a", "b"], 35), margin=0.05),
    only=True,
    groups=(Bad("short", ["a"], ("1",)), Bad("one group", ["a"] * 70, ("1", "'a'"))),
)
add(
    "suitability.labelling_probabilities",
    dict(estimated=TE, rate=0.1, reference=TE, reference_correct=TE > 0.7),
    only=True,
    strata=(0, 2.5, "3"),
)
sizes = dict.fromkeys(("n_test", "n_user"), (1, NAN))
add(
    "suitability.non_inferiority_power",
    dict(n_test=500, n_user=50, drop=0.0, sd_test=0.1, sd_user=0.1, margin=0.05),
    takes=dict(margin="1.5"),
    **sizes,
)
names = ("no name", "conf_max", 3)
add("suitability.register_signal", dict(name="x"), name=names, replace=FLAG[:2])
add(
    "suitability.required_sample_size",
    dict(sd_test=0.1, sd_user=0.1, margin=0.05, n_test=500),
    sd_test=(-1.0, INF, *NUMBER),
    sd_user=(-1.0, INF, *NUMBER),
)
add("suitability.signals", dict(logits=rowwise.LOGITS), extra=(["no such thing"], [3], 3))
add(
    "suitability.welch_non_inferiority",
    dict(
        **dict.fromkeys(("mean_test", "mean_user"), 0.8),
        **dict.fromkeys(("variance_test", "variance_user"), 0.02),
        **dict(n_test=50, n_user=40, margin=0.05),
    ),
    margin=NUMBER,
    **sizes,
)

IN = [True, False]
recorder = white_box.CanaryRecorder(IN, 1.0, 0.5)
recorder.add([1.0, 0.0], [1.0, 0.0], [True, False])
recorder.add([1.0, 0.0], [1.0, 0.0], [True, False])
SCORES = recorder.scores()
step = (*but(vectors([1.0, 0.0]), "a number", "ragged"), Bad("short", [1.0], ("(1,)",)))
wrong_places = (
    Bad("twice", [[0], [0]], ("1",)),
    Bad("negative", [[-1], [0]], ("-1",)),
    Bad("1d", [0, 1], ("(2,)",)),
    Bad("fractions", [[0.5], [1.0]], ("float64",)),
)
wrong_coins = (Bad("fractions", [0.5, 1.0], ("0.5",)), Bad("empty", [], ("(0,)",)))
claimed = dict(clipping_norm=1.0, noise_multiplier=1.0, sample_rate=0.5)
loop = dict(noisy_sums=[[1.0, 0.0]], directions=np.eye(2), coins=IN, **claimed)
for name, good, wrong in (
    ("GradientCanaries", dict(number=5, seed=1), dict(number=(1, 2.5, "3"), width=(0, 2.5))),
    ("Directions", dict(places=[[0], [1]], signs=[[1], [1]]), dict(places=wrong_places)),
    (
        "CanaryRecorder",
        dict(coins=IN, noise_multiplier=1.0, sample_rate=0.5),
        dict(coins=wrong_coins, noise_multiplier=POSITIVE),
    ),
    (
        "canary_scores",
        loop,
        dict(
            noisy_sums=(3, [], Bad("short", [[1.0]], ("(1,)",)), Bad("text", ["ab"], ("U2",))),
            directions=(
                Bad("overlapping", [[1.0, 0.0], [0.6, 0.8]], ("0.6",)),
                Bad("too many", np.eye(3)[:, :2], ("(3, 2)",)),
                Bad("NaN", [[1.0, NAN], [0.0, 1.0]], ("NaN",)),
            ),
            coins=(*wrong_coins, Bad("none", None, ("None", "()"))),
            clipping_norm=POSITIVE,
            noise_multiplier=POSITIVE,
            others=(3, [], Bad("short", [[1.0]], ("(1,)",))),
            sampled=(3, [], Bad("short", [[True]], ("(1,)",))),
        ),
    ),
    (
        "statements",
        dict(scores=SCORES, delta=1e-5),
        dict(scores=(None, 3), delta=(0.0, 1.0, *NUMBER), adversary=CHOICE),
    ),
    (
        "step_audit",
        dict(counts=SCORES.counts, coins=IN, epsilon_of=lambda *_: 1.0),
        dict(counts=(None, 3), coins=wrong_coins, epsilon_of=(None, 3)),
    ),
    (
        "sure_guesses",
        dict(ratios=[1.0, -1.0], members=IN, guesses=1),
        dict(ratios=step[1:3], members=wrong_coins, guesses=(0, 3, 2.5, "1")),
    ),
):
    add(f"white_box.{name}", good, call=getattr(white_box, name), **wrong)
both = dict(released=[1.0, 0.0], known=[1.0, 0.0], sampled=[True, False])
out = (Bad("of one that is out", [True, True], ("1",)), Bad("short", [True], ("(1,)",)))
add(
    "white_box.CanaryRecorder.add",
    both,
    call=lambda **given: white_box.CanaryRecorder(IN, 1.0, 0.5).add(**given),
    released=step,
    known=but(step, "None"),
    sampled=out,
)
