"""Trainings, and pieces of all subjects, for forked children."""

from dataclasses import replace

from lib.runs import Checkpoint, RunStore, package_versions
from lib.training import DataSpec, ManyTrainings, ModelSpec, Training, TrainingConfig

MLP = ModelSpec("mlp", (64,), 10, hidden=(16,))
# The noise is given: finding it for a budget would take most of the time.
CONFIG = TrainingConfig(
    MLP,
    noise_multiplier=1.5,
    steps=60,
    batch_size=64,
    learning_rate=0.5,
    checkpoint_every=7,
    momentum=0.5,
)
DATA = DataSpec(train=400, test=100)


def trainings() -> list:
    """Five trainings: DP-SGD with Opacus, with dropout, without privacy, and two of many models."""
    free = replace(CONFIG, noise_multiplier=None)
    return [
        Training(CONFIG, DATA, save_every=3, keep_parameters=True),
        Training(replace(CONFIG, model=replace(MLP, dropout=0.3), steps=40), DATA, save_every=3),
        Training(free, DATA, save_every=5),
        ManyTrainings(tuple(replace(CONFIG, seed=s) for s in range(6)), DATA, chunk=1),
        ManyTrainings(tuple(replace(free, seed=s) for s in range(4)), DATA, chunk=1),
    ]


def warm() -> None:
    """What is loaded, compiled or computed late, for all children at once."""
    package_versions()
    for job in trainings():
        job.execute(Checkpoint())


def train_all(store: str) -> None:
    for job in trainings():
        RunStore(store).run(job)
