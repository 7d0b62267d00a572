"""What decides about P1's claims, one number a training, from a panel with chosen numbers."""

import math
from dataclasses import replace

import numpy as np
import pytest
from panel_by_hand import EPSILONS, imbalance, panel

from lib.book import evidence
from lib.studies.interplay import by_seed
from lib.studies.interplay import tables as studies

SEEDS = 3


@pytest.fixture(scope="module")
def made():
    return panel(seeds=SEEDS)


def means(parts):
    """Of what was trained; the panel lacks two of P1's methods."""
    return [each.mean() for each in parts if len(each)]


def test_leads_are_over_every_other_method(made):
    table = studies.summary(made).set_index(["method", "epsilon"])
    score, others = table["score"], ("SR", "MCDO", "SN")
    each = by_seed.leads([made], "score", by_budget=True)
    assert {part.shape for part in each} == {(SEEDS,), (0,)}
    wanted = [score[other, e] - score["SCTD", e] for other in others for e in EPSILONS]
    assert means(each) == pytest.approx(wanted)
    overall = by_seed.leads([made, made], "score")
    assert means(overall) == pytest.approx(2 * list(np.reshape(wanted, (3, 3)).mean(1)))
    # SelectiveNet has no coverage, and without privacy there is none to be reached.
    covered = by_seed.leads([made], "coverage", by_budget=True)
    coverage = table["coverage"]
    wanted = [
        coverage["SCTD", e] - coverage[other, e] for other in ("SR", "MCDO") for e in (3.0, 1.0)
    ]
    assert means(covered) == pytest.approx(wanted)


def test_gaps_are_over_trainings_and_points(made):
    found = by_seed.gaps([made], 1.0)
    leads = means(by_seed.leads([made], "score", by_budget=True))[2::3]
    assert [gap.value for gap, n in found if n] == pytest.approx(leads)
    assert all(gap.standard_error > 0 for gap, n in found if n)
    assert sorted({n for _, n in found}) == [0, SEEDS]


def test_methods_that_were_not_trained_confirm_nothing(made):
    """SCTD is not "best" where it was compared with some; one that is ahead refutes that."""
    for of, parts in (
        (evidence.runs, by_seed.leads([made], "score")),
        (evidence.of_mean, by_seed.gaps([made], 1.0)),
        (evidence.runs, by_seed.worsening([made])),
    ):
        trained = [part for part in parts if (part[1] if isinstance(part, tuple) else len(part))]
        assert evidence.least(of, parts) == replace(evidence.least(of, trained), low=-math.inf)


def test_worsening_is_from_each_budget_to_the_next_smaller_one(made):
    score = studies.summary(made).set_index(["method", "epsilon"])["score"]
    wanted = [
        score[method, b] - score[method, a]
        for method in ("SR", "MCDO", "SCTD", "SN")
        for a, b in ((math.inf, 3.0), (3.0, 1.0))
    ]
    assert means(by_seed.worsening([made])) == pytest.approx(wanted)


def test_losses_at_every_budget_and_their_growth(made):
    # Accuracies: SR 0.8 and 0.7 at the finite budgets, MCDO 0.05 less, SelectiveNet 0.6 and 0.4.
    assert means(by_seed.losses([made], "MCDO")) == pytest.approx([0.05, 0.05, 0.0], abs=1e-12)
    assert means(by_seed.losses([made], "SN")) == pytest.approx([0.2, 0.3, 0.1])
    # More accurate than SR at the largest budget: no loss, however much it grows.
    better = replace(
        made,
        selective={
            **made.selective,
            3.0: replace(made.selective[3.0], correct=np.ones_like(made.selective[3.0].correct)),
        },
    )
    assert evidence.least(evidence.runs, by_seed.losses([better], "SN")).value < 0


def test_the_rare_class_by_seed():
    study = imbalance()
    facts = by_seed.rare_class(study)
    table = studies.imbalance_table(study).set_index(["p0", "epsilon"])
    for k, p0 in enumerate(study.keep):
        assert facts["position"][k] == pytest.approx([table.loc[(p0, math.inf), "position"]] * 2)
        assert facts["spread"][k].tolist() == [0, 0]
    assert [part.tolist() for part in facts["right first"]] == [[1.0, 1.0]]  # one p0 has none right
    assert [part.tolist() for part in facts["lost accuracy"]] == [[0.0, 0.0]]  # nothing to lose


def test_order_that_is_lost_is_between_no_budget_and_the_smallest(made):
    (lost,) = by_seed.order_lost([made], "SR")
    free, strict = (studies.relative_scores(made, "SR", e) for e in (math.inf, 1.0))
    assert lost == pytest.approx(strict - free)
