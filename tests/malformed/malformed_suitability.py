# ruff: noqa: C408
"""The table of malformed calls: rows of lib.suitability."""

import numpy as np
from malformed_kinds import (
    CHOICE,
    INF,
    NAN,
    NUMBER,
    OPEN_UNIT,
    Bad,
    Table,
    booleans,
    but,
    matrices,
    vectors,
)

from lib import report
from lib import suitability as S

ROWS = Table()
add = ROWS.add

rng = np.random.default_rng(0)
lab = rng.integers(3, size=300)
LG = 2.0 * np.eye(3)[lab] + rng.normal(size=(300, 3))
CO = LG.argmax(1) == lab
T = S.signals(LG).to_numpy()
te, us = (rng.beta(8, 2, 100), rng.beta(8, 2, 80))
V = vectors(te)
B = booleans(CO)
MX = matrices(T)
UV = vectors(us)
MARG = (1.5, INF, *NUMBER)
add("suitability.signals", dict(logits=LG), extra=(["no such thing"], [3], 3))
add("suitability.SuitabilityFilter")
F = S.SuitabilityFilter(margin=0.05)
add(
    "suitability.SuitabilityFilter.fit",
    dict(signals=T, correct=CO),
    call=F.fit,
    correct=(*B, Bad("one class", np.ones(300, bool), ())),
)
F = S.SuitabilityFilter(margin=0.05).fit(T, CO)
add(
    "suitability.SuitabilityFilter.decide",
    dict(test=T, user=T),
    call=lambda test, user: F.decide(test, user),
    says=dict(test="test_signals", user="user_signals"),
    test=(*MX, Bad("other columns", T[:, :2], ("2",))),
    user=(*MX, Bad("other columns", T[:, :2], ("2",))),
)
C = S.CorrectnessEstimator()
add("suitability.CorrectnessEstimator.fit", dict(signals=T, correct=CO), call=C.fit)
add("suitability.RefinedFilter")
add("suitability.RefinedFilter.fit", dict(signals=T, correct=CO), call=S.RefinedFilter().fit)
G = np.arange(600).reshape(300, 2) % 3 == 0
add(
    "suitability.Multicalibrator",
    dict(bins=10, tolerance=0.02, least=100, z=0.0),
    tolerance=(0.0, 1.0),
)
add(
    "suitability.Multicalibrator.fit",
    dict(estimates=np.full(300, 0.7), correct=CO, groups=G),
    call=S.Multicalibrator().fit,
    groups=(Bad("a vector", G[:, 0], ("(300, n_groups)",)), Bad("short", G[:9], ("300",))),
)
for f in ("non_inferiority_test", "equivalence_test"):
    add("suitability." + f, dict(test=te, user=us, margin=0.05))
add(
    "suitability.required_sample_size",
    dict(sd_test=0.1, sd_user=0.1, margin=0.05, n_test=500),
    sd_test=(-1.0, INF, *NUMBER),
    sd_user=(-1.0, INF, *NUMBER),
    drop=MARG,
)
add(
    "suitability.non_inferiority_power",
    dict(n_test=500, n_user=50, drop=0.0, sd_test=0.1, sd_user=0.1, margin=0.05),
    n_test=(1, NAN, "3"),
    n_user=(1, NAN, "3"),
    drop=NUMBER,
    takes=dict(margin="1.5"),
)
add(
    "suitability.welch_non_inferiority",
    dict(
        **dict.fromkeys(("mean_test", "mean_user"), 0.8),
        n_test=50,
        n_user=40,
        **dict.fromkeys(("variance_test", "variance_user"), 0.02),
        margin=0.05,
    ),
    margin=NUMBER,
    mean_test=NUMBER,
    n_test=(1, NAN),
    n_user=(1, NAN),
)
add(
    "suitability.equivalence_between_groups",
    dict(estimates=np.r_[te, us], groups=np.repeat(["a", "b"], [100, 80]), margin=0.05),
    groups=(Bad("short", ["a"], ("1",)), Bad("one group", ["a"] * 180, ("1", "'a'"))),
)
add(
    "suitability.calibration_errors",
    dict(probabilities=te, correct=te > 0.7),
    probabilities=(*V, Bad("above 1", te + 1, ("1.",))),
)
add("suitability.make_estimator", dict(name="logistic", seed=0), name=CHOICE, splits=(1, 2.5, "3"))
add(
    "suitability.anova_table",
    dict(signals=T, correct=CO),
    correct=(*B, Bad("one class", np.ones(300, bool), ())),
)
add("suitability.shap_values", dict(fit_signals=T, fit_correct=CO, signals=T[:5]))
add(
    "suitability.adjusted_margin",
    dict(
        margin=0.05,
        test_estimated=te,
        test_correct=te > 0.7,
        user_estimated=us,
        user_correct=us > 0.7,
    ),
)
add("suitability.calibration_offset", dict(estimated=te, correct=te > 0.7))
add(
    "suitability.prediction_powered_test",
    dict(
        test_correct=te > 0.7,
        user_estimated=us[20:],
        labelled_estimated=us[:20],
        labelled_correct=us[:20] > 0.7,
        margin=0.05,
    ),
    tuning=(-0.1, 1.5, NAN, "1"),
    takes=dict(test_correct="one too few"),
)
add(
    "suitability.corrected_margin", dict(margin=0.05, eps_source=0.0, eps_target=0.0), margin=NUMBER
)
add("suitability.labels_needed", dict(sd_difference=0.3, half_width=0.05))
add(
    "suitability.labels_test",
    dict(test_correct=te > 0.7, user_correct=us > 0.7, margin=0.05),
    takes=dict(test_correct="one too few", user_correct="one too few"),
)
add(
    "suitability.labels_for_power",
    dict(test_accuracy=0.9, n_test=500, margin=0.15),
    test_accuracy=(0.0 - 0.1, 1.5, NAN),
)
add("suitability.EProcess", dict(threshold=0.5), threshold=but(OPEN_UNIT, "1.0"))
add(
    "suitability.EProcess.update",
    dict(values=us),
    call=S.EProcess(0.7).update,
    values=but((*UV, Bad("above 1", us + 1, ("1.",))), "a number", "empty"),
)
add(
    "suitability.test_upper_bound",
    dict(test=te, level=0.05),
    test=(*V, Bad("above 1", te + 1, ("1.",))),
)
add(
    "suitability.SequentialDesign",
    dict(looks=2),
    information=([1.0], [0.5, 0.4], [NAN, 1.0], ["a", "b"]),
)
add("suitability.information_fractions", dict(n_test=100, batch_size=20, looks=3))
add(
    "suitability.Monitor",
    dict(reference=te, margin=-0.05),
    reference=V,
    reference_correct=booleans(te > 0.7)[:-1],
    run_length=(9.0, *NUMBER),
    reference_level=(-0.1, 1.0, *NUMBER),
)
add("suitability.Monitor.update", dict(batch=us), call=S.Monitor(te, margin=0.05).update, batch=UV)
PR = np.full(80, 0.2)
AC = dict(estimated=us, chosen=us > 0.8, correct=np.ones((us > 0.8).sum(), bool), probability=PR)
UB = dict(estimated=UV, probability=vectors(PR), chosen=booleans(us > 0.8)[:-1])
LEAST = (0.0, 1.1, *NUMBER)
add(
    "suitability.labelling_probabilities",
    dict(estimated=us, rate=0.1, reference=te),
    estimated=UV,
    reference=V,
    rate=LEAST,
    floor=LEAST,
)
add(
    "suitability.labelling_probabilities",
    dict(estimated=us, rate=0.1, reference=te, reference_correct=te > 0.7),
    reference_correct=booleans(te > 0.7)[:-1],
    strata=(0, 2.5, "3"),
)
add("suitability.active_accuracy", AC | dict(least_probability=0.1), least_probability=LEAST, **UB)
add(
    "suitability.ActiveMonitor",
    dict(least_accuracy=0.7, least_probability=0.1),
    least_accuracy=(0.0, 1.0, *NUMBER),
    least_probability=LEAST,
    run_length=(9.0, *NUMBER),
)
add(
    "suitability.ActiveMonitor.update",
    AC,
    call=S.ActiveMonitor(0.7, least_probability=0.1).update,
    **UB,
)
add(
    "suitability.register_signal",
    dict(name="x"),
    name=("no name", "conf_max", 3),
    replace=("yes", 1),
)
P = dict.fromkeys(("holdout_logits", "test_logits", "user_logits"), LG[:100])
P |= dict.fromkeys(("holdout_labels", "test_labels", "user_labels"), lab[:100])
add(
    "report.suitability_report",
    dict(predictions=report.ModelPredictions(**P), margin=0.05),
    call=report.suitability_report,
)
