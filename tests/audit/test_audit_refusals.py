"""What the audit refuses names the argument, and what it falls back to at the edges."""

import re

import numpy as np
import pytest

from lib import audit
from lib.audit.intervals import best_lower_bound
from lib.studies.audit import system

SHADOWS = np.random.default_rng(0).normal(size=(20, 3))
INSIDE = np.random.default_rng(1).random((20, 3)) < 0.5


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: audit.select_worst(SHADOWS, INSIDE[:, :2], 1),
            "members must be booleans of the shape of shadows (s, n), got bool (20, 2) for (20, 3)",
        ),
        (
            lambda: audit.select_worst(SHADOWS, INSIDE.astype(int), 1),
            "members must be booleans of the shape of shadows (s, n), got int64 (20, 3)",
        ),
        (
            lambda: audit.select_worst(SHADOWS[:, 0], INSIDE[:, 0], 1),
            "shadows must be real numbers of shape (s, n), all at least 1, got float64",
        ),
        (
            lambda: audit.LiRA().score(["a"], SHADOWS[:, 0], INSIDE[:, 0]),
            "observed must be real numbers, got <U1",
        ),
        (
            lambda: audit.LiRA().score([0.0, np.nan], SHADOWS[:, 0], INSIDE[:, 0]),
            "observed must not be NaN, got 1 NaN",
        ),
        (
            lambda: system.settings_for("digits", "roberta", 1.0, 100),
            "model must be one for images for 'digits', got 'roberta'",
        ),
        (
            lambda: system.settings_for("sst2", "small_cnn", 1.0, 100),
            "model must be linear, mlp or roberta for 'sst2', got 'small_cnn'",
        ),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()


@pytest.mark.parametrize(
    ("model", "features", "inputs"),
    [("roberta", "tokens", 64), ("linear", "words", 4096), ("mlp", "words", 4096)],
)
def test_text_is_audited_on_sst2(model, features, inputs):
    settings = system.settings_for("sst2", model, 3.0, 400, seed=2, stream=5)
    assert (settings.data.features, settings.training.model.inputs) == (features, (inputs,))
    assert (settings.data.train, settings.data.validation, settings.data.test) == (400, 1000, 872)
    assert settings.training.model.name == model
    assert settings.training.model.classes == 2
    assert settings.seed == 205
    assert settings.training.epsilon == 3.0


@pytest.mark.parametrize("method", ["bayesian", "jeffreys", "clopper-pearson"])
def test_where_no_threshold_shows_anything_the_first_is_named(method):
    tables = np.array([[0, 0, 5, 5], [2, 2, 3, 3], [5, 5, 0, 0]])
    assert best_lower_bound(tables, 0.5, 0.95, method) == (0, 0.0)
