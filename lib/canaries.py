"""P5's canaries under the name that they had: see :mod:`lib.audit`."""

from lib.audit.canaries import canary_epsilon
from lib.audit.insert import insert_canaries

__all__ = ["canary_epsilon", "insert_canaries"]
