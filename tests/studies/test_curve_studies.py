"""Proven and attacked curves of trainings, small: three channels, faults, power."""

import math
from dataclasses import replace

import numpy as np
import pytest
from chapter_cells import names_of
from scipy import stats

from lib.audit import attack_curve, roc_counts
from lib.privacy import PrivacyLedger, RandomizedResponse, SampledGaussian, pate_epsilon, trade_off
from lib.studies.audit.sanity import FAULTS, SanityCheck, sgd_scores
from lib.studies.beyond import trade_offs

PARAMETERS = {
    **{"model": "linear", "epsilons": [3.0], "learning_rates": [0.5, 0.1], "points": 100},
    **{"n_shadow": 20, "n_target": 40, "n_challenges": 2, "canaries": 0, "steps": 40},
    **{"batch_size": 20, "clipping_norm": 1.0, "schedule": "constant", "hidden": 16},
    **{"activation": "tanh", "gradient": False, "delta": 1e-5, "device": "cpu", "seed": 0},
    **{"label_epsilon": 2.0, "label_models": 80, "label_points": 40, "label_steps": 150},
    **{"label_batch": 20, "label_rate": 0.5},
}
LEVEL = 0.999


def test_a_pair_of_labels_and_a_coin():
    labels = np.random.default_rng(0).integers(0, 5, 30)
    coins = []
    for seed in range(400):
        change = trade_offs.PairedLabel(5, seed)
        row, pair, coin = change.drawn(labels)
        changed = change.apply(labels)
        assert change.watched(labels).tolist() == [row]
        assert np.flatnonzero(changed != labels).tolist() == [row]
        assert changed[row] == pair[coin]
        assert len({*pair, int(labels[row])}) == 3
        coins.append(coin)
    assert abs(np.mean(coins) - 0.5) < 4 * 0.5 / math.sqrt(400)


def test_the_label_channel_reaches_its_curve_and_stays_above_it(tmp_path, monkeypatch):
    monkeypatch.setenv("COMPANION_RUNS", str(tmp_path))
    job = names_of("curves", PARAMETERS, "digits")["label_job"]
    channel = trade_offs.labels(job, LEVEL)
    attack = channel.attacks["logits"]
    assert attack.margin(channel.proven.fnr) <= 0
    estimate, low, high = attack.tpr(0.1)
    assert low <= 1 - channel.proven.fnr(0.1) <= high  # memorised: hardly anything is lost
    assert estimate > 0.3
    # With hardly any noise on the labels the same attack refutes the claim.
    loud = trade_offs.labels(replace(job, mechanism=RandomizedResponse(20.0)), LEVEL)
    assert loud.attacks["logits"].margin(channel.proven.fnr) > 0


def test_a_faulty_training_of_the_hard_case_is_below_its_curve():
    check = SanityCheck()
    channel = trade_offs.hard_case(check, 400, LEVEL, seed=1)
    assert channel.attacks["weight"].margin(channel.proven.fnr) <= 0
    for fault in FAULTS:
        scores, members = sgd_scores(check, 400, 2, fault)
        margin = attack_curve(roc_counts(scores, members), LEVEL).margin(channel.proven.fnr)
        assert (margin > 0) == (fault != "none"), fault


def test_power_and_level():
    table = trade_offs.power_study(1.0, 1e-5, [1.0, 3.0], 1500, 60, level=0.95, seed=3)
    table = table.set_index("true over claimed")
    assert (table.loc[1.0] <= 0.15).all()  # 0.05, and three standard errors of 60 audits
    assert table.loc[3.0, "by the curve"] > 0.9
    assert table.loc[3.0, "by epsilon"] < table.loc[3.0, "by the curve"]


def gaussians(rng, mus, found=None, n=60):
    """Channels of Gaussian mechanisms, whose attacks find another mu where told so."""
    members, channels = np.arange(n) % 2 == 0, []
    for mu, true in zip(mus, found or mus, strict=True):
        proven = trade_off(PrivacyLedger((SampledGaussian(1.0, 1 / mu, 1),)))
        counts = {str(i): roc_counts(rng.normal(size=n) + true * members, members) for i in (0, 1)}
        channels.append(trade_offs.Channel("", 1.0, 1e-5, proven, counts))
    return channels


def test_true_proofs_are_rarely_refuted_by_any_of_many_attacks():
    rng, level, repetitions = np.random.default_rng(5), 0.9, 100
    mus, alone, all_of_them = (0.5, 1.0, 1.0, 2.0, 3.0), 0, 0
    for _ in range(repetitions):
        channels = gaussians(rng, mus)
        alone += trade_offs.refuted([replace(each, level=0.3) for each in channels])["refuted"] > 0
        all_of_them += trade_offs.refuted(trade_offs.together(channels, level))["refuted"] > 0
    assert all_of_them <= stats.binom.ppf(0.999, repetitions, 1 - level)
    assert alone > all_of_them  # without correction, and at a low level, there are some


def test_a_false_proof_among_true_ones_is_refuted():
    mus = (0.5, 1.0, 1.0, 2.0)
    channels = gaussians(np.random.default_rng(6), mus, (0.5, 1.0, 4.0, 2.0), n=600)
    every = trade_offs.together(channels, 0.95)
    assert trade_offs.refuted(every) == {"mechanisms": 4, "attacks": 8, "refuted": 2}
    assert [each.level for each in every] == [pytest.approx(1 - 0.05 / 8)] * 4
    table = trade_offs.curve_table(every, 1e-5, 0.1)
    assert (table["margin"] > 0).tolist() == 4 * [False] + 2 * [True] + 2 * [False]


def test_a_ledger_is_nearly_reached_where_nothing_else_hides_a_record():
    rate, points = 0.02, 2500
    training = trade_offs.PrivateTraining("some", points, round(rate * points), 60, 6.0, 0.0)
    channel = training.attacked(600, 0.95, 3, 60)
    attack, proven = channel.attacks["weight"], channel.proven
    estimate, low, _ = attack.tpr(0.1)
    assert attack.margin(proven.fnr) <= 0
    assert channel.claimed == 6.0
    assert channel.delta == 1 / points
    most = 1 - proven.fnr(0.1)
    assert low <= most
    # Four standard errors, in which there is room for the threshold's error.
    assert abs(estimate - most) < 4 * math.sqrt(most * (1 - most) / 300)
    # Whoever sees the final weights alone sees less, where a record is rarely sampled.
    (blind,) = training.attacked(600, 0.95, 3, 1).attacks.values()
    assert blind.accuracy()[0] < attack.accuracy()[0]


def test_pate_is_proven_what_its_accountant_says_without_the_votes():
    channel = trade_offs.votes(20.0, 6.5, 1000.0, 40.0, 1e-5)
    answered = np.arange(1000) < 40
    cost = pate_epsilon([[30, 20]] * 1000, 20.0, 6.5, 30.0, 1e-5, answered)
    assert 0.85 * cost.data_independent < channel.claimed <= cost.data_independent
    mu = math.sqrt(1000 / 20.0**2 + 2 * 40 / 6.5**2)
    assert channel.proven.mu(1e-9) == pytest.approx(mu, rel=0.01)
    assert not channel.attacks
    (row,) = trade_offs.curve_table([channel], 1e-5, 0.1).to_dict("records")
    assert row["attack"] == "none"
    assert row["TPR, proven"] > 0.1
