"""From a file to all that can be said of a model, as tables, figures and files."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
from tqdm import tqdm

from lib.data.arrays import as_path
from lib.data.untrusted import csv_text
from lib.plot import svg_bytes
from lib.report.exports import export_files, require_exportable
from lib.report.predictions import ModelPredictions
from lib.report.registry import explain, run_analysis
from lib.report.single_page import single_page
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
    """

    overview: pd.DataFrame = field(repr=False)
    analyses: dict[str, Analysis]
    settings: Settings
    source: str = ""

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
        for name, title in ANALYSES.items():
            if name in self.analyses:
                one = self.analyses[name]
                lines += ["", f"{title}: done", f"  {one.verdict}"]
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
        if folder.suffix.lower() == ".html":
            steps = self.next_steps
            page = single_page(self.analyses, self.skipped, steps, self.settings, self.source)
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
    return Report(overview, found, chosen, predictions.source)


def _files(analysis: Analysis) -> list[str]:
    tables = [f"{name}.csv" for name in analysis.tables]
    return [*tables, *(f"{name}.svg" for name in analysis.drawings)]
