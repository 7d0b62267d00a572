"""From a file to all that can be said of a model, as tables, figures and files."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
from tqdm import tqdm

from lib.data.arrays import as_path
from lib.data.untrusted import csv_text
from lib.report.exports import export_files, require_exportable
from lib.report.facts import facts_of
from lib.report.files import read_predictions
from lib.report.predictions import ModelPredictions
from lib.report.registry import explain, run_analysis
from lib.report.types import ANALYSES, Analysis, Drawing, Settings


@dataclass(frozen=True, eq=False)
class Report:
    """Everything that a file allowed.

    Attributes
    ----------
    overview : pandas.DataFrame
        Of :func:`lib.report.explain`: every analysis, whether it was done, and why not.
    analyses : dict of str to Analysis
        Those that were done, by name.
    settings : Settings
        How.
    source : str
        Of the predictions.
    reading : tuple of str
        What was taken for what in the file.
    facts : dict of str to str
        What the head of a page says: file, rows, classes, and the like, by name.
    """

    overview: pd.DataFrame = field(repr=False)
    analyses: dict[str, Analysis]
    settings: Settings
    source: str = ""
    reading: tuple[str, ...] = ()
    facts: dict[str, str] = field(default_factory=dict, repr=False)

    @property
    def tables(self) -> dict[str, pd.DataFrame]:
        """All tables, by name."""
        return {k: t for one in self.analyses.values() for k, t in one.tables.items()}

    @property
    def drawings(self) -> dict[str, Drawing]:
        """All figures, by name, not yet drawn."""
        return {k: d for one in self.analyses.values() for k, d in one.drawings.items()}

    @property
    def skipped(self) -> dict[str, str]:
        """Why each analysis that was not done was not, by name."""
        rows = self.overview[~self.overview["possible"]]
        return dict(zip(rows["analysis"], rows["reason"], strict=True))

    @property
    def next_steps(self) -> pd.DataFrame:
        """What to collect to know more: columns ``analysis`` (its title) and ``what to collect``.

        First what analyses that were done leave open, then what the others lack.
        """
        rows = [(one.title, text) for one in self.analyses.values() for text in one.next_steps]
        rows += [(ANALYSES[name], reason) for name, reason in self.skipped.items()]
        return pd.DataFrame(rows, columns=["analysis", "what to collect"])

    def __str__(self) -> str:
        lines = [f"Report on {self.source or 'predictions'}"]
        lines += [f"  Read: {text}" for text in self.reading]
        for name, title in ANALYSES.items():
            if name in self.analyses:
                one = self.analyses[name]
                lines += ["", f"{one.title}: done", f"  {one.verdict}"]
                lines += [f"  Note: {text}" for text in one.warnings]
                lines += [f"  Next: {text}" for text in one.next_steps]
            else:
                lines += ["", f"{title}: skipped", f"  {self.skipped[name]}"]
        return "\n".join(lines)

    def export(self, folder: Any) -> tuple[Path, ...]:
        """Write tables as CSV, figures as SVG, and the verdicts as text; or all as one HTML file.

        Parameters
        ----------
        folder : path-like
            Made if missing.  An export is one folder, whole, or nothing: everything is written
            beside it and then takes its place.  It may be empty or hold an earlier export, which
            goes; a folder that holds anything else is refused.  A name that ends in ``.html`` is a
            single file with everything in it.

        Returns
        -------
        tuple of pathlib.Path
            ``overview.csv``, ``report.txt``, ``next_steps.csv``, then a file for each table and
            figure; or the one file.

        Raises
        ------
        ValueError
            If `folder` is a file, the working directory, or a folder with other files in it; or a
            name that ends in ``.html`` a folder.
        """
        folder = as_path("folder", folder)
        require_exportable(folder)
        from lib.plot import svg_bytes  # here: Matplotlib takes time, which words save

        if folder.suffix.lower() == ".html":
            from lib.report.single_page import single_page

            facts = {"File": self.source or "predictions"} | self.facts
            page = single_page(self.analyses, self.overview, self.settings, facts, self.reading)
            return export_files(folder, {"": page})
        overview = self.overview.assign(
            files=[
                " ".join(_files(self.analyses[name])) if name in self.analyses else ""
                for name in self.overview["analysis"]
            ]
        )
        texts = {"overview.csv": csv_text(overview), "report.txt": f"{self}\n"}
        texts["next_steps.csv"] = csv_text(self.next_steps)
        texts |= {f"{name}.csv": csv_text(table) for name, table in self.tables.items()}
        pictures = {
            f"{name}.svg": svg_bytes(drawing.draw(), f"report.{name}", drawing.alt)
            for name, drawing in self.drawings.items()
        }
        return export_files(folder, texts | pictures)


def run_report(predictions: ModelPredictions, *, progress: bool = False, **settings: Any) -> Report:
    """Run every analysis that a file allows.

    Parameters
    ----------
    predictions : ModelPredictions
        Of :func:`lib.report.read_predictions`.
    progress : bool
        Whether a bar on standard error says how far it is.
    **settings
        Of :class:`lib.report.Settings`: ``alpha``, ``margin``, ``target``, ``delta``, ``learner``,
        ``seed`` and ``audit_design``.

    Returns
    -------
    Report

    Examples
    --------
    >>> found = run_report(scores, alpha=0.1)
    >>> list(found.analyses), found.skipped["selective"]
    (['audit'], 'missing: test_logits, test_labels')
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     print([path.name for path in found.export(folder)])
    ['overview.csv', ...]
    """
    try:
        chosen = Settings(**settings)
    except TypeError as error:
        raise TypeError(f"settings must be of Settings: {error}") from None
    overview = explain(predictions)
    names = overview.loc[overview["possible"], "analysis"].tolist()
    bar = tqdm(names, "analyses", disable=not progress, leave=False)
    found = {name: run_analysis(name, predictions, chosen) for name in bar}
    return Report(
        overview, found, chosen, predictions.source, predictions.reading, facts_of(predictions)
    )


def report(data: Any, mapped: Mapping[str, str] | None = None, **settings: Any) -> Report:
    """Read predictions in whatever form they are, and run every analysis that they allow.

    Parameters
    ----------
    data, mapped
        As for :func:`lib.report.read_predictions`: a path, a data frame of pandas or polars, or
        arrays by name; and what is what where names do not tell.
    **settings
        As for :func:`run_report`.

    Returns
    -------
    Report
        Its `reading` says what was taken for what.

    Raises
    ------
    ValueError, TypeError
        As of :func:`lib.report.read_predictions` and :class:`lib.report.Settings`.

    Examples
    --------
    >>> rows = {"label": ["cat", "dog", "dog"], "p_cat": [0.9, 0.2, 0.6], "p_dog": [0.1, 0.8, 0.4]}
    >>> found = report(rows)
    >>> found.analyses["quality"].verdict[:14]
    'Right in 0.667'
    >>> for text in found.reading[1:]:
    ...     print(text)
    probabilities in 2 columns, 'p_cat', 'p_dog': each row sums to 1; their logarithms are taken
    'label' is the label, by the names of the columns
    """
    try:
        Settings(**settings)
    except TypeError as error:
        raise TypeError(f"settings must be of Settings: {error}") from None
    return run_report(read_predictions(data, mapped), **settings)


def _files(analysis: Analysis) -> list[str]:
    tables = [f"{name}.csv" for name in analysis.tables]
    return [*tables, *(f"{name}.svg" for name in analysis.drawings)]
