"""Two services that may refuse, watched while data arrive, and compared within groups.

Abstentions are drawn by known probabilities, so that everything that is hidden is known to us.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.dummy import DummyClassifier
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline

from lib import data
from lib.counterfactual import (
    Estimate,
    confidence_sequence,
    counterfactual_difference,
    estimate_from_nuisances,
    exact_sequence,
    influence_values,
    predictable_nuisances,
)
from lib.studies.counterfactual.classifiers import simulate, true_difference
from lib.studies.counterfactual.tables import pointwise_interval

Array = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
_FLOOR, _OFTEN = 0.2, 0.95  # probabilities of an answer: least, and of a cautious service if sure
KINDS = ["points", "start", "floor"]  # what streams differ in


@dataclass(frozen=True, eq=False)
class Trial:
    """Two services on the same points, with all that an oracle knows."""

    X: Array  # shape (n, d): what the evaluator sees
    scores: tuple[Array, Array]  # zero-one
    propensities: tuple[Array, Array]  # of abstention
    groups: npt.NDArray[np.str_]

    def abstain(self, rng: np.random.Generator) -> tuple[Flags, Flags]:
        """Draw where each abstains."""
        return tuple(rng.random(len(p)) < p for p in self.propensities)


def _trial(confidence, correct, groups, sure: float, more: Iterable[Array] = ()) -> Trial:
    """A answers as often as it is confident, B nearly always if it is sure, and else seldom."""
    a, b = (np.array(one, dtype=float) for one in confidence)
    hidden = 1 - np.clip(a, _FLOOR, 1 - _FLOOR), np.where(b >= sure, 1 - _OFTEN, 1 - _FLOOR)
    x = np.column_stack([a, b, a >= sure, b >= sure, *more]).astype(float)
    return Trial(x, tuple(np.array(one, dtype=float) for one in correct), hidden, groups)


def satellite_images(points: int, rng: np.random.Generator) -> Trial:
    """FMoW in the order of its years, by two public models; images of a year in random order."""
    folds = [f for f in data.load_suitability_folds("fmow") if set(f.filter) == {"year"}]
    folds.sort(key=lambda fold: (*fold.filter["year"], fold.split))
    rate = min(1, points / sum(map(len, folds)))
    chosen = [rng.choice(fold.rows, round(rate * len(fold)), replace=False) for fold in folds]
    years = np.repeat([str(fold.filter["year"][-1]) for fold in folds], list(map(len, chosen)))
    order = np.lexsort([rng.random(len(years)), years.astype(int)])
    confidence, correct = [], []
    for name in ("ERM", "IRM"):
        splits = data.load_suitability_signals("fmow", name, 0).splits
        tables = [splits[f.split].take(rows) for f, rows in zip(folds, chosen, strict=True)]
        confidence.append(np.concatenate([one.signals[:, 0] for one in tables])[order])
        correct.append(np.concatenate([one.correct for one in tables])[order])
    return _trial(confidence, correct, years[order], 0.9)


def sentences(many: int, few: int) -> Trial:
    """SST-2's sentences by two models of words: A learned from many phrases, B from few."""
    known, asked = data.load_sst2("train"), data.load_sst2("validation")
    lines = data.fetch("sst2_sentences/test").read_text("utf-8").strip().split("\n")
    rows = [line.rsplit("\t", 1) for line in lines]
    rows += zip(asked.texts, asked.labels, strict=True)
    phrases = set(known.texts)
    texts, labels = zip(*[(t, int(y)) for t, y in rows if t.strip() not in phrases], strict=True)
    confidence, correct = [], []
    learners = LogisticRegression(solver="liblinear", C=0.3), MultinomialNB()
    for size, learner in zip((many, few), learners, strict=True):
        words = HashingVectorizer(
            n_features=2**15, alternate_sign=False, norm=None, token_pattern=r"\S+", binary=True
        )
        model = make_pipeline(words, learner).fit(known.texts[:size], known.labels[:size])
        p = model.predict_proba(texts)
        confidence.append(p.max(axis=1))
        correct.append(p.argmax(axis=1) == labels)
    length = np.array([len(text.split()) for text in texts])
    named = np.array(["1-10 words", "11-20 words", "21-30 words", "31 or more"])
    groups = named[np.digitize(length, [11, 21, 31])]
    return _trial(confidence, correct, groups, 0.95, [length])


def simulated(points: int, seed: int) -> Trial:
    """P4's simulation, in place of data that cannot be had; groups are sides of the square."""
    drawn = simulate(points, rng=seed)
    groups = np.where(drawn.X[:, 0] < 0.5, "left", "right")
    return Trial(drawn.X, drawn.scores, drawn.propensities, groups)


def intervals(
    trial: Any, abstained: Sequence[Flags], start: int, learner: str, rng: np.random.Generator
) -> dict[str, tuple[Array, Array]]:
    """Ends of each way's intervals from twice `start` points on; no learner: none is fitted.

    The first `start` points teach the first models, and count no more.  ``"exact, sample"`` is for
    the points themselves.
    """
    floor, found = min(float(1 - pi.max()) for pi in trial.propensities), {}
    # Where it is known a constant stands for the propensity.
    ways = {"": (DummyClassifier(), Ridge()), ", fitted": learner}
    for name in ways if learner else [""]:
        pair = [
            predictable_nuisances(trial.X, s, r, start=start, learner=ways[name], rng=rng)
            for s, r in zip(trial.scores, abstained, strict=True)
        ]
        if not name:
            given = zip(pair, trial.propensities, strict=True)
            known = pair = [replace(fit, propensity=pi[start:]) for fit, pi in given]
        a, b = (influence_values(one, clip=floor if name else 0.0) for one in pair)
        found[f"fixed time{name}"] = pointwise_interval(a - b, start)
        sequence = confidence_sequence(a - b, start=start)
        found[f"asymptotic{name}"] = sequence.lower, sequence.upper
    for name, target in (("exact", "population"), ("exact, sample", "sample")):
        sequence = exact_sequence(known, floor, target=target)
        found[name] = sequence.lower[start - 1 :], sequence.upper[start - 1 :]
    return found


def running_truth(trial: Any, start: int) -> Array:
    """Mean difference of the scores of the points after the first `start`, from as many more on."""
    later = (trial.scores[0] - trial.scores[1])[start:]
    return (np.cumsum(later) / np.arange(1, len(later) + 1))[start - 1 :]


def monitoring(
    settings: Sequence[tuple], learner: str, streams: int, fitted: int, *, seed: int
) -> pd.DataFrame:
    """Streams of experiment 1 that are watched point by point: a row per setting, way and time.

    `settings` are numbers of points, of those at the start, and positivity levels; propensities are
    fitted in the first `fitted` streams.  ``missed`` counts streams that missed the truth up to a
    time, ``excluded`` those that excluded 0; ``width`` is a mean.
    """
    tables = []
    for n, start, floor in settings:
        times = np.unique(np.geomspace(2 * start, n, 25).astype(int))
        seen: dict[str, list] = {}
        for k in range(streams):
            rng = np.random.default_rng([seed, k])
            drawn = simulate(n, epsilon=floor, rng=rng)
            ends = intervals(drawn, drawn.abstained, start, learner if k < fitted else "", rng)
            for way, (low, high) in ends.items():
                goal = running_truth(drawn, start) if "sample" in way else true_difference()
                row = [missed(low, high, goal), missed(low, high, 0.0), high - low]
                seen.setdefault(way, []).append([one[times - 2 * start] for one in row])
        for way, rows in seen.items():
            fixed = {"points": n, "start": start, "floor": floor, "way": way, "streams": len(rows)}
            gone, excluded, width = np.sum(rows, axis=0, dtype=float)
            columns = {"n": times, "missed": gone, "excluded": excluded, "width": width / len(rows)}
            tables.append(pd.DataFrame(fixed | columns))
    return pd.concat(tables, ignore_index=True)


def missed(low: Array, high: Array, goal: Any) -> Flags:
    """Whether any interval up to a time was without the goal."""
    return np.logical_or.accumulate((low > goal) | (high < goal))


def replay(trial: Trial, count: int, start: int, *, seed: int) -> pd.DataFrame:
    """The same points with abstentions drawn anew: how often the truth so far was ever missed."""
    own, seen = running_truth(trial, start), []
    for k in range(count):
        rng = np.random.default_rng([seed, k])
        ends = intervals(trial, trial.abstain(rng), start, "", rng)
        seen.append({way: missed(*pair, own)[-1] for way, pair in ends.items()})
    return pd.DataFrame(seen).sum().rename_axis("way").rename("missed").reset_index()


def watch(trial: Trial, start: int, learner: str, *, seed: int) -> pd.DataFrame:
    """One draw of the abstentions: the exact sequence, the truth so far, and other ways' ends."""
    rng = np.random.default_rng(seed)
    r = trial.abstain(rng)
    said = [
        np.cumsum(np.where(hidden, 0, s)[start:]) / np.maximum(np.cumsum(~hidden[start:]), 1)
        for hidden, s in zip(r, trial.scores, strict=True)
    ]
    ends = intervals(trial, r, start, learner, rng)
    low, high = ends["exact, sample"]
    columns = {"n": np.arange(2 * start, len(r[0]) + 1), "lower": low, "upper": high}
    columns |= {"centre": (low + high) / 2, "truth": running_truth(trial, start)}
    columns["answered"] = (said[0] - said[1])[start - 1 :]
    return pd.DataFrame(columns | {way: low for way, (low, _) in ends.items()})


def compare(trial: Trial, learner: str, *, seed: int) -> tuple[Estimate, pd.DataFrame]:
    """The difference by known propensities, and a row for all points and for each group."""
    rng = np.random.default_rng(seed)
    r = trial.abstain(rng)
    given = [part for pair in zip(trial.scores, r, strict=True) for part in pair]
    fit = counterfactual_difference(trial.X, *given, learner=learner, clip=_FLOOR, rng=rng)
    pairs = zip(fit.nuisances, trial.propensities, strict=True)
    found = estimate_from_nuisances([replace(n, propensity=p) for n, p in pairs], clip=_FLOOR)
    rows = []
    for name, one in {"all": found, **found.by_group(trial.groups)}.items():
        inside = (trial.groups == name) | (name == "all")
        a, b = (s[inside & ~hidden].mean() for s, hidden in zip(trial.scores, r, strict=True))
        truth = (trial.scores[0] - trial.scores[1])[inside].mean()
        answered = [1 - hidden[inside].mean() for hidden in r]
        rows.append((name, inside.sum(), *answered, a - b, one.value, *one.interval, truth))
    names = ["group", "points", "answered by A", "answered by B", "selective difference"]
    return found, pd.DataFrame(rows, columns=[*names, "estimate", "low", "high", "true difference"])
