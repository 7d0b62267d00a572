"""The very code of the optional extra, on a package ``wilds`` of 150 rows in place of the real one.

What cannot be tested here is the real data and the pre-trained networks.
"""

import importlib
import sys
from dataclasses import replace
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.stats import binom
from torch import nn
from torch.utils.data import DataLoader

from lib.suitability import SIGNAL_NAMES, signals

wilds = importlib.import_module("lib.studies.suitability.wilds")

SPLITS = {
    "fmow": {"train": 0, "id_val": 1, "id_test": 2, "val": 3, "test": 4},
    "rxrx1": {"train": 0, "val": 1, "test": 2, "id_test": 3},
    "civilcomments": {"train": 0, "val": 1, "test": 2},
}
CLASSES = {"fmow": 4, "rxrx1": 3, "civilcomments": 2}


class FakeSubset:
    collate = None

    def __init__(self, data, rows, transform):
        self.data, self.rows, self.transform = data, rows, transform

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        row = self.rows[i]
        return self.transform(self.data.x[row]), self.data.y[row], torch.tensor([row])


class FakeData:
    """The part of WILDSDataset's documented interface that is used."""

    def __init__(self, dataset, version, root_dir, download):
        assert not download
        assert isinstance(root_dir, str)
        assert version == wilds.WILDS_RECIPES[dataset].version
        rng = np.random.default_rng(0)
        self.split_dict, self.n_classes = SPLITS[dataset], CLASSES[dataset]
        self.y = torch.from_numpy(rng.integers(self.n_classes, size=150))
        self.split_array = rng.integers(len(self.split_dict), size=150)
        if dataset == "civilcomments":
            self.x = ["bad " * int(y) + "word " * int(rng.integers(1, 9)) for y in self.y]
        else:
            pixels = rng.integers(60, size=(150, 8, 8, 3))
            edge = np.minimum(np.arange(8), np.arange(8)[::-1])
            ring = np.minimum.outer(edge, edge)  # 0 to 3, and the same however it is turned
            for row, y in enumerate(self.y):
                pixels[row, ring == int(y)] += 150
            self.x = [Image.fromarray(p.astype(np.uint8)) for p in pixels]

    def get_subset(self, split, frac=1.0, transform=None):
        return FakeSubset(
            self, np.flatnonzero(self.split_array == self.split_dict[split]), transform
        )


def fake_train_loader(loader, dataset, batch_size, **options):
    assert loader == "standard"
    return DataLoader(dataset, shuffle=True, batch_size=batch_size, **options)


def fake_eval_loader(loader, dataset, batch_size, **options):
    assert loader == "standard"
    return DataLoader(dataset, shuffle=False, batch_size=batch_size, **options)


class FakeNet(nn.Module):
    def __init__(self, last):
        super().__init__()
        self.body = nn.Sequential(
            nn.Flatten(), nn.Linear(192, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.3)
        )
        self.add_module(last, nn.Linear(16, 1000))
        self.last = last

    def forward(self, x):
        return getattr(self, self.last)(self.body(x))


def pretrained(last):
    def build(weights):
        assert weights == "IMAGENET1K_V1"
        with torch.random.fork_rng():
            torch.manual_seed(99)  # pre-trained weights do not depend on the seed
            return FakeNet(last)

    return build


class FakeBert(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.embedding, self.LayerNorm = nn.Embedding(50, 8), nn.LayerNorm(8)
        self.classifier = nn.Linear(8, classes)

    @classmethod
    def from_pretrained(cls, name, num_labels):
        assert name == "distilbert-base-uncased"
        return cls(num_labels)

    def forward(self, input_ids, attention_mask):
        mask = attention_mask[:, :, None].float()
        pooled = (self.LayerNorm(self.embedding(input_ids)) * mask).sum(1) / mask.sum(1)
        return SimpleNamespace(logits=self.classifier(pooled))


class FakeTokenizer:
    @classmethod
    def from_pretrained(cls, name):
        return cls()

    def __call__(self, text, padding, truncation, max_length, return_tensors):
        assert (padding, truncation, return_tensors) == ("max_length", True, "pt")
        ids = [1 + len(word) % 49 for word in text.split()][:max_length]
        fill = [0] * (max_length - len(ids))
        return {
            "input_ids": torch.tensor([ids + fill]),
            "attention_mask": torch.tensor([[1] * len(ids) + fill]),
        }


@pytest.fixture
def root(monkeypatch, tmp_path):
    """Fake packages, recipes of the same kind for 150 rows, and the marks of finished downloads."""
    loaders = {"get_train_loader": fake_train_loader, "get_eval_loader": fake_eval_loader}
    nets = SimpleNamespace(densenet121=pretrained("classifier"), resnet50=pretrained("fc"))
    bert = {
        "DistilBertForSequenceClassification": FakeBert,
        "DistilBertTokenizerFast": FakeTokenizer,
    }
    for name, content in {
        "wilds": {"get_dataset": FakeData},
        "wilds.common": {},
        "wilds.common.data_loaders": loaders,
        "torchvision": {"models": nets},
        "transformers": bert,
    }.items():
        module = ModuleType(name)
        module.__spec__ = ModuleSpec(name, None)
        module.__path__ = []
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)
    small = {
        name: replace(recipe, workers=0, batch_size=8, learning_rate=0.01)
        for name, recipe in wilds.WILDS_RECIPES.items()
    }
    small["civilcomments"] = replace(small["civilcomments"], tokens=6)
    small["rxrx1"] = replace(small["rxrx1"], epochs=3, warmup_steps=4)
    monkeypatch.setattr(wilds, "WILDS_RECIPES", small)
    for name, recipe in small.items():
        folder = tmp_path / f"{name}_v{recipe.version}"
        folder.mkdir()
        (folder / f"RELEASE_v{recipe.version}.txt").touch()
    return tmp_path


def train(root, dataset="fmow", epochs=3, **options):
    options = {"seed": 0, "device": "cpu", "progress": False, **options}
    return wilds.train_wilds(dataset, root, epochs=epochs, **options)


def assert_same(one, other):
    assert one.state_dict().keys() == other.state_dict().keys()
    for name, value in one.state_dict().items():
        torch.testing.assert_close(value, other.state_dict()[name], rtol=0, atol=0, msg=name)


def schedule_of_torch(recipe, optimizer, steps, epochs):
    """The same schedules as PyTorch has them, stepped once a batch."""
    lr = torch.optim.lr_scheduler
    if recipe.schedule == "epochs":
        return lr.StepLR(optimizer, step_size=steps, gamma=0.96)
    if recipe.schedule == "linear":
        return lr.LinearLR(optimizer, 1.0, 0.0, total_iters=steps * epochs)
    warmup = int(recipe.warmup_steps * epochs / recipe.epochs)
    rise = lr.LinearLR(optimizer, 1e-12, 1.0, total_iters=warmup)
    fall = lr.CosineAnnealingLR(optimizer, T_max=steps * epochs - warmup)
    return lr.SequentialLR(optimizer, [rise, fall], milestones=[warmup])


@pytest.mark.parametrize("dataset", list(SPLITS))
def test_training_against_a_plain_loop(root, dataset):
    recipe = wilds.WILDS_RECIPES[dataset]
    trained = train(root, dataset)
    assert not trained.training

    data = FakeData(dataset, recipe.version, str(root), False)
    subset = data.get_subset("train", transform=wilds._transform(recipe, training=True))
    loader = DataLoader(subset, shuffle=True, batch_size=8)
    with torch.random.fork_rng():
        wilds._seed(0, 0)
        model = wilds._model(recipe, data.n_classes)
        if dataset == "civilcomments":
            spared = [
                p for n, p in model.named_parameters() if n.endswith("bias") or "LayerNorm" in n
            ]
            rest = [model.network.embedding.weight, model.network.classifier.weight]
            assert len(spared) + len(rest) == len(list(model.parameters()))
            optimizer = torch.optim.AdamW(
                [{"params": rest, "weight_decay": 0.01}, {"params": spared, "weight_decay": 0.0}],
                lr=0.01,
                eps=1e-6,
            )
        else:
            decay = {"fmow": 0.0, "rxrx1": 1e-5}[dataset]
            optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=decay)
        scheduler = schedule_of_torch(recipe, optimizer, len(loader), 3)
        for epoch in range(3):
            wilds._seed(0, epoch + 1)
            model.train()
            for x, y, _ in loader:
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(x), y).backward()
                if dataset == "civilcomments":
                    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                scheduler.step()
    for (name, value), expected in zip(
        trained.state_dict().items(), model.state_dict().values(), strict=True
    ):
        torch.testing.assert_close(value, expected, rtol=1e-4, atol=1e-6, msg=name)


@pytest.mark.parametrize("dataset", list(SPLITS))
def test_signals_of_all_splits(root, dataset):
    recipe = wilds.WILDS_RECIPES[dataset]
    model = train(root, dataset, epochs=8)
    tables = wilds.wilds_signals(model, dataset, root)
    assert set(tables) == set(SPLITS[dataset]) - {"train"}
    data = FakeData(dataset, recipe.version, str(root), False)
    transform = wilds._transform(recipe, training=False)
    for split, table in tables.items():
        rows = np.flatnonzero(data.split_array == data.split_dict[split])
        with torch.no_grad():
            z = model(torch.stack([transform(data.x[row]) for row in rows])).numpy()
        assert table.names == SIGNAL_NAMES
        np.testing.assert_allclose(table.signals, signals(z), rtol=1e-3, atol=1e-4)
        np.testing.assert_array_equal(table.correct, z.argmax(axis=1) == data.y[rows].numpy())
    # It has learnt: guessing gets at most 1 / 2 right.
    correct = np.concatenate([table.correct for table in tables.values()])
    assert binom.sf(correct.sum() - 1, len(correct), 0.5) < 1e-4


@pytest.mark.parametrize("dataset", list(SPLITS))
def test_an_interrupted_training_goes_on_as_if_it_had_not_been(root, dataset, monkeypatch):
    whole = train(root, dataset)
    folder = root / "kept" / dataset

    def stops(items, description):
        for number, item in enumerate(items):
            if "2/3" in description and number == 2:
                raise KeyboardInterrupt
            yield item

    with monkeypatch.context() as patch:
        patch.setattr(wilds, "progress_bar", stops)
        with pytest.raises(KeyboardInterrupt):
            train(root, dataset, folder=folder, progress=True)
    assert [path.name for path in folder.iterdir()] == ["checkpoint.pt"]
    steps = []
    factor = wilds._factor
    monkeypatch.setattr(wilds, "_factor", lambda *args: steps.append(args[-2]) or factor(*args))
    assert_same(train(root, dataset, folder=folder), whole)
    assert sorted(set(steps)) == [1, 2]  # the first epoch was not repeated
    steps.clear()
    assert_same(train(root, dataset, folder=folder), whole)
    assert not steps  # nothing is left to do
    for other in ({"seed": 1}, {"epochs": 4}):
        with pytest.raises(ValueError, match="folder must hold no other training"):
            train(root, dataset, folder=folder, **other)


def test_seeds_and_global_generators(root):
    torch.manual_seed(5)
    before = torch.get_rng_state()
    one = train(root, seed=1)
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(7)
    assert_same(train(root, seed=np.int64(1)), one)
    assert not torch.equal(train(root, seed=2).classifier.weight, one.classifier.weight)


def test_progress_shows_nothing_where_there_is_no_terminal(root, capsys):
    train(root, epochs=1, progress=True)
    assert capsys.readouterr() == ("", "")


def test_infinite_loss_is_not_kept(root, monkeypatch):
    recipe = replace(wilds.WILDS_RECIPES["fmow"], learning_rate=float("inf"))
    monkeypatch.setitem(wilds.WILDS_RECIPES, "fmow", recipe)
    with pytest.raises(RuntimeError, match="no longer finite in epoch 1"):
        train(root, folder=root / "kept")
    assert not (root / "kept").exists()


@pytest.mark.parametrize("dataset", list(SPLITS))
def test_what_is_missing(dataset, root, tmp_path, monkeypatch):
    assert wilds.missing_for_wilds(dataset, root) == []
    package = "transformers" if dataset == "civilcomments" else "torchvision"
    folder = root / f"{dataset}_v{wilds.WILDS_RECIPES[dataset].version}"
    next(folder.iterdir()).unlink()  # a download that was not finished
    real = importlib.util.find_spec
    gone = {"wilds", "torchvision", "transformers"}
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name in gone else real(name)
    )
    expected = ["wilds", package, str(folder)]
    assert wilds.missing_for_wilds(dataset, str(root)) == expected
    for call in (
        lambda: train(root, dataset),
        lambda: wilds.wilds_signals(nn.Identity(), dataset, root),
    ):
        with pytest.raises(RuntimeError, match=f"not here: wilds, {package}, "):
            call()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dataset": "iwildcam"}, "dataset must be one of fmow, rxrx1, civilcomments"),
        ({"dataset": None}, "dataset must be one of"),
        ({"seed": -1}, "seed must be an integer of at least 0, got -1"),
        ({"seed": True}, "seed must be an integer"),
        ({"seed": 0.5}, "seed must be an integer"),
        ({"epochs": 0}, "epochs must be an integer of at least 1"),
        ({"epochs": 1.0}, "epochs must be an integer"),
    ],
)
def test_bad_input(root, options, message):
    with pytest.raises(ValueError, match=message):
        train(root, **options)


def test_schedules_of_full_length():
    recipes = wilds.WILDS_RECIPES
    # 40,612 training images of RxRx1: the warm-up is 10 epochs of batches of 75, as in the text.
    assert abs(recipes["rxrx1"].warmup_steps - 10 * 40612 / 75) < 1
    tenth = replace(recipes["rxrx1"], warmup_steps=541)
    for n, recipe in ((3, recipes["fmow"]), (57, tenth), (50, recipes["civilcomments"])):
        epochs = recipe.epochs
        optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
        scheduler = schedule_of_torch(recipe, optimizer, n, epochs)
        for epoch in range(epochs):
            for step in range(n):
                found = wilds._factor(recipe, epochs, n, epoch, step)
                assert found == pytest.approx(scheduler.get_last_lr()[0], abs=1e-7)
                optimizer.step()
                scheduler.step()


def test_pictures():
    rng = np.random.default_rng(0)
    pixels = rng.integers(256, size=(6, 6, 3), dtype=np.uint8)
    picture = Image.fromarray(pixels)
    plain = wilds._Pictures(own_moments=False, augment=False)(picture).numpy()
    for channel, (mean, std) in enumerate(
        zip([0.485, 0.456, 0.406], [0.229, 0.224, 0.225], strict=True)
    ):
        expected = (pixels[:, :, channel] / 255 - mean) / std
        np.testing.assert_allclose(plain[channel], expected, rtol=1e-5, atol=1e-6)
    own = wilds._Pictures(own_moments=True, augment=False)(picture).numpy()
    np.testing.assert_allclose(own.mean(axis=(1, 2)), 0, atol=1e-6)
    np.testing.assert_allclose(own.std(axis=(1, 2), ddof=1), 1, atol=1e-5)
    flat = Image.fromarray(np.full((6, 6, 3), 7, dtype=np.uint8))
    assert not wilds._Pictures(own_moments=True, augment=False)(flat).any()
    # The eight symmetries of the square, equally often.
    augment = wilds._Pictures(own_moments=True, augment=True)
    eight = [np.rot90(o, k, (1, 2)) for o in (own, own[:, :, ::-1]) for k in range(4)]
    counts = np.zeros(8, dtype=int)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        for _ in range(800):
            x = augment(picture).numpy()
            same = [np.allclose(x, other, atol=1e-5) for other in eight]
            assert sum(same) == 1
            counts[same.index(True)] += 1
    assert (counts >= binom.ppf(1e-4 / 8, 800, 1 / 8)).all()
    assert (counts <= binom.isf(1e-4 / 8, 800, 1 / 8)).all()
