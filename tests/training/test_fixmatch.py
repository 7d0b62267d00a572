"""FixMatch: augmentation, the training of one and of many models, and PATE-FM's teachers."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from stopping import Interrupted, Stop
from torch.nn import functional
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from lib.privacy.pate import shards
from lib.runs import Checkpoint
from lib.training import DataSpec, ModelSpec, build_model, fixmatch
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
    point = torch.zeros(2000, 1, 24, 16)  # an eighth of the sides: by up to three and two pixels
    point[:, 0, 12, 8] = 1
    y, x = (weak(point, policy)[:, 0] == 1).nonzero()[:, 1:].T
    assert sorted(set((y - 12).tolist())) == list(range(-3, 4))
    across = 8 if policy == "digits" else 7.5  # mirrored or not
    assert {abs(float(at) - across) for at in x} == set(across % 1 + np.arange(3))


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


@pytest.mark.parametrize(
    ("model", "threshold"),
    [(LINEAR, 0.3), (DEEP, 0.15), (CNN, 0.15)],
    ids=["linear", "deep", "cnn"],
)
def test_a_training_is_the_plain_algorithm(digits, model, threshold):
    """The whole loop, written plainly with torch.optim.SGD, on the same batches."""
    images, labels, points, _ = digits
    each = config(
        model,
        **{"seed": 5, "steps": 25, "weight_decay": 0.01, "ema": 0.6, "threshold": threshold},
        unlabelled_weight=0.7,
    )
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
    first, second = each.labelled_batch, each.labelled_batch + each.unlabelled_batch
    masks = []
    for k in range(25):
        inputs, targets = shared.batch(each, drawn_rows[k : k + 1], draws[k : k + 1])
        optimizer.param_groups[0]["lr"] = 0.1 * np.cos(7 * np.pi * k / (16 * 25))
        optimizer.zero_grad()
        supervised = functional.cross_entropy(network(inputs[0, :first]), targets[0])
        with torch.no_grad():
            confidence, pseudo = network(inputs[0, second:]).softmax(1).max(1)
        mask = (confidence >= threshold).float()
        outputs = network(inputs[0, first:second])
        losses = functional.cross_entropy(outputs, pseudo, reduction="none")
        (supervised + 0.7 * (mask * losses).mean()).backward()
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
    drawn, numbers = fixmatch._Draws(each, rows, unlabelled).next(6)
    for epoch in (drawn[:3, :3], drawn[3:, :3]):
        assert np.array_equal(np.sort(epoch.ravel()), rows)
    for epoch in (drawn[:2, 3:], drawn[2:4, 3:], drawn[4:, 3:]):
        assert np.array_equal(np.sort(epoch.ravel()), unlabelled)
    assert not np.array_equal(drawn[:3, :3], drawn[3:, :3])
    again = fixmatch._Draws(each, rows, unlabelled)
    for found, whole in zip(
        zip(*map(again.next, (1, 3, 2)), strict=True), (drawn, numbers), strict=True
    ):
        assert np.array_equal(np.concatenate(found), whole)
    inputs, targets = shared.batch(
        each, torch.from_numpy(drawn[:1]), torch.full((1, numbers.shape[1]), 0.5)
    )
    assert np.array_equal(inputs[0, :3].numpy(), images[drawn[0, :3]])
    assert np.array_equal(inputs[0, 9:].numpy(), images[drawn[0, 3:]])
    assert np.array_equal(targets[0].numpy(), labels[drawn[0, :3]])
    # Few rows are drawn with replacement: all five alike with probability 3 / 3^5.
    few = fixmatch._Rows(np.array([4, 8, 9]), 5).next(2000, np.random.default_rng(0))
    assert np.abs((few == 8).mean() - 1 / 3) < 5 * np.sqrt(2 / 9 / 10_000)
    alike = (few == few[:, :1]).all(axis=1).mean()
    assert abs(alike - 1 / 81) < 5 * np.sqrt(1 / 81 / 2000)


@pytest.mark.parametrize(
    ("model", "count", "steps"), [(MLP, 40, 8), (CNN, 3, 4)], ids=["mlp", "cnn"]
)
def test_a_model_does_not_depend_on_its_company_or_threads(
    digits, monkeypatch, model, count, steps
):
    images, labels, points, _ = digits
    configs = [
        config(model, seed=seed, steps=steps, threshold=0.3, labelled_batch=24)
        for seed in range(count)
    ]
    rows, unlabelled = shards(600, count, 0), np.arange(900)
    state, threads = torch.random.get_rng_state(), torch.get_num_threads()
    found = []
    for cores in (1, 2):
        monkeypatch.setattr(fixmatch, "own_cores", lambda cores=cores: cores)
        found.append(train_fixmatch(configs, images, labels, rows, unlabelled, points[:50]))
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.get_num_threads() == threads
    assert len(fixmatch._groups(configs[0], count, 64)) > 1
    for a, b in zip(*found, strict=True):
        assert np.array_equal(a.parameters, b.parameters)
        assert np.array_equal(a.logits, b.logits)
    for i in (0, count // 2, count - 1):
        (alone,) = train_fixmatch([configs[i]], images, labels, [rows[i]], unlabelled, points[:50])
        np.testing.assert_allclose(found[0][i].parameters, alone.parameters, atol=1e-5)
        np.testing.assert_allclose(found[0][i].logits, alone.logits, atol=1e-4)
    assert len({result.parameters.tobytes() for result in found[0]}) == count


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


def test_teachers_resume_where_they_stopped(tmp_path):
    job = Teachers(config(steps=6), SPEC, n_teachers=5, chunk=2)
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
