"""Words of the pages on P1 that quote no number, held against the records."""

import functools
import io
import re
from pathlib import Path

import pandas as pd
import pytest

from lib.book.records import read_records

BOOK = Path(__file__).parents[2] / "book"
#: Recorded runs of the page on the interplay with all methods, one a data set.
RUNS = ("standard", "standard.cifar10", "standard.gtsrb")
records = functools.cache(lambda chapter: read_records(BOOK, chapter))


def said(page: str) -> str:
    """What a chapter says, its lines joined."""
    return re.sub(r"\n#( +|$)", " ", (BOOK / f"{page}.py").read_text())


def table(chapter: str, run: str, name: str) -> pd.DataFrame:
    kept = records(chapter)[run]["tables"][name]
    return pd.read_csv(io.StringIO(kept.get("whole", kept["csv"])))


def by_method(run: str, column: str) -> pd.DataFrame:
    """A column of the summary: a row a method, a column a budget."""
    return table("interplay", run, "summary").pivot(
        index="method", columns="epsilon", values=column
    )


def test_ensembles_fall_farther_mostly_and_from_the_highest_accuracy():
    assert "An ensemble mostly falls farther than the softmax response" in said("interplay")
    assert "its accuracy without privacy is the highest" in said("interplay")
    below = []
    for run in RUNS:
        assert by_method(run, "accuracy")[float("inf")].idxmax() == "DE"
        left = by_method(run, "coverage").drop(columns=float("inf"))
        below += (left.loc["DE"] < left.loc["SR"]).tolist()
    assert sum(below) > 0.8 * len(below)


@pytest.mark.parametrize("run", RUNS)
def test_no_other_of_p1s_methods_is_better_at_all_budgets(run):
    assert "no other of P1's methods is better at all budgets" in said("interplay")
    scores = by_method(run, "score")
    assert not (scores.drop("SR") < scores.loc["SR"]).all(axis=1).any()


def test_what_sctds_formula_moves_is_small_but_on_gtsrb():
    assert "matters little on Fashion-MNIST and CIFAR-10, and more on GTSRB" in said("interplay")
    values = [records("interplay")[run]["values"] for run in RUNS]
    moved = [v["algorithm_strict"] / v["sctd_strict"] - 1 for v in values]
    assert max(moved[:2]) < 0.03 < 0.1 < moved[2]


def test_on_cifar10_the_order_of_a_tenth_is_turned_without_privacy_too():
    assert "With a tenth it happens there without privacy, too." in said("interplay")
    rare = table("interplay", "standard.cifar10", "imbalance").set_index(["p0", "epsilon"])
    assert rare.loc[(0.1, float("inf")), "right first"] < 0.45


def test_runs_in_which_several_trainings_choose_a_rate_are_named():
    assert "on Fashion-MNIST, and in that with more validation points" in said("interplay")
    several = {
        n for n, run in records("interplay").items() if run["values"].get("rate_seeds", 1) > 1
    }
    assert several == {"standard", "standard.more_validation"}


def test_the_one_step_that_does_not_grow_on_fashion_mnist_is_of_the_bad_rate():
    assert "The one exception on Fashion-MNIST is of [a bad rate]" in said("normalized_score")
    steps = by_method("standard", "score")[[float("inf"), 7.0, 3.0, 1.0]].diff(axis=1).iloc[:, 1:]
    falls = steps.stack()
    assert falls[falls <= 0].index.tolist() == [("SR", 3.0)]
    better = by_method("standard.more_validation", "score").loc["SR"]
    assert better[float("inf")] < better[7.0] < better[3.0] < better[1.0]


def test_sctd_leads_on_a_model_that_is_less_accurate_than_the_tuned_one():
    assert "A good model comes first." in said("beyond/p1_regime")
    (run,) = records("p1_regime").values()
    assert run["values"]["own_accuracy"] < run["values"]["tuned_accuracy"]


def test_at_one_place_of_the_map_the_best_rate_is_an_end():
    assert "in one case its end is the best" in said("beyond/sctd_map")
    best = table("sctd_map", "standard", "tuned")
    regime = ["batch", "clipping norm", "epochs", "epsilon"]
    tried = table("sctd_map", "standard", "map").groupby(regime)["rate"].agg(["min", "max"])
    ends = best.merge(tried.reset_index(), on=regime)
    assert (ends["rate"].eq(ends["min"]) | ends["rate"].eq(ends["max"])).sum() == 1
