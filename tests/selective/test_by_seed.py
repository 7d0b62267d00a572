"""What decides about P1's claims, one number a training, from a panel with chosen numbers."""

import math
from dataclasses import replace

import numpy as np
import pytest
from panel_by_hand import EPSILONS, imbalance, panel

from lib.book import evidence
from lib.selective.uncertainty import compare
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
    several = {
        "leads": (evidence.runs, by_seed.leads([made], "score")),
        "coverage": (evidence.runs, by_seed.leads([made], "coverage", by_budget=True)),
        "gaps": (evidence.of_mean, by_seed.gaps([made], 1.0)),
        "worsening": (evidence.runs, by_seed.worsening([made])),
    }
    for of, parts in several.values():
        found = evidence.least(of, parts)
        assert found.low == -math.inf
        trained = [part for part in parts if (part[1] if isinstance(part, tuple) else len(part))]
        assert found == replace(evidence.least(of, trained), low=-math.inf)
        assert math.isfinite(found.value)
        assert found.n == SEEDS


def test_one_training_says_how_much_and_decides_nothing():
    one = panel(seeds=1)
    table = studies.summary(one)
    assert table["score sd"].isna().all()
    assert not studies.pivot(table, "score").to_string().count("±")
    gaps = [gap for gap, n in by_seed.gaps([one], 1.0) if n]
    gaps.append(studies.area_growth(one, "SCTD"))
    for found in (evidence.of_mean(gap, 1) for gap in gaps):
        assert (found.low, found.high, found.n) == (-math.inf, math.inf, 1)
    mine, other = (one.predictions[method, 1.0] for method in ("SR", "SCTD"))
    alone = compare(mine.correct[0], mine.score[0], other.correct[0], other.score[0])
    assert gaps[0].value == alone.value
    assert gaps[0].standard_error == alone.standard_error > 0  # over points alone
    assert evidence.of_mean(gaps[0], 2).low > -math.inf


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


def test_shares_spent_are_of_the_seeds_own_stops(made):
    steps = 2  # checkpoints after 20 and 40 steps
    right = made.predictions["SR", 1.0].correct  # the target: what is right at epsilon = 1
    correct = np.zeros((SEEDS, steps, 60), int)
    correct[0] = right[0]  # reached at once, at the second checkpoint, and never
    correct[1, 1] = right[1]
    wrong = 1
    stops = replace(made, checkpoints={3.0: np.where(correct, 0, wrong)})
    shares = by_seed.spent_shares(stops)
    assert shares[0] < shares[1] == shares[2]


def test_the_rare_class_by_seed():
    study = imbalance()
    facts = by_seed.rare_class(study)
    table = studies.imbalance_table(study).set_index(["p0", "epsilon"])
    for k, p0 in enumerate(study.keep):
        assert facts["position"][k] == pytest.approx([table.loc[(p0, math.inf), "position"]] * 2)
        assert facts["spread"][k].tolist() == [0, 0]
    assert [part.tolist() for part in facts["right first"]] == [[1.0, 1.0]]  # one p0 has none right
    assert [part.tolist() for part in facts["lost accuracy"]] == [[0.0, 0.0]]  # nothing to lose
    # Spread over all coverages at the smallest epsilon, where it was last without privacy.
    found = study.predictions[0.5, 1.0]
    score = found.score.copy()
    score[:, :5] = [0.0, 0.35, 0.6, 0.8, 1.0]
    spread = replace(
        study, predictions={**study.predictions, (0.5, 1.0): replace(found, score=score)}
    )
    assert (by_seed.rare_class(spread)["spread"][0] > 0.2).all()


def test_the_rarest_place_has_points_enough_to_compare():
    study = imbalance()
    right = {
        place: found.correct[:, study.labels == 0].sum(1)
        for place, found in study.predictions.items()
    }
    number = (study.labels == 0).sum()
    for fewest in (1, 2, 3):
        places = [
            (p0, epsilon)
            for (p0, epsilon), count in right.items()
            if math.isfinite(epsilon) and fewest <= count.min() and count.max() <= number - fewest
        ]
        where, first = by_seed.rarest(study, fewest)
        if not places:
            assert (where, len(first)) == ("", 0)
            continue
        p0, epsilon = min(places)
        assert where == f"p0 = {p0:g}, epsilon = {epsilon:g}"
        assert first.tolist() == studies.rare_class_at(study, p0, epsilon)[2].tolist()
    assert by_seed.rarest(study, 1)[0]
    assert not by_seed.rarest(study, 1000)[0]


def test_claims_of_the_paper_find_their_cells(made):
    def cells(names, dataset="cifar10"):
        reported = {f"P1-T2-{name}": (0.01, 0.001) for name in names}
        found = by_seed.cells(reported, dataset, [made, made], studies.normalized_scores)
        return {name.removeprefix("P1-T2-"): value for name, value in found.items()}

    found = cells(["CIFAR10-SR-inf", "CIFAR10-SR-3", "SVHN-SR-3"])
    assert found["SVHN-SR-3"] == "the data of this run are cifar10"
    own = studies.normalized_scores(made, "SR", 3.0)
    assert [v.tolist() for v in found["CIFAR10-SR-3"]] == [own.tolist()] * 2
    assert set(cells(["CIFAR10-SR-3"], "digits").values()) == {"the data of this run are digits"}
    assert set(cells(["CIFAR10-SR-7", "CIFAR10-SR-3"]).values()) == {"this run has other budgets"}
    assert set(cells(["CIFAR10-DE-3"]).values()) == {"this run has other methods"}
    rising = {"P1-T2-CIFAR10-SR-inf": (0.01, 0.0), "P1-T2-CIFAR10-SR-3": (0.02, 0.0)}
    assert studies.worsening_in_paper(rising) == 1.0


def test_what_p1_prints_is_of_the_data_that_are_used():
    reported = {
        "P1-T2-CIFAR10-SN-1": (0.1, 0.0),
        "P1-T2-GTSRB-SN-1": (0.2, 0.0),
        "P1-T2-GTSRB-SN-inf": (0.3, 0.0),
    }
    assert by_seed.printed(reported, "gtsrb32", "SN", 1.0) == 0.2
    assert by_seed.printed(reported, "gtsrb", "SN", math.inf) == 0.3
    assert by_seed.printed(reported, "cifar10", "SN", 1.0) == 0.1
    others = ("digits", "SN", 1.0), ("cifar10", "SR", 1.0), ("cifar10", "SN", 3.0)
    assert [by_seed.printed(reported, *other) for other in others] == [None] * 3
