"""What P2 says of its tables and figures in words, counted on the authors' signals.

Here are no new experiments: the experiments are those of the tables, by the paper's shuffles.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd

from lib.runs import run_all
from lib.studies.suitability.authors import NOTEBOOKS, PRINTED, AuthorsRun
from lib.studies.suitability.experiment import METRIC_TITLES, share_suitable

#: Signals that P2, appendix A.4.2, calls noteworthy outliers of Table 5.
OUTLIERS = ("logit_mean", "logit_std")

_FEWEST = 34  # experiments of a model in a bucket: a third of 100 for all three together
_REACH = 0.0701  # of the authors' Figure 4, to either side


def printed_experiments(dataset: str, seeds: Sequence[int], kind: str = "OOD") -> pd.DataFrame:
    """P-values, truth and accuracies of all experiments of a kind, by the paper's shuffles."""
    of = NOTEBOOKS[PRINTED]
    jobs = [AuthorsRun(dataset, seed, of.folds, of.kinds, seed) for seed in seeds]
    names = ("p_value", "truth", "user_accuracy", "test_accuracy")
    tables = [
        pd.DataFrame({name: run.arrays[f"{kind} {name}"] for name in names}).assign(seed=job.seed)
        for job, run in zip(jobs, run_all(jobs), strict=True)
    ]
    return pd.concat(tables, ignore_index=True)


def rise_with_accuracy(experiments: pd.DataFrame, alpha: float) -> list[float]:
    """Spearman's correlation of SUITABLE's fraction with the difference of accuracies, by model.

    Over the one-percent buckets of the authors' Figure 4 that hold enough experiments.
    """
    found = []
    for _, of_model in experiments.groupby("seed"):
        full = share_suitable(of_model, alpha)
        full = full[full["experiments"] >= _FEWEST]
        full = full[(full["low"] > -_REACH) & (full["high"] < _REACH)]
        found.append(float(full["low"].corr(full["share"], method="spearman")))
    return found


def outperformed(means: pd.DataFrame, metric: str) -> float:
    """Fraction of the single signals whose metric is smaller than that of all together.

    The smaller of the two kinds of user data. `means` are a table's, by kind and signals.
    """
    return min(
        float((of[metric].drop("all") < of.at["all", metric]).mean())
        for of in (means.loc[kind] for kind in ("ID", "OOD"))
    )


def neighbors(means: pd.DataFrame, name: str) -> list[str]:
    """The signals next to one in the accuracy of their decisions: one above it, one below.

    `margin_loss` is left out, which decides as `logit_diff_top2` does.
    """
    order = means.drop(index=["all", "margin_loss"], errors="ignore")["accuracy"].sort_values()
    place = order.index.get_loc(name)
    return [str(order.index[i]) for i in (place + 1, place - 1) if 0 <= i < len(order)]


def worse_than_comparable(means: pd.DataFrame, names: Sequence[str] = OUTLIERS) -> int:
    """How many signals have a higher FPR and lower areas than both that decide about as well.

    `means` are a table's for one kind of user data, by signals.
    """
    count = 0
    for name in names:
        others = means.loc[neighbors(means, name)]
        own = means.loc[name]
        lower = all((own[area] < others[area]).all() for area in ("roc_auc", "pr_auc"))
        count += bool(lower and (own["fpr"] > others["fpr"]).all())
    return count


def between_kinds(lead: Mapping[str, pd.DataFrame], interval: Callable[[Any], Any]) -> pd.DataFrame:
    """Out of distribution less in it: means over models, and the intervals over them.

    `lead` has the differences of metrics by data set, a row for each model; `interval` makes
    something with value, low and high of a column.
    """
    rows = [
        (dataset, said, found.value, found.low, found.high)
        for dataset, of_models in lead.items()
        for said, found in ((METRIC_TITLES[m], interval(of_models[m])) for m in METRIC_TITLES)
    ]
    columns = ["data", "metric", "OOD less ID", "OOD less ID, low", "OOD less ID, high"]
    return pd.DataFrame(rows, columns=columns)


def with_few_labels(labelled: pd.DataFrame, wanted: int = 100) -> dict[str, float]:
    """What decisions with about so many labels are worth, by name and metric, and how many.

    `labelled` has the metrics by number of labels and method; those that are NaN are left out.
    """
    n = min(labelled.index.unique("labels"), key=lambda each: abs(each - wanted))
    found: dict[str, float] = {"n_few_labels": int(n)}
    for name in ("unadjusted", "plug-in", "bound"):
        for metric in ("accuracy", "fpr", "roc_auc"):
            value = float(labelled.at[(n, name), metric])
            found |= {f"{name.replace('-', '_')}_{metric}": value} if value == value else {}
    return found
