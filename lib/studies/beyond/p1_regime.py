"""SCTD against the softmax response at P1's own settings: by budget, and by what SCTD watches."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from lib.plot import COLOURS, MARKERS, new_figure, panels, plain_log
from lib.selective import scores
from lib.selective.uncertainty import Mean, compare_over_seeds
from lib.studies.drawn import Drawn, Run, draws
from lib.studies.headed import head
from lib.studies.interplay.experiments import Experiments

#: SCTD's two written forms, and what becomes of points of equal score.
FORMS = {"equation": "Eq. 16", "algorithm": "Algorithm 1"}
TIES = ("averaged", "by SR")
#: How a figure names the two ways of training.
_WAYS = {"P1's": "as P1 trains", "tuned": "with tuned rates"}


def watched(labels: npt.NDArray, thinned: int = 1, part: float = 1.0) -> npt.NDArray:
    """Of models (t, n), the final one last, those of the last part; of these every so many-th.

    Counted back from the final model, which always stays.
    """
    last = labels[len(labels) - max(1, math.ceil(part * len(labels))) :]
    return last[::-1][::thinned][::-1]


def lead(trained: Experiments, epsilon: float, score: npt.ArrayLike) -> Mean:
    """SR's mean normalized score minus that of scores (seeds, n) of the same models.

    Over training runs and points, with the degrees of freedom of the runs where these are fewer.
    """
    response = trained.predictions["SR", epsilon]
    given = response.correct, response.score, response.correct, score
    found = compare_over_seeds(*given)
    seeds = len(response.correct)
    return replace(found, degrees=min(found.degrees, seeds - 1)) if seeds > 1 else found


def leads(trained: Experiments, thinned: Sequence[int], parts: Sequence[float]) -> pd.DataFrame:
    """SCTD's lead over SR by budget, spacing, part of the training, form and ties.

    Where fewer than two models before the final one are left, SCTD has nothing to watch: no row.
    """
    rows = []
    every = trained.settings.training.checkpoint_every
    for epsilon, models in trained.checkpoints.items():
        response = trained.predictions["SR", epsilon]
        for part, n, form in itertools.product(parts, thinned, FORMS):
            chosen = [watched(each, n, part) for each in models]
            if len(chosen[0]) < 3:
                continue
            score = np.array([scores.sctd(each, form=form) for each in chosen])
            pairs = zip(score, response.score, strict=True)
            broken = np.array([scores.ties_broken_by(*pair) for pair in pairs])
            for ties, each in zip(TIES, (score, broken), strict=True):
                found = lead(trained, epsilon, each)
                low, high = found.interval()
                rows.append(
                    {
                        "epsilon": epsilon,
                        "every": n * every,
                        "last": part,
                        "models": len(chosen[0]),
                        "form": FORMS[form],
                        "ties": ties,
                        "lead": found.value,
                        "low": low,
                        "high": high,
                        "never changed": float(np.mean(score == 0)),
                    }
                )
    return pd.DataFrame(rows)


def densest(table: pd.DataFrame) -> pd.DataFrame:
    """The rows in which all models are watched from the first one on."""
    every = table.groupby("regime")["every"].transform("min")
    return table[(table["every"] == every) & (table["last"] == table["last"].max())]


@draws("p1_regime", "leads")
def draw_leads(run: Run) -> Drawn:
    """Draw SCTD's lead at each regime and budget, by form and ties, with intervals."""
    rows = densest(run.tables["density"])
    places = list(dict.fromkeys(zip(rows["regime"], rows["epsilon"], strict=True)))
    figure, ax = new_figure(height=0.45 * len(places) + 1.2)
    for i, (form, ties) in enumerate(itertools.product(FORMS.values(), TIES)):
        of = rows[(rows["form"] == form) & (rows["ties"] == ties)]
        given = zip(of["regime"], of["epsilon"], strict=True)
        y = [places.index(place) + 0.16 * (i - 1.5) for place in given]
        ax.errorbar(of["lead"], y, xerr=_bars(of), **_look(form, ties), linestyle="")
    ax.axvline(0, color="0.4", linestyle=":", marker="")
    words = [_WAYS.get(r, r) + "\n" + rf"$\epsilon = {e:g}$" for r, e in places]
    ax.set_yticks(range(len(places)), words)
    ax.set_ylim(len(places) - 0.5, -0.5)
    ax.grid(visible=False, axis="y")
    ax.grid(visible=True, axis="x", color="0.9", linewidth=0.8)
    head(ax, headline(rows), _tie_words())
    ax.set_xlabel("SCTD's lead over SR")
    return Drawn(
        figure,
        "A row for either way of training and each budget, with four points and error bars: two "
        "forms of SCTD, ties averaged and broken by SR; a dotted line at zero.",
        f"Right of zero SCTD abstains better than SR on {_source(run)}. Circles are Eq. 16, "
        "squares Algorithm 1; bars are 95% intervals over training runs and points.",
    )


def _source(run: Run) -> str:
    return f"{run.parameters['dataset']} ({run.parameters['model']})"


def _tie_words() -> dict[str, str]:
    return {f"ties {ties}": COLOURS[i] for i, ties in enumerate(TIES)}


def headline(table: pd.DataFrame) -> str:
    """At which budgets of each regime the interval of SCTD's lead lies above zero, in words."""
    judged = table[(table["form"] == "Eq. 16") & (table["ties"] == "averaged")]
    said = []
    for regime, rows in judged.groupby("regime", sort=False):
        ahead = [f"{epsilon:g}" for epsilon in rows.loc[rows["low"] > 0, "epsilon"]]
        where = rf"at $\epsilon$ = {' and '.join(ahead)}" if ahead else "nowhere"
        said.append(f"{where} {_WAYS.get(regime, regime)}")
    return "SCTD is ahead " + ",\n".join(said)


def density_headline(table: pd.DataFrame) -> str:
    """What fewer models, and those of the last part alone, make of the lead, in words.

    Of the smallest budget, with ties averaged.
    """
    averaged = table[(table["ties"] == "averaged") & (table["form"] == "Eq. 16")]
    averaged = averaged[averaged["epsilon"] == averaged["epsilon"].min()]
    whole = averaged[averaged["last"] == averaged["last"].max()].sort_values("every")
    said = rf"At $\epsilon$ = {averaged['epsilon'].iloc[0]:g} SCTD's lead is "
    said += f"{whole['lead'].iloc[0]:+.3f} of all models,\n{whole['lead'].iloc[-1]:+.3f} of few"
    last = averaged[averaged["last"] < averaged["last"].max()].sort_values("every")
    return said + (f", {last['lead'].iloc[0]:+.3f} of the last part" if len(last) else "")


@draws("p1_regime", "density")
def draw_density(run: Run) -> Drawn:
    """Draw the lead over the batches between models that are watched, one plot per budget.

    Of Eq. 16 at P1's settings: all else is in the table.
    """
    table = run.tables["density"]
    table = table[(table["regime"] == table["regime"].iloc[0]) & (table["form"] == "Eq. 16")]
    budgets = list(dict.fromkeys(table["epsilon"]))
    figure, axes = panels(len(budgets), 2.1, sharey=True)
    longest = table["last"].max()
    for ax, epsilon in zip(axes, budgets, strict=True):
        for ties in TIES:
            of = table[(table["epsilon"] == epsilon) & (table["ties"] == ties)]
            for part, line in zip(dict.fromkeys(of["last"]), ("-", "--"), strict=False):
                one, look = of[of["last"] == part], _look("Eq. 16", ties)
                look |= {} if part == longest else {"markerfacecolor": "none"}
                ax.errorbar(one["every"], one["lead"], yerr=_bars(one), linestyle=line, **look)
        ax.axhline(0, color="0.4", linestyle=":", marker="")
        ax.set_xscale("log")
        plain_log(ax.xaxis)
        ax.annotate(rf"$\epsilon = {epsilon:g}$", (0.03, 0.04), xycoords="axes fraction")
        ax.set_ylabel("SCTD's lead over SR")
    axes[-1].set_xlabel("batches between watched models")
    words = _tie_words()
    if table["last"].nunique() > 1:
        words |= {f"open, dashed: last {table['last'].min():.0%}": "0.4"}
    head(axes[0], density_headline(table), words)
    return Drawn(
        figure,
        "One plot per budget: SCTD's lead over the batches between models watched, for both ways "
        "of breaking ties, over the whole training and over its last part.",
        f"SCTD's lead (Eq. 16) at P1's settings on {_source(run)} by what is watched: of the whole "
        "training, or of its last part. Bars are 95% intervals over training runs and points.",
    )


def _look(form: str, ties: str) -> dict[str, object]:
    i = list(FORMS.values()).index(form)
    return {
        "color": COLOURS[TIES.index(ties)],
        "marker": MARKERS[i],
        "capsize": 0,
        "linewidth": 1,
        "markersize": 4.5,
    }


def _bars(rows: pd.DataFrame) -> list[pd.Series]:
    """Lengths of error bars; none where an interval has no ends."""
    return [(rows["lead"] - rows["low"]).fillna(0), (rows["high"] - rows["lead"]).fillna(0)]


def at(table: pd.DataFrame, regime: str, epsilon: float, **columns: object) -> Mapping[str, float]:
    """The densest row of a regime and budget: Eq. 16 and averaged ties unless told otherwise."""
    rows = densest(table)
    wanted = {"regime": regime, "epsilon": epsilon, "form": "Eq. 16", "ties": "averaged"} | columns
    for name, value in wanted.items():
        rows = rows[rows[name] == value]
    return rows.iloc[0].to_dict()
