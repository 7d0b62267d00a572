"""Tables that are computed once."""

import numpy as np
import pandas as pd
import pytest

from lib.privacy import find_noise_multiplier
from lib.runs import RunStore, fingerprint, stored_table, tables
from lib.studies.canaries import simulation
from lib.studies.suitability.simulations import fit_errors
from lib.studies.training.tables import budget_rules
from lib.training.config import TrainingConfig
from lib.training.models import ModelSpec


@pytest.fixture(autouse=True)
def store(tmp_path, monkeypatch) -> RunStore:
    monkeypatch.setenv("COMPANION_RUNS", str(tmp_path))
    return RunStore()


def study(**options) -> pd.DataFrame:
    given = {"n_classes": 3, "canaries": 20, "repetitions": 2, "seed": 1} | options
    return stored_table(simulation.randomized_response_study, [1.0], **given)


def test_a_table_is_computed_once_and_read_as_it_was(store, monkeypatch):
    first = study()
    expected = simulation.randomized_response_study([1.0], 3, 20, 2, seed=1)
    pd.testing.assert_frame_equal(first, expected)
    assert np.isinf(first["high"]).any()  # JSON has none
    monkeypatch.setattr(tables._Table, "execute", lambda *_: pytest.fail("computed again"))
    pd.testing.assert_frame_equal(study(), expected)
    # Given by place or by name, as a list or as a tuple: the same call.
    again = stored_table(simulation.randomized_response_study, (1.0,), 3, 20, 2, seed=1)
    pd.testing.assert_frame_equal(again, expected)
    assert len(store.keys()) == 1
    monkeypatch.undo()
    monkeypatch.setenv("COMPANION_RUNS", str(store.folder))
    for options in ({"seed": 2}, {"canaries": 21}, {"level": 0.9}):
        study(**options)
    assert len(store.keys()) == 4


def test_a_generator_counts_by_its_state_and_is_not_advanced(store):
    rng = np.random.default_rng(3)
    options = {"repetitions": 3, "rng": rng}
    first = stored_table(fit_errors, [(60, 60, 60)], **options)
    pd.testing.assert_frame_equal(stored_table(fit_errors, [(60, 60, 60)], **options), first)
    pd.testing.assert_frame_equal(fit_errors([(60, 60, 60)], **options), first)  # advances it
    stored_table(fit_errors, [(60, 60, 60)], **options)
    assert len(store.keys()) == 2


def test_what_tells_arguments_apart():
    spec = ModelSpec("linear", inputs=(2,), classes=2)
    alike = [
        1, 1.5, "1", None, True, [1, 2], [[1], 2], {"a": 1}, {"b": 1}, np.arange(3),
        np.arange(3.0), np.arange(4)[:, None], np.array(["a"]), np.inf, spec,
        np.random.default_rng(1), np.random.default_rng(2),
        ModelSpec("linear", inputs=(3,), classes=2), TrainingConfig(spec, steps=3, batch_size=2),
        TrainingConfig(spec, steps=4, batch_size=2), pd.DataFrame({"a": [1]}),
        pd.DataFrame({"a": [2]}), pd.DataFrame({"a": [1]}, index=[5]), budget_rules,
    ]  # fmt: skip
    assert len({fingerprint(tables._digest(value, "x")) for value in alike}) == len(alike)


@pytest.mark.parametrize(
    ("function", "arguments", "error", "message"),
    [
        (len, ([],), ValueError, "function"),
        (study, (), ValueError, "function"),
        (simulation.randomized_response_study, ([1.0], *range(1, 9)), TypeError, "positional"),
        (budget_rules, ([1.0], 1000, 100, 10, object()), TypeError, "members"),
        (find_noise_multiplier, (1.0, 1e-5, 0.1, 10), TypeError, "table"),
    ],
)
def test_what_cannot_be_stored(store, function, arguments, error, message):
    with pytest.raises(error, match=message):
        stored_table(function, *arguments)
    assert store.keys() == []
