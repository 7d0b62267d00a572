"""Trainings as jobs: stored, killed and resumed, with the same result and the same privacy."""

import math
from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from stopping import Interrupted, Stop

from lib.data import load_digits, split_rows
from lib.privacy import PrivacyLedger
from lib.runs import Checkpoint, RunStore, run_key
from lib.training import (
    DataSpec,
    ManyTrainings,
    ModelSpec,
    SelfAdaptiveTraining,
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
    first.evaluation[:] = first.validation[:] = 7
    first.labels[:] = first.validation_labels[:] = 7
    with monkeypatch.context() as patched:
        patched.setattr(DataSpec, "_read", None)  # nothing is read again
        again = spec.load()
    assert again.training is first.training
    assert not again.training.inputs.flags.writeable
    assert np.array_equal(again.evaluation, expected)
    for part in (again.labels, again.validation, again.validation_labels):
        assert not (part == 7).all()
    other = DataSpec(train=50, test=10, validation=5, seed=1).load()
    assert not np.array_equal(other.training.inputs, first.training.inputs)


def test_data_that_have_changed_are_loaded_anew(monkeypatch):
    spec = DataSpec(train=50, test=10)
    before = spec.load().training.inputs
    digits = jobs.load_digits()
    changed = replace(digits, images=digits.images[::-1].copy(), labels=digits.labels[::-1].copy())
    monkeypatch.setattr(jobs, "load_digits", lambda: changed)
    assert not np.array_equal(spec.load().training.inputs, before)


def test_patch_features_see_no_private_image_and_no_statistic_of_others(tmp_path, monkeypatch):
    monkeypatch.setenv("COMPANION_CACHE", str(tmp_path))
    spec = DataSpec(features="patches", train=30, test=10, validation=5, public=100)
    loaded = spec.load()
    x = loaded.training.inputs
    assert x.shape == (30, 2048)
    assert np.allclose(x.mean(1), 0, atol=1e-5)
    assert np.allclose(x.std(1), 1, atol=1e-2)
    rows = np.concatenate([loaded.training.targets, loaded.labels, loaded.validation_labels])
    assert len(rows) == 45
    fewer = replace(spec, train=20).load()  # the same draw of public images is not promised
    assert fewer.training.inputs.shape == (20, 2048)
    again = spec.load()
    assert np.array_equal(again.evaluation, loaded.evaluation)


def test_a_network_of_public_images_is_trained_once_and_sees_no_others(tmp_path, monkeypatch):
    monkeypatch.setenv("COMPANION_CACHE", str(tmp_path))
    spec = DataSpec(features="network", train=300, test=200, public=1200)
    loaded = spec.load()
    assert loaded.training.inputs.shape == (300, 32)
    digits, rows = load_digits(), split_rows(1797, 0, {"train": 300, "public": 1200, "test": 200})
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


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"features": "patches"}, "public must be above 0 for patches"),
        ({"features": "network"}, "public must be above 0 for patches and network"),
        ({"public": 5}, "public must be above 0 for patches and network and 0 for other .*got 5"),
        ({"name": "mnist"}, "name must be one of .*got 'mnist'"),
        ({"features": "sift"}, "features must be one of"),
        ({"train": 0}, "train must be a number at least 1, got 0"),
        ({"keep_class": 1.5}, "keep_class must be a number at least 0 and at most 1"),
    ],
)
def test_bad_data_specifications(change, message):
    with pytest.raises(ValueError, match=message):
        DataSpec(**change)


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
    assert store.run(Training(replace(CONFIG, epsilon=math.inf), DATA)).privacy["epsilon"] == (
        "Infinity"
    )


VARIANTS = {
    "plain": CONFIG,
    "free": replace(CONFIG, epsilon=math.inf),
    "dropout": replace(CONFIG, model=replace(MLP, dropout=0.3)),
    "taps": replace(CONFIG, grad_sample_mode="taps"),
    "sat": replace(
        CONFIG, model=replace(MLP, head="abstain"), objective=SelfAdaptiveTraining(burn_in_steps=20)
    ),
}


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("saves", [1, 4])
def test_resumed_training_equals_uninterrupted(tmp_path, name, saves):
    config, loaded = VARIANTS[name], DATA.load()
    arguments = (config, loaded.training, loaded.evaluation)
    with pytest.raises(Stop):
        train(*arguments, checkpoint=Interrupted(tmp_path, saves), save_every=11)
    resumed = train(*arguments, checkpoint=Checkpoint(tmp_path), save_every=11)
    whole = train(*arguments)
    assert np.array_equal(resumed.parameters, whole.parameters)
    assert np.array_equal(resumed.logits, whole.logits)
    assert np.array_equal(resumed.checkpoints, whole.checkpoints)
    assert resumed.ledger == whole.ledger
    assert resumed.epsilon == whole.epsilon


def test_a_foreign_checkpoint_is_refused(tmp_path):
    loaded = DATA.load()
    data = (loaded.training, loaded.evaluation)
    place = Interrupted(tmp_path, 1)
    with pytest.raises(Stop):
        train(replace(CONFIG, seed=9), *data, checkpoint=place, save_every=11)
    before = place.path.read_bytes()
    with pytest.raises(ValueError, match="another configuration or other data were saved in"):
        train(CONFIG, *data, checkpoint=Checkpoint(tmp_path))
    others = (loaded.training.subset(range(390)), loaded.evaluation)
    with pytest.raises(ValueError, match="checkpoint must be of this training"):
        train(replace(CONFIG, seed=9), *others, checkpoint=Checkpoint(tmp_path))
    assert place.path.read_bytes() == before


def test_many_trainings_resume_after_a_chunk(tmp_path):
    configs = tuple(replace(CONFIG, seed=seed) for seed in range(5))
    job = ManyTrainings(configs, DATA, chunk=2)
    with pytest.raises(Stop):
        job.execute(Interrupted(tmp_path / "c", 1))
    resumed = job.execute(Checkpoint(tmp_path / "c"))
    whole = job.execute(Checkpoint())
    assert resumed.arrays["logits"].shape == (5, 100, 10)
    for name in whole.arrays:
        assert np.array_equal(resumed.arrays[name], whole.arrays[name])
    assert resumed.privacy == whole.privacy
    stored = RunStore(tmp_path).run(job)
    assert len(stored.metrics["models"]) == 5


def test_many_trainings_keep_what_scores_need(tmp_path):
    data = replace(DATA, validation=50)
    abstaining = replace(MLP, head="abstain")
    base = replace(CONFIG, model=abstaining, objective=SelfAdaptiveTraining(10), steps=20)
    configs = (base, replace(base, seed=1))
    run = ManyTrainings(configs, data, chunk=1).execute(Checkpoint(tmp_path / "a"))
    outputs = run.arrays["outputs"]
    assert outputs.shape == (2, 100, 11)
    np.testing.assert_allclose(outputs[:, :, :10], run.arrays["logits"], atol=1e-6)
    on_validation = ManyTrainings(configs, data, points="validation").execute(Checkpoint())
    loaded = data.load()
    assert np.array_equal(on_validation.arrays["labels"], loaded.validation_labels)
    expected = np.mean(on_validation.arrays["logits"].argmax(2) == loaded.validation_labels, axis=1)
    found = [model["accuracy"] for model in on_validation.metrics["models"]]
    assert found == pytest.approx(expected.tolist())
    with pytest.raises(ValueError, match="points must be 'test' where data have no validation"):
        ManyTrainings(configs, DATA, points="validation")
    with pytest.raises(ValueError, match="points must be one of"):
        ManyTrainings(configs, DATA, points="train")


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
    plain = train(replace(CONFIG, steps=2), data.training, data.evaluation)
    with pytest.raises(ValueError, match="result must be of a model with dropout"):
        dropout_probabilities(plain, data.evaluation, 2, 0)


def test_chance_of_the_largest_difference():
    """Against simulation: the largest of four t statistics of 2 x 20 normal numbers."""
    import pandas as pd

    from lib.studies.training.tables import chance_of_largest

    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 20_000, 4, 20))
    error = np.sqrt((x.var(2, ddof=1) + y.var(2, ddof=1)) / 20)
    largest = np.abs((x.mean(2) - y.mean(2)) / error).max(1)
    for z in (1.0, 2.0, 2.9):
        expected = np.mean(largest >= z)
        found = chance_of_largest(pd.DataFrame({"z": [0.1, -z, 0.0, 0.2]}), 20)
        assert abs(found - expected) < 6 * np.sqrt(expected / 20_000)


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


def test_averages_need_weights_and_parts():
    with pytest.raises(ValueError, match=r"keep of result must be .*weights"):
        ManyTrainings((CONFIG,), DATA, averages=(0.5,)).execute(Checkpoint())
    with pytest.raises(ValueError, match=r"parts must be .*at most 1, got 1.5"):
        ManyTrainings((replace(CONFIG, keep="weights"),), DATA, averages=(1.5,)).execute(
            Checkpoint()
        )
