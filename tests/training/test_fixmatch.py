"""FixMatch: augmentation, the training of one and of many models, and PATE-FM's teachers."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from stopping import Interrupted, Stop
from torch.nn import functional
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from lib.privacy.pate import shards
from lib.runs import Checkpoint, run_key
from lib.training import DataSpec, ModelSpec, TrainingDiverged, build_model, fixmatch
from lib.training.augmentation import POLICIES
from lib.training.fixmatch import FixMatch, train_fixmatch
from lib.training.label_jobs import Teachers
from lib.training.randomness import Streams

LINEAR = ModelSpec("linear", (1, 8, 8), 10)
MLP = ModelSpec("mlp", (64,), 10)
DEEP = ModelSpec("mlp", (1, 8, 8), 10, hidden=(12, 7), activation="relu")
CNN = ModelSpec("small_cnn", (1, 8, 8), 10)
NONE = replace(POLICIES["digits"], rotation=0.0, shear=0.0, scale=0.0, brightness=0.0, contrast=0.0)
SPEC = DataSpec(features="images", train=300, test=100)


def config(model=MLP, **changes):
    settings = {"steps": 20, "labelled_batch": 12, "learning_rate": 0.1, "threshold": 0.5}
    return FixMatch(model, **(settings | changes))


@pytest.fixture(scope="module")
def digits():
    loaded = DataSpec(features="images").load()
    return loaded.training.inputs, loaded.training.targets, loaded.evaluation, loaded.labels


def weak(images, policy):
    rules, flat = POLICIES[policy], images.reshape(-1, *images.shape[-3:])
    draws = torch.rand(len(flat), fixmatch._WEAK_NUMBERS, generator=generator())
    return fixmatch._weak(
        fixmatch._pad(flat, rules), flat.shape, torch.arange(len(flat)), rules, draws
    )


def strong(images, policy):
    draws = torch.rand(len(images), fixmatch._STRONG_NUMBERS, generator=generator())
    return fixmatch._strong(images, POLICIES[policy], draws)


def random_images(*shape, seed=0):
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed))


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


# ----------------------------------------------------------------------------------- augmentation


def all_shifts(image, mode):
    """By brute force: the image seen through every place of a window that moves by one pixel."""
    _, height, width = image.shape
    padded = functional.pad(image[None], [1, 1, 1, 1], mode=mode)[0]
    return [padded[:, y : y + height, x : x + width] for y in range(3) for x in range(3)]


@pytest.mark.parametrize(("policy", "mode"), [("digits", "constant"), ("photo", "reflect")])
def test_weak_augmentation_is_a_shift_and_mirrors_photos_alone(policy, mode):
    image = random_images(2, 8, 9)
    n = 9000
    found = weak(image.expand(n, 2, 8, 9), policy)
    assert found.shape == (n, 2, 8, 9)
    found = found.reshape(n, -1)
    candidates = all_shifts(image, mode)
    if policy == "photo":
        candidates += [shifted.flip(2) for shifted in candidates]
    same = torch.stack([(found == c.reshape(-1)).all(dim=1) for c in candidates])
    assert bool((same.sum(0) == 1).all())
    share = 1 / len(candidates)
    counts = same.sum(1).numpy()
    assert np.abs(counts - n * share).max() < 5 * np.sqrt(n * share * (1 - share))


def test_weak_augmentation_reaches_an_eighth_of_the_sides():
    cut = torch.zeros(2000, 1, 24, 16)
    cut[:, 0, 12, 8] = 1
    y, x = (weak(cut, "digits")[:, 0] == 1).nonzero()[:, 1:].T
    assert (sorted(set((y - 12).tolist())), sorted(set((x - 8).tolist()))) == (
        list(range(-3, 4)),
        list(range(-2, 3)),
    )


def test_strong_augmentation_stays_in_range_and_moves_the_light():
    images = (random_images(400, 1, 8, 8) > 0.5).float()
    found = strong(images, "photo")
    assert float(found.min()) >= 0
    assert float(found.max()) <= 1
    grey = strong(torch.full((4000, 1, 8, 8), 0.4), "photo")
    corner = grey[:, 0, 0, 0]
    corner = corner[(corner - 0.5).abs() > 1e-6].numpy()  # not cut out
    assert corner.min() == pytest.approx(0.1, abs=0.01)  # contrast leaves a constant image alone
    assert corner.max() == pytest.approx(0.7, abs=0.01)
    assert corner.mean() == pytest.approx(0.4, abs=5 * 0.6 / np.sqrt(12 * 4000) + 0.005)
    holes = (grey - 0.5).abs() < 1e-6
    # A side is uniform up to half of the image, a centre uniform in the image: on average 1/4 of a
    # side less what lies outside of it, (1/2 E[s] - ...)^2; by quadrature over both.
    side = (np.arange(500) + 0.5) / 1000
    inside = side - side**2 / 4  # mean length of a hole of this side within the image
    assert float(holes.float().mean()) == pytest.approx(np.mean(inside**2), abs=0.01)


def neutral(n):
    """Draws with which nothing happens."""
    draws = torch.full((n, 11), 0.5)
    draws[:, 8] = 0  # no hole
    return draws


@pytest.mark.parametrize("policy", ["digits", "photo"])
def test_strong_augmentation_without_distortion_is_the_weak_one(policy):
    images = random_images(200, 2, 9, 16)
    rules = POLICIES[policy]
    torch.testing.assert_close(fixmatch._strong(images, rules, neutral(200)), images)
    draws = neutral(200)
    draws[:, :3] = torch.rand(200, 3, generator=generator())
    shifted = fixmatch._weak(
        fixmatch._pad(images, rules), images.shape, torch.arange(200), rules, draws
    )
    assert not torch.equal(shifted, images)
    torch.testing.assert_close(fixmatch._strong(images, rules, draws), shifted, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("changes", "place", "draw", "start", "end"),
    [
        # Places (row, column) from the centre of a wide image; draws of 1 and 0 are the extremes.
        ({"rotation": 90.0}, 3, 1.0, (0, 2), (-2, 0)),
        ({"rotation": 90.0}, 3, 0.0, (0, 2), (2, 0)),
        ({"rotation": 180.0}, 3, 1.0, (1, 3), (-1, -3)),
        ({"shear": 1.0}, 4, 1.0, (2, 1), (2, -1)),
        ({"shear": 1.0}, 4, 0.0, (2, 0), (2, 2)),
        ({"scale": 1.0}, 5, 1.0, (-1, 2), (-2, 4)),
    ],
)
def test_distortions_move_pixels_where_they_should(changes, place, draw, start, end):
    image = torch.zeros(1, 1, 7, 11)
    image[0, 0, 3 + start[0], 5 + start[1]] = 1
    draws = neutral(1)
    draws[0, place] = draw
    found = fixmatch._strong(image, replace(NONE, **changes), draws)[0, 0]
    assert float(found[3 + end[0], 5 + end[1]]) == pytest.approx(1, abs=1e-5)
    if "scale" not in changes:
        assert float(found.sum()) == pytest.approx(1, abs=1e-4)


def test_light_and_holes():
    image = random_images(1, 2, 8, 8) * 0.4 + 0.3
    draws = neutral(1)
    draws[0, 6] = 1.0
    brighter = fixmatch._strong(image, replace(NONE, brightness=0.2), draws)
    torch.testing.assert_close(brighter, image + 0.2)
    draws = neutral(1)
    draws[0, 7] = 0.0
    flat = fixmatch._strong(image, replace(NONE, contrast=0.5), draws)
    torch.testing.assert_close(flat, (image + image.mean()) / 2)
    draws = neutral(1)
    draws[0, 8] = 1.0
    cut = fixmatch._strong(image, replace(NONE, cutout=0.5, fill=0.25), draws)
    expected = image.clone()
    expected[:, :, 2:6, 2:6] = 0.25
    torch.testing.assert_close(cut, expected)


# ------------------------------------------------------------------------------------- one update


def plain_loss(network, each, inputs, labels):
    """FixMatch's loss, as the paper writes it, and the mask."""
    first, second = each.labelled_batch, each.labelled_batch + each.unlabelled_batch
    supervised = functional.cross_entropy(network(inputs[:first]), labels)
    with torch.no_grad():
        confidence, pseudo = network(inputs[second:]).softmax(1).max(1)
    mask = (confidence >= each.threshold).float()
    losses = functional.cross_entropy(network(inputs[first:second]), pseudo, reduction="none")
    return supervised + each.unlabelled_weight * (mask * losses).mean(), mask


@pytest.mark.parametrize("model", [LINEAR, MLP, DEEP, CNN], ids=["linear", "mlp", "deep", "cnn"])
def test_gradients_are_those_of_one_plain_model(model):
    each = config(model, labelled_batch=4, unlabelled_ratio=5, unlabelled_weight=0.7)
    models = 1 if model is CNN else 3
    inputs = random_images(models, 4 + 2 * 20, 1, 8, 8)
    labels = torch.randint(0, 10, (models, 4), generator=generator())
    networks = [build_model(model, seed) for seed in range(models)]
    vectors = torch.stack([3 * parameters_to_vector(n.parameters()).detach() for n in networks])
    for network, vector in zip(networks, vectors, strict=True):
        vector_to_parameters(vector, network.parameters())
    with torch.no_grad():  # so that about half of the images get a pseudo-label
        sure = [n(x[24:]).softmax(1).amax(1) for n, x in zip(networks, inputs, strict=True)]
    each = replace(each, threshold=float(torch.cat(sure).median()))
    kind = fixmatch._Network if model is CNN else fixmatch._Lockstep
    gradient, mask = kind(each, build_model(model, 9), vectors).gradient(inputs, labels)
    assert 0 < float(mask.mean()) < 1
    for i, network in enumerate(networks):
        loss, expected_mask = plain_loss(network, each, inputs[i], labels[i])
        expected = torch.autograd.grad(loss, tuple(network.parameters()))
        expected = torch.cat([g.reshape(-1) for g in expected])
        torch.testing.assert_close(gradient[i], expected, atol=1e-6, rtol=1e-4)
        assert torch.equal(mask[i], expected_mask)


@pytest.mark.parametrize(
    ("model", "threshold"),
    [(LINEAR, 0.3), (DEEP, 0.15), (CNN, 0.15)],
    ids=["linear", "deep", "cnn"],
)
def test_a_training_is_the_plain_algorithm(digits, model, threshold):
    """The whole loop, written plainly with torch.optim.SGD, on the same batches."""
    images, labels, points, _ = digits
    each = config(model, seed=5, steps=25, weight_decay=0.01, ema=0.6, threshold=threshold)
    rows, unlabelled = np.arange(7, 47), np.arange(100, 400)
    (found,) = train_fixmatch([each], images, labels, [rows], unlabelled, points)

    network = build_model(model, Streams(5).model)
    average = parameters_to_vector(network.parameters()).detach().clone()
    optimizer = torch.optim.SGD(
        network.parameters(), lr=1.0, momentum=0.9, nesterov=True, weight_decay=0.01
    )
    shared = fixmatch._Shared(each, images, labels.copy(), unlabelled, points)
    drawn_rows, draws = (
        torch.from_numpy(a) for a in fixmatch._Draws(each, rows, unlabelled).next(25)
    )
    masks = []
    for k in range(25):
        inputs, targets = shared.batch(each, drawn_rows[k : k + 1], draws[k : k + 1])
        optimizer.param_groups[0]["lr"] = 0.1 * np.cos(7 * np.pi * k / (16 * 25))
        optimizer.zero_grad()
        loss, mask = plain_loss(network, each, inputs[0], targets[0])
        loss.backward()
        optimizer.step()
        masks.append(float(mask.mean()))
        decay = min(0.6, (1 + k) / (10 + k))
        now = parameters_to_vector(network.parameters()).detach()
        average = decay * average + (1 - decay) * now
    np.testing.assert_allclose(found.parameters, average.numpy(), atol=2e-5)
    assert 0 < np.mean(masks) < 1
    assert found.pseudo_share == pytest.approx(np.mean(masks[-2:]), abs=1e-6)
    vector_to_parameters(average, network.parameters())
    with torch.no_grad():
        logits = network(torch.from_numpy(points)).numpy()
    np.testing.assert_allclose(found.logits, logits, atol=2e-4)


def test_batches_hold_the_rows_they_should_with_their_labels(digits):
    images, labels, points, _ = digits
    each = config(labelled_batch=3, unlabelled_ratio=2)
    rows, unlabelled = np.arange(20, 29), np.arange(50, 62)
    shared = fixmatch._Shared(each, images, labels.copy(), unlabelled, points)
    draws = fixmatch._Draws(each, rows, unlabelled)
    drawn, numbers = draws.next(6)
    for epoch in (drawn[:3, :3], drawn[3:, :3]):
        assert np.array_equal(np.sort(epoch.ravel()), rows)
    for epoch in (drawn[:2, 3:], drawn[2:4, 3:], drawn[4:, 3:]):
        assert np.array_equal(np.sort(epoch.ravel()), unlabelled)
    assert not np.array_equal(drawn[:3, :3], drawn[3:, :3])
    again = fixmatch._Draws(each, rows, unlabelled)
    pieces = [again.next(count) for count in (1, 3, 2)]
    assert np.array_equal(np.concatenate([piece[0] for piece in pieces]), drawn)
    assert np.array_equal(np.concatenate([piece[1] for piece in pieces]), numbers)
    neutral_numbers = torch.full((1, numbers.shape[1]), 0.5)  # no shift
    inputs, targets = shared.batch(each, torch.from_numpy(drawn[:1]), neutral_numbers)
    assert np.array_equal(inputs[0, :3].numpy(), images[drawn[0, :3]])
    assert np.array_equal(inputs[0, 9:].numpy(), images[drawn[0, 3:]])
    assert np.array_equal(targets[0].numpy(), labels[drawn[0, :3]])


def test_few_rows_are_drawn_with_replacement():
    stream = np.random.default_rng(0)
    found = fixmatch._Rows(np.array([4, 8, 9]), 5).next(2000, stream)
    assert found.shape == (2000, 5)
    assert sorted(set(found.ravel().tolist())) == [4, 8, 9]
    assert np.abs((found == 8).mean() - 1 / 3) < 5 * np.sqrt(2 / 9 / 10_000)
    # Independent draws: all five alike with probability 3 / 3^5.
    alike = (found == found[:, :1]).all(axis=1).mean()
    assert abs(alike - 1 / 81) < 5 * np.sqrt(1 / 81 / 2000)


def test_schedules():
    each = config(steps=1000, learning_rate=0.3, ema=0.98)
    rates = each.learning_rates()
    assert rates.shape == (1000,)
    assert rates[0] == 0.3
    assert rates[500] == pytest.approx(0.3 * np.cos(7 * np.pi / 32))
    assert rates[-1] == pytest.approx(0.3 * np.cos(7 * np.pi / 16), rel=0.01)
    assert np.all(np.diff(rates) < 0)
    decays = each.ema_decays()
    assert decays[0] == 0.1
    assert decays[90] == 0.91
    assert decays[-1] == 0.98
    assert each.unlabelled_batch == 36


# ------------------------------------------------------------------------------------ many models


@pytest.mark.parametrize("model", [MLP, CNN], ids=["mlp", "cnn"])
def test_a_model_does_not_depend_on_its_company(digits, model):
    images, labels, points, _ = digits
    count, steps = (40, 20) if model is MLP else (3, 4)
    configs = [
        config(model, seed=seed, steps=steps, threshold=0.3, labelled_batch=24)
        for seed in range(count)
    ]
    rows = shards(600, count, 0)
    unlabelled = np.arange(900)
    every = train_fixmatch(configs, images, labels, rows, unlabelled, points[:50])
    assert len(fixmatch._groups(configs[0], count, 64)) > 1
    for i in (0, count // 2, count - 1):
        (alone,) = train_fixmatch([configs[i]], images, labels, [rows[i]], unlabelled, points[:50])
        np.testing.assert_allclose(every[i].parameters, alone.parameters, atol=1e-5)
        np.testing.assert_allclose(every[i].logits, alone.logits, atol=1e-4)
        assert every[i].config == configs[i]
    distinct = {result.parameters.tobytes() for result in every}
    assert len(distinct) == count


def test_threads_and_repetition_change_nothing(digits, monkeypatch):
    images, labels, points, _ = digits
    configs = [config(seed=seed, steps=10, labelled_batch=24) for seed in range(40)]
    assert len(fixmatch._groups(configs[0], 40, 64)) > 1
    arguments = (configs, images, labels, shards(1200, 40, 0), np.arange(1200), points[:50])
    state, threads = torch.random.get_rng_state(), torch.get_num_threads()
    monkeypatch.setattr(fixmatch, "own_cores", lambda: 1)
    one = train_fixmatch(*arguments)
    monkeypatch.setattr(fixmatch, "own_cores", lambda: 2)
    two = train_fixmatch(*arguments)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.get_num_threads() == threads
    for a, b in zip(one, two, strict=True):
        assert np.array_equal(a.parameters, b.parameters)
        assert np.array_equal(a.logits, b.logits)
    same = [np.arange(30)] * 2
    first, second = train_fixmatch(configs[:2], images, labels, same, np.arange(99), points[:50])
    assert np.abs(first.parameters - second.parameters).max() > 0.01


def test_labels_of_other_rows_and_images_that_are_not_named_are_never_read(digits):
    images, labels, points, _ = digits
    rows, unlabelled = [np.arange(0, 30), np.arange(30, 45)], np.arange(20, 120)
    configs = [config(), config(seed=1)]
    expected = train_fixmatch(configs, images, labels, rows, unlabelled, points[:50])
    other_labels = np.full(1200, -3)
    other_labels[:45] = labels[:45]
    other_images = images.copy()
    other_images[120:] = 0.5
    found = train_fixmatch(configs, other_images, other_labels, rows, unlabelled, points[:50])
    changed = labels.copy()
    changed[30] = (changed[30] + 1) % 10
    one_label = train_fixmatch(configs, images, changed, rows, unlabelled, points[:50])
    for a, b in zip(expected, found, strict=True):
        assert np.array_equal(a.parameters, b.parameters)
    assert np.array_equal(one_label[0].parameters, expected[0].parameters)  # the sensitivity of
    assert not np.array_equal(one_label[1].parameters, expected[1].parameters)  # a vote is 1


def test_colour_images_and_models_that_flatten_them():
    rng = np.random.default_rng(0)
    images, labels = rng.random((60, 3, 12, 10), dtype=np.float32), rng.integers(0, 3, 60)
    for model in (ModelSpec("mlp", (360,), 3, hidden=(5,)), ModelSpec("small_cnn", (3, 12, 10), 3)):
        each = config(model, steps=3, weak="photo", strong="photo")
        (found,) = train_fixmatch([each], images, labels, [np.arange(20)], np.arange(60), images)
        assert found.logits.shape == (60, 3)
        assert np.isfinite(found.logits).all()
        assert found.seconds > 0


def test_diverging_trainings_raise(digits):
    images, labels, points, _ = digits
    each = config(DEEP, learning_rate=1e30, seed=3)
    with pytest.raises(TrainingDiverged, match=r"learning_rate = 1e\+30 \(seed 3\)"):
        train_fixmatch([each], images, labels, [np.arange(30)], np.arange(300), points[:10])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": "mlp"}, "model must be a ModelSpec, got 'mlp'"),
        ({"model": replace(MLP, head="abstain")}, "plain head and no dropout, got 'mlp' with head"),
        ({"model": replace(MLP, dropout=0.5)}, "model must be for images.* dropout 0.5"),
        ({"model": ModelSpec("roberta", (64,), 2)}, "model must be for images.* got 'roberta'"),
    ],
)
def test_configurations_are_checked(changes, message):
    with pytest.raises(ValueError, match=message):
        FixMatch(**({"model": MLP} | changes))


IMAGES = np.zeros((20, 1, 8, 8), np.float32)
GOOD = {
    "configs": [FixMatch(MLP, steps=1), FixMatch(MLP, steps=1, seed=1)],
    "images": IMAGES,
    "labels": np.zeros(20, int),
    "rows": [[0, 1], [2]],
    "unlabelled": np.arange(20),
    "evaluation": IMAGES[:2],
}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"configs": []}, "configs must hold at least one FixMatch, got none"),
        ({"configs": [FixMatch(MLP), FixMatch(MLP, steps=2, seed=1)]}, "equal but for the seeds"),
        ({"configs": [FixMatch(MLP)] * 2}, "different seeds, but seed 0 comes twice"),
        ({"configs": [1, 2]}, "configs must be FixMatch configurations"),
        ({"images": IMAGES[:, :, :7]}, r"images must be images that fit model.inputs = \(64,\)"),
        ({"images": IMAGES + 2}, r"images must be in \[0, 1\], got values from 2.0 to 2.0"),
        ({"labels": np.full(20, 10)}, "labels must be from 0 to 9, got 10 to 10"),
        ({"rows": [[0]]}, r"rows must have one array per configuration \(2\), got 1"),
        ({"unlabelled": np.ones(20, bool)}, "unlabelled must be integers .* got bool"),
        ({"evaluation": IMAGES.reshape(20, 1, 4, 16)}, r"evaluation must hold images of shape"),
    ],
)
def test_arguments_are_checked(changes, message):
    with pytest.raises(ValueError, match=message):
        train_fixmatch(**(GOOD | changes))


# -------------------------------------------------------------------------------------------- job


@dataclass(frozen=True)
class Constant:
    """Label noise that leaves one class."""

    value: float = 3

    def apply(self, labels):
        return np.full_like(labels, self.value, dtype=type(self.value))


def test_teachers_resume_where_they_stopped(tmp_path):
    job = Teachers(config(), SPEC, n_teachers=5, chunk=2)
    whole = job.execute(Checkpoint())
    for saves in (1, 2):
        with pytest.raises(Stop):
            job.execute(Interrupted(tmp_path / str(saves), saves))
        resumed = job.execute(Checkpoint(tmp_path / str(saves)))
        assert set(resumed.arrays) == set(whole.arrays)
        for name, array in whole.arrays.items():
            assert np.array_equal(resumed.arrays[name], array)
            assert resumed.arrays[name].dtype == array.dtype
    with pytest.raises(Stop):  # the finished teachers are not trained again
        job.execute(Interrupted(tmp_path / "state", 2))
    checkpoint = Checkpoint(tmp_path / "state")
    arrays, state = checkpoint.load()
    assert state["done"] == 4
    checkpoint.save(arrays | {"predictions": arrays["predictions"] * 0 + 77}, state)
    assert (job.execute(checkpoint).arrays["predictions"][:4] == 77).all()


def test_teachers_are_trainings_on_shards():
    job = Teachers(config(seed=10), SPEC, n_teachers=4, shard_seed=2)
    found = job.execute(Checkpoint())
    data = SPEC.load()
    images, labels = data.training.inputs, data.training.targets
    expected = train_fixmatch(
        [config(seed=10 + i) for i in range(4)],
        images,
        labels,
        shards(300, 4, 2),
        np.arange(300),
        np.concatenate([images, data.evaluation]),
    )
    votes = np.stack([result.logits.argmax(1) for result in expected])
    assert np.array_equal(found.arrays["predictions"], votes[:, :300])
    assert np.array_equal(found.arrays["test_predictions"], votes[:, 300:])
    assert found.arrays["predictions"].dtype == found.arrays["test_predictions"].dtype == np.int16
    accuracy = (votes[:, 300:] == data.labels).mean(1)
    np.testing.assert_allclose(found.arrays["accuracy"], accuracy)
    assert found.metrics["accuracy"] == pytest.approx(accuracy.mean())
    assert found.privacy is None


def test_teachers_with_other_labels():
    base = Teachers(config(steps=40, unlabelled_weight=0.0), SPEC, n_teachers=3)
    constant = replace(base, label_noise=Constant())
    assert np.mean(constant.execute(Checkpoint()).arrays["predictions"] == 3) > 0.99
    plain = base.execute(Checkpoint()).arrays["predictions"]
    # The canary is the last training point: only the teacher that has it may change.
    canary = replace(base, canaries=1).execute(Checkpoint()).arrays["predictions"]
    owner = [299 in part for part in shards(300, 3, 0)]
    assert [not np.array_equal(a, b) for a, b in zip(plain, canary, strict=True)] == owner
    keys = {run_key(job) for job in (base, constant, replace(base, canaries=1))}
    assert len(keys) == 3
    with pytest.raises(ValueError, match="labels must be from 0 to 9, got 10 to 10"):
        replace(base, label_noise=Constant(10)).execute(Checkpoint())
    with pytest.raises(ValueError, match=r"labels must be integers .* got float64"):
        replace(base, label_noise=Constant(3.5)).execute(Checkpoint())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data": DataSpec()}, "data must have features 'images' and keep_class 1, got 'pixels'"),
        ({"data": replace(SPEC, keep_class=0.5)}, "keep_class 1, got 'images' and 0.5"),
        ({"label_noise": 0.5}, "label_noise must be None or have a method apply, got 0.5"),
    ],
)
def test_jobs_are_checked(changes, message):
    with pytest.raises(ValueError, match=message):
        Teachers(**({"config": config(), "data": SPEC, "n_teachers": 2} | changes))
