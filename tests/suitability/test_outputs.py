from collections import UserDict
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lib.report.outputs import model_outputs
from lib.suitability import signals
from lib.suitability.signals import register_signal, unregister_signal


@pytest.fixture(autouse=True)
def _seeded():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def network():
    return nn.Sequential(
        nn.Linear(5, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 3)
    )


def points(n=50):
    return torch.randn(n, 5), torch.randint(3, (n,))


def by_hand(model, x):
    modes = [m.training for m in model.modules()]
    model.eval()
    with torch.no_grad():
        z = torch.cat([model(row[None]) for row in x])
    for module, mode in zip(model.modules(), modes, strict=True):
        module.training = mode
    return z.double().numpy()


@pytest.mark.parametrize("batch_size", [1, 7, 50, 64])
def test_against_a_plain_loop(batch_size):
    model = network()
    model(torch.randn(30, 5) * 3 + 1)  # moves the running moments, which evaluation uses
    x, y = points()
    found = model_outputs(model, DataLoader(TensorDataset(x, y), batch_size=batch_size))
    expected = by_hand(model, x)
    assert found.logits.dtype == np.float64
    np.testing.assert_allclose(found.logits, expected, rtol=0, atol=1e-6)
    np.testing.assert_array_equal(found.labels, y.numpy())
    assert found.labels.dtype == np.int64
    np.testing.assert_array_equal(found.correct, found.logits.argmax(axis=1) == y.numpy())
    assert 0 < found.correct.mean() < 1
    pd.testing.assert_frame_equal(found.signals, signals(found.logits.astype(np.float32)))


def test_modes_are_put_back_one_by_one():
    model = network()
    model[1].eval()  # frozen normalisation inside a model in training
    before = [m.training for m in model.modules()]
    assert len(set(before)) == 2
    running = model[1].running_mean.clone()
    seen = []
    model[3].register_forward_hook(lambda module, *_: seen.append(module.training))
    x, _ = points()
    model_outputs(model, [x, x])
    assert seen == [False, False]
    assert [m.training for m in model.modules()] == before
    torch.testing.assert_close(model[1].running_mean, running, rtol=0, atol=0)


def test_modes_are_put_back_after_an_error():
    model = network()
    before = [m.training for m in model.modules()]
    x, _ = points()
    with pytest.raises(ValueError, match="in batch 1"):
        model_outputs(model, [x, x * torch.nan])
    assert [m.training for m in model.modules()] == before

    def broken():
        yield x
        raise OSError("disk gone")

    with pytest.raises(OSError, match="disk gone"):
        model_outputs(model, broken())
    assert [m.training for m in model.modules()] == before


def test_no_graph_and_what_the_loader_makes_stays_usable():
    model = network()
    made, recorded = [], []
    model.register_forward_hook(lambda *args: recorded.append(args[-1].requires_grad))

    def batches():
        made.append(torch.ones(4, 5))
        yield made[-1]

    model_outputs(model, batches())
    assert recorded == [False]
    assert not made[0].is_inference()
    model(made[0]).sum().backward()  # an inference tensor would be refused here


def test_kinds_of_batches():
    model = network().eval()
    x, y = points()
    metadata = torch.zeros(50, 2)
    labelled = model_outputs(model, [(x, y)])
    for loader in (
        DataLoader(TensorDataset(x, y, metadata), batch_size=16),
        ((x[i : i + 9], y[i : i + 9], metadata) for i in range(0, 50, 9)),
        [[x, y.numpy()]],
        [(x[:0], y[:0]), (x, y.to(torch.int16))],
    ):
        found = model_outputs(model, loader)
        np.testing.assert_allclose(found.logits, labelled.logits, atol=1e-6)
        np.testing.assert_array_equal(found.labels, labelled.labels)
    for loader in ([x[:25], x[25:]], [(x,)], [(x, None)], DataLoader(TensorDataset(x)), iter([x])):
        found = model_outputs(model, loader)
        np.testing.assert_allclose(found.logits, labelled.logits, atol=1e-6)
        assert found.labels is None
        assert found.correct is None


class LikeHuggingFace(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(20, 8), nn.Linear(8, 4)

    def forward(self, input_ids, attention_mask):
        weights = attention_mask[:, :, None].float()
        pooled = (self.embedding(input_ids) * weights).sum(1) / weights.sum(1)
        return SimpleNamespace(loss=None, logits=self.head(pooled))


@pytest.mark.parametrize("kind", [dict, UserDict])  # BatchEncoding is a UserDict
@pytest.mark.parametrize("labels", [True, False])
def test_dictionaries(kind, labels):
    model = LikeHuggingFace()
    ids = torch.randint(20, (30, 6))
    mask = (torch.rand(30, 6) < 0.7).long()
    mask[:, 0] = 1
    y = torch.randint(4, (30,))
    batches = []
    for i in range(0, 30, 8):
        part = slice(i, i + 8)
        batch = kind({"input_ids": ids[part], "attention_mask": mask[part]})
        batches.append(kind({**batch, "labels": y[part]}) if labels else batch)
    found = model_outputs(model, batches)
    with torch.no_grad():
        expected = model(ids, mask).logits.double().numpy()
    np.testing.assert_allclose(found.logits, expected, atol=1e-6)
    assert (found.labels is None) != labels
    assert all(("labels" in batch) == labels for batch in batches), "the batch was changed"
    if labels:
        np.testing.assert_array_equal(found.correct, expected.argmax(axis=1) == y.numpy())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_precision_of_the_model(dtype):
    model = nn.Linear(5, 3).to(dtype)
    x = torch.randn(20, 5, dtype=dtype)
    found = model_outputs(model, [x])
    with torch.no_grad():
        np.testing.assert_array_equal(found.logits, model(x).double().numpy())
    assert found.logits.dtype == np.float64


def test_mean_of_logits_that_sum_to_zero_is_no_signal():
    # Rounding of single precision, to which widening the logits first would blind the threshold.
    model = nn.Linear(64, 10, bias=False)
    with torch.no_grad():
        model.weight -= model.weight.mean(dim=0)
    found = model_outputs(model, [torch.rand(200, 64)])
    assert found.logits.mean(axis=1).any()
    assert (found.signals["logit_mean"] == 0).all()


def test_a_buffer_that_the_model_uses_again():
    buffer = torch.zeros(4, 3)
    batches = [torch.full((4, 3), float(i)) for i in range(3)]
    found = model_outputs(lambda x: buffer.copy_(x), batches)
    np.testing.assert_array_equal(found.logits, np.repeat([0.0, 1.0, 2.0], 4)[:, None] * [1, 1, 1])


def test_functions_and_nested_inputs():
    x = torch.randn(6, 2)
    found = model_outputs(lambda pair: pair["a"] + pair["b"][0], [({"a": x, "b": [x]}, None)])
    np.testing.assert_allclose(found.logits, 2 * x.double().numpy())


def test_extra_signals():
    @register_signal
    def weighted(logits, weights):
        return logits[:, 0] * weights

    try:
        x, _ = points()
        weights = np.arange(50.0)
        model = network()
        inputs = {"weights": weights}
        found = model_outputs(model, [x[:20], x[20:]], extra=iter(["weighted"]), inputs=inputs)
        np.testing.assert_allclose(found.signals["weighted"], found.logits[:, 0] * weights)

        def never():
            raise AssertionError("the loader was used before the check")
            yield

        with pytest.raises(ValueError, match="must be given weights"):
            model_outputs(model, never(), extra=["weighted"])
        with pytest.raises(ValueError, match="inputs must be a mapping"):
            model_outputs(model, never(), inputs=[weights])
    finally:
        unregister_signal("weighted")


X, Y = torch.zeros(4, 5), torch.tensor([0, 1, 2, 0])


@pytest.mark.parametrize(
    ("model", "loader", "options", "message"),
    [
        (None, [X], {}, "model must be"),
        (nn.Linear, [X], {}, "model must be"),
        (network(), [], {}, "at least one row, got none"),
        (network(), [X[:0]], {}, "at least one row, got none"),
        (network(), 3, {}, "loader must be an iterable"),
        (network(), {"x": X}, {}, "loader must be an iterable of batches, got dict"),
        (network(), "abc", {}, "loader must be an iterable"),
        (network(), [X, (X, Y)], {}, "always or never, got some in batch 1"),
        (network(), [(X, Y), X], {}, "always or never, got none in batch 1"),
        (network(), [(X, Y[:3])], {}, r"labels must be integers of shape \(4,\)"),
        (network(), [(X, Y[:, None])], {}, r"labels must be integers of shape \(4,\)"),
        (network(), [(X, Y.float())], {}, "labels must be integers"),
        (network(), [(X, Y == 0)], {}, "labels must be integers"),
        (network(), [(X, Y), (X, Y + 1)], {}, "labels must be from 0 to 2, got 3 in batch 1"),
        (network(), [(X, Y - 1)], {}, "labels must be from 0 to 2, got -1 in batch 0"),
        (nn.Identity(), [X[0]], {}, "logits must be real numbers of shape"),
        (nn.Identity(), [X[None]], {}, "logits must be real numbers of shape"),
        (nn.Identity(), [X.long()], {}, "got torch.int64"),
        (nn.Identity(), [X, X[:, :4]], {}, "must have 5 columns, as in batch 0, got 4 in batch 1"),
        (nn.Identity(), [X[:, :1]], {}, "at least 2 columns"),
        (nn.Identity(), [X, X.log()], {}, "got -inf in batch 1, row 0, column 0"),
        (lambda x: x.numpy(), [X], {}, "model must return a tensor .* ndarray in batch 0"),
        (lambda x: (x,), [X], {}, "model must return a tensor .* tuple in batch 0"),
        (network(), [X], {"device": "cuda:7"}, "device must be one that holds the model"),
        (network(), [X], {"device": "nonsense"}, "device must be a torch device"),
        (network(), [X], {"device": 1.5}, "device must be a torch device"),
        (network(), [X], {"extra": ["absent"]}, "extra must name registered signals"),
        (network(), [X], {"extra": "absent"}, "extra must be a sequence"),
        (network(), [X], {"inputs": {"w": 1}}, "inputs must be those of the extra signals"),
    ],
)
def test_bad_input(model, loader, options, message):
    with pytest.raises(ValueError, match=message):
        model_outputs(model, loader, **options)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_cuda():
    x, y = points()
    model = network()
    expected = by_hand(model, x)
    model.cuda()
    for device in (None, "cuda", "cuda:0"):
        found = model_outputs(model, DataLoader(TensorDataset(x, y), batch_size=16), device=device)
        np.testing.assert_allclose(found.logits, expected, atol=1e-3)
        np.testing.assert_array_equal(found.labels, y.numpy())
