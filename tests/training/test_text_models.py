"""Fine-tuning a text model privately; a tiny RoBERTa with random weights is trained here."""

import importlib.util
import os
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from roberta import make_roberta

from lib.data.text import TextSet, hashed_words
from lib.training import DataSpec, ModelSpec, TrainingConfig, train, train_many
from lib.training import jobs as jobs_module
from lib.training import text as text_module

needs_transformers = pytest.mark.skipif(
    importlib.util.find_spec("transformers") is None,
    reason="needs the optional package transformers (extra 'text')",
)


@pytest.fixture
def tiny(monkeypatch):
    """A RoBERTa of some hundred parameters in the place of the pre-trained one."""
    from transformers import RobertaConfig, RobertaForSequenceClassification

    def make(classes, dropout):
        config = RobertaConfig(
            vocab_size=50,
            hidden_size=8,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=16,
            max_position_embeddings=20,
            num_labels=classes,
            pad_token_id=1,
            initializer_range=0.5,
            hidden_dropout_prob=dropout,
            attention_probs_dropout_prob=dropout,
            attn_implementation="eager",
        )
        return text_module.TextClassifier(RobertaForSequenceClassification(config))

    monkeypatch.setattr(text_module, "pretrained", make)


@pytest.fixture
def sst2(monkeypatch):
    """Sentences whose label is their first word."""

    def load(split):
        labels = np.random.default_rng(len(split)).integers(0, 2, 2000)
        texts = tuple(f"{'good' if y else 'bad'} film {i}" for i, y in enumerate(labels))
        return TextSet("sst2", texts, labels, ("negative", "positive"))

    def tokens(texts, length):
        found = np.ones((len(texts), length), np.float32)
        found[:, 0] = 0
        found[:, 1] = [5 if t.startswith("good") else 6 for t in texts]
        found[:, 2] = 2
        return found

    monkeypatch.setattr(jobs_module, "load_sst2", load)
    monkeypatch.setattr(jobs_module, "tokens_of", tokens)


def test_texts_as_tokens_or_hashed_words(sst2):
    data = DataSpec("sst2", "tokens", train=100, test=50, validation=20, tokens=8).load()
    assert data.training.inputs.shape == (100, 8)
    assert data.validation.shape == (20, 8)
    assert np.array_equal(data.labels == 1, data.evaluation[:, 1] == 5)
    data = DataSpec("sst2", "words", train=100, test=50).load()
    assert data.training.inputs.shape == (100, 4096)
    assert data.validation.shape == (0, 4096)
    good = np.abs(hashed_words(["good"])[0]).argmax()
    assert np.array_equal(data.labels == 1, data.evaluation[:, good] != 0)


@needs_transformers
def test_a_text_model_trains_privately(tiny, sst2):
    data = DataSpec("sst2", "tokens", train=100, test=50, tokens=8).load()
    spec = ModelSpec("roberta", (8,), 2)
    free = TrainingConfig(spec, batch_size=50, steps=80, learning_rate=0.3)
    assert train(free, data.training, data.evaluation).accuracy(data.labels) == 1.0
    private = TrainingConfig(
        spec,
        noise_multiplier=1e-30,
        delta=1e-5,
        clipping_norm=0.1,
        sample_rate=1.0,
        batch_size=1,
        steps=1,
        learning_rate=1.0,
    )
    results = [
        train_many([private], data.training.subset(np.arange(n)), data.evaluation)[0]
        for n in (20, 21)
    ]
    assert results[0].engine == "opacus"
    moved = results[1].parameters.astype(float) - results[0].parameters
    assert 0 < np.linalg.norm(moved) <= 0.1001


@needs_transformers
def test_a_folder_of_data_holds_the_network(tmp_path, monkeypatch):
    """No network is asked; the tests' RoBERTa has the true one's parameters but the head's."""
    (tmp_path / "empty").mkdir()
    folders = os.pathsep.join([str(tmp_path / "empty"), str(tmp_path)])
    monkeypatch.setenv("COMPANION_DATA", folders)
    make_roberta(tmp_path)
    texts = ["A good film!", "bad"]
    found = text_module.tokens_of(texts, 8)
    assert found.shape == (2, 8)
    assert list(found[1]) == [0, *found[1, 1:4], 2, 1, 1, 1]  # start, letters, end, padding
    network = text_module.pretrained(2, 0.0)
    sizes = {name: p.numel() for name, p in network.named_parameters()}
    head = sum(size for name, size in sizes.items() if "classifier" in name)
    assert head == 768 * 769 + 2 * 769
    assert sum(sizes.values()) - head == 124_055_040  # RoBERTa-base without its pooling layer
    assert network(torch.tensor(found)).shape == (2, 2)
    long = text_module.tokens_of(["a letter is a token and 24 are left"], 64)
    assert (long != 1).sum() == 26


PADDED = torch.tensor([[0, 5, 2, 1, 1, 1], [0, 6, 7, 2, 1, 1]], dtype=torch.float32)


def test_padding_that_all_texts_have_is_not_looked_at():
    class Sums(torch.nn.Module):
        def forward(self, numbers, attention_mask):
            seen.append(tuple(numbers.shape))
            return SimpleNamespace(logits=(numbers * attention_mask).sum(1))

    seen = []
    model = text_module.TextClassifier(Sums())
    assert model(PADDED).tolist() == [7, 15]
    assert model(PADDED[:1]).tolist() == [7]
    assert model(PADDED[:, :4]).tolist() == [7, 15]
    assert model(PADDED[:0]).tolist() == []
    assert seen == [(2, 4), (1, 3), (2, 4), (0, 1)]


@needs_transformers
def test_padding_changes_nothing(tiny):
    torch.manual_seed(0)
    model = text_module.pretrained(2, 0.0).eval()
    with torch.no_grad():
        both, one = model(PADDED), model(PADDED[:1])
        whole = model.network(PADDED.long(), attention_mask=(PADDED != 1).long()).logits
    torch.testing.assert_close(both, whole)
    torch.testing.assert_close(one, whole[:1])
