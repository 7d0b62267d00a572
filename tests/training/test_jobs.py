"""Trainings as jobs: stored, killed and resumed, with the same result and the same privacy."""

import math
from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from lib.data import load_digits, split_rows
from lib.privacy import PrivacyLedger
from lib.runs import Checkpoint, RunStore, run_key
from lib.training import (
    DataSpec,
    ManyTrainings,
    ModelSpec,
    Training,
    TrainingConfig,
    TrainingData,
    jobs,
    train,
)
from lib.training.predict import dropout_probabilities, features_of, trained_plainly

MLP = ModelSpec("mlp", inputs=(64,), classes=10, hidden=(8,))
CONFIG = TrainingConfig(
    MLP, epsilon=3.0, steps=60, batch_size=64, learning_rate=0.5, checkpoint_every=7, momentum=0.5
)
DATA = DataSpec(train=400, test=100)


def test_digits_are_divided_and_fingerprinted():
    loaded = DataSpec(train=1000, validation=200, test=597, seed=4).load()
    assert loaded.name == "digits"
    assert loaded.training.inputs.shape == (1000, 64)
    assert loaded.validation.shape == (200, 64)
    assert loaded.evaluation.shape == (597, 64)
    rows = np.concatenate([loaded.training.inputs, loaded.validation, loaded.evaluation])
    everything = DataSpec(train=1796, test=1).load()
    whole = np.concatenate([everything.training.inputs, everything.evaluation])
    assert np.array_equal(np.sort(rows.sum(1)), np.sort(whole.sum(1)))
    images = DataSpec(features="images", train=50, test=10).load()
    assert images.training.inputs.shape == (50, 1, 8, 8)
    thinned = DataSpec(train=1000, test=10, keep_class=0.1).load().training
    assert np.bincount(thinned.targets[thinned.rows])[0] < 30
    assert len(thinned) < 1000


def test_the_data_loaded_last_are_kept_and_harmed_by_nobody(monkeypatch):
    spec = DataSpec(train=50, test=10, validation=5)
    first = spec.load()
    expected = first.evaluation.copy()
    first.evaluation[:] = first.labels[:] = first.validation[:] = first.validation_labels[:] = 7
    monkeypatch.setattr(DataSpec, "_read", None)  # nothing is read again
    again = spec.load()
    assert again.training is first.training
    assert not again.training.inputs.flags.writeable
    assert np.array_equal(again.evaluation, expected)
    assert not any((x == 7).all() for x in (again.labels, again.validation))


def test_a_network_of_public_images_is_trained_once_and_sees_no_others(tmp_path, monkeypatch):
    monkeypatch.setenv("COMPANION_CACHE", str(tmp_path))
    spec = DataSpec(features="network", train=300, test=200, public=800)
    loaded = spec.load()
    assert loaded.training.inputs.shape == (300, 32)
    digits, rows = load_digits(), split_rows(1797, 0, {"train": 300, "public": 800, "test": 200})
    made = trained_plainly(
        TrainingData(digits.images[rows["public"], None], digits.labels[rows["public"]], 10),
        np.zeros((1, 1, 8, 8)),
        epochs=12,
        seed=0,
    )
    test = digits.images[rows["test"], None].astype(np.float32)
    assert np.array_equal(loaded.evaluation, features_of(made, test))
    own = LogisticRegression().fit(loaded.training.inputs, loaded.training.targets)
    # The features say something about images that the network never saw.
    assert own.score(loaded.evaluation, loaded.labels) > 0.8
    monkeypatch.setattr(jobs, "trained_plainly", None)
    jobs._loaded.cache_clear()
    assert np.array_equal(spec.load().evaluation, loaded.evaluation)
    with pytest.raises(TypeError):
        replace(spec, seed=1).load()


def test_stored_training(tmp_path):
    store = RunStore(tmp_path)
    job = Training(CONFIG, DATA)
    run = store.run(job)
    loaded = DATA.load()
    direct = train(CONFIG, loaded.training, loaded.evaluation)
    assert np.array_equal(run.arrays["logits"], direct.logits)
    assert np.array_equal(run.arrays["checkpoints"], direct.checkpoints)
    assert run.metrics["accuracy"] == direct.accuracy(loaded.labels)
    assert run.privacy["epsilon"] == direct.epsilon
    ledger = PrivacyLedger.from_dict(run.privacy["ledger"])
    assert ledger == direct.ledger
    assert ledger.epsilon(run.privacy["delta"], "pld") <= 3.0
    assert run_key(job) != run_key(replace(job, config=replace(CONFIG, seed=1)))
    assert run_key(job) != run_key(replace(job, data=replace(DATA, seed=1)))
    free = store.run(Training(replace(CONFIG, epsilon=math.inf), DATA))
    assert free.privacy["epsilon"] == "Infinity"


def test_dropout_predictions_are_means_over_sub_networks():
    data = DATA.load()
    config = replace(CONFIG, model=replace(MLP, dropout=0.5), epsilon=math.inf, steps=30)
    result = train(config, data.training, data.evaluation)
    few = [dropout_probabilities(result, data.evaluation, 1, seed) for seed in range(300)]
    many = dropout_probabilities(result, data.evaluation, 300, 1000)
    assert many.shape == (100, 10)
    np.testing.assert_allclose(many.sum(1), 1, atol=1e-5)
    assert np.array_equal(many, dropout_probabilities(result, data.evaluation, 300, 1000))
    error = np.std(few, axis=0) * math.sqrt(2 / 300)
    z = (np.mean(few, axis=0) - many) / np.maximum(error, 1e-6)
    assert np.abs(z).max() < 5
    assert np.std(few, axis=0).max() > 0.05


def test_averages_of_intermediate_models():
    job = ManyTrainings(
        tuple(replace(CONFIG, keep="weights", seed=s) for s in range(2)), DATA, averages=(0.1, 0.5)
    )
    arrays = job.execute(Checkpoint()).arrays
    points, last = DATA.load().evaluation, replace(CONFIG, keep="probabilities")
    for i in range(2):
        kept = train(replace(last, seed=i), DATA.load().training, points).checkpoints
        weights = train(job.configs[i], DATA.load().training, points).checkpoints
        assert len(kept) == 9
        assert np.array_equal(arrays["checkpoints"][i], kept.argmax(-1))
        for place, count in enumerate((1, 5)):
            means = kept[-count:].mean(0)
            assert np.allclose(arrays["of_probabilities"][i, place], means, atol=1e-6)
            hidden, bias, head, shift = np.split(
                weights[-count:].astype(float).mean(0), np.cumsum([64 * 8, 8, 8 * 10])
            )
            units = np.tanh(points @ hidden.reshape(8, 64).T + bias)
            logits = units @ head.reshape(10, 8).T + shift
            assert np.allclose(arrays["of_parameters"][i, place], logits, atol=1e-4)


def test_features_enter_the_last_layer():
    data = DATA.load()
    images = data.training.inputs.reshape(-1, 1, 8, 8)
    cnn = ModelSpec("small_cnn", (1, 8, 8), 10)
    for model, units in ((MLP, 8), (cnn, 32), (replace(cnn, dropout=0.5), 32)):
        inputs = images if model.name == "small_cnn" else data.training.inputs
        points = inputs[:50]
        made = train(
            replace(CONFIG, model=model, steps=3), replace(data.training, inputs=inputs), points
        )
        features = features_of(made, points)
        assert features.shape == (50, units)
        weights, bias = np.split(made.parameters[-10 * (units + 1) :], [10 * units])
        logits = features @ weights.reshape(10, units).T + bias
        assert np.allclose(logits, made.logits, atol=1e-5)
