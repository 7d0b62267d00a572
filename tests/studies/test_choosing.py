"""Searches for a learning rate whose trials count: what is trained, chosen and spent."""

import numpy as np
import pandas as pd
import pytest
from chapter_cells import settings_for

from lib.studies.beyond import choosing
from lib.studies.beyond.choosing import WAYS, Choosing


@pytest.fixture(scope="module")
def settings():
    panel = settings_for(
        "digits",
        "mlp",
        hidden=4,
        families=("plain",),
        n_seeds=1,
        epsilons=(7.0, 1.0),
        rates=(0.5, 0.05, 2.0),
        steps=20,
        clipping_norm=1.0,
    )
    return Choosing(panel, searches=3, mean_trials=4.0)


def test_no_two_trainings_share_their_noise(settings):
    seeds = [
        config.seed
        for epsilon in settings.budgets
        for way in WAYS
        for search in settings.configs(epsilon, way)
        for config in search
    ]
    assert len(set(seeds)) == len(seeds)


def test_all_but_one_way_keep_the_budget(settings):
    rng = np.random.default_rng(0)
    rows = [
        {"epsilon": e, "way": way, "trials": 3, "accuracy": rng.random(), "score": rng.random()}
        for e in settings.budgets
        for way in WAYS
        for _ in range(3)
    ]
    found = pd.DataFrame(rows)
    table = choosing.summary(settings, found)
    assert table["accuracy"].tolist() == pytest.approx(
        found["accuracy"].to_numpy().reshape(-1, 3).mean(1)
    )
    for epsilon, spent in table.set_index("way").groupby("epsilon")["spent"]:
        assert spent[[*WAYS[1:]]].between(0.99 * epsilon, epsilon).all()
        assert spent[WAYS[0]] > 1.2 * epsilon
    changes = choosing.changes(table)
    free, other = (table[table["epsilon"] == 7.0].iloc[k] for k in (0, 2))
    assert changes["accuracy"][1] == pytest.approx(other["accuracy"] - free["accuracy"])
    assert changes["se"][1] == pytest.approx(np.hypot(other["accuracy se"], free["accuracy se"]))
