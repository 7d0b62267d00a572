import numpy as np
import pytest

from lib.training import train_linear


def blobs(n=300, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % 3
    centres = np.array([[0, 0], [4, 0], [0, 4]])
    return centres[labels] + rng.normal(size=(n, 2)), labels


def test_optimum_of_the_penalised_likelihood():
    images, labels = blobs()
    model = train_linear(images, labels)
    logits = model.logits(images)
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    gradient = (p - np.eye(3)[labels]).T @ images + model.weights
    assert np.abs(gradient).max() < 1e-9
    np.testing.assert_allclose(logits.sum(axis=1), 0, atol=1e-12)
    assert (logits.argmax(axis=1) == labels).mean() > 0.95


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.zeros(299), "one entry per image"),
        (np.arange(300) % 2, "all values 0 to k - 1"),
        (np.arange(300) % 3 + 1, "all values 0 to k - 1"),
    ],
)
def test_bad_input(labels, message):
    with pytest.raises(ValueError, match=message):
        train_linear(blobs()[0], labels)


def test_wrong_number_of_pixels():
    model = train_linear(*blobs())
    with pytest.raises(ValueError, match="2 pixels each, got 3"):
        model.logits(np.zeros((1, 3)))
