"""The ten-line examples that the page shows are run as they stand."""

import ast
import importlib
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression

from lib.report import EXAMPLES, example_source, explain, read_predictions


def save(name):
    """The example's function, from the very text that the page shows."""
    module = importlib.import_module(f"lib.report.examples.{name}")
    with open(module.__file__, encoding="utf-8") as stream:
        assert stream.read() == example_source(name)
    return module.save_predictions


def possible(path):
    table = explain(read_predictions(path))
    return table.loc[table["possible"], "analysis"].tolist()


def points(n, seed, k=3):
    rng = np.random.default_rng(seed)
    labels = rng.integers(k, size=n)
    return (1.5 * np.eye(k)[labels] + rng.normal(size=(n, k))).astype(np.float32), labels


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_are_short_and_need_nothing_of_this_book(name):
    tree = ast.parse(example_source(name))
    (function,) = (node for node in tree.body if isinstance(node, ast.FunctionDef))
    body = function.body[1:]  # without the docstring
    assert sum(isinstance(node, ast.stmt) for one in body for node in ast.walk(one)) <= 13
    imported = {alias.name for n in tree.body if isinstance(n, ast.Import) for alias in n.names}
    assert imported <= {"numpy", "pandas", "torch"}
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]


def test_tables(tmp_path):
    files = [tmp_path / f"{name}.csv" for name in ("labeled", "user")]
    for path, n in zip(files, (91, 40), strict=True):
        x, y = points(n, n)
        table = pd.DataFrame(x, columns=["logit_0", "logit_1", "logit_2"]).assign(id=range(n))
        (table.assign(label=y) if n == 91 else table).to_csv(path, index=False)
    save("tables")(tmp_path / "my.csv", *files)
    found = read_predictions(tmp_path / "my.csv")
    sizes = [len(getattr(found, f"{part}_logits")) for part in ("holdout", "test", "user")]
    assert sizes == [45, 46, 40]
    # Every labeled row once, whichever its part, and not as a block of the file.
    both = np.concatenate([found.holdout_logits, found.test_logits])
    labels = np.concatenate([found.holdout_labels, found.test_labels])
    order, (x, y) = np.argsort(both[:, 0]), points(91, 91)
    np.testing.assert_allclose(both[order], x[x[:, 0].argsort()], rtol=1e-6)
    np.testing.assert_array_equal(labels[order], y[x[:, 0].argsort()])
    for block in (x[:46], x[-46:]):
        assert not np.allclose(np.sort(found.test_logits, axis=0), np.sort(block, axis=0))
    assert possible(tmp_path / "my.csv") == ["quality", "selective", "suitability"]


def test_pytorch(tmp_path):
    model = torch.nn.Sequential(torch.nn.Dropout(0.5), torch.nn.Linear(3, 3))
    torch.nn.init.eye_(model[1].weight)
    torch.nn.init.zeros_(model[1].bias)
    sets = {part: points(80, i) for i, part in enumerate(("holdout", "test", "user"))}
    data = {k: torch.utils.data.TensorDataset(*map(torch.from_numpy, s)) for k, s in sets.items()}
    loaders = {k: torch.utils.data.DataLoader(each, batch_size=32) for k, each in data.items()}
    save("pytorch")(tmp_path / "my.npz", model, loaders)
    found = read_predictions(tmp_path / "my.npz")
    for part, (x, y) in sets.items():
        np.testing.assert_allclose(getattr(found, f"{part}_logits"), x, rtol=1e-5)
        np.testing.assert_array_equal(getattr(found, f"{part}_labels"), y)
    assert possible(tmp_path / "my.npz") == ["quality", "selective", "suitability"]


@pytest.mark.parametrize("kind", [LogisticRegression, LinearDiscriminantAnalysis])
@pytest.mark.parametrize("k", [2, 3])
def test_scikit_learn(tmp_path, kind, k):
    pool, holdout, test = (points(n, seed, k) for seed, n in enumerate((180, 90, 90)))
    model = kind()
    user, _ = points(50, 4, k)
    save("scikit_learn")(tmp_path / "my.npz", model, pool, holdout, test, user, seed=5)
    found = read_predictions(tmp_path / "my.npz")
    np.testing.assert_array_equal(found.test_logits.argmax(axis=1), model.predict(test[0]))
    np.testing.assert_array_equal(found.user_logits.argmax(axis=1), model.predict(user))
    # Members are those of the pool that coins chose, and the model was trained on them alone.
    coins = np.random.default_rng(5).random(180) < 0.5
    again = kind().fit(pool[0][coins], pool[1][coins])
    scores = again.predict_log_proba(pool[0])[np.arange(180), pool[1]]
    np.testing.assert_allclose(found.member_scores, scores[coins], rtol=1e-6)
    np.testing.assert_allclose(found.nonmember_scores, scores[~coins], rtol=1e-6)
    # Halves of the margin, for two classes: the softmax is the model's own.
    probability = np.exp(found.test_logits) / np.exp(found.test_logits).sum(1, keepdims=True)
    np.testing.assert_allclose(probability, model.predict_proba(test[0]), atol=1e-6)
    assert possible(tmp_path / "my.npz") == ["quality", "selective", "suitability", "audit"]


class Encoded(dict):
    """What a tokenizer returns, as far as the example goes."""

    def to(self, device):
        return Encoded({name: tensor.to(device) for name, tensor in self.items()})


def tokenizer(texts, *, padding=False, truncation=False, return_tensors):
    """Letters as tokens."""
    ids = torch.zeros(len(texts), max(map(len, texts)), dtype=torch.long)
    for i, text in enumerate(texts):
        ids[i, : len(text)] = torch.tensor([ord(c) - 96 for c in text])
    return Encoded(input_ids=ids, attention_mask=(ids > 0).long())


class Model(torch.nn.Module):
    """An embedding's mean and a linear layer, with the interface of a transformers classifier."""

    device = torch.device("cpu")

    def __init__(self):
        super().__init__()
        self.embedding, self.head = torch.nn.Embedding(27, 8), torch.nn.Linear(8, 2)

    def forward(self, input_ids, attention_mask):
        mask = attention_mask[..., None].float()
        mean = (self.embedding(input_ids) * mask).sum(1) / mask.sum(1)
        return SimpleNamespace(logits=self.head(mean))


def test_hugging_face(tmp_path):
    torch.manual_seed(0)
    model, rng, parts = Model(), np.random.default_rng(0), {}
    for part, n in (("holdout", 70), ("test", 40), ("user", 33)):
        texts = ["".join(map(chr, 97 + rng.integers(26, size=m))) for m in rng.integers(1, 9, n)]
        parts[part] = (texts, None if part == "user" else rng.integers(2, size=n))
    save("hugging_face")(tmp_path / "my.npz", model, tokenizer, parts)
    found = read_predictions(tmp_path / "my.npz")
    with torch.inference_mode():
        one = tokenizer([parts["test"][0][35]], padding=True, return_tensors="pt")
        expected = model.eval()(**one).logits.numpy()[0]
    np.testing.assert_allclose(found.test_logits[35], expected, rtol=1e-4, atol=1e-6)
    assert found.user_logits.shape == (33, 2)
    assert possible(tmp_path / "my.npz") == ["quality", "selective", "suitability"]
