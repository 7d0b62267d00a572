import numpy as np

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
