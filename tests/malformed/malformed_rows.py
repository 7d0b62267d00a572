"""The table of malformed calls: functions that take rows, from their examples in tests/rowwise.py.

What is wrong with an argument follows from its kind there; a row says no more than what a function
takes besides.
"""

import re

import numpy as np
import rowwise
from malformed_kinds import (
    BY_NAME,
    INF,
    NAN,
    Bad,
    Table,
    booleans,
    but,
    labels,
    matrices,
    probabilities,
    scores,
    vectors,
)


def units(good):
    return (*vectors(good), Bad("above 1", np.asarray(good) + 1, ("1.", "2")))


def numbers(good):
    return matrices(good) if np.ndim(good) == 2 else vectors(good)


def answers(good):
    """Scores, which are not read where the classifier abstained."""
    everywhere = (Bad(w, np.full(len(good), v), (w[:3],)) for w, v in (("nan", NAN), ("inf", INF)))
    return (*but(vectors(good), "NaN", "infinite"), *everywhere)


TWO = ("number", "simplex")  # may have columns
BY_KIND = {
    "flags": booleans,
    "number": numbers,
    "unit": units,
    "simplex": probabilities,
    "class": labels,
}
#: What an argument is called in messages, if not by its name.
SAYS = {"rows": "signals"}
#: What functions take all the same, or refuse by another argument's name.
ALLOWED = re.compile(
    r"""counterfactual\.\w+(Classifier|Regressor)\..*  # by scikit-learn's own checks
    |(selective\.guaranteed_threshold|counterfactual\.abstain)-rng:.*  # without clusters or chance
    |selective\.private_threshold-thresholds:\ infinite
    |selective\.gap_decomposition-(\w+:\ None|recalibrated:\ infinite)
    |selective\.(bootstrap-other_score|log_odds-logits):\ None
    |selective\.\w+-(full_accuracy|coverage):\ (empty|two-dimensional|a\ number)
    |suitability\.(RefinedFilter\.decide|labels_test|prediction_powered_test)-.*:\ one\ too\ few
    |suitability\.Monitor\.update-(\w*correct:\ one\ too\ few|(batch|correct):\ empty)
    |suitability\.labelling_probabilities-strata:.*
    |suitability\.EProcess\.update-values:\ (empty|a\ number)
    |audit\.(AttackCurve\.tpr|gaussian_fnr)-fpr:\ (empty|two-dimensional|a\ number)
    |audit\.(LiRA\.score-observed:\ empty|Threshold\.score-observed:\ (empty|two-.*|a\ .*|infinite))
    |audit\.(insert_canaries-n:\ 0|Canaries\.apply-labels:\ (negative|empty))
    |audit\.single_label_guesses-threshold:.*
    |counterfactual\.fit_nuisances-fold:\ negative
    |counterfactual\.(coverage|classification_quality)-abstained:\ one\ too\ few
    |counterfactual\.\w+-probabilities:\ too\ few\ dimensions
    |counterfactual\.efficiency_bound-covariance:\ None
    |privacy\.(vote_histogram-n_classes:\ 1|posterior-.*:\ (no\ rows|one-dimensional))
    |privacy\..*-(labels:\ empty|observed:\ no\ rows)""",
    re.VERBOSE,
)

ROWS = Table()
for row in rowwise.ROWS:
    if row.only:
        continue
    covered = {r.argument for r in ROWS if r.name == row.name}
    kinds = dict.fromkeys((a for a in row.given if callable(BY_NAME.get(a))), ())
    for argument, kind in row.kinds.items():
        known = kind in BY_KIND and np.ndim(row.given[argument]) <= 1 + (kind in TWO)
        own = BY_NAME.get(argument, ())
        kinds[argument] = BY_KIND[kind] if known else () if callable(own) else own
        if kinds[argument] is numbers and any(a.startswith("abstained") for a in row.given):
            kinds[argument] = answers if argument.startswith("scores") else numbers
        elif kinds[argument] is numbers and own is scores:
            kinds[argument] = scores
    new = Table()
    new.add(row.name, row.given, call=row.call, says=SAYS, **kinds)
    ROWS += [r for r in new if r.argument not in covered and not ALLOWED.fullmatch(r.id)]
