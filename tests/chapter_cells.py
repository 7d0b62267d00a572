"""What a chapter makes of its parameters before it trains anything: its own cells, executed."""

import ast
import functools
from collections.abc import Mapping
from pathlib import Path
from types import CodeType
from typing import Any

from lib.book.chapters import chapter_files, code_cells, declared_parameters, read_chapter
from lib.studies.interplay.experiments import ExperimentSettings, all_points
from lib.training import TrainingConfig

ROOT = Path(__file__).parents[1]
MAKES = ("TrainingConfig(", "Settings(", "rows_of(")  # cells of settings have one of them


@functools.cache
def settings_cells(chapter: str) -> tuple[dict[str, Any], list[CodeType]]:
    """Its parameters' defaults, its imports and the cells of its settings, compiled."""
    notebook = read_chapter(chapter_files(ROOT / "book")[chapter].read_text("utf-8"))
    cells = []
    for cell in code_cells(notebook):
        body = ast.parse(cell["source"]).body
        if not any(word in cell["source"] for word in MAKES):
            body = [node for node in body if isinstance(node, ast.Import | ast.ImportFrom)]
        cells.append(compile(ast.Module(body, []), chapter, "exec"))
    return {each.name: each.default for each in declared_parameters(notebook)}, cells


def names_of(chapter: str, given: Mapping[str, Any], dataset: str) -> dict[str, Any]:
    """The names that its imports and the cells of its settings define, from given parameters."""
    defaults, cells = settings_cells(chapter)
    names = {**defaults, **given, "dataset": dataset, "used": dataset}
    for cell in cells:
        exec(cell, names)
    return names


def settings_of(chapter: str, given: Mapping[str, Any], dataset: str) -> Any:
    """The settings that a chapter trains with."""
    return names_of(chapter, given, dataset)["settings"]


def settings_for(
    dataset: str, model: str, *, steps: int = 1000, batch_size: int = 256, **others: Any
) -> ExperimentSettings:
    """The experiments of P1 on all points of a data set, small unless told otherwise."""
    shape = {n: others.pop(n) for n in ("hidden", "activation", "seed") if n in others}
    data, network = all_points(dataset, model, **shape)
    names = set(TrainingConfig.__dataclass_fields__)
    training = {n: others.pop(n) for n in sorted(names & {*others})}
    training = {"clipping_norm": 10.0, "checkpoint_every": 20} | training
    config = TrainingConfig(network, steps=steps, batch_size=batch_size, **training)
    return ExperimentSettings(data, config, **others)
