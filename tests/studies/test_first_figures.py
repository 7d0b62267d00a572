"""What the titles of figures say, whatever the data are; see test_headlines.py."""

import numpy as np
import pandas as pd
import pytest

from lib.audit import roc_counts
from lib.plot import CHECK_FIGURES, svg_pair
from lib.privacy import PrivacyLedger, SampledGaussian, trade_off
from lib.selective import Estimate, accuracy_coverage
from lib.studies.beyond.curve_figures import plot_reached, reached_headline
from lib.studies.beyond.six_lenses.figures import (
    abstention_headline,
    differences_headline,
    draw_ladder,
    draw_populations,
    ladder_headline,
    plot_abstention,
    plot_differences,
)
from lib.studies.beyond.six_lenses.views import DROP, Abstention
from lib.studies.beyond.trade_offs import Channel
from lib.studies.drawn import Run
from lib.studies.suitability.figures import draw_methods, methods_headline, methods_table


@pytest.fixture(autouse=True)
def _checked(monkeypatch):
    monkeypatch.setenv(CHECK_FIGURES, "1")


def title(figure):
    (said,) = [text.get_text() for text in figure.texts if "\n" in text.get_text()]
    svg_pair(figure, "s")  # which is an error where something is cut off
    return said


def methods(paper, cbpe, labels):
    """Right decisions and ROC AUC of three methods, in tenths."""
    table = pd.DataFrame([paper, cbpe, labels], columns=["accuracy", "roc_auc"])
    table = table / 10
    table.index = ["the paper's filter", "CBPE", "filter with test labels"]
    return table.assign(of=["paper", "others", "labels"])


@pytest.mark.parametrize(
    ("paper", "cbpe", "labels", "words"),
    [
        ((9, 8), (8, 9), (9.5, 9.5), "CBPE ranks,\nthe {P} decides|both"),
        ((9, 8), (8, 9), (8.5, 9.5), "CBPE ranks,\nthe {P} decides|only the ranking"),
        ((9, 9), (8, 8), (9.5, 8.5), "the {P} ranks,\nthe {P} decides|only the decisions"),
        ((8, 8), (9, 9), (8.5, 8.5), "CBPE ranks,\nCBPE decides|neither"),
        ((9, 9), (9, 9), (9, 9), "several rank,\nseveral decide|neither"),
        ((9, 9), (8, 9), (9, 9), "several rank,\nthe {P} decides|neither"),
        ((9, np.nan), (8, 9), (9, 9), "CBPE ranks,\nthe {P} decides|neither"),
    ],
)  # fmt: skip
def test_who_ranks_and_who_decides_best(paper, cbpe, labels, words):
    said, improved = words.replace("{P}", "paper's filter").split("|")
    expected = f"Best without test labels: {said}; labels improve {improved}"
    assert methods_headline(methods(paper, cbpe, labels)) == expected


def test_methods_are_the_main_data_out_of_distribution_by_one_test():
    peers = [("fmow", "OOD", "test", *row) for row in (("filter", 0.9, 0.9), ("doc", 0.7, 0.7))]
    peers += [("fmow", "OOD", "test", "ac", 0.7, 0.7), ("fmow", "OOD", "test", "cbpe", 0.8, 0.95)]
    peers += [("fmow", "ID", "test", "cbpe", 0.1, 0.1), ("fmow", "OOD", "known", "cbpe", 0.1, 0.1)]
    peers += [("rxrx1", "OOD", "test", "cbpe", 0.1, 0.1)]
    columns = ["dataset", "kind", "rule", "peer", "accuracy", "roc_auc"]
    tables = {"peers": pd.DataFrame(peers, columns=columns)}
    filters = [
        ("fmow", "OOD", name, seed, right + seed / 100, 0.9)
        for seed in (0, 2)
        for name, right in (("paper", 0.85), ("known reference", 0.9), ("all labels", 0.95))
    ]
    filters += [("fmow", "ID", "paper", 0, 0.1, 0.1), ("rxrx1", "OOD", "paper", 0, 0.1, 0.1)]
    columns = ["dataset", "kind", "filter", "seed", "accuracy", "roc_auc"]
    tables["stronger"] = pd.DataFrame(filters, columns=columns)
    values = {"shuffles_median": 0.97, "shuffles_lowest": 0.96, "shuffles_highest": 0.98}
    run = Run(tables, values | {"n_shuffles": 3}, {"alpha": 0.05})
    table = methods_table(run)
    assert list(table.index[[0, -1]]) == ["average confidence", "filter with test labels"]
    assert table.loc["the paper's filter", "accuracy"] == pytest.approx(0.86)
    assert table["roc_auc"].tolist() == [0.7, 0.9, 0.9, 0.95, 0.97]
    drawn = draw_methods(run)
    assert "means over 2 models" in drawn.caption
    assert "over 3 shuffles" in drawn.caption
    assert title(drawn.figure).endswith("improve both")


@pytest.mark.parametrize(
    ("outside", "inside", "proven", "words"),
    [
        (0.0, 4.4, 8.0, "outside show 0.0,|one from inside that knows the mechanism 4.4"),
        (1.2, 0.5, 8.0, "outside show 1.2,|one from inside that knows the mechanism no more, 0.5"),
        (1.2, 9.0, 8.0, "shows an epsilon of 9.0,|more than the 8.0 proven: a fault, or chance"),
        (9.1, 1.0, 8.0, "shows an epsilon of 9.1,|more than the 8.0 proven: a fault, or chance"),
    ],
)
def test_what_attacks_show_of_what_is_proven(outside, inside, proven, words):
    assert ladder_headline(outside, inside, proven).endswith(words.replace("|", "\n"))


def test_the_ladder_has_each_attack_and_its_control():
    record = pd.DataFrame({"attack": ["loss", "gradient alignment"], "at least": [0.7, 0.3]})
    rests_on = ["no hypothesis", "Gaussian curve", "Gaussian curve, independent scores"]
    inside = pd.DataFrame({"rests on": 2 * [*rests_on, "the mechanism's form"]})
    inside = inside.assign(noise=4 * ["as claimed"] + 4 * ["0.05 of it"], proven=3.0)
    inside["known"] = [1.0, 1.4, 2.0, 2.9, 2.2, 3.3, 9.0, 1234.0]
    inside["could show"] = [2.5, 3.6, 9.5, np.inf] * 2
    tables = {"audit": record.assign(claimed=3.0), "inside": inside}
    drawn = draw_ladder(Run(tables, {"ceiling": 1.1}, {"noise_factor": 0.05}))
    numbers = [[text.get_text() for text in ax.texts] for ax in drawn.figure.axes]
    assert numbers[0] == ["2.9", "2.0", "1.4", "1.0", "0.3", "shown", "proven", "at most"]
    assert numbers[1] == ["1,234", "9", "3.3", "2.2", "not run"]
    assert "adds 5% of the noise" in drawn.caption
    assert title(drawn.figure).endswith("knows the mechanism 2.9")


@pytest.mark.parametrize(
    ("target", "threshold", "coverage", "words"),
    [
        (0.9, 0.8, 0.61, "To be right 90.0% of the time|the private model answers 61%"),
        (0.995, 1.0, 0.004, "To be right 99.5% of the time|the private model answers under 1%"),
        (0.9, np.inf, 0.0, "No threshold promises the private model|to be right 90.0% of the time"),
    ],
)
def test_how_much_is_answered(target, threshold, coverage, words):
    words = words.replace("|", "\n")
    assert abstention_headline(target, threshold, coverage) == words
    rng = np.random.default_rng(0)
    curves = {
        name: accuracy_coverage(rng.random(200) < 0.8, rng.random(200))
        for name in ("private", "plain")
    }
    score, three = Estimate(0.1, 0.01, 0.08, 0.12, 0.95), (coverage, 0.0, 1.0)
    found = Abstention(score, score, target, threshold, three, (0.9, 0.8, 1.0), curves)
    (ax,) = plot_abstention(found).axes
    assert ax.get_title(loc="left") == words
    assert [text.get_text() for text in ax.texts][:2] == ["private", "plain"]
    svg_pair(ax.figure, "s")


@pytest.mark.parametrize(
    ("truths", "words"),
    [
        (["suitable", "suitable", "unsuitable"], ["1 of 2 clearly suitable", "0 of 1 clearly"]),
        (["unsuitable", "undecided", "undecided"], ["0 of 0 clearly suitable", "1 of 1 clearly"]),
    ],
)
def test_which_populations_are_accepted(truths, words):
    table = pd.DataFrame({"shift": ["none", "rotation", "gaussian_noise"], "truth": truths})
    table = table.assign(severity=[0.0, 4.0, 0.3], decision=["SUITABLE", *2 * ["INCONCLUSIVE"]])
    table[DROP], table["estimated drop"] = [0.0, 0.02, 0.09], [0.0, 0.01, 0.06]
    table["low"], table["high"] = table[DROP] - 0.01, table[DROP] + 0.01
    said = title(draw_populations(Run({"populations": table}, {}, {"margin": 0.05})).figure)
    assert said == "The filter accepts {}\npopulations, {} unsuitable ones".format(*words)


@pytest.mark.parametrize(
    ("known", "fitted", "words"),
    [
        (2, 2, "The truth is in 2 of 2 intervals,|with propensities known or fitted"),
        (2, 1, "The truth is in 2 of 2 intervals with known|propensities, in 1 with fitted ones"),
    ],
)
def test_how_many_intervals_hold_the_truth(known, fitted, words):
    assert differences_headline(known, fitted, 2) == words.replace("|", "\n")
    table = pd.DataFrame({"oracle": [-0.1, -0.1], "selective": [-0.05, -0.06]})
    for prefix, held in (("known_", known), ("", fitted)):
        table[f"{prefix}low"], table[f"{prefix}high"] = -0.15, [-0.05, -0.04]
        table[f"{prefix}value"], table[f"{prefix}covers"] = -0.09, np.arange(2) < held
    (ax,) = plot_differences(table).axes
    assert ax.get_title(loc="left") == words.replace("|", "\n")
    svg_pair(ax.figure, "s")


def channel(name, proven, found):
    """A Gaussian mechanism of one mu, and an attack that finds another."""
    limits = trade_off(PrivacyLedger((SampledGaussian(1.0, 1 / proven, 1),)))
    rng, members = np.random.default_rng(0), np.arange(4000) % 2 == 0
    scores = {"blind": roc_counts(rng.normal(size=4000), members)}
    scores["seeing"] = roc_counts(rng.normal(size=4000) + found * members, members)
    return Channel(name, 2.0, 1e-5, limits, scores)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (
            (1.0, 2.0),
            "Attacks on the hard case fall short of what is|proven; on labels that cannot be told",
        ),
        (
            (2.0, 2.0),
            "Attacks on the hard case find 78%, where 76% may be:|"
            "these trials cannot tell that from the proof",
        ),
        ((0.5, 1.0), "On the hard case and labels|attacks fall short of what is proven"),
    ],
)
def test_where_attacks_reach_the_proof(found, words):
    both = [channel(n, 2.0, mu) for n, mu in zip(("hard case", "labels"), found, strict=True)]
    assert reached_headline(both, 0.1) == words.replace("|", "\n")
    assert title(plot_reached(both, 0.1)) == words.replace("|", "\n")
