"""What P2 says of its tables in words: counted by hand on tables whose answer is known."""

import csv
import io

import numpy as np
import pandas as pd
import pytest

from lib.book import evidence
from lib.book.claims import read_claims
from lib.book.records import read_record
from lib.studies.suitability import remarks
from lib.studies.suitability.experiment import METRICS

COLUMNS = ["accuracy", "fpr", "roc_auc", "pr_auc"]


def table(rows: dict[str, list[float]]) -> pd.DataFrame:
    return pd.DataFrame.from_dict(rows, orient="index", columns=COLUMNS)


GOOD = table(
    {
        "all": [0.9, 0.02, 0.97, 0.96],
        "logit_max": [0.8, 0.02, 0.96, 0.96],
        "logit_mean": [0.79, 0.10, 0.90, 0.90],
        "logit_diff_top2": [0.75, 0.01, 0.96, 0.96],
        "margin_loss": [0.75, 0.01, 0.96, 0.96],
        "logit_std": [0.72, 0.20, 0.85, 0.80],
        "conf_max": [0.70, 0.01, 0.95, 0.95],
    }
)


def test_the_rise_is_a_rank_correlation_of_a_model_by_bucket():
    """Forty experiments in each of six buckets; a bucket of few, and one far off, do not count."""
    rows = []
    for place, suitable in enumerate([0, 2, 10, 8, 30, 40]):
        p = np.where(np.arange(40) < suitable, 0.01, 0.5)
        rows += [(0, p_value, 0.5 + (place - 2.5) / 100, 0.5) for p_value in p]
    rows += [(0, 0.01, 0.5 - 0.065, 0.5)] * 33 + [(0, 0.01, 0.2, 0.5)] * 500
    columns = ["seed", "p_value", "user_accuracy", "test_accuracy"]
    found = remarks.rise_with_accuracy(pd.DataFrame(rows, columns=columns), 0.05)
    assert found == [pytest.approx(1 - 6 * 2 / (6 * 35))]  # two neighbors are the other way round


@pytest.mark.parametrize(("metric", "fraction"), [("accuracy", 1.0), ("roc_auc", 0.5)])
def test_the_worse_of_both_kinds_counts(metric, fraction):
    worse = GOOD.copy()
    worse.loc[["logit_max", "logit_mean", "logit_std"], "roc_auc"] = 0.98
    means = pd.concat({"ID": GOOD, "OOD": worse})
    assert remarks.outperformed(means, metric) == fraction


def test_an_outlier_is_worse_than_both_that_decide_about_as_well():
    assert remarks.neighbors(GOOD, "logit_mean") == ["logit_max", "logit_diff_top2"]
    assert remarks.neighbors(GOOD, "logit_std") == ["logit_diff_top2", "conf_max"]
    assert remarks.worse_than_comparable(GOOD) == 2
    for change in ({"fpr": 0.005}, {"roc_auc": 0.955}, {"pr_auc": 0.97}):
        other = GOOD.copy()
        other.loc["logit_std", list(change)] = list(change.values())
        assert remarks.worse_than_comparable(other) == 1


def test_differences_of_the_kinds_have_their_intervals():
    lead = {"fmow": pd.DataFrame([[0.1] * 4, [0.3] * 4, [0.2] * 4], columns=METRICS)}
    table = remarks.between_kinds(lead, evidence.runs)
    assert len(table) == len(METRICS)
    wanted = evidence.runs([0.1, 0.3, 0.2])
    assert table.iloc[0].tolist() == ["fmow", "accuracy", wanted.value, wanted.low, wanted.high]


def test_the_labels_nearest_to_a_hundred_are_quoted():
    index = pd.MultiIndex.from_product(
        [[50, 120, 500], ["unadjusted", "plug-in", "bound"]], names=["labels", "method"]
    )
    numbers = np.arange(27, dtype=float).reshape(9, 3)
    labelled = pd.DataFrame(numbers, index, ["accuracy", "fpr", "roc_auc"])
    labelled.loc[(120, "bound"), "roc_auc"] = np.nan
    found = remarks.with_few_labels(labelled)
    assert (found["n_few_labels"], found["plug_in_fpr"], found["bound_accuracy"]) == (120, 13, 15)
    assert "bound_roc_auc" not in found
    assert len(found) == 9


def recorded_table(root, chapter: str, name: str) -> pd.DataFrame:
    kept = read_record(root / "book" / "records" / "standard" / f"{chapter}.json")["tables"][name]
    return pd.DataFrame(csv.DictReader(io.StringIO(kept.get("whole", kept["csv"]))))


def test_estimators_from_the_outliers_are_worse_calibrated_than_comparable_ones(request):
    """P2's remark on Table 6, by the printed errors and by those that were recorded."""
    root = request.config.rootpath
    table5 = recorded_table(root, "suitability", "table5")
    of_kind = table5[table5["kind"] == "ID"].set_index("signals")[METRICS].astype(float)
    claims = read_claims(root / "book" / "claims.yml")
    record = read_record(root / "book" / "records" / "standard" / "suitability_peers.json")
    ours = {found["id"]: found["value"] for found in record["verdicts"]}
    for name in remarks.OUTLIERS:
        for other in remarks.neighbors(of_kind, name):
            cells = [f"P2-T6-{each}-ece" for each in (name, other)]
            assert claims[cells[0]].reported > claims[cells[1]].reported
            assert ours[cells[0]] > ours[cells[1]]
