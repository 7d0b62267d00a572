"""A provider or a user who cheats, sizes of samples, and groups: what decisions withstand."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy import special

from lib.audit.counts import rate_interval
from lib.studies.suitability.data import Study
from lib.studies.suitability.experiment import METRICS, is_suitable, metrics_table
from lib.suitability.estimator import N_SPLITS, CorrectnessEstimator
from lib.suitability.estimators import calibration_errors
from lib.suitability.labels import labels_test
from lib.suitability.multicalibration import Multicalibrator
from lib.suitability.noninferiority import non_inferiority_test, welch_non_inferiority
from lib.suitability.signals import SIGNAL_NAMES

PROVIDER = ("unsure test rows", "unsure rows in both", "right hold-out rows", "flat hold-out")
USER = ("sure rows", "repeated rows", "test rows mixed in", "source rows mixed in")
_CONFIDENCE = SIGNAL_NAMES.index("conf_max")
_COPIES = 0.01
_PARTS = 6  # of the source data, at least: those handed in are one each
_LEVEL = 0.05  # of the filter and of each way to detect


def source_table(study: Study) -> tuple[np.ndarray, np.ndarray]:
    """Signals and correctness of all source data."""
    parts = [study.splits[name] for name in study.id_splits]
    return np.concatenate([x for x, _ in parts]), np.concatenate([y for _, y in parts])


def simulate_cheats(
    study: Study, n: int, n_labels: int, margin: float, repetitions: int, rng: np.random.Generator
) -> pd.DataFrame:
    """One row for each draw, user fold and cheat: decision, truth, and what detects it.

    The truth is about populations: accuracy of the fold against that of all source data.
    """
    x, y = source_table(study)
    n = min(n, len(y) // _PARTS)
    rows = []
    for _ in range(repetitions):
        order = rng.permutation(len(y))
        # Hold-out, test, an auditor's, and what is left to choose from.
        hold, test, fresh, stock = np.split(order, [n, 2 * n, 3 * n])
        given = _provided(x, y, hold, test, stock, rng)
        moved = {name: _moved_given_labels(x, y, a, b) for name, (a, b) in given.items()}
        low = {name: _moved_given_labels(x, y, b, fresh) for name, (_, b) in given.items()}
        fits = {
            name: CorrectnessEstimator(seed=None).fit(x[a], y[a]) for name, (a, _) in given.items()
        }
        means = {name: fits[name].predict(x[b]) for name, (_, b) in given.items()}
        for split, fold, label in study.user_folds["OOD"]:
            u, right = study.splits[split][0][fold], study.splits[split][1][fold]
            size = min(n, len(fold))
            honest = rng.choice(len(fold), size, replace=False)
            later = rng.choice(len(fold), min(n_labels, len(fold)), replace=False)
            population = labels_test(y, right[later], margin, reference="sample")
            shared = {
                "user_fold": label,
                "drop": y.mean() - right.mean(),
                "truth": bool(is_suitable(y.mean(), right.mean(), margin)),
                "labels_drawn": population.unsuitable_p <= _LEVEL,
            }
            handed = _handed_in(u, right, x, y, honest, test, stock, rng)
            for name in ("honest", *PROVIDER, *USER):
                by = name if name in PROVIDER else "honest"
                d, d_right = handed[name if name in USER else "honest"]
                p = non_inferiority_test(means[by], fits[by].predict(d), margin).p_value
                some = rng.choice(len(d), min(n_labels, len(d)), replace=False)
                told = labels_test(y[given[by][1]], d_right[some], margin, reference="sample")
                rows.append(
                    {
                        "cheat": name,
                        "suitable": p <= _LEVEL,
                        "moved_user": _moved(x[given[by][1]], d),
                        "moved_reference": moved[by],
                        "moved_source": low[by],
                        "copies": _copies(d, x[given[by][1]]),
                        "labels_given": told.unsuitable_p <= _LEVEL,
                        **shared,
                    }
                )
    return pd.DataFrame(rows)


def _provided(x, y, hold, test, stock, rng):
    """Hold-out and test rows under each cheat of the provider; all labels are true."""
    n = len(hold)
    more = np.concatenate([test, stock])
    unsure = rng.permutation(_by_confidence(x, more)[: len(more) * 3 // 4])
    pool = np.concatenate([hold, stock])
    pool = rng.permutation(pool)
    # Four in five of the wrong rows are left out, as far as an estimator can still be fitted.
    wrong = 0.2 * (1 - y[pool].mean()) / (1 - 0.8 * (1 - y[pool].mean()))
    n_wrong = max(round(n * wrong), 2 * N_SPLITS)
    right = np.concatenate([pool[~y[pool]][:n_wrong], pool[y[pool]][: n - n_wrong]])
    return {
        "honest": (hold, test),
        "unsure test rows": (hold, unsure[:n]),
        "unsure rows in both": (unsure[n : 2 * n], unsure[:n]),
        "right hold-out rows": (rng.permutation(right), test),
        "flat hold-out": (_flat(x, y, pool, n, rng), test),
    }


def _by_confidence(x, rows):
    """Rows by their largest probability, the least sure first."""
    return rows[np.argsort(x[rows, _CONFIDENCE], kind="stable")]


def _flat(x, y, pool, n, rng):
    """N rows on which the honest estimate says nothing: the same fraction is right at any level."""
    estimate = CorrectnessEstimator(seed=None).fit(x[pool], y[pool]).predict(x[pool])
    levels = int(np.clip(n // 50, 2, 10))
    chosen, part = [], n // levels
    n_right = min(round(part * y[pool].mean()), part - 1)
    for rows in np.array_split(pool[np.argsort(estimate, kind="stable")], levels):
        rows = rng.permutation(rows)
        right, wrong = rows[y[rows]], rows[~y[rows]]
        # Where one kind is short, fewer of both: the fraction is what counts.
        share = min(1.0, len(right) / n_right, len(wrong) / (part - n_right))
        chosen += [right[: int(share * n_right)], wrong[: int(share * (part - n_right))]]
    return rng.permutation(np.concatenate(chosen))


def _handed_in(u, right, x, y, honest, test, stock, rng):
    """Signals and correctness of the rows that a user hands in, under each cheat of the user."""
    n = len(honest)
    sure = rng.permutation(_by_confidence(u, np.arange(len(u)))[len(u) // 4 :])[:n]
    few, half = np.repeat(honest[: max(n // 10, 2)], 10), honest[: n // 2]
    mixed = {
        f"{name} rows mixed in": (
            np.concatenate([u[half], x[rows[: n - n // 2]]]),
            np.concatenate([right[half], y[rows[: n - n // 2]]]),
        )
        for name, rows in (("test", test), ("source", stock))
    }
    own = {"honest": honest, "sure rows": sure, "repeated rows": few}
    return {name: (u[rows], right[rows]) for name, rows in own.items()} | mixed


def _moved_given_labels(x, y, a, b):
    """Whether rows a and b differ: all, the right or the wrong ones, with Bonferroni's level."""
    every = np.ones(len(y), dtype=bool)
    return any(_moved(x[a[kind[a]]], x[b[kind[b]]], _LEVEL / 3) for kind in (every, y, ~y))


def _moved(reference, other, level=_LEVEL):
    """Whether the largest probability is distributed differently: Kolmogorov and Smirnov's test."""
    a, b = np.sort(reference[:, _CONFIDENCE]), np.sort(other[:, _CONFIDENCE])
    both = np.concatenate([a, b])
    gap = np.searchsorted(a, both, "right") / len(a) - np.searchsorted(b, both, "right") / len(b)
    scale = np.sqrt(len(a) * len(b) / (len(a) + len(b)))
    return bool(special.kolmogorov(scale * np.abs(gap).max()) <= level)


def _copies(user, test):
    """Whether more than 1% of the user's rows are copies of one another or of test rows.

    A few are in honest data: images that were taken twice.
    """
    weights = np.linspace(1, 2, user.shape[1])  # rows are told apart by one projection
    own, others = user @ weights, test @ weights
    first, times = np.unique(own, return_counts=True)
    copies = len(own) - len(first) + times[np.isin(first, others)].sum()
    return bool(copies > _COPIES * len(own))


def cheats_table(draws: pd.DataFrame) -> pd.DataFrame:
    """Rates by cheat; limits count each user fold as one yes or no, the widest case."""
    rows = []
    for cheat, group in draws.groupby("cheat", sort=False):
        bad = group[~group["truth"]]
        rate, folds = bad["suitable"].mean(), bad["user_fold"].nunique()
        low, high = binomial_limits(rate, folds)
        row = {"cheat": cheat, "unsuitable": rate, "low": low, "high": high}
        row["suitable"] = group.loc[group["truth"], "suitable"].mean()
        seen = (
            "moved_reference",
            "moved_source",
            "moved_user",
            "copies",
            "labels_given",
            "labels_drawn",
        )
        rows.append(row | {name: bad[name].astype(float).mean() for name in seen})
    return pd.DataFrame(rows)


def binomial_limits(rate: float, n: int) -> tuple[float, float]:
    """Clopper and Pearson's 95% limits for a mean of n fractions, as if each were yes or no."""
    return rate_interval(n * rate, n, (1 - 0.95) / 2, "clopper-pearson")


def by_sample_size(
    study: Study,
    n_users: Sequence[int],
    n_holdouts: Sequence[int],
    n_test: int,
    margin: float,
    repetitions: int,
    rng: np.random.Generator,
) -> pd.DataFrame:
    """Decide about all OOD user folds with few to all of their rows; the truth is the whole fold's.

    Smaller samples are parts of larger ones. The last size, 0, stands for all rows of a fold.
    """
    x, y = source_table(study)
    n_test = min(n_test, len(y) // 3)
    tables = []
    for _ in range(repetitions):
        order = rng.permutation(len(y))
        test, rest = order[:n_test], order[n_test:]
        shuffled = [
            (split, rng.permutation(rows), label) for split, rows, label in study.user_folds["OOD"]
        ]
        for n_holdout in n_holdouts:
            hold = rest[:n_holdout]
            estimator = CorrectnessEstimator(seed=None).fit(x[hold], y[hold])
            known = estimator.predict(x[test])
            for split, rows, label in shuffled:
                signals, correct = study.splits[split]
                found = estimator.predict(signals[rows])
                sizes = np.array([*[min(n, len(rows)) for n in n_users], len(rows)])
                mean = np.cumsum(found)[sizes - 1] / sizes
                squares = np.cumsum(found**2)[sizes - 1] / sizes
                variance = np.maximum(squares - mean**2, 0) * sizes / (sizes - 1)
                of_test = known.mean(), known.var(ddof=1), n_test
                p = welch_non_inferiority(*of_test, mean, variance, sizes, margin)[1]
                truth = is_suitable(y[test].mean(), correct[rows].mean(), margin)
                which = {"user_fold": label, "n_user": [*n_users, 0], "n_holdout": n_holdout}
                which |= {"rows": sizes, "p_value": p, "truth": bool(truth)}
                tables.append(pd.DataFrame(which))
    return pd.concat(tables, ignore_index=True)


def missed_table(decisions: pd.DataFrame, alpha: float = 0.05) -> pd.DataFrame:
    """Metrics by sizes, with the rate of suitable folds that are missed and its limits."""
    keys = ["n_holdout", "n_user"]
    metrics = metrics_table(decisions, [*keys, "seed"], alpha)
    table = metrics.groupby(keys, sort=False)[METRICS].mean().reset_index()
    rows = decisions.groupby(keys, sort=False)["rows"].median().to_numpy()
    table = table.assign(rows=rows, **{"user samples": rows.astype(int).astype(object)})
    table.loc[table["n_user"] == 0, "user samples"] = "all"
    suitable = decisions[decisions["truth"]]
    missed = (suitable["p_value"] > alpha).groupby([suitable[k] for k in keys], sort=False).mean()
    folds = suitable["user_fold"].nunique()
    limits = [binomial_limits(rate, folds) for rate in missed]
    return table.assign(missed=missed.to_numpy()).assign(
        low=[low for low, _ in limits], high=[high for _, high in limits]
    )


def group_members(study: Study) -> tuple[list[str], dict[str, np.ndarray]]:
    """Names of the groups of ID data and, for each split, which rows are in which, (n, n_groups).

    Out of distribution a row may be in no group: a year that the source does not have.
    """
    folds = [fold for kind in study.user_folds.values() for fold in kind]
    names = list(dict.fromkeys(label.split(" · ")[-1] for _, _, label in study.user_folds["ID"]))
    members = {s: np.zeros((len(y), len(names)), dtype=bool) for s, (_, y) in study.splits.items()}
    for split, rows, label in folds:
        name = label.split(" · ")[-1]
        if name in names:
            members[split][rows, names.index(name)] = True
    return names, members


def compare_calibrations(
    study: Study, n: int, repetitions: int, rng: np.random.Generator
) -> pd.DataFrame:
    """Error of the estimated accuracy on groups of fresh ID rows and on OOD folds, by method.

    ``paper`` fits its estimator to n labeled rows; ``half`` to the first half of them, and the
    other three correct ``half`` on the second half: all but ``half`` use the same labels.
    """
    names, members = group_members(study)
    x, y = source_table(study)
    groups = np.concatenate([members[name] for name in study.id_splits])
    n = min(n, len(y) // 2)
    rows = []
    for repetition in range(repetitions):
        order = rng.permutation(len(y))
        first, second, fresh = np.split(order, [n // 2, n])
        whole = CorrectnessEstimator(seed=None).fit(x[order[:n]], y[order[:n]])
        half = CorrectnessEstimator(seed=None).fit(x[first], y[first])
        on_second = half.predict(x[second]), y[second], groups[second]
        corrected = {
            "group means": Multicalibrator(bins=1).fit(*on_second),
            "multicalibrated": Multicalibrator().fit(*on_second),
            "beyond 3 s.e.": Multicalibrator(z=3).fit(*on_second),
        }
        targets = [
            ("ID", name, x[fresh[inside]], y[fresh[inside]], groups[fresh[inside]])
            for name, inside in zip(names, groups[fresh].T, strict=True)
        ]
        for split, fold, label in study.user_folds["OOD"]:
            signals, correct = study.splits[split]
            targets.append(("OOD", label, signals[fold], correct[fold], members[split][fold]))
        for kind, name, signals, correct, member in targets:
            estimates = {"paper": whole.predict(signals), "half": half.predict(signals)}
            for method, one in corrected.items():
                estimates[method] = one.predict(estimates["half"], member)
            spread = np.mean(estimates["paper"] * (1 - estimates["paper"])) / len(correct)
            for method, p in estimates.items():
                row = {"repetition": repetition, "kind": kind, "group": name, "method": method}
                error, ece = p.mean() - correct.mean(), calibration_errors(p, correct, 10).ece
                row |= {"error": error, "size": abs(error), "ece": ece}
                rows.append(row | {"chance": np.sqrt(2 * spread / np.pi)})
    return pd.DataFrame(rows)
