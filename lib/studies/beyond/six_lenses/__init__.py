"""One privately trained classifier under all six lenses of the book."""

from lib.extras import TRAINING as _needed  # noqa: F401
