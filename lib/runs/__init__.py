"""Runs: stored once under their content hash, resumed, spread over workers, with provenance.

A job (:class:`Job`) is a frozen configuration that can be executed; :class:`RunStore` keeps what it
gives, :func:`run_all` runs many, :func:`stored_table` keeps what a function returns.
``CLUSTERS.md`` beside this file tells how to use a cluster.

Examples
--------
Those of this package begin so:

>>> from lib.runs import *
>>> import tempfile
>>> from pathlib import Path
>>> import numpy as np
>>> from lib.training import DataSpec, ModelSpec, Training, TrainingConfig
>>> config = TrainingConfig(ModelSpec("linear", (64,), 10), steps=5, batch_size=20)
>>> job = Training(config, DataSpec("digits", train=100, test=50))
"""

from lib.runs.checkpoint import Checkpoint, generator_state, restore_generator
from lib.runs.clusters import check_cluster, executor_for
from lib.runs.executors import RunsFailed, run_all
from lib.runs.files import write_atomic
from lib.runs.jobs import Job, Outcome, canonical, run_key
from lib.runs.progress import progress
from lib.runs.provenance import (
    MAIN_PACKAGES,
    code_fingerprint,
    fingerprint,
    hardware,
    package_versions,
    python_version,
)
from lib.runs.store import RunStore, StoredRun
from lib.runs.tables import stored_table

__all__ = [
    "MAIN_PACKAGES",
    "Checkpoint",
    "Job",
    "Outcome",
    "RunStore",
    "RunsFailed",
    "StoredRun",
    "canonical",
    "check_cluster",
    "code_fingerprint",
    "executor_for",
    "fingerprint",
    "generator_state",
    "hardware",
    "package_versions",
    "progress",
    "python_version",
    "restore_generator",
    "run_all",
    "run_key",
    "stored_table",
    "write_atomic",
]
