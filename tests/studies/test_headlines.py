"""The title of a figure says what its data show, whatever they are.

`tests/book/test_redraw.py` draws the figures of all records, the build those of all chapters.
"""

import math
import re
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from lib.audit import roc_counts
from lib.privacy import PrivacyLedger, SampledGaussian, trade_off
from lib.studies import report_figures as reports
from lib.studies.audit import figures as audit
from lib.studies.beyond import choosing, gap_terms, noise_figures, p1_regime, promise
from lib.studies.beyond import refusal_figures as refusals
from lib.studies.beyond import time_figures as over_time
from lib.studies.beyond.curve_figures import reached_headline
from lib.studies.beyond.six_lenses import figures as lenses
from lib.studies.beyond.trade_offs import Channel
from lib.studies.canaries import figures as canaries
from lib.studies.counterfactual import figures as counterfactual
from lib.studies.headed import percent
from lib.studies.interplay import figures as interplay
from lib.studies.interplay import outlier_figures as outlier
from lib.studies.suitability import figures as suitability
from lib.studies.suitability import from_records as records
from lib.studies.training import figures as training

FREE, NONE = math.inf, math.nan


def frame(columns: str, *rows: tuple, **same) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=columns.split(", ")).assign(**same)


def buckets(*suitable: int, lows: tuple = (-6, -5, -2, -1, 0)) -> pd.DataFrame:
    rows = [(n / 100, (n + 1) / 100, 10, k, k / 10) for n, k in zip(lows, suitable, strict=True)]
    return frame("low, high, experiments, suitable, share", *rows)


def budgets(column: str, *values: tuple, **same) -> pd.DataFrame:
    return frame(f"epsilon, {column}", *values, **same)


def wrong(*rows: tuple) -> pd.DataFrame:
    """How many models are wrong about the outlier, a row a budget."""
    return budgets("outlier misclassified", *rows)


def lines(*rows: tuple) -> pd.DataFrame:
    """Boundaries across the first axis, and an outlier at 10 on it."""
    return frame("epsilon, w1, b", *rows, **{"w2": 0.0, "outlier x1": 10.0, "outlier x2": 3.0})


def ways(**ends: tuple) -> pd.DataFrame:
    """Accuracies without privacy and at a budget of 1, by method."""
    rows = [(m, e, a) for m, of in ends.items() for e, a in zip((FREE, 1.0), of, strict=True)]
    return frame("method, epsilon, accuracy", *rows)


def rare(*parts: tuple) -> pd.DataFrame:
    """How often right points come first, without privacy 0.1, by what is left of a class."""
    rows = [(p, e, x) for p, *of in parts for e, x in zip((FREE, 3, 1), (0.1, *of), strict=True)]
    return frame("p0, epsilon, right first", *rows)


def fails(*best: float) -> pd.DataFrame:
    """How often bounds of four choices fail, Bayesian ones of the best threshold as told."""
    rows = [("bayesian", "best", x) for x in best]
    rows += [("clopper-pearson", "best", 1.0), ("bayesian", "fixed", 1.0)]
    return frame("method, choice, exceeds", *rows)


def careful(*rows: tuple) -> pd.DataFrame:
    return frame("data, level, paper, one label, top label", *rows)


def two_classifiers() -> SimpleNamespace:
    """Two points of either label: A is best, B takes one for the other and mostly withholds it."""
    points = np.array([[0.0, 0.0], [1.0, 1.0]])
    chances = np.array([[0.1, 0.9], [0.1, 0.4]])
    withheld = np.array([[0.1, 0.5], [0.1, 0.9]])
    return SimpleNamespace(X=points, probabilities=chances, propensities=withheld)


def within(low: float, high: float) -> tuple[SimpleNamespace, ...]:
    return (SimpleNamespace(interval=(low, high)),)


def kept(alibi: float, response: float) -> pd.DataFrame:
    rows = [("none", FREE, 0.9), ("ALIBI", 1.0, alibi), ("ALIBI", 8.0, 0.88), ("PATE", 0.5, 0.7)]
    rows += [("RR", 1.0, response), ("RR", 8.0, 0.89)]
    return frame("mechanism, claimed, accuracy", *rows)


def shuffles(*passed: float, first: int = 0) -> pd.DataFrame:
    """What passes of two data sets, whose other one's shuffles count for nothing."""
    rows = [("fmow", k == first, share) for k, share in enumerate(passed)]
    return frame("dataset, first, fpr", *rows, ("rxrx1", True, 0.0), ("rxrx1", False, 1.0))


def adjusted(plug_in: float, *lows: float) -> pd.DataFrame:
    names = ["unadjusted", "exact", "plug-in", "bound", "prediction-powered", "labels alone"]
    rates = [1.0, 0.05, plug_in, *(low + 0.01 for low in lows)]
    table = frame("rate, low", *zip(rates, [1.0, 0.04, plug_in, *lows], strict=True))
    return table.set_axis(names)


def cheats(*rows: tuple) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["cheat", "SUITABLE, if it is not"])


def monitors(delay: float) -> pd.DataFrame:
    rows = [("random labels", 0.013, delay), ("KSDrift", 1.0, 1.0)]
    return frame("method, streams with one, delay", *rows)


def looks(*rows: tuple) -> pd.DataFrame:
    rows = [("one look", 0.05, 0.04), ("uncorrected", 0.12, 0.11), *rows]
    return frame("procedure, rate, low", *rows)


def bins(*rows: tuple) -> pd.DataFrame:
    return frame("confidence, accuracy, rows", *rows)


def scores(*rows: tuple) -> pd.DataFrame:
    return frame("guaranteed coverage, coverage at target", *rows)


def one_run(*models: int) -> pd.DataFrame:
    rows = [(8.0, 1, 0.0, 0.2), *((FREE, n, 0.0, 1.66) for n in models)]
    return frame("epsilon, models, many runs, one run each", *rows)


def detection(final: float) -> pd.DataFrame:
    rows = [("held-out", 2048, 5.2, final), ("held-out", 128, 15.0, FREE)]
    return frame("audit, models, white box, final model", *rows, ("one run", 2048, 3.0, 4.7))


def widths(wider: float, narrow: float) -> pd.DataFrame:
    """Widths of the Bayesian interval and of two others at two numbers of trials."""
    rows = [("bayesian", 50, 0, 0.4), ("bayesian", 100, 0, narrow)]
    rows += [(m, n, 0, 0.5 + wider) for m in ("jeffreys", "clopper-pearson") for n in (50, 100)]
    return frame("method, trials, low, high", *rows)


def noise(share: float) -> pd.DataFrame:
    rows = [("clean", 1.0, 0.0, 0.02), ("noisy", FREE, 0.1, 0.125), ("noisy", 1.0, share, 0.1)]
    return frame("labels, epsilon, noise, total", *rows)


def ahead(*high: float) -> pd.DataFrame:
    rows = zip(high, (0.7, 0.75, 0.85), strict=True)
    return frame("SCTD high, accuracy", *rows, **{"SCTD low": -1.0})


def noisy(*rows: tuple) -> pd.DataFrame:
    return frame("SCTD low, SCTD high, all noise", *rows)


def watched(*rows: tuple) -> pd.DataFrame:
    table = frame("epsilon, every, last, lead", *rows, form="Eq. 16", ties="averaged")
    others = table.assign(lead=9.0)
    return pd.concat([others.assign(ties="by SR"), table, others.assign(form="Algorithm 1")])


def leads(*low: tuple) -> pd.DataFrame:
    rows = [(regime, e, x, "Eq. 16", "averaged") for regime, *of in low for e, x in of]
    rows += [("P1's", 7.0, 0.5, "Algorithm 2", "averaged"), ("P1's", 7.0, 0.5, "Eq. 16", "by SR")]
    return frame("regime, epsilon, low, form, ties", *rows)


def promises(**changed) -> dict:
    values = {"broken": 0.007, "few": 500, "spoken": 1.0, "private_few": 0.59, "free_few": 0.66}
    return values | changed


def populations(*truths: str) -> pd.DataFrame:
    decisions = ("SUITABLE", "INCONCLUSIVE", "INCONCLUSIVE")
    return frame("truth, decision", *zip(truths, decisions, strict=True))


def shifts(*rows: tuple) -> pd.DataFrame:
    return frame("shift, 200, 3200", *rows)


POWER = shifts((0, 0.05, 0.05), (0.2, 0.3, 1.0))


def methods(paper: tuple, cbpe: tuple, labels: tuple) -> pd.DataFrame:
    """Right decisions and ROC AUC of three methods, in tenths."""
    table = frame("accuracy, roc_auc", paper, cbpe, labels) / 10
    return table.set_axis(["the filter", "CBPE", "more"]).assign(of=["paper", "others", "labels"])


def faults(*found: tuple) -> pd.DataFrame:
    return pd.DataFrame(found, columns=["outside, one", "outside, many", "steps"])


#: Headlines, what they are given, and what they say, with dots in place of other words.
SAID = [
    (percent, (0,), "0%"),
    (percent, (0.004,), "under 1%"),
    (percent, (0.126,), "13%"),
    (percent, (0.996,), "over 99%"),
    (percent, (1.0,), "100%"),
    (suitability.share_headline, (buckets(0, 1, 2, 3, 9),), "...s of 0 to 1 points: 30% ...: 5%"),
    (suitability.share_headline, (buckets(0, 0, 2, 3, 9), 0.05), "... 5 to 6 points: 0% pass ..."),
    (suitability.share_headline, (buckets(0, 0, 2, 3, 9), 0.005), "... 1 to 2 points: 20% ...: 0%"),
    (suitability.share_headline, (buckets(3, 9, lows=(-1, 0)),), "... 30% pass as SUITABLE"),
    (suitability.share_headline, (buckets(3, 9, lows=(0, 1)),), "No data here are worse ..."),
    (suitability.methods_headline, (methods((9, 8), (8, 9), (9.5, 9.5)),),
     "...: CBPE ranks, the filter decides; labels improve both"),
    (suitability.methods_headline, (methods((9, 8), (8, 9), (8.5, 9.5)),), "... only the ranking"),
    (suitability.methods_headline, (methods((9, 9), (8, 8), (9.5, 8.5)),),
     "... the filter ranks, the filter decides; ... only the decisions"),
    (suitability.methods_headline, (methods((9, 9), (9, 9), (9, 9)),),
     "... several rank, several decide; labels improve neither"),
    (suitability.methods_headline, (methods((9, NONE), (8, 9), (9, 9)),), "...: CBPE ranks, ..."),
    (training.spending_headline, (frame("steps, rdp, pld", (1, 0.1, 0.1), (1000, 7.0, 6.204)),),
     "After 1,000 steps ... epsilon of 7.00, 13% more than PLD's 6.20"),
    (training.spending_headline, (frame("steps, rdp, pld", (9, 7.0, 7.01)),), "... so does PLD"),
    (training.spending_headline, (frame("steps, rdp, pld", (9, 1.0, 1.5)),), "... less than ..."),
    (outlier.outlier_headline, (wrong((FREE, 0.25), (7, 0.25), (1, 0.75)),),
     "Models wrong about the outlier: 25% to 75% with privacy, 25% without"),
    (outlier.outlier_headline, (wrong((7, 0.5), (1, 0.5)),), "...: 50% with privacy"),
    (outlier.outlier_headline, (wrong((FREE, 0.0)),), "...: 0% without"),
    (outlier.boundaries_headline, (lines((FREE, 1.0, -5), (7, 1.0, -11), (1, -1.0, 10)),),
     "About the outlier 2 of 2 private models are wrong; the one without privacy is not"),
    (outlier.boundaries_headline, (lines((FREE, 1.0, -11), (7, 1.0, -9)),), "... 0 of 1 ... too"),
    (outlier.boundaries_headline, (lines((7, 1.0, -9)),), "... 0 of 1 private models are wrong"),
    (interplay.ensemble_headline, (ways(SR=(0.9, 0.84), DE=(0.92, 0.83)), "SVHN"),
     r"On SVHN $\epsilon = 1$ costs an ensemble 9 points of accuracy, one model 6"),
    (interplay.ensemble_headline, (ways(SR=(0.9, 0.84), SAT=(0.9, 0.7)), "SVHN"),
     "... costs one model 6 points of accuracy"),
    (interplay.reversal_headline, (rare((0.5, 0.9, 0.4), (0.25, 0.3, 0.45), (0.1, 0.2, NONE)),),
     "With 50% of a class left, privacy reverses its order: right comes first in 40% of pairs"),
    (interplay.reversal_headline, (rare((0.5, 0.9, 0.8), (0.25, NONE, NONE)),),
     "Right points stay before wrong ones: in 80% of pairs at least"),
    (interplay.steps_headline, (np.array([0.1, 0.0, 0.2]), np.array([0.1, -0.1]), "a new score"),
     "With a smaller budget the score rises at 2 of 3 steps printed, 1 of 2 of ours"),
    (interplay.steps_headline, (-np.ones(3), np.zeros(2), "coverage for more"),
     "... the coverage falls at 3 of 3 steps printed, 0 of 2 of ours"),
    (interplay.reached_headline, (1e-16,), "A perfect order reaches the bound"),
    (interplay.reached_headline, (0.0123,), "A perfect order stays up to 0.012 below the bound"),
    (interplay.moving_headline, ([0.6, 0.75, 0.9], [0.0171, 0.01, 0.004]),
     "One good order at an accuracy of 0.6 and of 0.9: a score of 0.017 and of 0.004"),
    (interplay.left_headline, (budgets("coverage", (7, 0.9), (1, 0.4), (1, 0.6)), "SVHN"),
     r"At $\epsilon = 1$ the accuracy without privacy leaves 50% of answers on SVHN"),
    (interplay.order_headline,
     ([budgets("relative", (1, 0.18), (3, 0.9), (FREE, 0.13), method="SR"),
       budgets("relative", (1, 0.5), (FREE, 0.5), method="SCTD")],),
     "... the score rises at 1 of 3 steps to a smaller budget"),
    (interplay.stopping_headline, (budgets("spent", (7.0, 4.97), (1.0, 1.0)),),
     r"... a model for $\epsilon$ = 7 has spent 4.97"),
    (interplay.needed_headline, (frame("points", (900,), (FREE,), (2000,)), 2000),
     "1 of 3 comparisons ... need more than the 2,000 points at hand"),
    (interplay.why_wide, ({"A": 5, "B": 2, "C": 3},), "... on B ... 2 runs only: ... 12.7 ..."),
    (interplay.why_wide, ({"A": 3, "B": 5},), "... on A ... 3 runs only: ... 4.3 ..."),
    (interplay.why_wide, ({"A": 3, "B": 3},), ""),
    (interplay.why_wide, ({"A": 2},), ""),
    (interplay.why_wide, ({"A": 1, "B": 3},), ""),
    (audit.selection_headline, (fails(0.001, 1.0), 0.9), "... up to 100% of audits; allowed: 10%"),
    (audit.selection_headline, (fails(0.001, 0.004), 0.95), "... under 1% of audits; allowed: 5%"),
    (audit.one_run_headline, (one_run(1, 4),),
     "1 model, without privacy: the one-run audit shows 1.7, one point a model nothing"),
    (audit.one_run_headline, (one_run(),), r"1 model, $\epsilon = 8$: ... 0.2, ... nothing"),
    (audit.one_run_headline, (one_run(4),), "4 models, without privacy: ..."),
    (audit.detection_headline, (detection(8.14),),
     "With 2,048 models a held-out bound sees a factor of 5.2 (white box), 8.1 (final model)"),
    (audit.detection_headline, (detection(FREE),), "... 5.2 (white box), none (final model)"),
    (audit.coverage_headline,
     (frame("bayesian, clopper-pearson", (0.0, 0.9), (0.895, 0.9), (0.7, 0.9)), 0.9),
     "Bayesian bounds cover over a point too rarely in 2 of 3 designs, Clopper-Pearson's in none"),
    (audit.posterior_headline,
     ({"bayesian": (0.1, 6.44), "jeffreys": (0, FREE), "clopper-pearson": (0, FREE)},),
     "Only the Bayesian interval has an end, 6.4; the others allow any epsilon"),
    (audit.posterior_headline, ({"bayesian": (0, 1), "jeffreys": (0, 2)},),
     "2 of 2 intervals have an end"),
    (audit.bounds_headline,
     (frame("epsilon, best, held-out, union, proven", (FREE, 5, 3, 3, FREE), (8, 0.5, 0.2, 0, 7.99),
            (8, 0.66, 0.1, 0.22, 7.99), (1, 0.9, 0.8, 0.7, 1))
      .rename(columns={"best": "best, Bayesian"}),),
     "Where 8 is proven, attacks show 0.66 swept over thresholds, corrected 0.22"),
    (audit.widths_headline, (widths(0, 0.5),), "... narrowest at 1 of 2 numbers of trials"),
    (audit.widths_headline, (widths(1, 0.5),), "... narrowest at every number of trials"),
    (audit.planted_headline, (faults((0.1, 0.8, 0.9), (0, 0, 0.95), (0, 0, 0.1)), 0.8),
     "From inside one run audits find 2 of 3 faults; from outside they find 1"),
    (audit.planted_headline, (faults((0, 0, 0.95)), 0.8), "... from outside they find none"),
    (audit.planted_headline, (faults((1, 0, 0.1)), 0.8), "... 0 of 1 faults; ... find all"),
    (canaries.careful_headline,  # of CIFAR-10 two files are the same
     (careful(("cifar10", "H", 2.9, 2.6, 3.0), ("cifar10", "HH", 2.9, 2.6, 3.0),
              ("cifar100", "L", 1.0, 0.3, NONE)),),
     "The better valid bound is below P5's in 1 of 2 different audits"),
    (canaries.coverage_headline,
     (frame("epsilon, exceeds, interval", (2.0, 0.1, "paper"), (0.5, 0.73, "paper"),
            (0.1, 0.9, "bayesian")), 100),
     r"At $\epsilon$ = 0.5 and 100 classes, P5's lower bound is above ... in 73% of the audits"),
    (canaries.accuracy_headline, (kept(0.8, 0.5),),
     "At a claim of 1 ALIBI is right in 80%, randomized response (RR) in 50%"),
    (canaries.confidences_headline,
     (frame("case, confidence, canary", ("A", 0.0, 1.0), ("A", 0.5, 0.43), ("B", 0.5, 0.02)),),
     "A: 43% of the canaries' labels are believed; B: 2%"),
    (counterfactual.lead_headline, (-0.02, 0.085, 0.1061, [0.05, 0.124]),
     "A leads by 0.106. One trial: seen -0.020, robust 0.085 ... 5% to 12% miss the lead"),
    (counterfactual.lead_headline, (0, 0, 0, [0.091, 0.088]), "... robust intervals 9% miss ..."),
    (counterfactual.lead_headline, (0, 0, 0, [0.004]), "... robust intervals under 1% miss ..."),
    (counterfactual.classifiers_headline, (two_classifiers(),),
     "Wrong in what is answered and withheld: A in 15% and 15%, B in 22% and 78%"),
    (counterfactual.overlap_headline, ({0.02: within(-0.04, 0.17), 0.5: within(0.07, 0.13)},),
     "With answers in at least 50% of ... is 0.06 wide; with 2%, 0.21"),
    (counterfactual.rules_headline,
     (frame("truth, low, high, bound low, bound high", (0.96, 0.97, 1, 0.8, 1),
            (1, 0.9, 1, 0.6, 1)),),
     "The doubly robust interval misses in 1 of 2 runs, the bounds in none"),
    (counterfactual.rules_headline,
     (frame("truth, low, high, bound low, bound high", (0.96, 0.9, 1, 0.97, 1)),),
     "... misses in 0 of 1 runs, the bounds in 1"),
    (counterfactual.misses_headline, ("75% leaked", (20, 20), (34, 100), (1, 100)),
     "75% leaked: 100% of intervals miss. Two models: 34%, or 1% with known propensities"),
    (counterfactual.misses_headline, ("all", (999, 1000), (3, 1000), (5, 6)),
     "All: over 99% of ...: under 1%, or 83% with ..."),
    (counterfactual.power_headline, (POWER, shifts((0, 0.1, 0.05), (0.2, 0.05, 0.45))),
     "Of the tests 30% to 100% find a shift of 0.2; at one of 0.2 up to 45% of the intervals miss"),
    (counterfactual.power_headline, (POWER, shifts((0, 0.1, 0.05), (0.2, 0.05, 0.01))),
     "... at one of 0 up to 10% ..."),
    (counterfactual.scenarios_headline,
     (frame("low, true difference, high", (-0.1, 0.0, 0.1), (0.1, 0.0, 0.2), (0.0, 0.0, 0.2)),),
     "The truth is inside 2 of 3 intervals"),
    (choosing.search_headline,
     (frame("way, epsilon, spent", ("not counted", 7, 9), ("not counted", 1, 1.74),
            ("every trial counted", 0.5, 0.5)),),
     "A search that nobody counts claims 1 and spends 1.7"),
    (gap_terms.gap_headline, (noise(0.06),), "Noisy labels, epsilon 1: ... a gap of 0.060, ..."),
    (gap_terms.gap_headline, (noise(0.11),), "... a gap of 0.110, ..."),
    (gap_terms.gap_headline, (noise(1e-5),), "... a gap of 0.000, ..."),
    (noise_figures.map_headline, (ahead(-0.1, -0.2, 0.3),),
     "SCTD is ahead in 2 of 3 settings (best accuracy 0.75; of all, 0.85)"),
    (noise_figures.map_headline, (ahead(0.1, 0.2, 0.3),), "SCTD is ahead in 0 of 3 settings"),
    (noise_figures.noise_headline, (noisy((-0.2, -0.1, 81), (0.1, 0.2, 60), (-1, 1, 90)),),
     "Where SCTD is ahead, noise is at least 81, where SR is, at most 60"),
    (noise_figures.noise_headline, (noisy((-0.2, -0.1, 81)),), "SCTD is nowhere behind"),
    (noise_figures.noise_headline, (noisy((0.1, 0.2, 81), (-1, 1, 3)),), "SCTD is nowhere ahead"),
    (noise_figures.pairs_headline, (frame("SCTD", (0.1,), (-0.1,), (0.2,)),),
     "SCTD's mean score is worse (arrow up) in 2 of 3 settings"),
    (noise_figures.average_headline,
     (pd.DataFrame({"mean probabilities high": [-1, -1, 1], "SCTD, ties by SR high": [1, -1, 0]}),),
     "Mean probabilities beat SR in 2 settings, SCTD, ties broken by SR, in 1 of 3"),
    (p1_regime.headline, (leads(("P1's", (3.0, 0.0), (1.0, 0.01)), ("tuned", (1.0, NONE))),),
     r"SCTD is ahead at $\epsilon$ = 1 as P1 trains, nowhere with tuned rates"),
    (p1_regime.density_headline,
     (watched((3, 50, 1, 5), (1, 250, 1, 0.008), (1, 50, 1, 0.016), (1, 50, 0.25, -0.02)),),
     r"At $\epsilon$ = 1 SCTD's lead is +0.016 of all models, +0.008 of few, -0.020 of ..."),
    (p1_regime.density_headline, (watched((1, 250, 1, 0.0), (1, 50, 1, 0.1)),), "... of few"),
    (choosing.costs_headline, (7.39, 2.17, 64),
     "A search of 64 trials costs 7.4 if each counts, 2.2 if their number is drawn and ... secret"),
    (promise.promise_headline, (promises(),),
     r"At most 0.7% of ... break; 500 points: $\epsilon = 1$ answers 59%, no privacy 66%"),
    (promise.promise_headline, (promises(broken=0.0, private_few=0),), "At most 0.0% ... 0%, ..."),
    (lenses.ladder_headline, (0.0, 4.4, 8.0),
     "Of epsilon 8.0, attacks from outside show 0.0, one from inside that knows ... 4.4"),
    (lenses.ladder_headline, (1.2, 0.5, 8.0), "... one from inside ... no more, 0.5"),
    (lenses.ladder_headline, (1.2, 9.0, 8.0),
     "An attack shows an epsilon of 9.0, more than the 8.0 proven: a fault, or chance"),
    (lenses.ladder_headline, (9.1, 1.0, 8.0), "... of 9.1, more than the 8.0 proven: ..."),
    (lenses.abstention_headline, (0.9, 0.8, 0.61),
     "To be right 90.0% of the time the private model answers 61%"),
    (lenses.abstention_headline, (0.995, 1.0, 0.004), "... 99.5% ... answers under 1%"),
    (lenses.abstention_headline, (0.9, FREE, 0.0), "No threshold promises ... 90.0% of the time"),
    (lenses.populations_headline, (populations("suitable", "suitable", "unsuitable"),),
     "The filter accepts 1 of 2 clearly suitable populations, 0 of 1 clearly unsuitable ones"),
    (lenses.populations_headline, (populations("unsuitable", "undecided", "undecided"),),
     "... 0 of 0 clearly suitable populations, 1 of 1 clearly unsuitable ones"),
    (records.margins_headline,
     (frame("margin, fpr", (0.05, 0.6), (0.0, 0.015), (0.02, 0.3), alpha=0.05),),
     "With no margin 1.5% of unsuitable data pass, with one of 5 points 60%"),
    (records.margins_headline,
     (frame("margin, alpha, fpr", (0.01, 0.05, 0.1), (0.01, 0.2, 0.3), (0.1, 0.2, 1.0)),),
     "With one of 1 points 30% of unsuitable data pass, with one of 10 points 100%"),
    (records.shuffles_headline, (shuffles(0.1, 0.2, 0.05, 0.1),),
     "In 1 of 3 other shuffles more of the unsuitable data pass than in ours"),
    (records.shuffles_headline, (shuffles(0.1),), "One shuffle does not say ..."),
    (records.missed_in_words, (0.487,), "Of each point ..., the estimate misses 0.49 points"),
    (records.missed_in_words, (1.2,), "... the estimate misses all of it"),
    (records.missed_in_words, (-0.1,), "Where accuracy drops further, ... no further off"),
    (records.adjusted_headline, (adjusted(0.4, 0.01, 0.06, 0.05), 0.05),
     "Labels taken as exact err in 40%; 2 of 3 tests that count their error keep the 5% level"),
    (records.cheats_headline, (cheats(("honest", 0.07), ("a", 0.95), ("b", 0.9)),),
     "Of unsuitable data 7% pass if all are honest; by 1 of 2 cheats more than 90% do"),
    (records.signals_headline,
     (frame("signal, f, coefficient", ("conf_max", 1.0, -0.7), ("energy", 2.0, 0.5)),),
     "conf max has the largest coefficient; by itself it is number 2 of 2"),
    (records.signals_headline,
     (frame("signal, f, coefficient", ("conf_max", 3.0, -0.7), ("energy", 2.0, 0.5)),),
     "... by itself it tells the most"),
    (records.tipping_headline, (-0.02,), "If its ... as on FMoW, SUITABLE is shown in 2 of 90 ..."),
    (records.tipping_headline, (1.0,), "... in 90 of 90 cases"),
    (over_time.alarms_headline, (monitors(16.0),),
     "Random labels take 16 months, and err in 1% of the streams; KSDrift takes 1, ... in 100%"),
    (over_time.alarms_headline, (monitors(FREE),), "Random labels hardly tell, and err in 1% ..."),
    (over_time.looks_headline, (looks(("Pocock", 0.05, 0.04), ("bad", 0.09, 0.08)),),
     "Looking five times at 5% errs in 12%; 1 of 2 ways to correct it keep the level"),
    (refusals.errors_headline,
     (frame("way, missed", ("fixed time", 0.3), ("fixed time, fitted", 0.5), ("exact", 0.0)),),
     "Intervals for one time miss in up to 50% of the streams, the exact sequence in 0%"),
    (refusals.groups_headline,
     (frame("selective difference, true difference", (-0.01, 0.066), (0.5, 0.5)),),
     "By what they answered A trails by 1.0 points; had both always answered, it leads by 6.6"),
    (reports.reliability_headline, (bins((0.5, 0.9, 3), (0.9, 1.0, 1)),),
     "On average 60% sure and 92% right: too modest"),
    (reports.reliability_headline, (bins((0.9, 0.6, 1)),), "... 90% sure and 60% right: too sure"),
    (reports.reliability_headline, (bins((0.9, 0.91, 1)),), "... about as sure as right"),
    (reports.coverage_headline, (scores((0.8, 0.9), (NONE, 0.95)), 0.95),
     "95% right is promised for 80% of the rows, reached on these rows for 95%"),
    (reports.coverage_headline, (scores((NONE, 0.9)), 0.95), "No threshold promises ... of 0.95"),
    (reports.bounds_headline,
     (frame("threshold, lower bound", ("corrected", 9.0), ("all (biased)", 2.0)), "one run", 0.3),
     "With one run an epsilon of at least 0.30 holds; the best of all thresholds, 2.00, does not"),
    (reports.contamination_headline,
     (frame("share, ci_low, ci_high", (0.0, 0.9, 0.9), (0.09, 0.8, 0.95), (1.0, 0.0, 1.0)),),
     "If abstention depends on more in 9% of the rows, the accuracy is between 80% and 95%"),
]  # fmt: skip


@pytest.mark.parametrize(("headline", "given", "words"), SAID)
def test_a_title_says_what_its_data_show(headline, given, words):
    parts = map(re.escape, words.split("..."))
    said = " ".join(headline(*given).split())
    assert re.fullmatch(".*".join(parts), said), said


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ((1.0, 2.0), "Attacks on {} fall short of what is proven; on labels that cannot be told"),
        ((2.0, 2.0), "Attacks on {} find 78%, where 76% may be: these trials cannot tell that ..."),
        ((0.5, 1.0), "On {} and labels attacks fall short of what is proven"),
    ],
)
def test_where_attacks_reach_the_proof(found, words):
    """Two Gaussian mechanisms of mu 2, and attacks that find another mu."""
    proven = trade_off(PrivacyLedger((SampledGaussian(1.0, 0.5, 1),)))
    rng, members, channels = np.random.default_rng(0), np.arange(4000) % 2 == 0, []
    for name, mu in zip(("hard case, 1", "labels"), found, strict=True):
        attacks = {"blind": 0.0, "seeing": mu}
        scores = {a: rng.normal(size=4000) + x * members for a, x in attacks.items()}
        counts = {a: roc_counts(each, members) for a, each in scores.items()}
        channels.append(Channel(name, 2.0, 1e-5, proven, counts))
    said = " ".join(reached_headline(channels, 0.1).split())
    wanted = map(re.escape, words.format("the hard case").split("..."))
    assert re.fullmatch(".*".join(wanted), said), said
