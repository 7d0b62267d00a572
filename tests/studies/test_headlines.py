"""The title of a page's first figure says what its data show, whatever they are."""

import math

import numpy as np
import pandas as pd
import pytest

from lib.audit.counts import AttackCounts
from lib.audit.intervals import METHODS
from lib.plot import CHECK_FIGURES, COLOURS, svg_pair
from lib.studies.audit import figures as audit
from lib.studies.canaries import figures as canaries
from lib.studies.counterfactual import figures as counterfactual
from lib.studies.drawn import Run
from lib.studies.headed import percent
from lib.studies.interplay import figures as interplay
from lib.studies.interplay.outlier import OutlierStudy
from lib.studies.suitability import figures as suitability
from lib.studies.training import figures as training


@pytest.fixture(autouse=True)
def _checked(monkeypatch):
    monkeypatch.setenv(CHECK_FIGURES, "1")


def said(figure):
    (ax, *_) = figure.axes
    title, words = ax.get_title(loc="left"), [text.get_text() for text in ax.texts]
    svg_pair(figure, "s")  # which is an error where something is cut off
    return title, words


@pytest.mark.parametrize(
    ("share", "words"),
    [(0, "0%"), (0.004, "under 1%"), (0.126, "13%"), (0.996, "over 99%"), (1.0, "100%")],
)
def test_some_are_not_none_and_not_all(share, words):
    assert percent(share) == words


def buckets(lows, suitable):
    low = np.array(lows) / 100
    table = pd.DataFrame({"low": low, "high": low + 0.01, "experiments": 10, "suitable": suitable})
    return table.assign(share=table["suitable"] / 10)


@pytest.mark.parametrize(
    ("lows", "suitable", "margin", "words"),
    [
        ([-6, -5, -2, -1, 0], [0, 1, 2, 3, 9], 0, "0 to 1 points: 30% pass|Beyond 4 points: 5%"),
        ([-6, -5, -2, -1, 0], [0, 0, 2, 3, 9], 0.05, "5 to 6 points: 0% pass"),
        (
            [-6, -5, -2, -1, 0],
            [0, 0, 2, 3, 9],
            0.005,
            "1 to 2 points: 20% pass|Beyond 4 points: 0%",
        ),
        ([-1, 0], [3, 9], 0, "0 to 1 points: 30% pass"),
        ([0, 1], [3, 9], 0, "No data here are worse|than the margin allows"),
    ],
)
def test_how_much_unsuitable_data_pass(lows, suitable, margin, words):
    found, _ = said(suitability.plot_share_suitable(buckets(lows, suitable), margin))
    assert found.count("\n") == words.count("|")
    assert all(part in found for part in words.split("|"))


@pytest.mark.parametrize(
    ("rdp", "pld", "words"),
    [
        (7.0, 6.204, "7.00,\n13% more than PLD's 6.20"),
        (7.0, 7.01, "7.00,\nand so does PLD"),
        (1.0, 1.5, "1.00,\nless than PLD's 1.50"),
    ],
)
def test_what_rdp_overstates(rdp, pld, words):
    table = pd.DataFrame({"steps": [1, 1000], "rdp": [0.1, rdp], "pld": [0.1, pld]})
    found, beside = said(training.plot_spending(table))
    assert found == f"After 1,000 steps RDP counts an epsilon of {words}"
    assert beside == ["RDP, P1's accountant", "PLD, nearly exact"]


@pytest.mark.parametrize(
    ("budgets", "values", "words"),
    [
        (
            [math.inf, 7.0, 1.0],
            [[0.1, 0.2, 0.5, 0.3], [0.4, 0.2, 0.1, 1.0], [1.0, 0.6, 0.9, 0.1]],
            "25% to 75% with privacy, 25% without",
        ),
        ([7.0, 1.0], [[0.4, 1.0], [0.5, 0.1]], "50% with privacy"),
        ([math.inf], [[0.4, 0.1]], "0% without"),
    ],
)
def test_how_many_models_are_wrong_about_the_outlier(budgets, values, words):
    values = np.array(values)
    zeros = np.zeros((2, 2)), np.zeros((len(budgets), 3))
    study = OutlierStudy(tuple(budgets), values, values, values, *zeros)
    figure = interplay.plot_wrong_confidence(study)
    colours = {"blue": COLOURS[0], "orange": COLOURS[1]}
    drawn = {
        name: np.concatenate([x.get_ydata() for x in figure.axes[0].lines if x.get_color() == c])
        for name, c in colours.items()
    }
    assert sorted(drawn["blue"]) == sorted(values[values < 0.5])
    assert sorted(drawn["orange"]) == sorted(values[values >= 0.5])
    assert said(figure)[0] == f"Models wrong about the outlier:\n{words}"


@pytest.mark.parametrize(("fails", "words"), [(1.0, "100%"), (0.004, "under 1%")])
def test_how_often_the_best_bound_fails(fails, words):
    rows = [
        {"mu": mu, "epsilon": 2 * mu, "method": method, "choice": choice, "exceeds": 0.5}
        for mu in (0.0, 0.5)
        for method in ("bayesian", "clopper-pearson")
        for choice in ("fixed", "best", "union", "held-out")
    ]
    table = pd.DataFrame(rows)
    best = (table["method"] == "bayesian") & (table["choice"] == "best")
    table.loc[best, "exceeds"] = [0.001, fails]
    figure = audit.plot_selection(table, 0.9)
    dots = [x.get_xdata() for ax in figure.axes for x in ax.lines if x.get_linestyle() == "None"]
    assert sorted(np.concatenate(dots)) == pytest.approx(sorted(100 * table["exceeds"]))
    assert said(figure)[0].endswith(f"fails\nin up to {words} of audits; allowed: 10%")


def kept(dataset, coverage, methods=("SR", "DE")):
    """A run of P1's page with coverages by budget, the same for each method, and SelectiveNet."""
    rows = [("mlp", m, e, c) for m in methods for e, c in coverage.items()]
    rows += [("mlp", "SN", e, math.nan) for e in coverage] + [("other", "SR", 1.0, 0.0)]
    table = pd.DataFrame(rows, columns=["model", "method", "epsilon", "coverage"])
    budgets = [epsilon for epsilon in coverage if math.isfinite(epsilon)]
    parameters = {"dataset": dataset, "models": ["mlp", "other"], "epsilons": budgets}
    return Run({"summary": table}, {}, parameters)


@pytest.mark.parametrize(
    ("coverage", "words"),
    [
        ({math.inf: math.nan, 7.0: 0.9, 1.0: 0.5}, "$\\epsilon = 1$ the accuracy|leaves\n50% of"),
        ({3.0: 1.0}, "$\\epsilon = 3$ the accuracy|leaves\n100% of answers on CIFAR-10"),
        ({0.5: 0.001}, "leaves\nunder 1% of answers"),
    ],
)
def test_how_many_answers_privacy_leaves(coverage, words):
    said(interplay.draw_left(kept("digits", coverage)).figure)  # whose name is the longest
    title, beside = said(interplay.draw_left(kept("cifar10", coverage)).figure)
    assert all(part in title for part in words.split("|"))
    assert {"softmax response", "ensemble"} < set(beside)
    assert "SAT" not in beside


def test_what_is_left_has_a_plot_a_data_set_beside_what_p1_prints():
    """The run itself comes first, then the largest recorded run of each other data set.

    One of other budgets has no place on their axis.
    """
    own = kept("gtsrb", {7.0: 0.9, 1.0: 0.5})
    others = [kept("gtsrb32", {7.0: 0.3, 1.0: 0.1}), kept("cifar10", {7.0: 0.3, 2.0: 0.1})]
    others += [kept("svhn", {7.0: 0.8, 1.0: 0.7}), kept("svhn", {7.0: 0.2, 1.0: 0.1})]
    cells = {"P1-T1-GTSRB-SR-7": (0.7, 0.0), "P1-T1-GTSRB-SR-1": (0.3, 0.0)}
    cells |= {"P1-T1-GTSRB-DE-7": (0.6, 0.0), "P1-T1-GTSRB-DE-1": (0.4, 0.0)}
    cells |= {"P1-T1-SVHN-SR-1": (0.4, 0.0), "P1-T2-GTSRB-SR-7": (1.0, 0.0)}
    drawn = interplay.draw_left(own._replace(recorded=others, reported=cells)).figure
    assert [[line.get_ydata().tolist() for line in ax.lines] for ax in drawn.axes] == [
        [[1, 0.9, 0.5]] * 2,
        [[1, 0.8, 0.7]] * 2,
    ]
    assert "50% of answers on GTSRB" in said(drawn)[0]
    (band,) = drawn.axes[0].collections
    ends = {tuple(point) for point in band.get_paths()[0].vertices.round(6).tolist()}
    assert ends == {(0, 1), (1, 0.7), (1, 0.6), (2, 0.4), (2, 0.3)}
    assert not drawn.axes[1].collections  # P1 lacks one of the budgets


@pytest.mark.parametrize(
    ("relative", "words"),
    [
        ([0.13, 0.15, 0.18], "at 2 of 4"),
        ([0.2, 0.1, 0.2], "at 1 of 4"),
        ([0.3, 0.2, 0.1], "at 0 of"),
    ],
)
def test_at_how_many_steps_the_order_becomes_worse(relative, words):
    table = pd.DataFrame({"epsilon": [math.inf, 3.0, 1.0], "relative": relative, "method": "SR"})
    other = table.assign(method="SCTD", relative=0.5)
    assert words in interplay.order_headline([table.iloc[::-1], other])


@pytest.mark.parametrize(
    ("seeds", "words"),
    [
        ({"A": 5, "B": 2, "C": 3}, "Those on B are wide because there are 2 runs only|12.7"),
        ({"A": 3, "B": 5}, "Those on A are wide because there are 3 runs only|4.3"),
        ({"A": 3, "B": 3}, ""),
        ({"A": 2}, ""),
        ({"A": 1, "B": 3}, ""),
    ],
)
def test_few_runs_are_why_intervals_are_wide(seeds, words):
    said = interplay.why_wide(seeds)
    assert all(part in said for part in words.split("|"))
    assert bool(said) == bool(words)


def test_how_many_comparisons_need_more_points():
    rows = [(m, e, n) for e in (math.inf, 1.0) for m, n in (("DE", 900), ("SCTD", math.inf))]
    table = pd.DataFrame(rows, columns=["method", "epsilon", "points"])
    drawn = interplay.draw_needed(Run({"needed": table}, {"at_hand": 2000}, {})).figure
    lines = [line.get_ydata().tolist() for line in drawn.axes[0].lines]
    assert lines[0] == [900, 900]
    assert np.isnan(lines[1]).all()
    title, beside = said(drawn)
    assert title == (
        "2 of 4 comparisons with softmax response\nneed more than the 2,000 points at hand"
    )
    assert beside == ["ensemble", "training dynamics", "gray: more than at hand"]


def test_what_models_have_spent_that_are_stopped_early():
    table = pd.DataFrame({"epsilon": [7.0, 1.0], "spent": [4.97, 1.0]})
    drawn = interplay.draw_early_stopping(Run({"early_stopping": table}, {}, {})).figure
    assert [bar.get_height() for bar in drawn.axes[0].patches] == [7, 1, 4.97, 1]
    title, beside = said(drawn)
    assert title.endswith("a model for $\\epsilon$ = 7 has spent 4.97")
    assert beside[:2] == ["4.97", "1.00"]


def test_how_often_p5s_bound_is_too_high():
    names = ["paper", "all three", "bayesian", "one label, lower", "top label, lower"]
    rows = [(e, name, x) for e, x in ((2.0, 0.1), (0.5, 0.731)) for name in names]
    rows += [(0.5, "one label", 0.001)]  # of a two-sided interval: half of the error
    table = pd.DataFrame(rows, columns=["epsilon", "interval", "exceeds"]).assign(repetitions=30)
    run = Run({"coverage_100": table, "coverage_10": table.assign(exceeds=0.002)}, {}, {})
    drawn = canaries.draw_coverage(run)
    hundred, ten = ([line.get_ydata().tolist() for line in ax.lines] for ax in drawn.figure.axes)
    assert hundred == [[0.731, 0.1]] * 5
    assert ten == [[0.002, 0.002]] * 5
    title, beside = said(drawn.figure)
    words = "$\\epsilon$ = 0.5 and 100 classes, P5's lower bound\nis above the truth in 73% of the"
    assert words in title
    assert "73%" in beside
    assert "Of 30 audits" in drawn.caption


def test_what_pate_has_spent_is_drawn_as_no_claim():
    rows = [("none", math.inf, 0.9), ("ALIBI", 8.0, 0.88), ("ALIBI", 1.0, 0.776)]
    rows += [("RR", 1.0, 0.5), ("PATE", 5.4, 0.6), ("PATE", 17.9, 0.7)]
    table = pd.DataFrame(rows, columns=["mechanism", "claimed", "accuracy"])
    table = table.assign(level=0, low=0.5, high=[math.inf, 1, 2, 3, 4, 5])
    drawn = canaries.draw_accuracy(Run({"trained": table}, {}, {"dataset": "digits"}))
    *claims, pate = drawn.figure.axes[0].lines
    assert [line.get_xdata().tolist() for line in claims] == [[8.0, 1.0], [1.0]]
    assert pate.get_linestyle() == "--"  # it depends on private votes
    assert said(drawn.figure)[1] == ["no privacy", "ALIBI", "RR", "PATE, by its votes"]


def test_how_often_valid_bounds_are_below_p5s():
    rows = {"paper": [2.9, 1.0, 0.7], "corrected": 0.5, "one label": [2.6, 0.3, 0.0]}
    rows |= {"top label": [3.0, 0.8, math.nan], "mechanism": "ALIBI", "runs": "1 x 1000"}
    table = pd.DataFrame(rows).assign(data=["cifar10", "cifar100", "cifar100"], level="H")
    drawn = canaries.draw_careful(Run({"careful": table}, {}, {})).figure
    assert [len(ax.get_yticks()) for ax in drawn.axes] == [1, 2]
    first, second = ([line.get_xdata().tolist() for line in ax.lines] for ax in drawn.axes)
    assert first == [[2.9], [0.5], [2.6], [3.0]]
    assert second[:3] == [[0.7, 1.0], [0.5, 0.5], [0.0, 0.3]]
    assert (
        drawn.get_suptitle() == "The better valid bound is below P5's\nin 2 of 3 different audits"
    )
    again = pd.concat([table, table[:1].assign(level="HH")])  # CIFAR-10's file once more
    assert canaries.careful_headline(again) == canaries.careful_headline(table)
    svg_pair(drawn, "s")


@pytest.mark.parametrize(("alibi", "response"), [(0.8, 0.5), (0.3, 0.6)])
def test_what_mechanisms_keep_at_the_smallest_claim_that_two_of_them_share(alibi, response):
    rows = {"mechanism": ["none", "ALIBI", "ALIBI", "RR", "RR", "PATE"]}
    rows |= {"claimed": [math.inf, 1.0, 8.0, 1.0, 8.0, 0.5], "level": [0, 1, 0, 1, 0, 0]}
    rows |= {"accuracy": [0.9, alibi, 0.88, response, 0.89, 0.7], "low": 0.1, "high": math.inf}
    drawn = canaries.draw_accuracy(
        Run({"trained": pd.DataFrame(rows)}, {}, {"dataset": "fashion-mnist"})
    )
    title, words = said(drawn.figure)
    assert title == (
        f"At a claim of 1 ALIBI is right in {alibi:.0%},\n"
        f"randomized response (RR) in {response:.0%}"
    )
    assert sorted(words) == ["ALIBI", "PATE, by its votes", "RR", "no privacy"]
    assert "Fashion-MNIST" in drawn.caption


def test_what_one_run_and_many_show_of_few_models():
    rows = [(8.0, 1, 0.0, 0.2), (8.0, 4, 0.1, math.nan), (math.inf, 1, 0.0, 1.66)]
    table = pd.DataFrame(rows, columns=["epsilon", "models", "many runs", "one run each"])
    drawn = audit.draw_one_run(Run({"one_run": table}, {}, {})).figure
    many, one = (line.get_xdata().tolist() for line in drawn.axes[0].lines)
    assert (many, one) == ([1, 4], [1])
    assert said(drawn)[0] == (
        "1 model, without privacy: the one-run audit\nshows 1.7, one point a model nothing"
    )
    assert audit.one_run_headline(table.assign(models=4).head(1)).startswith("4 models, $")


@pytest.mark.parametrize(("final", "words"), [(8.14, "8.1"), (math.inf, "none")])
def test_what_factor_the_first_audit_sees_with_the_most_models(final, words):
    rows = [("held-out", 2048, 5.2, final), ("held-out", 128, 15.0, math.inf)]
    rows += [("one run", 2048, 3.0, 4.7)]
    table = pd.DataFrame(rows, columns=["audit", "models", "white box", "final model"])
    drawn = audit.draw_detection(Run({"detection": table}, {}, {})).figure
    assert said(drawn)[0] == (
        "With 2,048 models a held-out bound sees\n"
        f"a factor of 5.2 (white box), {words} (final model)"
    )


def test_how_many_intervals_of_scenarios_hold_the_truth():
    table = pd.DataFrame({"data": "digits", "scenario": ["I", "II", "III"], "learner": "super"})
    table = table.assign(low=[-0.1, 0.1, 0.0], high=[0.1, 0.2, 0.2])
    table["true difference"], table["selective difference"] = 0.0, 0.05
    drawn = counterfactual.draw_scenarios(Run({"scenarios": table}, {}, {})).figure
    assert drawn.get_suptitle() == "The truth is inside 2 of 3 intervals"
    svg_pair(drawn, "s")


def test_how_often_bounds_cover_too_rarely_and_where_intervals_are_narrowest():
    covered = pd.DataFrame(
        {
            "epsilon": [0.0, 1.0, 2.0],
            "trials": 100,
            "bayesian": [0.0, 0.895, 0.7],
            "jeffreys": 0.95,
            "clopper-pearson": 0.95,
        }
    )
    title, words = said(audit.plot_coverage(covered, 0.9))
    assert title == (
        "Bayesian bounds cover over a point too rarely in\n"
        "2 of 3 designs, Clopper-Pearson's in none"
    )
    assert "··· level" in words
    ends = [(m, n, 0.1, 0.5 + k * (n > 60)) for k, m in enumerate(METHODS) for n in (50, 100)]
    table = pd.DataFrame(ends, columns=["method", "trials", "low", "high"])
    first = METHODS[0] == "bayesian"
    where = f"{int(first)} of 2 numbers of trials"
    assert audit.widths_headline(table).endswith(where)
    wider = table.assign(high=table["high"] + (table["method"] != "bayesian"))
    assert audit.widths_headline(wider).endswith("at every number of trials")


def test_whose_regions_enclose_more(monkeypatch):
    counts = AttackCounts(tp=65, fp=25, tn=75, fn=35)
    said_of = {"bayesian": (0.7, 1.5), "jeffreys": (0.6, 1.8)}
    monkeypatch.setattr(audit, "epsilon_interval", lambda *given: said_of[given[-1]])
    for high, title in (
        (1.8, "Jeffreys' rectangle encloses more\nthan the posterior needs"),
        (1.4, "Regions of Jeffreys' rectangle\nand of the posterior"),
    ):
        said_of["jeffreys"] = 0.6, high
        assert said(audit.plot_joint(counts, 0.05, 0.95))[0] == title
