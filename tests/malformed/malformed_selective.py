"""The table of malformed calls: rows of lib.selective."""

import numpy as np
from malformed_kinds import (
    CHOICE,
    COUNT,
    NAN,
    NATURAL,
    NOT_NEGATIVE,
    OPEN_UNIT,
    UNIT,
    Bad,
    booleans,
    but,
    matrices,
    probabilities,
    rows_of,
    vectors,
)

from lib import selective

rng = np.random.default_rng(0)
CORRECT = rng.random(40) < 0.8
SCORE = rng.random(40)
PROBABILITIES = rng.dirichlet(np.ones(4), 40)
LOGITS = rng.normal(size=(40, 4))
PAIR = {"correct": CORRECT, "score": SCORE}
FOUR = {**PAIR, "other_correct": CORRECT, "other_score": SCORE[::-1]}
ROWS = []


def add(name, good, /, **w):
    kw = {k: w.pop(k) for k in ("error", "says") if k in w}
    ROWS.extend(rows_of("selective." + name, getattr(selective, name), good, **kw, **w))


SC = vectors(SCORE, infinite=True)
CO = booleans(CORRECT)
for f in ("accuracy_coverage", "augrc", "aurc", "e_aurc", "normalized_score", "selective_auc"):
    add(f, PAIR, correct=CO, score=SC)
add("coverage_at_accuracy", {**PAIR, "target": 0.9}, correct=CO, score=SC, target=UNIT)
add(
    "guaranteed_threshold",
    {**PAIR, "target": 0.9},
    correct=CO,
    score=SC,
    target=(0.0, *UNIT),
    level=OPEN_UNIT,
)
add("estimate", PAIR, correct=CO, score=SC, metric=CHOICE, level=but(OPEN_UNIT, "0.0"))
add("influence", PAIR, correct=CO, score=SC, metric=CHOICE)
add(
    "compare",
    FOUR,
    correct=CO,
    score=SC,
    other_correct=CO,
    other_score=SC,
    metric=CHOICE,
    level=OPEN_UNIT,
)
add(
    "bootstrap",
    {**FOUR, "seed": 0, "repetitions": 100},
    correct=CO,
    score=SC,
    other_correct=CO,
    other_score=but(SC, "None"),
    metric=CHOICE,
    level=OPEN_UNIT,
    repetitions=COUNT,
)
add(
    "compare_over_seeds",
    {
        "correct": [CORRECT] * 3,
        "score": [SCORE] * 3,
        "other_correct": [CORRECT] * 3,
        "other_score": [SCORE[::-1], SCORE, SCORE],
    },
    correct=matrices([CORRECT] * 3),
    score=but(matrices([SCORE] * 3), "infinite"),
    metric=CHOICE,
)
add(
    "points_needed",
    FOUR,
    correct=CO,
    score=SC,
    difference=but((0.0, NAN, "1"), "0.0"),
    alpha=OPEN_UNIT,
    power=OPEN_UNIT,
    metric=CHOICE,
)
add(
    "mean_over_seeds",
    {"values": [0.9, 0.8, 0.7]},
    values=(*vectors([0.9, 0.8, 0.7]), [0.9]),
    point_variance=NOT_NEGATIVE,
    n_points=NATURAL,
)
add(
    "normalized_score_extremes",
    {"n_correct": 90, "n": 100},
    n_correct=(-1, 101, 2.5, "3", NAN),
    n=COUNT,
)
for f in ("bound_area", "random_order_score", "worst_order_score"):
    add(
        f,
        {"full_accuracy": [0.5, 0.9]},
        full_accuracy=(
            *UNIT,
            Bad("NaN in it", [0.5, NAN], ("nan",)),
            Bad("text", ["a"], ("<U1",)),
            Bad("ragged", [[1.0], [1.0, 2.0]]),
        ),
    )
add(
    "accuracy_bound",
    {"full_accuracy": 0.9, "coverage": 0.5},
    full_accuracy=UNIT,
    coverage=(0.0, *UNIT),
)
P2 = probabilities(PROBABILITIES)
P3 = probabilities(PROBABILITIES[None])
add("conformal_set_size", {"probabilities": PROBABILITIES}, probabilities=P2, mass=OPEN_UNIT)
for f in ("deep_gamblers", "self_adaptive_training", "entropy", "margin", "softmax_response"):
    add(f, {"probabilities": PROBABILITIES}, probabilities=P2)
for f in ("deep_ensemble", "mc_dropout"):
    add(f, {"probabilities": PROBABILITIES[None]}, probabilities=P3)
add("energy", {"logits": LOGITS}, logits=matrices(LOGITS))
add("selective_net", {"selection": SCORE}, selection=vectors(SCORE, infinite=True))
add(
    "sctd",
    {"labels": np.zeros((3, 5), int)},
    labels=(
        Bad("one-dimensional", np.zeros(3, int), ("(3,)",)),
        Bad("fractions", np.full((2, 3), 0.5), ("float64",)),
        Bad("empty", np.zeros((0, 3), int), ("(0, 3)",)),
    ),
    k=NOT_NEGATIVE,
    form=CHOICE,
)
add("ties_broken_by", {"score": SCORE, "second": SCORE}, score=SC, second=SC)
D = {"dataset": "digits", "model": "linear"}
