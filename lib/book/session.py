"""What a chapter's cells call to show things: notes, tables, figures, verdicts."""

import ast
import difflib
import math
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from IPython import get_ipython
from IPython.display import display

import lib
from lib.book.chapters import book_of, chapter_files, declared_parameters, read_chapter, reproducing
from lib.book.claims import Claim, ClaimError, Verdict, judge, read_claims, unsettled
from lib.book.evidence import Evidence
from lib.book.execute import (
    CELLS_MIME,
    FIGURE_MIME,
    NOTE_MIME,
    OWN_MIMES,
    PARAMETERS_MIME,
    TABLE_MIME,
    USED_MIME,
    VALUE_MIME,
    VERDICT_MIME,
)
from lib.book.notebooks import MINE
from lib.book.parameters import Parameter, ParameterError, parse_parameters, validate_parameters
from lib.book.render import (
    csv_link,
    figure_html,
    note_html,
    parameter_rows,
    parameters_html,
    table_html,
    verdict_text,
)
from lib.data.untrusted import printable
from lib.runs import check_cluster
from lib.runs.store import PUBLIC

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lib.studies.drawn import Draw

__all__ = ["Chapter", "open_chapter"]


def open_chapter(name: str, namespace: dict[str, Any]) -> "Chapter":
    """Begin a chapter: validate its parameters before any work, and show them.

    Called in the cell after the parameters cell, however the chapter is run:
    by the build, by papermill, in Jupyter or as a script.

    Parameters
    ----------
    name : str
        The chapter's name, its file's stem.
    namespace : dict
        ``globals()``. Parameters are put back into it in their declared type.

    Returns
    -------
    Chapter

    Raises
    ------
    ParameterError
        On an unknown name, a wrong type or a value that is not allowed.
    ValueError, ImportError
        If ``COMPANION_CLUSTER`` names a cluster that cannot be.
    """
    os.environ.setdefault(PUBLIC, "1")  # chapters read public data alone: runs may say all
    check_cluster()
    book = book_folder(name, namespace.get("__file__", ""))
    if not any((book / file).exists() for file in ("_toc.yml", "claims.yml", f"{name}.py")):
        raise ParameterError(
            f"the book of chapter {name} is not here: start in its folder or below, or set"
            " COMPANION_BOOK to its folder `book`"
        )
    declared, injected = _declared_here(name, namespace, book)
    given = {p.name: namespace[p.name] for p in declared if p.name in namespace}
    given |= {n: namespace.get(n) for n in injected}
    parameters = validate_parameters(declared, given)
    namespace.update(parameters)
    chapter = Chapter(name, declared, parameters, book)
    chapter.show_parameters()
    return chapter


def _declared_here(
    name: str, namespace: Mapping[str, Any], book: Path
) -> tuple[tuple[Parameter, ...], list[str]]:
    """Declarations of the running notebook and the names that papermill injected.

    Who runs cells and keeps no history of them, as nbval does, gets those of the chapter's file;
    injected are then all plain values that the notebook has so far.
    """
    shell = get_ipython()
    if shell is None:
        return declared_parameters(read_chapter(Path(namespace["__file__"]).read_text("utf-8"))), []
    history = [source for source in shell.user_ns["In"] if source.strip()]
    for back, source in enumerate(reversed(history)):
        if _only_annotated(source):
            after = history[len(history) - back :]
            injected = [c for c in after if c.lstrip().startswith("# Parameters")]
            return parse_parameters(source), [n for c in injected for n in _assigned(c)]
    listed = chapter_files(book) if (book / "_toc.yml").exists() else {}
    if history or name not in listed:
        return (), []
    declared = declared_parameters(read_chapter(listed[name].read_text(encoding="utf-8")))
    names = {*namespace} - {*shell.user_ns_hidden}
    return declared, [n for n in sorted(names) if n[0] != "_" and _is_plain(namespace[n])]


def _is_plain(value: Any) -> bool:
    """Whether a parameter could have the value."""
    return value is None or isinstance(value, bool | int | float | str | list | dict)


def _only_annotated(source: str) -> bool:
    try:
        body = ast.parse(source).body
    except SyntaxError:  # a magic command
        return False
    return bool(body) and all(isinstance(node, ast.AnnAssign) for node in body)


def _assigned(source: str) -> list[str]:
    nodes = (node for node in ast.parse(source).body if isinstance(node, ast.Assign))
    return [t.id for node in nodes for t in node.targets if isinstance(t, ast.Name)]


def book_folder(chapter: str, script: str = "") -> Path:
    """Where claims and records of a chapter lie.

    The build and papermill say so; else it is the book of the script that is run, or the one beside
    ``lib``, or one in the working folder or above, whichever has the chapter.
    """
    if told := os.environ.get("COMPANION_BOOK"):
        return Path(told)
    if script:
        return book_of(Path(script).absolute())
    here = Path.cwd()
    roots = [Path(lib.__file__).parents[1], here, *here.parents]
    books = [root / "book" for root in roots if (root / "book" / "_toc.yml").exists()]
    own = roots[0] / "book"
    return next((book for book in books if chapter in chapter_files(book)), own)


class Chapter:
    """The running chapter: its parameters, and how it shows results.

    Made by :func:`open_chapter`.

    Attributes
    ----------
    name : str
        The chapter's name.
    parameters : dict
        The parameters in effect.
    """

    def __init__(
        self, name: str, declared: tuple[Parameter, ...], parameters: dict[str, Any], book: Path
    ) -> None:
        self.name = name
        self.parameters = parameters
        self._used: dict[str, Any] = {}
        self._declared = declared
        self._book = book
        claims = read_claims(book / "claims.yml")
        self._claims = {c.id: c for c in claims.values() if c.chapter == name}
        self._settled: set[str] = set()
        self._numbers: dict[str, Any] = {}
        self._csv: dict[str, str] = {}

    # ------------------------------------------------------------------ parameters

    def command(self) -> str:
        """Return the papermill command that reproduces this page."""
        return reproducing(self.name, self._book.parent / "params", self._declared, self.parameters)

    def uses(self, **values: Any) -> None:
        """Say what stands in for parameters: it decides about the scale of claims.

        Parameters
        ----------
        **values
            Names of parameters and what is used instead, such as the data that are at hand.
        """
        if self._declared and not values.keys() <= self.parameters.keys():  # nbval has none
            raise ValueError(f"values must be parameters of the chapter, got {sorted(values)}")
        self._used |= values
        _display({USED_MIME: values})

    def show_parameters(self) -> None:
        """Show the parameters in effect and the command that reproduces the page."""
        rows, command = parameter_rows(self._declared, self.parameters), self.command()
        _display(
            {
                "text/html": parameters_html(self._declared, self.parameters, command),
                "text/plain": f"{rows.to_string(index=False)}\n{command}",
                PARAMETERS_MIME: {},
            }
        )

    # ------------------------------------------------------------------ values

    def values(self, volatile: bool = False, **values: float | int | str) -> None:
        """Name values that prose on any page may quote: role ``value``, ``chapter.name:.3f``.

        Parameters
        ----------
        volatile : bool
            Whether the values change from run to run (durations): then they are no
            part of :meth:`numbers`.
        **values : float, int or str
            The values; NumPy scalars become Python's.
        """
        for name, value in values.items():
            plain = value.item() if hasattr(value, "item") else value
            if not isinstance(plain, (int, float, str)) or plain != plain:
                raise ValueError(f"value {name} = {value!r} must be a number (not NaN) or a string")
            if not volatile:
                self._numbers[name] = plain
            sent = str(plain) if plain in (math.inf, -math.inf) else plain  # JSON has no infinity
            _display({VALUE_MIME: {"name": name, "value": sent}})

    def numbers(self, digits: int = 3) -> str:
        """Return all values of this page that must not change from run to run, one a line.

        Parameters
        ----------
        digits : int
            Decimals of the floating-point ones.
        """
        lines = (
            f"{name} = {value:.{digits}f}" if isinstance(value, float) else f"{name} = {value}"
            for name, value in self._numbers.items()
        )
        return "\n".join(lines)

    # ------------------------------------------------------------------ showing

    def note(self, text: str) -> None:
        """Show a visible note, for example on the data that this page used."""
        text = "\n".join(map(printable, text.split("\n")))
        _display({"text/html": note_html(text), "text/plain": text, NOTE_MIME: {"text": text}})

    def table(
        self,
        frame: pd.DataFrame,
        name: str,
        caption: str,
        formats: Mapping[str, str] | None = None,
        csv: pd.DataFrame | None = None,
        aside: bool = False,
    ) -> None:
        """Show a table that scrolls on a phone and can be had as CSV.

        Parameters
        ----------
        frame : pandas.DataFrame
            The table; its index is shown only where it is named.
        name : str
            File name of the download, without the chapter's name and extension.
        caption : str
            What the table shows.
        formats : mapping, optional
            Column to Python format, ``".3f"``. The CSV keeps all digits.
        csv : pandas.DataFrame, optional
            What the download holds, where the table shown is a digest of it.
        aside : bool
            Whether the argument does without it: then it is set smaller.
        """
        flat = frame if frame.index.names == [None] else frame.reset_index()
        source = flat if csv is None else csv
        download = csv_link(source, f"{self.name}_{name}.csv")
        page = table_html(flat, caption, formats, download, aside=aside)
        whole = {} if csv is None else {"whole": csv.to_csv(index=False)}
        self._csv[name] = source.to_csv(index=False)
        _display(
            {
                "text/html": page,
                "text/plain": flat.to_string(index=False),
                TABLE_MIME: whole
                | {
                    "name": name,
                    "csv": flat.to_csv(index=False),
                    "caption": caption,
                    "formats": dict(formats or {}),
                    "aside": aside,
                    "texts": [c for c in flat if len(flat) and flat[c].map(type).eq(str).all()],
                },
            }
        )

    def figure(
        self, figure: "Figure", name: str, alt: str, caption: str, *, theory: bool = False
    ) -> None:
        """Show a figure as SVG with alternative text, and close it.

        Parameters
        ----------
        figure : matplotlib.figure.Figure
            The figure.
        name : str
            Its name on the page, the end of its address: ``#figure-<name>``.
        alt : str
            What is to be seen, for those who cannot see it.
        caption : str
            What it means.
        theory : bool
            Nothing in it comes from this run: it is shown whichever run the page shows.
        """
        if not alt.strip():
            raise ValueError(f"figure {name} needs alternative text, not {alt!r}")
        from lib.plot import svg_pair  # what it needs takes a second to load

        svg, wide = svg_pair(figure, f"{self.name}.{name}")
        shown = {
            "text/html": figure_html(svg, name, alt, caption, wide),
            "text/plain": f"[figure {name}: {alt}]",
        }
        if not theory:  # records keep it, and pages of another run show that run's
            shown[FIGURE_MIME] = {"name": name, "alt": alt, "caption": caption}
        _display(shown)

    def drawn(self, draw: "Draw") -> None:
        """Show a figure that is drawn from the tables and values shown so far, and from records.

        Whoever changes how it looks need not run the chapter again: `python -m lib.book redraw`
        draws it anew in the records.

        Parameters
        ----------
        draw : callable
            A function of :mod:`lib.studies` that :func:`lib.studies.drawn.draws` marks.
        """
        from lib.book.records import context
        from lib.studies.drawn import Run, figure_name, read_tables

        tables, parameters = read_tables(self._csv), self.parameters | self._used
        run = Run(tables, self._numbers, parameters, **context(self._book, self.name))
        figure, alt, caption = draw(run)
        self.figure(figure, figure_name(draw), alt, caption)

    # ------------------------------------------------------------------ claims

    def check(self, claim_id: str, value: float | Evidence) -> Verdict:
        """Settle a claim by a number, and show its verdict in place.

        Parameters
        ----------
        claim_id : str
            A claim that ``book/claims.yml`` lists for this chapter.
        value : float or Evidence
            What this execution found; of a random quantity with its interval. The verdict follows
            from the bounds in the file.

        Returns
        -------
        Verdict

        Raises
        ------
        ClaimError
            On an unknown claim or one settled already.
        """
        claim = self._take(claim_id)
        verdict = judge(claim, value, self.parameters | self._used)
        self._show(claim, verdict)
        return verdict

    def check_cells(
        self,
        group: str,
        found: Mapping[str, Evidence | tuple[float | Evidence, float] | str],
        caption: str,
    ) -> list[Verdict]:
        """Settle all claims of a group, and show them as one table.

        Parameters
        ----------
        group : str
            The group's name in ``book/claims.yml``.
        found : mapping
            Claim id to the evidence that decides, or to what decides and the number to show beside
            the reported value, or to the reason why it is not run.
        caption : str
            What the table shows.

        Returns
        -------
        list of Verdict
            In the order of the ledger.
        """
        ids = [claim.id for claim in self._claims.values() if claim.group == group]
        if set(ids) != set(found) or not ids:
            odd = sorted(set(ids) ^ set(found)) or [group]
            raise ClaimError(f"the claims of group {group!r} are not those found: {odd[0]!r}")
        verdicts, scale = [], self.parameters | self._used
        for claim_id in ids:
            claim, value = self._take(claim_id), found[claim_id]
            if isinstance(value, str):
                verdicts.append(unsettled(claim, value, scale))
                continue
            decides, shown = value if isinstance(value, tuple) else (value, value.value)
            verdicts.append(judge(claim, decides, scale, float(shown)))
        lines = [verdict_text(self._claims[v.id], v.as_dict()) for v in verdicts]
        text = "\n".join([f"{caption}:", *lines])
        _display({"text/plain": text, CELLS_MIME: {"ids": ids, "caption": caption}})
        for verdict in verdicts:
            _display({VERDICT_MIME: verdict.as_dict()})
        return verdicts

    def not_run(self, claim_ids: Iterable[str], reason: str) -> None:
        """Say that claims are not checked by this execution, and why.

        Parameters
        ----------
        claim_ids : iterable of str
            Claims listed for this chapter.
        reason : str
            Shown to the reader.
        """
        for claim_id in claim_ids:
            claim = self._take(claim_id)
            self._show(claim, unsettled(claim, reason, self.parameters | self._used))

    def settle(
        self,
        prefix: str,
        values: Mapping[str, float | Evidence] | Callable[[], Mapping[str, float | Evidence]],
        unless: str = "",
    ) -> None:
        """Settle all claims that begin with a prefix, by numbers or by a reason why not.

        Parameters
        ----------
        prefix : str
            What their ids begin with.
        values : mapping or callable
            The rest of each id to what :meth:`check` takes; or what computes it, which is not
            called if there is a reason.
        unless : str
            Why this execution checks none of them; empty if it does.

        Raises
        ------
        ClaimError
            When the claims are not those that have a value.
        """
        ids = self.claims(prefix)
        rests = {} if unless else values() if callable(values) else values
        found = {prefix + rest: value for rest, value in rests.items()}
        if not ids or (not unless and set(ids) != set(found)):
            odd = sorted(set(ids) ^ set(found)) or [prefix]
            raise ClaimError(f"the claims {prefix}* are not those found: {odd[0]!r}")
        if unless:
            self.not_run(ids, unless)
        for claim_id, value in found.items():
            self.check(claim_id, value)

    def claims(self, prefix: str = "") -> list[str]:
        """Ids of this chapter's claims that begin with ``prefix``."""
        return [claim_id for claim_id in self._claims if claim_id.startswith(prefix)]

    def reported(self, group: str) -> dict[str, tuple[float, float]]:
        """Reported values and standard deviations (0 if none) of a group of claims, by id."""
        return {c.id: (c.reported, c.sd or 0.0) for c in self._claims.values() if c.group == group}

    def _take(self, claim_id: str) -> Claim:
        if claim_id not in self._claims:
            close = difflib.get_close_matches(claim_id, self._claims, n=1)
            raise ClaimError(
                f"claim_id = {claim_id!r} is no claim of {self.name}"
                + (f"; did you mean {close[0]!r}?" if close else "")
            )
        if claim_id in self._settled:
            raise ClaimError(f"claim_id = {claim_id!r} is settled already")
        self._settled.add(claim_id)
        return self._claims[claim_id]

    def _show(self, claim: Claim, verdict: Verdict) -> None:
        found = verdict.as_dict()
        _display({"text/plain": verdict_text(claim, found), VERDICT_MIME: found})


def _display(bundle: dict[str, Any]) -> None:
    if get_ipython() is not None:
        # In metadata nbval compares nothing: exact numbers differ in their last bits elsewhere.
        own = {kind: about for kind, about in bundle.items() if kind in OWN_MIMES}
        seen = {kind: shown for kind, shown in bundle.items() if kind not in own}
        display(seen, raw=True, metadata={MINE: own} if own else {})
    elif "text/plain" in bundle:  # run as a script
        print(bundle["text/plain"])
