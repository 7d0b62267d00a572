"""Areas against torch-uncertainty, where it can be had.

It needs torchvision, whose builds do not import beside the CPU build of PyTorch that the book pins,
so it is not among the requirements of the tests.  Its AURC and AUGRC are trapezoids from the first
point, at coverage 1/n, to 1, divided by 1 - 1/n, the length of that interval.  With risks r_1, ...,
r_n, ours are mean(r), and trapezoids from the origin for AUGRC.
"""

import numpy as np
import pytest

from lib.selective import accuracy_coverage, augrc, aurc, softmax_response

torch = pytest.importorskip("torch")
metrics = pytest.importorskip(
    "torch_uncertainty.metrics",
    reason="torch-uncertainty is not installed: it needs torchvision, which does not import beside"
    " the pinned CPU build of PyTorch",
    exc_type=ImportError,
)


@pytest.mark.parametrize("n", [2, 3, 10, 500])
def test_areas_equal_torch_uncertainty_up_to_its_normalisation(n):
    rng = np.random.default_rng(n)
    probabilities = rng.dirichlet(np.ones(4), n)
    labels = rng.integers(0, 4, n)
    correct, score = probabilities.argmax(axis=1) == labels, softmax_response(probabilities)
    assert len(set(score)) == n  # it orders ties as it finds them
    risk = 1 - accuracy_coverage(correct, score).accuracy
    ours = {
        "AURC": aurc(correct, score) - (risk[0] + risk[-1]) / 2 / n,
        # From the origin to the first point: a triangle.
        "AUGRC": augrc(correct, score) - risk[0] / n / 2 / n,
    }
    for name, area in ours.items():
        metric = getattr(metrics, name)()
        metric.update(torch.as_tensor(probabilities), torch.as_tensor(labels))
        # Theirs is in single precision: n sums of numbers up to 1.
        assert area / (1 - 1 / n) == pytest.approx(float(metric.compute()), abs=n * 1e-7)
