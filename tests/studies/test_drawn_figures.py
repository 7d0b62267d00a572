"""What stands in figures of several runs, and where: rows that are chosen, counted or sorted."""

import numpy as np
import pandas as pd
import pytest

from lib.plot import COLOURS
from lib.studies.beyond.refusal_figures import stream_table, when_to_stop
from lib.studies.beyond.six_lenses.figures import ladder
from lib.studies.counterfactual import figures as counterfactual
from lib.studies.drawn import Run
from lib.studies.interplay.figures import of_each_data, printed_coverages
from lib.studies.suitability.figures import methods_table
from lib.studies.suitability.from_records import flattered, shuffles_table


def marks(ax, marker, color):
    """Where the marks of a kind stand, from the top."""
    of = [x for x in ax.lines if x.get_marker() == marker and x.get_color() == color]
    return sorted((tuple(xy) for line in of for xy in line.get_xydata()), key=lambda xy: -xy[1])


def test_each_data_sets_largest_run_of_the_same_budgets_is_shown_beside_what_p1_prints():
    runs = [("gtsrb", [7.0, 1.0]), ("gtsrb32", [7.0, 1.0]), ("cifar10", [7.0, 2.0])]
    runs += [("svhn", [7.0, 1.0]), ("svhn", [7.0, 1.0])]
    own, *others = (
        Run({}, {"n": n}, {"dataset": d, "epsilons": e}) for n, (d, e) in enumerate(runs)
    )
    cells = {"P1-T1-GTSRB-SR-7": (0.7, 0.0), "P1-T1-GTSRB-SR-1": (0.3, 0.0)}
    cells |= {"P1-T1-GTSRB-DE-7": (0.6, 0.0), "P1-T1-GTSRB-DE-1": (0.4, 0.0)}
    cells |= {"P1-T1-SVHN-SR-1": (0.4, 0.0), "P1-T2-GTSRB-SR-7": (1.0, 0.0)}
    found = of_each_data(own._replace(recorded=others, reported=cells))
    assert {name: run.values["n"] for name, run in found.items()} == {"GTSRB": 0, "SVHN": 3}
    printed = [printed_coverages(run, [7.0, 1.0]).tolist() for run in found.values()]
    assert printed == [[[0.7, 0.3], [0.6, 0.4]], []]  # of SVHN P1 lacks one of the budgets


def test_methods_are_the_main_data_out_of_distribution_by_one_test():
    peers = [("fmow", "OOD", "test", *row) for row in (("filter", 0.9, 0.9), ("doc", 0.7, 0.7))]
    peers += [("fmow", "OOD", "test", "ac", 0.7, 0.7), ("fmow", "OOD", "test", "cbpe", 0.8, 0.95)]
    peers += [("fmow", "ID", "test", "cbpe", 0.1, 0.1), ("fmow", "OOD", "known", "cbpe", 0.1, 0.1)]
    peers += [("rxrx1", "OOD", "test", "cbpe", 0.1, 0.1)]
    columns = ["dataset", "kind", "rule", "peer", "accuracy", "roc_auc"]
    filters = [
        ("fmow", "OOD", name, seed, right + seed / 100, 0.9)
        for seed in (0, 2)
        for name, right in (("paper", 0.85), ("known reference", 0.9), ("all labels", 0.95))
    ]
    filters += [("fmow", "ID", "paper", 0, 0.1, 0.1), ("rxrx1", "OOD", "paper", 0, 0.1, 0.1)]
    tables = {"peers": pd.DataFrame(peers, columns=columns)}
    columns = ["dataset", "kind", "filter", "seed", "accuracy", "roc_auc"]
    tables["stronger"] = pd.DataFrame(filters, columns=columns)
    table = methods_table(Run(tables, {"shuffles_median": 0.97}, {}))
    assert list(table.index[[0, -1]]) == ["average confidence", "filter with test labels"]
    assert table.loc["the paper's filter", "accuracy"] == pytest.approx(0.86)
    assert table["roc_auc"].tolist() == [0.7, 0.9, 0.9, 0.95, 0.97]


def test_the_ladder_has_each_attack_and_its_control():
    record = pd.DataFrame({"attack": ["loss", "gradient alignment"], "at least": [0.7, 0.3]})
    rests_on = ["no hypothesis", "Gaussian curve", "Gaussian curve, independent scores"]
    inside = pd.DataFrame({"rests on": 2 * [*rests_on, "the mechanism's form"]})
    inside = inside.assign(noise=4 * ["as claimed"] + 4 * ["0.05 of it"], proven=3.0)
    inside["known"], inside["could show"] = [1.0, 1.4, 2.0, 2.9, 2.2, 3.3, 9.0, 1234.0], np.inf
    tables = {"audit": record.assign(claimed=3.0), "inside": inside}
    trained, control = ladder(Run(tables, {"ceiling": 1.1}, {}))
    assert trained["shown"].tolist() == [0.3, 1.0, 1.4, 2.0, 2.9]
    assert trained.iloc[0, 1:].tolist() == [1.1, 3.0]
    np.testing.assert_equal(control["shown"].tolist(), [np.nan, 2.2, 3.3, 9.0, 1234.0])


def test_leads_are_the_truth_and_the_bias():
    cells = [("linear", "IPW", -0.05, 0.75), ("linear", "doubly robust", -0.06, 1.0)]
    cells += [("random forest", "doubly robust", 0.01, 0.125)]
    names = ["learner", "estimator", "bias", "misses population"]
    table = pd.DataFrame(cells, columns=names).assign(width=0.04, repetitions=8)
    rows = [f"{kind} {end}" for kind in ("selective", "counterfactual") for end in ("score", "low")]
    rows += ["selective high", "counterfactual high"]
    trial = pd.DataFrame({"quantity": rows, "A − B": [0.03, 0.01, 0.08, 0.07, 0.05, 0.12]})
    tables = {"experiment_1": table, "trial": trial}
    figure = counterfactual.draw_miscoverage(Run(tables, {"trial_truth": 0.1}, {})).figure
    (ax,) = figure.axes
    robust = [(0.08, -2), pytest.approx((0.11, -4)), pytest.approx((0.04, -7))]
    assert marks(ax, "o", COLOURS[0]) == robust
    assert marks(ax, "D", "0.45") == [pytest.approx((0.05, -6))]
    ends = [tuple(x.get_xdata()) for x in ax.lines if len(x.get_xdata()) == 2]
    assert {(0.01, 0.05), (0.07, 0.12)} < set(ends)
    assert pytest.approx((0.09, 0.13)) in ends
    assert {"12 [0, 53]", "100 [63, 100]", "75 [35, 97]"} <= {x.get_text() for x in ax.texts}
    assert figure.get_suptitle().endswith("12% miss the lead")  # of flexible learners


def test_what_misses_most_comes_first():
    draws = pd.DataFrame(
        [("digits", "linear", s, 10, m, k) for s, m, k in (("I", 10, np.nan), ("II", 2, 1))]
        + [("digits", "linear", "III", 10, 4, 0), ("digits", "super", "III", 10, 9, 9)]
        + [("cifar10", "linear", "III", 10, 8, 8)],
        columns=["data", "learner", "scenario", "draws", "missed", "missed, known"],
    )
    edges = pd.DataFrame({"half-width": [0.2, 0.2, 0.3], "missed": [0.0, 0.25, 1.0]})
    edges = edges.assign(**{"missed, known": [1.0, 0.0, 1.0]}, repetitions=8)
    values = {"leak_missed": 0.95, "leak_none": 0.05}
    values |= {"pointwise_missed": 0.3, "sequence_missed": 0.01}
    given = {"leak_repetitions": 20, "streams": 100, "leaks": [0.0, 1.0]}
    run = Run({"draws": draws, "edges": edges}, values, given)
    figure = counterfactual.draw_misses(run).figure
    shares = [100, 95, 40, 30, 25, 20, 5, 1]
    usual = marks(figure.axes[0], "o", COLOURS[1])
    assert usual == [pytest.approx((share, -y)) for y, share in enumerate(shares)]
    assert sorted(x for x, _ in marks(figure.axes[0], "D", COLOURS[2])) == pytest.approx([0, 0, 10])
    assert figure.get_suptitle().startswith("All test data leaked: 95% of")


def test_shuffles_are_means_over_models_out_of_distribution():
    rows = [(32, "fmow", "OOD", 0, 0.1, 0.9), (32, "fmow", "OOD", 1, 0.3, 0.7)]
    rows += [(32, "fmow", "ID", 0, 0.9, 0.1), (5, "fmow", "OOD", 0, 0.4, 0.6)]
    rows += [(5, "rxrx1", "OOD", 0, 0.5, 0.5)]
    columns = ["partition", "dataset", "kind", "seed", "fpr", "accuracy"]
    found = shuffles_table(pd.DataFrame(rows, columns=columns), 32)
    assert found["first"].tolist() == [True, False, False]
    assert found["fpr"].tolist() == pytest.approx([0.2, 0.4, 0.5])
    assert found["accuracy"].tolist() == pytest.approx([0.8, 0.6, 0.5])


def test_adjustments_are_those_where_estimates_flatter_most():
    rows = [(e, m, r) for e in (0.0, -0.05, 0.05) for m, r in (("bound", 0.01), ("exact", e))]
    rows += [(-0.05, m, 0.5) for m in ("unadjusted", "plug-in")]
    rows += [(-0.05, m, 0.25) for m in ("prediction-powered", "labels alone")]
    found = flattered(pd.DataFrame(rows, columns=["eps_target", "method", "rate"]))
    assert found["rate"].tolist() == [0.5, -0.05, 0.5, 0.01, 0.25, 0.25]


@pytest.mark.parametrize("sign", [1, -1])
def test_a_stream_keeps_where_the_band_leaves_zero(sign):
    n = np.arange(200, 10_200)
    ends = np.sort([sign * (n - 6666.5), sign * (n + 9e9)], axis=0)
    given = {"n": n, "lower": ends[0], "upper": ends[1], "other": 0.0}
    given |= dict.fromkeys(["centre", "fixed time", "truth", "answered"], 0.5)
    found = stream_table(pd.DataFrame(given))
    assert len(found) < 260
    assert found["n"].iloc[[0, -1]].tolist() == [200, 10_199]
    assert found["n"].is_monotonic_increasing
    assert 6667 in found["n"].tolist()
    said = when_to_stop(found)
    assert said.startswith("A is better" if sign > 0 else "B is better")
    assert "after 6,667 points" in said
