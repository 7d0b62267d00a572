"""The Bayesian audit (P3): training runs under attack, tables."""

from lib.extras import TRAINING as _needed  # noqa: F401
