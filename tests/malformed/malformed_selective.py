# ruff: noqa: C408
"""The table of malformed calls: rows of lib.selective."""

import numpy as np
from malformed_kinds import NAN, NUMBER, UNIT, Bad, Table, but, matrices, vectors

rng = np.random.default_rng(0)
CORRECT = rng.random(40) < 0.8
SCORE = rng.random(40)
PROBABILITIES = rng.dirichlet(np.ones(4), 40)
LOGITS = rng.normal(size=(40, 4))
PAIR = {"correct": CORRECT, "score": SCORE}
FOUR = {**PAIR, "other_correct": CORRECT, "other_score": SCORE[::-1]}
ROWS = Table()
add = ROWS.add

for f in ("accuracy_coverage", "augrc", "aurc", "e_aurc", "normalized_score", "selective_auc"):
    add("selective." + f, PAIR)
add("selective.coverage_at_accuracy", {**PAIR, "target": 0.9}, target=UNIT)
add(
    "selective.guaranteed_threshold",
    {**PAIR, "target": 0.9, "clusters": np.arange(40) % 20, "rng": 0},
    target=(0.0, *UNIT),
)
add(
    "selective.private_threshold",
    {**PAIR, "target": 0.9, "thresholds": [0.2, 0.5], "epsilon": 1.0, "rng": 0},
    target=(0.0, *UNIT),
    thresholds=but(vectors([0.2, 0.5]), "infinite"),
    epsilon=(0.0, -1.0, *NUMBER),
)
add(
    "selective.risk_areas",
    {"loss": SCORE, "score": SCORE, "labels": np.arange(40) % 3},
    loss=vectors(SCORE),
    takes=dict(labels=("negative", "text")),
)
add(
    "selective.gap_decomposition",
    {**PAIR, "probability": SCORE, "recalibrated": SCORE},
    probability=(*but(vectors(SCORE), "None"), Bad("above 1", SCORE + 1.0, ("1.",))),
    recalibrated=but(vectors(SCORE, infinite=True), "None"),
)
add("selective.estimate", PAIR, takes=dict(level="0.0"))
add("selective.influence", PAIR)
add("selective.compare", FOUR)
add("selective.bootstrap", {**FOUR, "seed": 0, "repetitions": 100}, takes=dict(other_score="None"))
add(
    "selective.compare_over_seeds",
    {
        "correct": [CORRECT] * 3,
        "score": [SCORE] * 3,
        "other_correct": [CORRECT] * 3,
        "other_score": [SCORE[::-1], SCORE, SCORE],
    },
    **{name: matrices([CORRECT] * 3) for name in ("correct", "other_correct")},
    **{name: but(matrices([SCORE] * 3), "infinite") for name in ("score", "other_score")},
)
add("selective.points_needed", FOUR, difference=but((0.0, NAN, "1"), "0.0"))
add(
    "selective.mean_over_seeds",
    {"values": [0.9, 0.8, 0.7]},
    values=(*vectors([0.9, 0.8, 0.7]), [0.9]),
)
add(
    "selective.normalized_score_extremes",
    {"n_correct": 90, "n": 100},
    n_correct=(-1, 101, 2.5, "3", NAN),
)
for f in ("bound_area", "random_order_score", "worst_order_score"):
    add(
        "selective." + f,
        {"full_accuracy": [0.5, 0.9]},
        full_accuracy=(
            *UNIT,
            Bad("NaN in it", [0.5, NAN], ("nan",)),
            Bad("text", ["a"], ("<U1",)),
            Bad("ragged", [[1.0], [1.0, 2.0]]),
        ),
    )
add(
    "selective.accuracy_bound",
    {"full_accuracy": 0.9, "coverage": 0.5},
    full_accuracy=UNIT,
    coverage=(0.0, *UNIT),
)
add("selective.conformal_set_size", {"probabilities": PROBABILITIES})
for f in ("deep_gamblers", "self_adaptive_training", "entropy", "margin", "softmax_response"):
    add("selective." + f, {"probabilities": PROBABILITIES})
for f in ("deep_ensemble", "mc_dropout"):
    add("selective." + f, {"probabilities": PROBABILITIES[None]})
add("selective.log_odds", {"probabilities": PROBABILITIES})
add("selective.energy", {"logits": LOGITS})
add(
    "selective.sctd",
    {"labels": np.zeros((3, 5), int)},
    labels=(
        Bad("one-dimensional", np.zeros(3, int), ("(3,)",)),
        Bad("fractions", np.full((2, 3), 0.5), ("float64",)),
        Bad("empty", np.zeros((0, 3), int), ("(0, 3)",)),
    ),
)
add("selective.ties_broken_by", {"score": SCORE, "second": SCORE})
