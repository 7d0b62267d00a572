"""Training of classifiers.

So far one small model for pages that run without downloads; the private training
engine will stand beside it.
"""

from lib.training.linear import LinearClassifier, train_linear

__all__ = ["LinearClassifier", "train_linear"]
