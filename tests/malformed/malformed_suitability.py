# ruff: noqa: C408
"""The table of malformed calls: rows of lib.suitability."""

import numpy as np
from malformed_kinds import (
    CHOICE,
    COUNT,
    INF,
    NAN,
    NUMBER,
    OPEN_UNIT,
    POSITIVE,
    SEED,
    Bad,
    booleans,
    but,
    matrices,
    rows_of,
    tables,
    vectors,
)

from lib import report
from lib import suitability as S
from lib.studies.suitability.data import digits_study, timeline
from lib.studies.suitability.experiment import evaluate_tasks, make_tasks
from lib.studies.suitability.peers import filter_as_peer

ROWS = []


def add(name, good, /, error=ValueError, says=None, **w):
    ROWS.extend(rows_of("suitability." + name, getattr(S, name), good, error=error, says=says, **w))


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
SIGMA = OPEN_UNIT
MARG = (1.5, INF, *NUMBER)
add("signals", dict(logits=LG), logits=matrices(LG), extra=(["no such thing"], [3], 3))
add("SuitabilityFilter", {}, margin=MARG, alpha=OPEN_UNIT)
F = S.SuitabilityFilter(margin=0.05)
ROWS.extend(
    rows_of(
        "suitability.SuitabilityFilter.fit",
        F.fit,
        dict(signals=T, correct=CO),
        signals=MX,
        correct=(*B, Bad("one class", np.ones(300, bool), ())),
    )
)
F = S.SuitabilityFilter(margin=0.05).fit(T, CO)
ROWS.extend(
    rows_of(
        "suitability.SuitabilityFilter.decide",
        lambda test, user: F.decide(test, user),
        dict(test=T, user=T),
        says=dict(test="test_signals", user="user_signals"),
        test=(*MX, Bad("other columns", T[:, :2], ("2",))),
        user=(*MX, Bad("other columns", T[:, :2], ("2",))),
    )
)
C = S.CorrectnessEstimator()
ROWS.extend(
    rows_of(
        "suitability.CorrectnessEstimator.fit",
        C.fit,
        dict(signals=T, correct=CO),
        signals=MX,
        correct=B,
    )
)
add("RefinedFilter", {}, margin=MARG, alpha=OPEN_UNIT)
ROWS.extend(
    rows_of(
        "suitability.RefinedFilter.fit",
        S.RefinedFilter().fit,
        dict(signals=T, correct=CO),
        signals=MX,
        correct=B,
    )
)
for f in ("non_inferiority_test", "equivalence_test"):
    add(f, dict(test=te, user=us, margin=0.05), test=V, user=UV, margin=MARG)
add(
    "sample_size_for",
    dict(test=te, user=us, margin=0.05, n_test=500),
    test=V,
    user=UV,
    margin=MARG,
    drop=MARG,
    alpha=OPEN_UNIT,
    power=OPEN_UNIT,
    n_test=COUNT,
    ratio=POSITIVE,
)
add(
    "required_sample_size",
    dict(sd_test=0.1, sd_user=0.1, margin=0.05, n_test=500),
    sd_test=(-1.0, INF, *NUMBER),
    sd_user=(-1.0, INF, *NUMBER),
    margin=MARG,
    drop=MARG,
    alpha=OPEN_UNIT,
    power=OPEN_UNIT,
    n_test=COUNT,
)
add(
    "non_inferiority_power",
    dict(n_test=500, n_user=50, drop=0.0, sd_test=0.1, sd_user=0.1, margin=0.05),
    n_test=(1, NAN, "3"),
    n_user=(1, NAN, "3"),
    drop=NUMBER,
    sd_test=(-1.0, *NUMBER),
    sd_user=(-1.0, *NUMBER),
    margin=but(MARG, "1.5"),
    alpha=OPEN_UNIT,
)
add(
    "welch_non_inferiority",
    dict(
        mean_test=0.8,
        variance_test=0.02,
        n_test=50,
        mean_user=0.8,
        variance_user=0.02,
        n_user=40,
        margin=0.05,
    ),
    mean_test=NUMBER,
    variance_test=(-1.0, *NUMBER),
    n_test=(1, NAN),
    variance_user=(-1.0, NAN),
    n_user=(1, NAN),
    margin=NUMBER,
)
add(
    "equivalence_between_groups",
    dict(estimates=np.r_[te, us], groups=np.repeat(["a", "b"], [100, 80]), margin=0.05),
    estimates=vectors(np.r_[te, us]),
    groups=(Bad("short", ["a"], ("1",)), Bad("one group", ["a"] * 180, ("1", "'a'"))),
    margin=MARG,
    alpha=OPEN_UNIT,
)
add(
    "calibration_errors",
    dict(probabilities=te, correct=te > 0.7),
    probabilities=(*V, Bad("above 1", te + 1, ("1.",))),
    correct=booleans(te > 0.7),
    bins=COUNT,
    by=CHOICE,
)
add(
    "make_estimator",
    dict(name="logistic", seed=0),
    name=CHOICE,
    calibration=CHOICE,
    seed=SEED,
    splits=(1, 2.5, "3"),
)
Q = dict(train_signals=T, train_correct=CO, test_signals=T, test_correct=CO)
add(
    "anova_table",
    dict(signals=T, correct=CO),
    signals=MX,
    correct=(*B, Bad("one class", np.ones(300, bool), ())),
)
add(
    "shap_values",
    dict(fit_signals=T, fit_correct=CO, signals=T[:5]),
    fit_signals=MX,
    fit_correct=B,
    signals=MX,
)
add(
    "adjusted_margin",
    dict(
        margin=0.05,
        test_estimated=te,
        test_correct=te > 0.7,
        user_estimated=us,
        user_correct=us > 0.7,
    ),
    margin=MARG,
    test_estimated=V,
    test_correct=booleans(te > 0.7),
    user_estimated=UV,
    user_correct=booleans(us > 0.7),
    level=OPEN_UNIT,
    reference=CHOICE,
)
add(
    "calibration_offset",
    dict(estimated=te, correct=te > 0.7),
    estimated=V,
    correct=booleans(te > 0.7),
)
add(
    "prediction_powered_test",
    dict(
        test_correct=te > 0.7,
        user_estimated=us[20:],
        labelled_estimated=us[:20],
        labelled_correct=us[:20] > 0.7,
        margin=0.05,
    ),
    test_correct=booleans(te > 0.7)[:-1],
    user_estimated=UV,
    labelled_estimated=vectors(us[:20]),
    labelled_correct=booleans(us[:20] > 0.7),
    margin=MARG,
    reference=CHOICE,
    tuning=(-0.1, 1.5, NAN, "1"),
    seed=SEED,
)
add(
    "corrected_margin",
    dict(margin=0.05, eps_source=0.0, eps_target=0.0),
    margin=NUMBER,
    eps_source=NUMBER,
    eps_target=NUMBER,
)
add(
    "labels_needed",
    dict(sd_difference=0.3, half_width=0.05),
    sd_difference=(-1.0, *NUMBER),
    half_width=POSITIVE,
    level=OPEN_UNIT,
)
add(
    "labels_test",
    dict(test_correct=te > 0.7, user_correct=us > 0.7, margin=0.05),
    test_correct=booleans(te > 0.7)[:-1],
    user_correct=booleans(us > 0.7)[:-1],
    margin=MARG,
    reference=CHOICE,
)
add(
    "labels_for_power",
    dict(test_accuracy=0.9, n_test=500, margin=0.15),
    test_accuracy=(0.0 - 0.1, 1.5, NAN),
    n_test=COUNT,
    margin=MARG,
    alpha=OPEN_UNIT,
    power=OPEN_UNIT,
)
g = np.random.default_rng(0)
add("EProcess", dict(threshold=0.5), threshold=but(OPEN_UNIT, "1.0"))
ROWS.extend(
    rows_of(
        "suitability.EProcess.update",
        S.EProcess(0.7).update,
        dict(values=us),
        values=but((*UV, Bad("above 1", us + 1, ("1.",))), "a number", "empty"),
    )
)
add(
    "test_upper_bound",
    dict(test=te, level=0.05),
    test=(*V, Bad("above 1", te + 1, ("1.",))),
    level=OPEN_UNIT,
)
add(
    "SequentialDesign",
    dict(looks=2),
    looks=(0, 2.5, "3"),
    alpha=OPEN_UNIT,
    kind=CHOICE,
    sides=(0, 3, "1"),
    information=([1.0], [0.5, 0.4], [NAN, 1.0], ["a", "b"]),
)
add(
    "crossing_probabilities",
    dict(critical=[1.96, 1.96]),
    critical=([], [NAN], ["a"], [[1.0]], 3),
    information=([1.0], [0.5, 0.4], [NAN, 1.0]),
    drift=NUMBER,
    sides=(0, 3, "1"),
)
add(
    "information_fractions",
    dict(n_test=100, batch_size=20, looks=3),
    n_test=COUNT,
    batch_size=COUNT,
    looks=COUNT,
    variance_ratio=POSITIVE,
)
add(
    "AcceptanceMonitor",
    dict(reference=te),
    reference=V,
    method=CHOICE,
    margin=MARG,
    alpha=OPEN_UNIT,
    window=COUNT,
    reference_level=(-0.1, 1.0, *NUMBER),
)
add(
    "AcceptanceMonitor",
    dict(reference=te, method="pocock", looks=2, batch_size=20),
    looks=COUNT,
    batch_size=COUNT,
)
add(
    "Monitor",
    dict(reference=te, margin=-0.05),
    reference=V,
    reference_correct=booleans(te > 0.7)[:-1],
    margin=MARG,
    run_length=(9.0, *NUMBER),
    reference_level=(-0.1, 1.0, *NUMBER),
)
ROWS.extend(
    row
    for name, one in (
        ("AcceptanceMonitor", S.AcceptanceMonitor(te, margin=0.05)),
        ("Monitor", S.Monitor(te, margin=0.05)),
    )
    for row in rows_of(f"suitability.{name}.update", one.update, dict(batch=us), batch=UV)
)
P = dict(
    holdout_logits=LG,
    holdout_labels=lab,
    test_logits=LG,
    user_logits=LG,
    test_labels=lab,
    user_labels=lab,
)
add(
    "register_signal",
    dict(name="x"),
    name=("no name", "conf_max", 3),
    replace=("yes", 1),
)
add("unregister_signal", dict(name="x"), name=("no such", "conf_max", 3))
splits = {"val": (T, CO)}
tasks = make_tasks({"val": 300}, [("val", np.arange(50), "a")], ["val"], n_folds=3)
R = evaluate_tasks(splits, tasks).assign(
    dataset="m", algorithm="E", kind="ID", seed=0, signals="all"
)
ST = dict(splits=splits, tasks=tasks)
SP = (
    3,
    Bad("empty", {}, ("none",)),
    Bad("another split", {"other": (T, CO)}, ("other",)),
    Bad("rows too few", {"val": (T[:10], CO[:10])}, ("10", "300")),
    Bad("no pair", {"val": T}, ("ndarray",)),
)
TK = ([], 3, Bad("texts", ["a task"], ("str",)))
pt = [np.arange(100), np.arange(100, 200)]
AS = R.assign(signals="all")
RES = tables(R, "user_accuracy")
OF_P = tables(R, "p_value")
PEER = filter_as_peer(R)
study = digits_study(0)
L0 = timeline(study)[0]
P = dict.fromkeys(("holdout_logits", "test_logits", "user_logits"), LG[:100])
P |= dict.fromkeys(("holdout_labels", "test_labels", "user_labels"), lab[:100])
ROWS.extend(
    rows_of(
        "report.suitability_report",
        report.suitability_report,
        dict(predictions=report.ModelPredictions(**P), margin=0.05),
        error=ValueError,
        says=None,
        margin=MARG,
        alpha=OPEN_UNIT,
        power=OPEN_UNIT,
    )
)
