"""``python -m lib.book cost --profile gpu``: what a profile will take, before one begins it."""

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from lib.book.chapters import (
    chapter_files,
    chapter_of,
    declared_parameters,
    parameter_files,
    profile_parameters,
    read_chapter,
)
from lib.book.parameters import validate_parameters
from lib.runs import Job
from lib.runs.devices import accelerators
from lib.runs.provenance import usable_cores


def _panel(parameters: Mapping[str, Any]) -> list[Job]:
    from lib.studies.interplay import panel

    jobs: list[Job] = []
    for model in parameters["models"]:
        rare = (parameters.get("keep", ()), parameters.get("rare_seeds", 1))
        settings = panel.settings_from(parameters, parameters["dataset"], model)
        jobs += settings.planned(*rare) if model == parameters["models"][0] else settings.planned()
    return jobs


def _map(parameters: Mapping[str, Any]) -> list[Job]:
    from lib.studies.interplay import noise_map

    return [*noise_map.settings_from(parameters, parameters["dataset"]).jobs().values()]


def _audit(parameters: Mapping[str, Any]) -> list[Job]:
    from lib.studies.audit.system import settings_from

    return [
        job
        for settings in settings_from(parameters, parameters["dataset"])
        for job in (*settings.jobs(), *settings.jobs(range(settings.n_challenges)))
    ]


def _canaries(parameters: Mapping[str, Any]) -> list[Job]:
    from lib.studies.canaries import system

    return system.planned(system.settings_from(parameters, parameters["dataset"]))


#: What gives all trainings of a chapter, searches over rates included. What a job learns from
#: earlier ones (rates, challenge points) has a stand-in that takes as long. Chapters that are not
#: here have small models.
PLANS: dict[str, Callable[[Mapping[str, Any]], list[Job]]] = {
    "interplay": _panel,
    "normalized_score": _panel,
    "sctd_map": _map,
    "audit_trainings": _audit,
    "canaries": _canaries,
}


def cost_table(book: Path, profile: str, names: Sequence[str] = ()) -> pd.DataFrame:
    """A row for each parameter file with trainings: models, hours and memory.

    Hours are those of this machine with all its cores, or accelerators where the profile uses them,
    busy with trainings alone; NaN, and a line on standard error, for what cannot be trained here.
    """
    from lib.training.cost import kinds_of, seconds_of

    params, paths = book.parent / "params", chapter_files(book)
    rows = []
    for name in parameter_files(book, profile, names):
        chapter = chapter_of(name)
        if chapter not in PLANS:
            continue
        declared = declared_parameters(read_chapter(paths[chapter].read_text(encoding="utf-8")))
        given = validate_parameters(declared, profile_parameters(params, profile, name))
        kinds = kinds_of(PLANS[chapter](given))
        try:
            seconds = sum(seconds_of(kinds))
        except (ImportError, OSError, RuntimeError, ValueError) as error:
            print(f"{name} cannot be timed here: {error}", file=sys.stderr)
            seconds = math.nan
        workers = usable_cores() if given["device"] == "cpu" else max(1, len(accelerators()))
        rows.append(
            {
                "parameter file": name,
                "models": sum(kind.models for kind in kinds),
                "examples": sum(kind.models * kind.examples for kind in kinds),
                "hours": seconds / workers / 3600,
                "memory (MB)": max(kind.bytes for kind in kinds) / 1e6,
            }
        )
    return pd.DataFrame(rows)
