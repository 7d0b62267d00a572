"""The table of malformed calls: arguments of which each is good, and which do not go together."""
# A table is read best with a call on a line, so the formatter is off.
# ruff: noqa: C408
# fmt: off

import math
from dataclasses import replace

import malformed_shared as shared
import numpy as np
import pandas as pd
import rowwise
from malformed_kinds import Table
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression, Ridge

from lib import audit as A
from lib import counterfactual as C
from lib import data, suitability, training
from lib import privacy as V
from lib import selective as L
from lib import suitability as S
from lib.studies.canaries.draws import CanaryDraw

ROWS = Table()
add = ROWS.together

X, Y, N = rowwise.TABLE, rowwise.CORRECT, rowwise.N
FRAME = pd.DataFrame(X, columns=list("abc"))
NAMED, PLACED = S.SuitabilityFilter().fit(FRAME, Y), S.SuitabilityFilter().fit(X, Y)
REFINED = S.RefinedFilter().fit(X, Y)
CHECKED = S.Multicalibrator().fit(np.full(N, 0.5), Y, rowwise.IN_GROUPS)
BELONG = [0] * N, [0, 1], [None, *range(N - 1)], [math.nan, *range(N - 1)]

# ------------------------------------------------------------------------------ suitability

own = "suitability.SuitabilityFilter"
add(own, "estimator",
    lambda: S.SuitabilityFilter(estimator=S.CorrectnessEstimator()),
    lambda: S.SuitabilityFilter(estimator=DummyClassifier))
add(own, "test",
    lambda: S.SuitabilityFilter(test="welch"),
    lambda: S.SuitabilityFilter(test="fitted", estimator=DummyClassifier()))
add(f"{own}.decide", "user_signals",
    *(lambda t=t: NAMED.decide(FRAME, t)
      for t in (X, FRAME.rename(columns={"a": "z"}), FRAME[["a", "b", "c", "c"]], FRAME[:1])),
    *(lambda t=t: PLACED.decide(X, t) for t in (FRAME, np.c_[X, X[:, 0]])))
add(f"{own}.decide", "test_signals", lambda: PLACED.decide(X[:1], X))
add(f"{own}.estimate", "fitted", lambda: S.SuitabilityFilter().estimate(X), error=RuntimeError)
for kind in (S.SuitabilityFilter, S.RefinedFilter):
    add(f"suitability.{kind.__name__}.fit", "clusters",
        *(lambda kind=kind, c=c: kind().fit(X, Y, c) for c in BELONG))
add(f"{own}.fit", "clusters", lambda: S.SuitabilityFilter(test="paper").fit(X, Y, np.arange(N)))
for side in ("test_clusters", "user_clusters"):
    add(f"{own}.decide", side,
        *(lambda side=side, c=c: PLACED.decide(X, X, **{side: c}) for c in BELONG))
add("suitability.RefinedFilter.fit", "correct", lambda: S.RefinedFilter().fit(X, np.ones(N)))
add("suitability.RefinedFilter.fit", "signals", lambda: S.RefinedFilter().fit(1e300 * X, Y))
add("suitability.RefinedFilter.decide", "user_signals", lambda: REFINED.decide(Y, X[:, :2]))
add("suitability.RefinedFilter.decide", "fitted", lambda: S.RefinedFilter().decide([True], X),
    lambda: S.RefinedFilter().estimate(X), error=RuntimeError)
own, tall = "suitability.CorrectnessEstimator", np.arange(20.0)[:, None]
add(f"{own}.fit", "correct",
    *(lambda n=n: S.CorrectnessEstimator().fit(tall, np.arange(20) < n) for n in (4, 16)),
    lambda: suitability.estimator.fit_each(X[None], np.zeros((1, N), bool)))
add(f"{own}.fit", "signals", lambda: S.CorrectnessEstimator().fit(tall * 1e300, tall[:, 0] < 10))
add(f"{own}.predict", "fitted", lambda: S.CorrectnessEstimator().predict(X), error=RuntimeError)
add(f"{own}.predict", "signals", lambda: S.CorrectnessEstimator().fit(X, Y).predict(X[:, :2]))
made = S.make_estimator("svm", "none")
add("suitability.make_estimator", "signals",
    *(lambda f=f, t=t: made.fit(f, Y).predict_proba(t) for f, t in (
        (FRAME, FRAME.rename(columns={"a": "z"})), (FRAME, FRAME.drop(columns="a")),
        (FRAME, FRAME[["a", "a", "b", "c"]]), (FRAME, X), (X, FRAME))))
add("suitability.Multicalibrator.predict", "groups", lambda: CHECKED.predict(Y, Y[:, None]))
add("suitability.Multicalibrator.predict", "fitted",
    lambda: S.Multicalibrator().predict(Y, rowwise.IN_GROUPS), error=RuntimeError)
W = rowwise.WIDE
for c in (1e260, 1e-300):
    add("suitability.anova_table", "signals",
        lambda c=c: S.anova_table(np.c_[c * W[:, 0], W[:, 1:]], Y))
    add("suitability.shap_values", "fit_signals",
        lambda c=c: S.shap_values(np.c_[c * W[:, 0], W[:, 1:]], Y, W))
add("suitability.shap_values", "signals", lambda: S.shap_values(FRAME, Y, W))
add("suitability.anova_table", "rows", lambda: S.anova_table(W[:2], [True, False]))
add("suitability.signals", "logits", lambda: S.signals([[1.0]]), lambda: S.signals([[1e200, 0]]))
add("suitability.equivalence_between_groups", "groups",
    *(lambda g=g: S.equivalence_between_groups([0.5, 0.6, 0.7, 0.8], g, 0.1) for g in (
        ["a", "a", None, "b"], [1.0, 1.0, math.nan, 2.0], list("abbb"), list("aaab"),
        pd.Categorical(["a", "a", None, "b"]), pd.array([1, 1, 2, None], dtype="Int64"))))
add("suitability.equivalence_between_groups", "b",  # numbers that do not vary have no error
    lambda: S.equivalence_between_groups([0.1, 0.2, 0.7, 0.7, 0.7], list("aabbb"), 0.05))
for f in (S.equivalence_test, S.non_inferiority_test):
    for value, n in ((0.5, 3), (0.1, 10), (0.7, 3), (1 / 3, 99_999)):
        same = np.full(n, value)
        add(f"suitability.{f.__name__}", "test", lambda f=f, s=same: f(s, [0.5, 0.6], 0.1))
        add(f"suitability.{f.__name__}", "user", lambda f=f, s=same: f([0.5, 0.6], s, 0.1))
MOMENTS = dict(mean_test=0.5, variance_test=0.1, n_test=10, mean_user=0.4, variance_user=0.2,
               n_user=20, margin=0.05)
for n, v in (("n_test", [5, 1]), ("variance_user", [0.2, -0.1]), ("mean_test", [0.5, math.inf])):
    add("suitability.welch_non_inferiority", n,
        lambda n=n, v=v: S.welch_non_inferiority(**MOMENTS | {n: v}))
add("suitability.welch_non_inferiority", "arguments",
    lambda: S.welch_non_inferiority(**MOMENTS | {"mean_test": [0.1] * 3, "mean_user": [0.1] * 2}))
add("suitability.SequentialDesign", "information",
    *(lambda i=i: S.SequentialDesign(2, information=i) for i in ([0.5, 0.9], [0.0, 1], [1, 1])))
add("suitability.SequentialDesign", "alpha", lambda: S.SequentialDesign(2, 0.5),
    lambda: S.SequentialDesign(2, 1.0, sides=2))
add("suitability.SequentialDesign.decide", "p_values",  # beyond the looks, and beyond a decision
    *(lambda p=p: S.SequentialDesign(2).decide(p) for p in ([], [0.5] * 3, [0.0, 0.5])))
add("suitability.labels_needed", "half_width", lambda: S.labels_needed(0.4, 1e-9))

# ------------------------------------------------------------------------------ counterfactual

R, HALF = np.arange(3) < 1, np.full(3, 0.5)
KNOWN = C.Nuisances(R, HALF, HALF, HALF)
FIT = dict(X=[[0.0], [1.0], [2.0]], scores=HALF, abstained=R, rng=0, learner="linear")
ESTIMATE = C.estimate_from_nuisances(C.Nuisances(**rowwise.KNOWN))
BELOW = C.Nuisances(R, HALF - 1, HALF, HALF - 1)
add("counterfactual.Nuisances", "propensity",
    lambda: C.Nuisances(R, HALF, HALF[:2], HALF), lambda: C.Nuisances(R, HALF, -3 * HALF, HALF))
add("counterfactual.Nuisances", "outcome", lambda: C.Nuisances(R, HALF, HALF, HALF[:2]))
add("counterfactual.influence_values", "outcome",
    lambda: C.influence_values(replace(KNOWN, outcome=HALF * math.inf)))
add("counterfactual.influence_values", "clip",
    lambda: C.influence_values(replace(KNOWN, propensity=np.ones(3))))
add("counterfactual.estimate_from_nuisances", "nuisances",
    lambda: C.estimate_from_nuisances((KNOWN,) * 3),
    lambda: C.estimate_from_nuisances((KNOWN, C.Nuisances(*(HALF[:2] > 0.9,) * 4))))
add("counterfactual.fit_nuisances", "fold", lambda: C.fit_nuisances(**FIT, fold=[0, 0.5, 1]))
add("counterfactual.fit_nuisances", "only", lambda: C.fit_nuisances(**FIT, fold=[0, 1, 1], only=2))
add("counterfactual.fit_nuisances", "abstained",
    lambda: C.fit_nuisances(**FIT | {"abstained": [1, 1, 0]}, fold=[0, 1, 0]))
add("counterfactual.counterfactual_score", "repeats",
    lambda: C.counterfactual_score(**FIT, repeats=2))
add("counterfactual.counterfactual_score", "clusters",
    lambda: C.counterfactual_score(**rowwise.ONE, learner="linear", clusters=[0] * N, rng=0))
add("counterfactual.mixed_difference", "abstained_b",
    lambda: C.mixed_difference(X, Y, Y, Y, ~Y, learner="linear", rng=0))
add("counterfactual.confidence_sequence", "score_range",
    lambda: C.confidence_sequence(np.arange(60), score_range=(0, 1)))
for f, share in ((C.contamination_bounds, [0.5]), (C.breakdown_share, 0.5)):
    add(f"counterfactual.{f.__name__}", "score_range",
        lambda f=f, s=share: f(ESTIMATE, s, (0.0, 0.5)))
    add(f"counterfactual.{f.__name__}", "estimate",
        lambda f=f, s=share: f(replace(ESTIMATE, estimator="ipw"), s))
add("counterfactual.clipping_sensitivity", "estimate",
    lambda: C.clipping_sensitivity(0.3, [0.1]), error=TypeError)
add("counterfactual.classification_quality_estimate", "estimate",
    lambda: C.classification_quality_estimate(C.Metric(0.5, 0.1, (0.3, 0.7))), error=TypeError)
add("counterfactual.classification_quality_estimate", "scores",
    lambda: C.classification_quality_estimate(C.estimate_from_nuisances(BELOW)))
WRONG = 7, (LogisticRegression(),), (LogisticRegression, Ridge), (Ridge(), Ridge())
add("counterfactual.learner_pair", "learner",
    *(lambda w=w: C.learner_pair(w, rowwise.rng) for w in WRONG), error=TypeError)
for kind in (C.ForestClassifier, C.SuperLearnerClassifier):
    few = () if kind is C.ForestClassifier else (np.arange(N) < 1,)
    add("counterfactual.learner_pair", "y", *(lambda kind=kind, y=y: kind(10).fit(X, y)
                                              for y in (np.zeros(N), np.arange(N) % 3, *few)))
for kind in (C.ForestClassifier, C.ForestRegressor):
    add("counterfactual.learner_pair", "max_features",
        *(lambda kind=kind, m=m: kind(max_features=m).fit(X, Y * 1)
          for m in (0, 4, 1.5, "log2", None, True)))
    add("counterfactual.learner_pair", "n_estimators", lambda kind=kind: kind(0).fit(X, Y * 1))

# ------------------------------------------------------------------------------ audit

MEMBERS, TOP = rowwise.MEMBERS, A.top_label_guesses(**rowwise.CANARIES, threshold=0.25)
PUT = A.insert_canaries(rowwise.LABELS, 10, 4, seed=0)
ATTACK = dict(rowwise.ATTACK, delta=1e-5, seed=0)
FOUR, TWO = np.zeros((1, 4)), np.array([True, True, False, False])
add("audit.held_out_lower_bound", "splits", lambda: A.held_out_lower_bound(**ATTACK, splits=2))
add("audit.held_out_lower_bound", "members",
    *(lambda m=m: A.held_out_lower_bound([1.0, 2.0, 3.0], m, 0.1, seed=0)
      for m in ([True] * 3, [True, False, True])))
add("audit.LiRA.score", "observed", lambda: A.LiRA().score([math.inf], np.arange(4.0), TWO))
add("audit.LiRA.score", "members", lambda: A.LiRA().score([0.0], np.arange(4.0), TWO[:2]),
    lambda: A.LiRA().score([0.0], np.arange(4.0), np.arange(4) < 3))
add("audit.top_label_guesses", "delta", lambda: TOP.lower_bound(0.95, 0.1))
add("audit.top_label_guesses", "options", lambda: TOP.bayesian_interval())
add("audit.one_label_bound", "draws",
    lambda: A.one_label_bound(**rowwise.CANARIES, draws=2, seed=0))
add("audit.Canaries.apply", "labels", lambda: PUT.apply(rowwise.LABELS + 0.5))
add("audit.Canaries.apply", "canaries",
    lambda: PUT.apply(rowwise.LABELS[:4]), lambda: PUT.apply((rowwise.LABELS + 1) % 4))
add("audit.one_run_p_value", "guesses", lambda: A.one_run_p_value(3, 2, 5, 1.0, 0.0))
add("audit.one_run_epsilon", "guesses",
    lambda: A.one_run_epsilon(1, 10**9, 10**9, 1e-5, family="gaussian"))
add("audit.one_run_epsilon", "canaries",
    lambda: A.one_run_epsilon(1, 2, 10**8, 1e-5, family="gaussian", fixed=False))
add("audit.one_run_guesses", "guesses", lambda: A.one_run_guesses(FOUR, FOUR > 0, 3))
add("audit.one_run_guesses", "members", lambda: A.one_run_guesses(FOUR, FOUR[:, :3] > 0, 2))

# ------------------------------------------------------------------------------ privacy

STEP, VOTES = V.PrivacyLedger((V.SampledGaussian(0.1, 0.8, 1),)), [[3, 2], [4, 1]]
PATE = dict(sigma1=1.0, sigma2=1.0, threshold=3.0)
add("privacy.PrivacyLedger.epsilon", "accountant", lambda: STEP.epsilon(1e-5, neighbours="replace"))
for budget in ((1e-300, 1e-5, 0.5, 100), (0.003, 1e-5, 0.01, 100)):
    add("privacy.find_noise_multiplier", "epsilon", lambda b=budget: V.find_noise_multiplier(*b))
add("privacy.find_noise_multiplier", "delta", lambda: V.find_noise_multiplier(1.0, 0.0, 0.1, 10))
add("privacy.selection_noise_multiplier", "epsilon",
    lambda: V.selection_noise_multiplier(0.001, 1e-5, 0.1, 100, 1e5))
add("privacy.posterior", "prior", lambda: V.posterior([[1, 0], [0, 1]], [[1, 0]] * 2))
add("privacy.rr_with_prior", "prior", lambda: V.rr_with_prior([0], [[0, 0]], 1, 0))
add("privacy.RandomizedResponse.likelihood", "observed",
    *(lambda row=row: V.RandomizedResponse(1.0).likelihood([[1, 0], row])
      for row in ([0.5, 0.5], [1, 1], [0, 0], [2, -1])))
for votes in ([[3, 2], [3, 3]], [[0, 0], [0, 0]]):
    add("privacy.pate_epsilon", "votes",
        lambda v=votes: V.pate_epsilon(v, **PATE, delta=0.1, answered=[True, False]))
    add("privacy.confident_gnmax", "votes", lambda v=votes: V.confident_gnmax(v, **PATE, seed=0))
for which in (dict(answered=[True]), dict(answered=[False, True], asked=[True, False])):
    add("privacy.pate_epsilon", "answered",
        lambda w=which: V.pate_epsilon(VOTES, **PATE, delta=0.1, **w))
add("privacy.publish_epsilon", "votes",
    lambda: V.publish_epsilon([[9 * 10**17, 10**17]] * 3, 4e7, 2e7, 6e8, 1e-5, 3, seed=0))

# ------------------------------------------------------------------------------ selective

GIVEN = Y, rowwise.SCORE, rowwise.OTHER_CORRECT, rowwise.OTHER
add("selective.guaranteed_threshold", "rng",
    lambda: L.guaranteed_threshold(*GIVEN[:2], 0.8, clusters=np.arange(N) // 2))
add("selective.log_odds", "logits", lambda: L.log_odds([[0.5, 0.5]], logits=[[0.0, 0.0]]),
    lambda: L.log_odds(logits=[[1.0]]))
add("selective.margin", "probabilities", lambda: L.margin([[1.0]]))
add("selective.sctd", "k", lambda: L.sctd([[1]], 0, "algorithm"))
add("selective.ties_broken_by", "second", lambda: L.ties_broken_by([1, 2], [1]))
add("selective.bootstrap", "other_correct",
    lambda: L.bootstrap(*GIVEN[:2], other_score=GIVEN[3], seed=0))
add("selective.compare_over_seeds", "score", lambda: L.compare_over_seeds(*GIVEN))
add("selective.compare", "correct", lambda: L.compare([True], [0.3], [False], [0.2]))
add("selective.estimate", "clusters", lambda: L.estimate(*GIVEN[:2], clusters=[0] * N))
add("selective.mean_over_seeds", "values", lambda: L.mean_over_seeds([1.0]))

# ------------------------------------------------------------------------------ training, data

T, DIGITS, PIXELS = training, shared.DG, training.DataSpec(train=200, test=100)
IMAGES = training.DataSpec("digits", "images", train=200, test=100)
PLAIN, NOISE = training.TrainingConfig(DIGITS, steps=60), V.LaplaceLabels(1.0)
TEACHER, DRAW = training.FixMatch(shared.FM, steps=1), CanaryDraw(5, 10, 0)
MLP = training.ModelSpec("mlp", (64,), 10)
for changes, name in (
    (dict(clipping_norm=math.inf), "clipping_norm"),
    (dict(epsilon=1.0, noise_multiplier=1.0), "epsilon"),
    (dict(objective=T.SelectiveNet(coverage=0.5), noise_multiplier=1.0), "model"),
    (dict(model=replace(MLP, head="abstain"), objective=T.DeepGamblers(), adversarial=0.1,
          noise_multiplier=1.0), "adversarial"),
):
    add("training.TrainingConfig", name,
        lambda c=changes: T.TrainingConfig(**dict(dict(model=MLP, noise_multiplier=1.0), **c)))
BUDGET = dict(epsilon=3.0, delta=1e-5)
for changes, name in (
    (dict(batch_size=61), "batch_size"), (dict(augmentation=T.Augmentation()), "augmentation"),
    (dict(model=replace(shared.M, inputs=(4,))), "model.inputs"),
    (dict(model=replace(shared.M, classes=2)), "model.classes"),
    (dict(epsilon=1e-6, delta=1e-12), "epsilon"), (dict(epsilon=3.0, delta=0.0), "delta"),
):
    add("training.train", name, lambda c=changes: T.train(
        replace(shared.C, **dict(BUDGET, **c)), shared.D, shared.X))
add("training.train", "delta", lambda: T.train(  # 1 / 1 is none
    replace(shared.C, epsilon=3.0, batch_size=1), shared.D.subset([0]), shared.X))
for config, more, name in (
    (T.TrainingConfig(DIGITS, epsilon=1.0), {}, "config"),
    (PLAIN, dict(reading="labels"), "reading"), (PLAIN, dict(stages=2), "stages"),
):
    add("training.LabelTrainings", name,
        lambda c=config, m=more: T.LabelTrainings(c, PIXELS, NOISE, (DRAW,), **m))
for noise, queries, name in ((None, 10, "label_noise"), (DRAW, 201, "queries")):
    add("training.PateStudents", name, lambda n=noise, q=queries: T.PateStudents(
        T.Teachers(TEACHER, IMAGES, 5, label_noise=n), ((1.0, 1.0, 3.0, 5),), TEACHER, q))
for name, features in (("sst2", "pixels"), ("digits", "tokens"), ("digits", "words")):
    add("training.DataSpec", "features", lambda n=name, f=features: T.DataSpec(n, f))
for changes in (dict(labels=np.arange(3)), dict(labels=np.arange(4) % 2 + 1), dict(names=("one",))):
    add("data.ImageSet", "labels", lambda c=changes: images(**c))
add("data.ImageSet", "names", lambda: images(names=("same", "same")))


def images(**changes):
    given = dict(name="a", images=np.zeros((4, 5, 6, 3), np.uint8), labels=np.arange(4) % 2,
                 names=("no", "yes"))
    return data.ImageSet(**given | changes)
