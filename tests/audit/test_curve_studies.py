"""Proven and attacked curves of trainings, small: three channels, faults, power."""

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from lib.audit import attack_curve, roc_counts
from lib.privacy import RandomizedResponse, trade_off
from lib.studies.audit import curves
from lib.studies.audit.sanity import FAULTS, SanityCheck, sgd_scores
from lib.studies.audit.system import run_audits, settings_from

PARAMETERS = {
    **{"model": "linear", "epsilons": [3.0], "learning_rates": [0.5, 0.1], "points": 100},
    **{"n_shadow": 20, "n_target": 40, "n_challenges": 2, "canaries": 0, "steps": 40},
    **{"batch_size": 20, "clipping_norm": 1.0, "schedule": "constant", "hidden": 16},
    **{"activation": "tanh", "gradient": False, "delta": 1e-5, "device": "cpu", "seed": 0},
    **{"label_epsilon": 2.0, "label_models": 150, "label_points": 40, "label_steps": 300},
    **{"label_batch": 20, "label_rate": 0.5},
}
LEVEL = 0.999


@pytest.fixture
def one(tmp_path, monkeypatch):
    monkeypatch.setenv("COMPANION_RUNS", str(tmp_path))
    with ThreadPoolExecutor(1) as executor:  # in this process: others would import PyTorch first
        yield executor


def test_a_pair_of_labels_and_a_coin():
    labels = np.random.default_rng(0).integers(0, 5, 30)
    coins = []
    for seed in range(400):
        change = curves.PairedLabel(5, seed)
        row, pair, coin = change.drawn(labels)
        changed = change.apply(labels)
        assert change.watched(labels).tolist() == [row]
        assert np.flatnonzero(changed != labels).tolist() == [row]
        assert changed[row] == pair[coin]
        assert len({*pair, int(labels[row])}) == 3
        coins.append(coin)
    assert abs(np.mean(coins) - 0.5) < 4 * 0.5 / math.sqrt(400)


def test_the_label_channel_reaches_its_curve_and_stays_above_it(one):
    job = curves.label_job(PARAMETERS, "digits")
    channel = curves.labels(job, LEVEL, one)
    attack = channel.attacks["logits"]
    assert attack.margin(channel.proven.fnr) <= 0
    estimate, low, high = attack.tpr(0.1)
    assert low <= 1 - channel.proven.fnr(0.1) <= high  # memorised: hardly anything is lost
    assert estimate > 0.3
    # With hardly any noise on the labels the same attack refutes the claim.
    loud = curves.labels(replace(job, mechanism=RandomizedResponse(20.0)), LEVEL, one)
    assert loud.attacks["logits"].margin(channel.proven.fnr) > 0


def test_examples_have_the_ledger_of_their_training(one):
    (channel,) = curves.examples(PARAMETERS, "digits", LEVEL, one)
    (result,) = run_audits(settings_from(PARAMETERS, "digits")[1:], one)
    assert set(channel.attacks) == {"LiRA", "loss"}
    assert channel.claimed == result.proven <= 3.0
    # The curve allows an attack what the accountant's epsilon does, or less.
    fpr = np.linspace(0, 1, 101)
    line = 1 - channel.delta - math.exp(channel.claimed) * fpr
    assert (channel.proven.fnr(fpr) >= line - 1e-3).all()
    assert all(attack.margin(channel.proven.fnr) <= 0 for attack in channel.attacks.values())


def test_a_faulty_training_of_the_hard_case_is_below_its_curve():
    check = SanityCheck()
    channel = curves.hard_case(check, 400, LEVEL, seed=1)
    assert channel.attacks["weight"].margin(channel.proven.fnr) <= 0
    for fault in FAULTS:
        scores, members = sgd_scores(check, 400, 2, fault)
        margin = attack_curve(roc_counts(scores, members), LEVEL).margin(channel.proven.fnr)
        assert (margin > 0) == (fault != "none"), fault


def test_power_and_level():
    table = curves.power_study(1.0, 1e-5, [1.0, 3.0], 1500, 60, seed=3).set_index(
        "true over claimed"
    )
    assert (table.loc[1.0] <= 0.15).all()  # 0.05, and three standard errors of 60 audits
    assert table.loc[3.0, "by the curve"] > 0.9
    assert table.loc[3.0, "by epsilon"] < table.loc[3.0, "by the curve"]


def test_the_table_and_the_figure():
    check = SanityCheck(epsilon=2.0)
    hard = curves.hard_case(check, 200, 0.95, seed=4)
    pure = replace(hard, name="pure", delta=0.0, proven=trade_off(lambda delta: 1.0))
    table = curves.curve_table([hard, pure], 1e-5, 0.1)
    assert table["training"].tolist() == ["hard case", "pure"]
    assert (table["TPR, low"] <= table["TPR"]).all()
    assert (table["accuracy, low"] <= table["accuracy"]).all()
    assert (table["accuracy"] <= table["accuracy, high"]).all()
    assert table["accuracy, proven"][1] == pytest.approx(1 / (1 + math.exp(-1)))
    assert np.isnan(table["mu of epsilon"][1])
    assert 0 < table["mu"][0] < table["mu"][1]
    figure = curves.plot_curves([hard, pure], 1e-5)
    labels = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert labels[0] == "proven"
    assert labels[2] == "attack: weight"
    assert len(figure.axes) == 2
