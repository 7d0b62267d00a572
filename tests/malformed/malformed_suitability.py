# ruff: noqa: C408
"""The table of malformed calls: rows of lib.suitability."""

import numpy as np
import torch
from malformed_kinds import (
    CHOICE,
    COUNT,
    INF,
    NAN,
    NUMBER,
    OPEN_UNIT,
    POSITIVE,
    RNG,
    SEED,
    UNIT,
    Bad,
    booleans,
    but,
    labels,
    matrices,
    rows_of,
    tables,
    vectors,
)

from lib import suitability as S
from lib.report.suitability import Predictions
from lib.studies.suitability.data import digits_study, timeline
from lib.studies.suitability.experiment import evaluate_tasks, make_tasks
from lib.studies.suitability.panel import StudyRun
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
    "compare_estimators",
    {**Q, "names": ["logistic"], "calibrations": ["none"]},
    train_signals=MX,
    train_correct=B,
    test_signals=MX,
    test_correct=B,
    names=([], ["x"], 3),
    calibrations=([], ["x"], 3),
    seed=SEED,
    bins=COUNT,
    by=CHOICE,
)
add(
    "compare_signals",
    Q,
    train_signals=MX,
    train_correct=B,
    test_signals=MX,
    test_correct=B,
    bins=COUNT,
    by=CHOICE,
)
add(
    "over_splits",
    dict(compare=S.compare_signals, signals=T, correct=CO, splits=2, seed=0),
    signals=MX,
    correct=B,
    rows=(0, 1, 301, 2.5, "3"),
)
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
    "calibrate_on_target",
    dict(estimates=us, correct=us > 0.7),
    estimates=UV,
    correct=booleans(us > 0.7),
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
    "label_errors",
    dict(labels=[3], margins=[0.05], n_test=20),
    n_test=COUNT,
    alpha=OPEN_UNIT,
)
add(
    "fit_errors",
    dict(sizes=[(60, 20, 20)], repetitions=1, rng=np.random.default_rng(0)),
    margin=MARG,
    alpha=OPEN_UNIT,
    repetitions=COUNT,
    rng=RNG,
)
add(
    "simulate_alarms",
    dict(drops=[0.5], repetitions=2, rng=np.random.default_rng(0)),
    margin=MARG,
    mean_test=OPEN_UNIT,
    repetitions=COUNT,
    before=COUNT,
    rng=RNG,
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
add("plot_shap", dict(values=T, signals=T, rng=g), values=MX, signals=MX, rng=RNG)
add("impossibility_example", dict(n=50, rng=g), n=COUNT, rng=RNG)
add(
    "lemma_check",
    dict(eps=[0.0], n=100, rng=g),
    eps=but(([], [NAN], ["a"], [2.0]), "[]"),
    accuracy=OPEN_UNIT,
    concentration=POSITIVE,
    n=COUNT,
    rng=RNG,
)
add(
    "simulate_guarantee",
    dict(eps_source=0.0, eps_target=0.0, accuracy_drop=0.0, repetitions=3, rng=g),
    eps_source=but((2.0, *NUMBER), "2.0"),
    eps_target=but((2.0, *NUMBER), "2.0"),
    margin=MARG,
    test_accuracy=OPEN_UNIT,
    n_test=(1, 2.5, "3"),
    n_user=(1, 2.5),
    n_labelled=(1, 2.5),
    concentration=POSITIVE,
    alpha=OPEN_UNIT,
    reference=CHOICE,
    repetitions=COUNT,
    rng=RNG,
)
add(
    "simulate_monitoring",
    dict(windows=[1], batches=2, batch_size=10, n_test=20, repetitions=2, rng=g),
    windows=([], [0], ["a"], 3),
    batches=COUNT,
    batch_size=(0, 1, 2.5),
    n_test=(1, 2.5),
    margin=MARG,
    alpha=OPEN_UNIT,
    mean_test=OPEN_UNIT,
    concentration=POSITIVE,
    repetitions=COUNT,
    share_unsuitable=UNIT,
    rng=RNG,
)
add(
    "sequential_errors",
    dict(drops=[0.0], looks=2, batch_size=10, n_test=20, repetitions=2, rng=g),
    drops=but(([], [NAN], ["a"], [2.0]), "[]"),
    looks=COUNT,
    batch_size=COUNT,
    n_test=(1, 2.5),
    margin=MARG,
    alpha=OPEN_UNIT,
    mean_test=OPEN_UNIT,
    concentration=POSITIVE,
    repetitions=COUNT,
    rng=RNG,
)
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
add(
    "model_outputs",
    dict(model=torch.nn.Linear(4, 3), loader=[torch.zeros(8, 4)]),
    model=(3,),
    loader=but(([], [3], ["a"], 3), "['a']", "[3]"),
    extra=(["x"],),
)
P = dict(
    holdout_logits=LG,
    holdout_labels=lab,
    test_logits=LG,
    user_logits=LG,
    test_labels=lab,
    user_labels=lab,
)
add("Predictions", P, **{k: matrices(LG) if "logits" in k else labels(lab, 3) for k in P})
add(
    "suitability_report",
    dict(predictions=Predictions(**P), margin=0.05),
    margin=MARG,
    alpha=OPEN_UNIT,
    power=OPEN_UNIT,
)
add("example_predictions", dict(path="/nowhere/mine.npz", seed=0), kind=CHOICE, seed=SEED)
add(
    "register_signal",
    dict(name="x"),
    name=("no name", "conf_max", 3),
    replace=("yes", 1),
)
add("unregister_signal", dict(name="x"), name=("no such", "conf_max", 3))
splits = {"val": (T, CO)}
add(
    "make_tasks",
    dict(
        sizes={"val": 300}, user_folds=[("val", np.arange(50), "a")], id_splits=["val"], n_folds=3
    ),
    id_splits=([], ["no"]),
    n_folds=(1, 0, 2.5, "3", 301),
    shuffles_per_fold=COUNT,
)
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
add("evaluate_tasks", ST, splits=SP, tasks=TK, margin=MARG, threads=COUNT)
for f in ("evaluate_peers", "evaluate_more_data"):
    add(f, ST, splits=SP, tasks=TK, margin=MARG)
add(
    "evaluate_refined",
    {**ST, "columns": [0, 2]},
    splits=SP,
    tasks=TK,
    columns=([], [99], ["a"], [-1], 3),
    margin=MARG,
)
add(
    "evaluate_with_labels",
    {**ST, "n_labelled": 20, "rng": g},
    splits=SP,
    tasks=TK,
    n_labelled=(0, 1, 10**6, 2.5, "3"),
    margin=MARG,
    alpha=OPEN_UNIT,
    rng=RNG,
)
pt = [np.arange(100), np.arange(100, 200)]
for f in ("evaluate_pairs", "evaluate_peers_pairs"):
    add(
        f,
        dict(source_signals=T, source_correct=CO, partition=pt, user_signals=T, user_correct=CO),
        source_signals=MX,
        source_correct=B,
        partition=(
            [],
            [np.arange(3)],
            [np.array([300]), np.array([1])],
            [np.array([-1]), np.array([1])],
        ),
        user_signals=MX,
        user_correct=B,
        margin=MARG,
    )
AS = R.assign(signals="all")
RES = tables(R, "user_accuracy")
OF_P = tables(R, "p_value")
add("at_margin", dict(results=R, margin=0.1), results=RES, margin=MARG)
add(
    "metrics_table",
    dict(results=R, by=["kind"]),
    results=OF_P,
    by=("kind", 3, [], ["no such column"]),
    alpha=OPEN_UNIT,
)
add(
    "margins_table",
    dict(results=R, margins=[0.1], alphas=[0.05]),
    results=(*OF_P, Bad("no n_test", R.drop(columns="n_test"), ("n_test",))),
    margins=([], 0.1, [1.5], ["a"]),
    alphas=([], 0.05, [0.0], ["a"]),
)
add("share_suitable", dict(results=R), results=RES, alpha=OPEN_UNIT, width=(0.0, -1.0, NAN))
add("summarise_folds", dict(results=R), results=(*RES, *OF_P[1:2]), alpha=OPEN_UNIT)
add("error_table", dict(results=R), results=RES, alpha=OPEN_UNIT, groups=(*COUNT, 10**6))
add("error_table", dict(results=R.assign(user_accuracy=R["estimated_user_accuracy"])), groups=(2,))
add("plot_estimation_error", dict(results=R), results=RES, width=(0.0, NAN, "a"))
add("plot_error_against_drop", dict(results=R), results=RES)
add("known_reference", dict(results=R), results=RES, margin=MARG)
add("filter_as_peer", dict(results=R), results=RES, margin=MARG)
add("signals_table", dict(results=AS), results=tables(AS, "p_value"), alpha=OPEN_UNIT)
PEER = filter_as_peer(R)
add(
    "peer_table",
    dict(results=PEER),
    results=tables(PEER, "estimated_user_accuracy"),
    by=("peer", 3, ["no such column"]),
    alpha=OPEN_UNIT,
)
add(
    "decision_metrics",
    dict(p_values=[0.1, 0.2], truth=[True, False]),
    p_values=(*vectors([0.1, 0.2]), [1.5, 0.1]),
    truth=booleans([True, False]),
    alpha=OPEN_UNIT,
)
add(
    "estimated_and_true",
    dict(
        splits=splits,
        source=("val", np.arange(100)),
        user_folds=[("val", np.arange(200, 300), "a")],
    ),
    splits=(SP[0], SP[1], SP[-1]),
    source=("val", 3, ("no", np.arange(3)), ("val", [300]), ("val", [0.5]), ("val", [])),
    user_folds=(
        [],
        3,
        Bad("no label", [("val", [0])], ("tuple",)),
        Bad("no such split", [("no", [0], "a")], ("no",)),
        Bad("no such row", [("val", [300], "a")], ("300",)),
        ["a"],
    ),
)
for f in ("load_study", "wilds_study"):
    add(f, dict(dataset="fmow", seed=0), dataset=CHOICE, algorithm=CHOICE, seed=(99, "a"))
add("digits_study", dict(seed=0), seed=SEED)
add("StudyRun", dict(dataset="digits", algorithm="ERM", seed=0))
add("DomainRuns", dict(dataset="digits", algorithm="ERM", seed=0, candidates=(("conf_max",),)))
add("run_studies", dict(jobs=[StudyRun("digits", "ERM", 0)]), max_workers=COUNT)
add("choose_signals", dict(jobs=[]))
add("missing_for_wilds", dict(dataset="fmow", root="/nowhere"), dataset=CHOICE)
add(
    "train_wilds",
    dict(dataset="fmow", root="/nowhere", seed=0, device="cpu"),
    dataset=CHOICE,
    seed=SEED,
)
add("wilds_files", dict(datasets=["fmow"], seeds=[0]), seeds=([99], ["a"]))
study = digits_study(0)
add("run_study", dict(study=study, n_folds=3, partition_seed=0), n_folds=(1, 2.5), margin=MARG)
add(
    "leave_domain_out",
    dict(study=study, n_folds=3),
    study=(3,),
    n_folds=(1, 2.5, "3", 10**6),
    seed=SEED,
)
L0 = timeline(study)[0]
add(
    "stream",
    dict(study=study, labels=[L0], batches=2, size=20, rng=g),
    labels=but(([], ["no"]), "[]"),
    batches=COUNT,
    size=COUNT,
    rng=RNG,
)
