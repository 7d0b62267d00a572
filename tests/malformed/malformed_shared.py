# ruff: noqa: C408
"""The table of malformed calls: training, lenses, data, runs and report."""

import importlib

import numpy as np
from malformed_kinds import (
    CHOICE,
    COUNT,
    INF,
    NAN,
    NATURAL,
    NOT_NEGATIVE,
    NUMBER,
    OPEN_UNIT,
    POSITIVE,
    SEED,
    Bad,
    booleans,
    but,
    labels,
    matrices,
    rows_of,
    vectors,
    with_value,
)

from lib import data, privacy, report, runs, training
from lib.studies.six_lenses.settings import settings_for

ROWS = []


def add(name, good, /, error=ValueError, says=None, **w):
    m, f = name.split(".")
    ROWS.extend(
        rows_of(
            name, getattr(importlib.import_module("lib." + m), f), good, error=error, says=says, **w
        )
    )


rng = np.random.default_rng(0)
T = training
DELTA = (0.0, 1.0, *NUMBER)
lab = rng.integers(3, size=60)
X = (np.eye(3)[lab] + 0.5 * rng.normal(size=(60, 3))).astype(np.float32)
D = T.TrainingData(X, lab, classes=3)
M = T.ModelSpec("linear", (3,), 3)
C = T.TrainingConfig(M, steps=2, batch_size=10, seed=1)
CP = T.TrainingConfig(M, epsilon=8.0, steps=2, batch_size=10, seed=1)
add(
    "privacy.SampledGaussian",
    dict(sample_rate=0.1, noise_multiplier=1.0, steps=10),
    sample_rate=(0.0, 1.5, *NUMBER),
    noise_multiplier=but((-1.0, 0.0, *NUMBER), "0.0"),
    steps=but(COUNT, "0"),
)
add("privacy.PrivacyLedger", dict())
L = privacy.PrivacyLedger((privacy.SampledGaussian(0.1, 1.0, 10),))
ROWS.extend(
    rows_of(
        "privacy.PrivacyLedger.epsilon",
        L.epsilon,
        dict(delta=1e-05),
        delta=but(DELTA, "0.0"),
        accountant=CHOICE,
    )
)
add(
    "privacy.group_guarantee",
    dict(ledger=L, delta=1e-05, records=2),
    delta=DELTA,
    records=COUNT,
    accountant=CHOICE,
)
add(
    "privacy.find_noise_multiplier",
    dict(epsilon=3.0, delta=1e-05, sample_rate=0.1, steps=10),
    epsilon=but(POSITIVE, "inf"),
    delta=DELTA,
    sample_rate=(0.0, 1.5, *NUMBER),
    steps=COUNT,
    releases=COUNT,
    accountant=CHOICE,
    tolerance=POSITIVE,
)
ROWS.extend(
    rows_of(
        "privacy.effective_noise_multiplier",
        lambda multipliers: privacy.effective_noise_multiplier(*multipliers),
        {},
        multipliers=((), (0.0,), (NAN,), ("a",), (-1.0,)),
    )
)
add(
    "privacy.budget_table",
    dict(epsilons=[3.0], delta=1e-05, sample_rate=0.01, steps=10, members=5),
    epsilons=([0.0], ["a"], [INF], 3),
    delta=DELTA,
    sample_rate=(0.0, 1.5, NAN),
    steps=COUNT,
    members=COUNT,
)
add(
    "training.TrainingConfig",
    dict(model=M),
    epsilon=(0.0, -1.0, *NUMBER),
    delta=but(DELTA, "0.0"),
    noise_multiplier=(-1.0, *NUMBER),
    clipping_norm=but(POSITIVE, "inf"),
    releases=COUNT,
    accountant=CHOICE,
    batch_size=COUNT,
    sample_rate=(0.0, 1.5, *NUMBER),
    steps=COUNT,
    learning_rate=POSITIVE,
    schedule=CHOICE,
    momentum=(1.0, -0.1, *NUMBER),
    weight_decay=NOT_NEGATIVE,
    checkpoint_every=COUNT,
    keep=CHOICE,
    seed=SEED,
    precision=CHOICE,
    noise_source=CHOICE,
    grad_sample_mode=CHOICE,
    physical_batch=COUNT,
)
add(
    "training.ModelSpec",
    dict(name="mlp", inputs=(3,), classes=3),
    name=CHOICE,
    inputs=((), (0,), (2.5,), "ab", 3),
    classes=(1, 0, 2.5, "3"),
    hidden=((), (0,), ("a",), (2.5,)),
    activation=CHOICE,
    dropout=(1.0, -0.1, *NUMBER),
    head=CHOICE,
)
add("training.Augmentation", {}, crop_padding=NATURAL, multiplicity=COUNT)
add(
    "training.TrainingData",
    dict(inputs=X, targets=lab, classes=3),
    inputs=but(matrices(X), "no columns"),
    targets=labels(lab, 3),
    classes=(1, "3", 2.5),
)
add("training.plan", dict(config=CP, n_train=60))
add(
    "training.train",
    dict(config=C, data=D, evaluation=X),
    evaluation=(
        Bad("other columns", X[:, :2], ("2",)),
        Bad("NaN", with_value(X, NAN), ("nan", "NaN")),
        Bad("text", np.full((3, 3), "a"), ("<U1",)),
    ),
    save_every=COUNT,
)
add(
    "training.train_many",
    dict(configs=[C], data=D, evaluation=X),
    evaluation=(
        Bad("other columns", X[:, :2], ("2",)),
        Bad("NaN", with_value(X, NAN), ("nan", "NaN")),
    ),
    engine=CHOICE,
    threads=COUNT,
    same_randomness=CHOICE,
)
add("training.engine_for", dict(config=C), config=(None, 3, "kernel"))
add(
    "training.DataSpec",
    {},
    name=CHOICE,
    features=CHOICE,
    train=COUNT,
    test=COUNT,
    validation=NATURAL,
    public=NATURAL,
    seed=SEED,
    keep_class=but((0.0, 1.5, *NUMBER), "0.0"),
    tokens=COUNT,
)
add(
    "training.example_gradients",
    dict(spec=M, parameters=T.initial_parameters(C)[None], point=X[0], label=0),
    parameters=(Bad("short", np.zeros((1, 3)), ("3",)), Bad("1d", np.zeros(12), ("(12,)",))),
    point=(Bad("short", X[0][:2], ("2",)), Bad("text", "a", ("a",))),
    label=(-1, 3, 0.5, "a"),
)
add("training.build_model", dict(spec=M, seed=0), spec=(None, "mlp"), seed=(*SEED, 2**64))
add(
    "training.confidence",
    dict(logits=[[2.0, 0.0]], labels=[0]),
    logits=matrices([[2.0, 0.0]]),
    labels=labels([0], 2),
)
add("training.relabel", dict(data=D, count=2, seed=0), count=(-1, 61, 2.5, "3"))
add("privacy.LaplaceLabels", dict(), scale=POSITIVE)
add("privacy.GaussianLabels", dict(), sigma=POSITIVE)
add("privacy.RandomizedResponse", dict(), pure_epsilon=(-1.0, 0.0, *NUMBER))
for n, k in (("LaplaceLabels", {}), ("GaussianLabels", {"delta": 1e-05})):
    ROWS.extend(
        rows_of(
            f"privacy.{n}.for_epsilon",
            getattr(privacy, n).for_epsilon,
            dict(epsilon=1.0, **k),
            epsilon=POSITIVE,
        )
    )
ROWS.extend(
    rows_of(
        "privacy.LaplaceLabels.observe",
        privacy.LaplaceLabels(1.0).observe,
        dict(labels=[0, 2], n_classes=3, seed=0),
        labels=but(labels([0, 2], 3), "empty"),
        n_classes=(1, 2.5, "3"),
        seed=SEED,
    )
)
LK = np.array([[0.8, 0.1, 0.1]])
add(
    "privacy.posterior",
    dict(likelihood=LK, prior=LK),
    likelihood=(
        Bad("NaN", with_value(LK, NAN), ("nan",)),
        Bad("negative", -LK, ("-",)),
        Bad("1d", LK[0], ("(3,)",)),
        Bad("zero", 0 * LK, ("0",)),
    ),
    prior=(
        Bad("shape", LK[:, :2], ("2",)),
        Bad("NaN", with_value(LK, NAN), ("nan",)),
        Bad("negative", -LK, ("-",)),
    ),
)
add(
    "privacy.project_to_simplex",
    dict(observed=LK),
    observed=but(matrices(LK), "no rows"),
)
add(
    "privacy.rr_with_prior",
    dict(labels=[0], prior=LK, epsilon=1.0, seed=0),
    labels=but(labels([0], 3), "empty"),
    prior=but(
        (
            Bad("shape", LK[:, :2], ("2",)),
            Bad("NaN", with_value(LK, NAN), ("nan",)),
            Bad("negative", -LK, ("-",)),
        ),
        "shape",
    ),
    epsilon=(-1.0, *NUMBER),
    seed=SEED,
)
add(
    "privacy.multi_stage_parts",
    dict(n=10, stages=2, seed=0),
    n=(0, "3", 2.5),
    stages=(0, 11, 2.5, "3"),
    seed=SEED,
)
add(
    "privacy.shards",
    dict(n=10, n_teachers=2, seed=0),
    n=(0, "3", 2.5),
    n_teachers=(0, 11, 2.5, "3"),
    seed=SEED,
)
add(
    "privacy.vote_histogram",
    dict(predictions=[[0, 1], [0, 2]], n_classes=3),
    predictions=(
        Bad("no such class", [[3]], ("3",)),
        Bad("negative", [[-1]], ("-1",)),
        Bad("1d", [0, 1], ("(2,)",)),
        Bad("fractions", [[0.5]], ("float64",)),
        Bad("empty", np.zeros((0, 3), int), ("(0, 3)",)),
    ),
    n_classes=but((1, 0, 2.5, "3"), "1"),
)
V = [[9, 1], [5, 5]]
VB = (
    Bad("negative", [[-1, 2]], ("-1",)),
    Bad("NaN", [[NAN, 1.0]], ("nan",)),
    Bad("1d", [1, 2], ("(2,)",)),
    Bad("empty", np.zeros((0, 2)), ("(0, 2)",)),
)
add(
    "privacy.confident_gnmax",
    dict(votes=V, sigma1=1.0, sigma2=1.0, threshold=5.0, seed=0),
    votes=VB,
    sigma1=POSITIVE,
    sigma2=POSITIVE,
    threshold=NUMBER,
    seed=SEED,
    max_answers=(-1, 2.5, "3"),
)
add(
    "privacy.pate_epsilon",
    dict(
        votes=[[90, 10]] * 5,
        sigma1=40.0,
        sigma2=20.0,
        threshold=60.0,
        delta=1e-05,
        answered=[True] * 5,
    ),
    votes=VB,
    sigma1=POSITIVE,
    sigma2=POSITIVE,
    threshold=NUMBER,
    delta=DELTA,
    answered=(Bad("short", [True], ("1",)), Bad("text", ["a"] * 5, ("<U1",))),
)
add(
    "training.train_linear",
    dict(images=X, labels=lab),
    labels=labels(lab),
    inverse_penalty=POSITIVE,
)
FM = T.ModelSpec("mlp", (1, 8, 8), 10)
add(
    "training.FixMatch",
    dict(model=FM),
    steps=COUNT,
    labelled_batch=COUNT,
    unlabelled_ratio=COUNT,
    threshold=(-0.1, 1.5, *NUMBER),
    unlabelled_weight=NOT_NEGATIVE,
    learning_rate=POSITIVE,
    momentum=(1.0, NAN),
    weight_decay=NOT_NEGATIVE,
    schedule=CHOICE,
    ema=(1.5, -0.1, NAN),
    weak=CHOICE,
    strong=CHOICE,
    seed=SEED,
    device=CHOICE,
)
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
    labels=but(labels(np.arange(30) % 10, 10), "negative", "no such class"),
    rows=but(([], [np.array([30])], [np.array([-1])]), "[array([30])]"),
    unlabelled=(Bad("outside", np.array([30]), ("30",)), Bad("empty", np.array([], int), ("0",))),
)
for n, k in dict(
    CrossEntropy=dict(entropy=NOT_NEGATIVE),
    DeepGamblers=dict(reward=(1.0, 0.5, *NUMBER), burn_in_steps=NATURAL),
    SelectiveNet=dict(
        coverage=(0.0, 1.5, *NUMBER),
        alpha=(-0.1, 1.5, *NUMBER),
        penalty=NOT_NEGATIVE,
        statistic_noise=(-1.0, NAN),
        loss_bound=POSITIVE,
    ),
    SelfAdaptiveTraining=dict(burn_in_steps=NATURAL, momentum=(1.0, -0.1, *NUMBER)),
).items():
    add("training." + n, dict(coverage=0.5) if n == "SelectiveNet" else {}, **k)
DS = T.DataSpec("digits", train=100)
DG = T.ModelSpec("linear", (64,), 10)
add(
    "training.SubsetTrainings",
    dict(config=T.TrainingConfig(DG, sample_rate=0.1, delta=1e-05), data=DS, n_models=4),
    n_models=COUNT,
    canaries=(-1, 101, 2.5),
    challenges=((100,), (-1,), ("a",)),
    seed=SEED,
    first=(-1, 2.5, "3"),
    chunk=COUNT,
)
add(
    "training.ManyTrainings",
    dict(configs=(T.TrainingConfig(DG),), data=DS),
    chunk=COUNT,
    points=CHOICE,
    dropout_passes=NATURAL,
)
add("training.Training", dict(config=T.TrainingConfig(DG), data=DS))
add(
    "training.Teachers",
    dict(
        config=T.FixMatch(FM), data=T.DataSpec("digits", "images", train=100, test=20), n_teachers=5
    ),
    n_teachers=but((1, 0, 2.5, 101), "1"),
    canaries=NATURAL,
    chunk=COUNT,
)
S = dict(dataset="digits", points=300, validation=300, test=400)
LS = settings_for(
    "digits",
    points=300,
    validation=300,
    test=400,
    epsilon=2.0,
    batch_size=60,
    steps=2,
    plain_steps=2,
)
add(
    "audit.error_free_bound",
    dict(members=10, others=10, delta=1e-05),
    members=but(COUNT, "0"),
    others=but(COUNT, "0"),
    delta=(-0.1, 1.0, *NUMBER),
    level=OPEN_UNIT,
)
add(
    "audit.most_provable",
    dict(trials=20, delta=1e-05),
    trials=(1, 2.5, "3"),
    delta=(-0.1, 1.0, *NUMBER),
    level=OPEN_UNIT,
)
add(
    "audit.trials_needed",
    dict(epsilon=1.0, delta=1e-05),
    epsilon=but((0.0, -1.0, INF, 1000.0, *NUMBER), "0.0"),
    delta=(-0.1, 1.0, *NUMBER),
    level=OPEN_UNIT,
)
add("privacy.label_guarantee", dict(ledger=L, delta=1e-05), delta=DELTA, accountant=CHOICE)
add(
    "data.corrupt",
    dict(images=np.zeros((3, 8, 8)), kind="blur", severity=1.0, rng=np.random.default_rng(0)),
    images=(
        Bad("1d", np.zeros(8), ("(8,)",)),
        Bad("NaN", np.full((1, 8, 8), NAN), ("nan",)),
        Bad("text", np.full((1, 8, 8), "a"), ("<U1",)),
    ),
    kind=CHOICE,
    severity=(-1.0, NAN, INF, "1"),
)
add(
    "data.digits_splits",
    dict(seed=0, sizes={"a": 3}),
    seed=SEED,
    sizes=but(({}, {"a": 0}, {"a": -1}, {"a": 10**12}, {"a": 2.5}, {"a": "3"}, 3), "{}"),
)
add(
    "data.split_rows",
    dict(n=10, seed=0, sizes={"a": 3}),
    n=(0, "3", 2.5),
    seed=SEED,
    sizes=({}, {"a": -1}, {"a": 11}, {"a": 2.5}, {"a": "3"}, 3),
)
add(
    "data.subsample_class",
    dict(labels=np.arange(20) % 2, class_index=0, keep=0.5, seed=0),
    labels=but(labels(np.arange(20) % 2), "negative"),
    class_index=(-1, 2, "a", 0.5),
    keep=(-0.1, 1.5, *NUMBER),
    seed=SEED,
)
for f, a in dict(
    load_canary_confidences=dict(dataset="cifar10", mechanism="ALIBI", level="H"),
    load_canary_runs=dict(dataset="cifar10", level="H"),
    load_cifar_labels=dict(dataset="cifar10"),
    load_published_folds=dict(dataset="fmow"),
    load_suitability_folds=dict(dataset="fmow"),
    load_suitability_signals=dict(dataset="fmow"),
    suitability_models=dict(dataset="fmow"),
    load_images=dict(name="digits", split="all"),
    image_files=dict(name="digits"),
    load_sst2=dict(split="train"),
).items():
    add("data." + f, a, **dict.fromkeys(a, CHOICE))
add(
    "data.hashed_words",
    dict(sentences=["a film"]),
    sentences=("a film", ["a", 3], [None]),
    components=COUNT,
    norm=POSITIVE,
)
add("data.load_suitability_signals", dict(dataset="fmow"), algorithm=CHOICE, seed=(99, "a"))
add("data.image_files", dict(name="digits"), split=CHOICE)
for f in ("available", "fetch", "state"):
    add(
        "data." + f,
        dict(),
        name=("no/such", 3, None, ["a"], "../../etc/passwd", "/etc/passwd"),
        says=dict(name="registered"),
        error=data.UnknownData,
    )
add("data.fingerprints", {})
add("runs.canonical", {}, error=TypeError)
add("runs.fingerprint", {}, error=TypeError)
ROWS.extend(
    rows_of(
        "runs.code_fingerprint",
        lambda parts: runs.code_fingerprint(parts),
        {},
        parts=("no such", "../data"),
    )
)
add("runs.run_key", {})
ROWS.extend(
    rows_of(
        "runs.executor_for",
        lambda scheduler: runs.executor_for(scheduler).__enter__(),
        {},
        scheduler=("local-cluster:0", "local-cluster:x", 3),
    )
)
add("runs.run_all", dict(jobs=[]), max_workers=COUNT)
add(
    "runs.restore_generator",
    {},
    state=but(({}, 3, {"bit_generator": "no"}, {"bit_generator": "os"}), "{}"),
)
add("runs.generator_state", {})
add("runs.RunStore", {})
add("runs.Checkpoint", {})
add("runs.Outcome", dict(arrays={}))
add("report.example_source", {}, name=CHOICE)
add(
    "report.Settings",
    {},
    alpha=OPEN_UNIT,
    margin=but((-0.1, 1.0, *NUMBER), "-0.1"),
    target=(0.0, 1.5, *NUMBER),
    delta=but(DELTA, "0.0"),
    learner=CHOICE,
    seed=SEED,
    audit_design=CHOICE,
)
MP = report.ModelPredictions(member_scores=[0.9, 0.7], nonmember_scores=[0.2])
add(
    "report.run_analysis",
    dict(name="audit", predictions=MP, settings=report.Settings()),
    name=CHOICE,
)
add("report.run_report", dict(predictions=MP), alpha=OPEN_UNIT)
tl = rng.normal(size=(20, 3))
ty = rng.integers(3, size=20)
FULL = dict(
    holdout_logits=tl,
    holdout_labels=ty,
    test_logits=tl,
    test_labels=ty,
    user_logits=tl,
    user_labels=ty,
    test_features=tl,
    test_abstained=ty == 0,
    test_propensities=np.full(20, 0.5),
    other_logits=tl,
    other_abstained=ty == 0,
    other_propensities=np.full(20, 0.5),
    test_scores=np.full(20, 0.5),
    other_scores=np.full(20, 0.5),
    member_scores=[0.1, 0.2],
    nonmember_scores=[0.3],
    epsilon=1.0,
    delta=1e-05,
)
K = {}
for k in FULL:
    K[k] = (
        matrices(tl)
        if k.endswith("logits") or k == "test_features"
        else labels(ty, 3)
        if k.endswith("labels")
        else booleans(ty == 0)
        if k.endswith("abstained")
        else (*vectors(np.full(20, 0.5)), Bad("above 1", np.full(20, 1.5), ("1.5",)))
        if k.endswith("propensities")
        else vectors([0.1, 0.2])
        if k.endswith("member_scores")
        else vectors(np.full(20, 0.5))
        if k.endswith("scores")
        else POSITIVE
        if k == "epsilon"
        else DELTA
    )
    K[k] = tuple(x for x in K[k] if not (isinstance(x, Bad) and x.value is None))
add("report.ModelPredictions", FULL, **K)
add("report.example_predictions", dict(path="/nowhere/mine.npz", seed=0), kind=CHOICE, seed=SEED)
add("report.find_file", {}, error=FileNotFoundError)
