# ruff: noqa: C408
"""The table of malformed calls: training, data, runs and report."""

import dataclasses
import functools

import numpy as np
from malformed_kinds import (
    CHOICE,
    COUNT,
    INF,
    NAN,
    NATURAL,
    NOT_NEGATIVE,
    NUMBER,
    POSITIVE,
    SEED,
    Bad,
    Table,
    booleans,
    but,
    labels,
    matrices,
    vectors,
    with_value,
)

from lib import data, report, runs, training
from lib.audit.white_box import GradientCanaries

ROWS = Table()
add = ROWS.add

rng = np.random.default_rng(0)
T = training
DELTA = (0.0, 1.0, *NUMBER)
lab = rng.integers(3, size=60)
X = (np.eye(3)[lab] + 0.5 * rng.normal(size=(60, 3))).astype(np.float32)
D = T.TrainingData(X, lab, classes=3)
M = T.ModelSpec("linear", (3,), 3)
C = T.TrainingConfig(M, steps=2, batch_size=10, seed=1)
POINTS = (
    Bad("other columns", X[:, :2], ("2",)),
    Bad("NaN", with_value(X, NAN), ("nan", "NaN")),
    Bad("text", np.full((3, 3), "a"), ("<U1",)),
)
add(
    "training.TrainingConfig",
    dict(model=M),
    epsilon=(0.0, -1.0, *NUMBER),
    clipping_norm=but(POSITIVE, "inf"),
    keep=CHOICE,
    device=("no such thing", "cuda:x", 3, None),
)
add(
    "training.ModelSpec",
    dict(name="mlp", inputs=(3,), classes=3),
    inputs=((), (0,), (2.5,), "ab", 3),
    hidden=((), (0,), ("a",), (2.5,)),
)
add("training.Augmentation")
add(
    "training.TrainingData",
    dict(inputs=X, targets=lab, classes=3),
    inputs=but(matrices(X), "no columns"),
    targets=labels(lab, 3),
)
add("training.train", dict(config=C, data=D, evaluation=X), evaluation=POINTS)
few = GradientCanaries(2, seed=0)
add(
    "training.train_audited",
    dict(config=dataclasses.replace(C, epsilon=8.0), data=D, evaluation=X, canaries=few),
    config=(Bad("without privacy", C, ("without privacy",)),),
    evaluation=POINTS,
    canaries=(None, 3),
)
add(
    "training.OpacusCanaries",
    dict(optimizer=None, canaries=few, sample_rate=0.1),
    optimizer=(None, 3),
    canaries=(None, 3),
)
add("training.train_many", dict(configs=[C], data=D, evaluation=X), evaluation=POINTS)
add("training.engine_for", dict(config=C), config=(None, 3, "kernel"))
add("training.DataSpec", test=COUNT, keep_class=(1.5, *NUMBER))
add(
    "training.example_gradients",
    dict(spec=M, parameters=T.initial_parameters(C)[None], point=X[0], label=0),
    parameters=(Bad("short", np.zeros((1, 3)), ("3",)), Bad("1d", np.zeros(12), ("(12,)",))),
    point=(Bad("short", X[0][:2], ("2",)), Bad("text", "a", ("a",))),
    label=(-1, 3, 0.5, "a"),
)
add("training.build_model", dict(spec=M, seed=0), spec=(None, "mlp"), seed=(*SEED, 2**64))
add("training.confidence", dict(logits=[[2.0, 0.0]], labels=[0]), labels=labels([0], 2))
add("training.relabel", dict(data=D, count=2, seed=0))
add("training.train_linear", dict(images=X, labels=lab))
FM = T.ModelSpec("mlp", (1, 8, 8), 10)
add("training.FixMatch", dict(model=FM), threshold=(-0.1, 1.5, *NUMBER), ema=(1.5, -0.1, NAN))
IM = rng.random((30, 1, 8, 8)).astype(np.float32)
add(
    "training.train_fixmatch",
    dict(
        configs=[T.FixMatch(FM, steps=1, labelled_batch=4)],
        images=IM,
        labels=np.arange(30) % 10,
        rows=[np.arange(10)],
        unlabelled=np.arange(10, 30),
        evaluation=IM[:3],
    ),
    configs=([],),
    images=(
        Bad("NaN", with_value(IM, NAN), ("nan", "NaN")),
        Bad("shape", IM[:, 0], ("(30, 8, 8)",)),
    ),
    rows=but(([], [np.array([30])], [np.array([-1])]), "[array([30])]"),
    unlabelled=(Bad("outside", np.array([30]), ("30",)), Bad("empty", np.array([], int), ("0",))),
    takes=dict(labels="negative"),
)
for n, k in dict(
    CrossEntropy=dict(entropy=NOT_NEGATIVE),
    DeepGamblers=dict(reward=(1.0, 0.5, *NUMBER)),
    SelectiveNet=dict(
        coverage=(0.0, 1.5, *NUMBER),
        alpha=(-0.1, 1.5, *NUMBER),
        penalty=NOT_NEGATIVE,
        statistic_noise=(-1.0, NAN),
        loss_bound=POSITIVE,
    ),
    SelfAdaptiveTraining={},
).items():
    add("training." + n, dict(coverage=0.5) if n == "SelectiveNet" else {}, **k)
DS = T.DataSpec("digits", train=100)
DG = T.ModelSpec("linear", (64,), 10)
add(
    "training.SubsetTrainings",
    dict(config=T.TrainingConfig(DG, sample_rate=0.1, delta=1e-05), data=DS, n_models=4),
    canaries=(-1, 101, 2.5),
    challenges=((100,), (-1,), ("a",)),
    first=(-1, 2.5, "3"),
)
add("training.ManyTrainings", dict(configs=(T.TrainingConfig(DG),), data=DS), points=CHOICE)
add(
    "training.Teachers",
    dict(
        config=T.FixMatch(FM), data=T.DataSpec("digits", "images", train=100, test=20), n_teachers=5
    ),
    n_teachers=(0, 2.5, 101),
    canaries=NATURAL,
)
add(
    "data.corrupt",
    dict(images=np.zeros((3, 8, 8)), kind="blur", severity=1.0, rng=np.random.default_rng(0)),
    images=(
        Bad("1d", np.zeros(8), ("(8,)",)),
        Bad("NaN", np.full((1, 8, 8), NAN), ("nan",)),
        Bad("text", np.full((1, 8, 8), "a"), ("<U1",)),
    ),
    severity=(-1.0, NAN, INF, "1"),
)
add("data.digits_splits", dict(seed=0, sizes={"a": 3}))
add("data.split_rows", dict(n=10, seed=0, sizes={"a": 3}))
add(
    "data.subsample_class",
    dict(labels=np.arange(20) % 2, class_index=0, keep=0.5, seed=0),
    class_index=(-1, 2, "a", 0.5),
    keep=(-0.1, 1.5, *NUMBER),
    takes=dict(labels="negative"),
)
for f, a in dict(
    load_canary_confidences=dict(dataset="cifar10", mechanism="ALIBI", level="H"),
    load_canary_runs=dict(dataset="cifar10", level="H"),
    load_cifar_labels=dict(dataset="cifar10", kind="clean_label"),
    load_published_folds=dict(dataset="fmow"),
    load_suitability_folds=dict(dataset="fmow"),
    load_suitability_signals=dict(dataset="fmow"),
    suitability_models=dict(dataset="fmow"),
    load_images=dict(name="digits", split="all"),
    image_files=dict(name="digits"),
    load_sst2=dict(split="train"),
).items():
    add("data." + f, a, **dict.fromkeys(a, CHOICE))
add("data.hashed_words", dict(sentences=["a film"]), sentences=("a film", ["a", 3], [None]))
add("data.load_suitability_signals", dict(dataset="fmow"), seed=(99, "a"))
for f in ("available", "fetch", "state"):
    add(
        "data." + f,
        name=("no/such", 3, None, ["a"], "../../etc/passwd", "/etc/passwd"),
        says=dict(name="registered"),
        error=data.UnknownData,
    )
add(
    "runs.code_fingerprint",
    call=lambda parts: runs.code_fingerprint(parts),
    parts=("no such", "../data"),
)
add(
    "runs.executor_for",
    call=lambda scheduler: runs.executor_for(scheduler).__enter__(),
    scheduler=("local-cluster:0", "local-cluster:x", 3),
)
add("runs.run_all", dict(jobs=[]))
add("runs.restore_generator", state=(3, {"bit_generator": "no"}, {"bit_generator": "os"}))
add("report.example_source")
add("report.Settings", margin=(1.0, *NUMBER), target=(0.0, 1.5, *NUMBER), learner=CHOICE)
MP = report.ModelPredictions(member_scores=[0.9, 0.7], nonmember_scores=[0.2])
add("report.run_analysis", dict(name="audit", predictions=MP, settings=report.Settings()))
add("report.run_report", dict(predictions=MP), alpha=(0.0, 1.0, *NUMBER))
SUITED = dict.fromkeys(("holdout_logits", "test_logits", "user_logits"), X)
SUITED |= dict.fromkeys(("holdout_labels", "test_labels", "user_labels"), lab)
add(
    "report.suitability_report",
    dict(predictions=report.ModelPredictions(**SUITED), margin=0.05),
    call=report.suitability_report,
)
tl = rng.normal(size=(20, 3))
ty = rng.integers(3, size=20)
HALF, FLAGS = np.full(20, 0.5), ty == 0
PREDICTIONS = {
    matrices: (tl, "holdout_logits test_logits user_logits other_logits test_features"),
    functools.partial(labels, classes=3): (ty, "holdout_labels test_labels user_labels"),
    booleans: (FLAGS, "test_abstained other_abstained"),
    lambda p: (*vectors(p), Bad("above 1", p + 1, ("1.5",))): (
        HALF,
        "test_propensities other_propensities",
    ),
    lambda p: (
        Bad("fractions", HALF, ("float64",)),
        Bad("a blank", np.full(20, " "), ("row 0",)),
        Bad("a matrix", p[:, None], ("(20, 1)",)),
    ): (np.array(["a", "b"] * 10), "test_groups"),
    vectors: (HALF, "test_scores other_scores member_scores nonmember_scores"),
    lambda _: POSITIVE: (1.0, "epsilon"),
    lambda _: DELTA: (1e-05, "delta"),
}
FULL, WRONG = {}, {}
for kind, (one, names) in PREDICTIONS.items():
    bad = [b for b in kind(one) if not (isinstance(b, Bad) and b.value is None)]
    FULL |= dict.fromkeys(names.split(), one)
    WRONG |= dict.fromkeys(names.split(), tuple(bad))
add("report.ModelPredictions", FULL, **WRONG)
add("report.example_predictions", dict(path="/nowhere/mine.npz", seed=0))
