"""Interactive figures that work on a static page: controls, data and a still figure, as HTML.

What moves is computed in the browser by ``static/widgets.js``, which the site loads; the tests
compare it with what :mod:`lib` computes.  Without scripts, as in a downloaded notebook, a reader
sees the still figure.
"""

import html
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lib import audit, suitability
from lib.book.render import image_html
from lib.book.session import Chapter, _display
from lib.plot import COLOURS, new_figure, svg_bytes

_MOST_TRIALS = 1000  # of a count


@dataclass(frozen=True)
class Control:
    """What a reader can move: a range, or a choice where there are `options`.

    The script knows it by its `name`; `number` says whether a number can be typed, too.
    """

    name: str
    label: str
    low: float = 0
    high: float = 1
    step: float = 0.01
    value: float = 0
    options: tuple[str, ...] = ()
    number: bool = False

    def html(self, prefix: str) -> str:
        """The control with its label, tied to it by an id that begins with `prefix`."""
        own, name = f"{prefix}-{self.name}", html.escape(self.name)
        label = f"<label for='{own}' id='{own}-label'>{html.escape(self.label)}</label>"
        if self.options:
            options = "".join(f"<option>{html.escape(text)}</option>" for text in self.options)
            inside = f"{label}<select id='{own}' data-control='{name}'>{options}</select>"
        else:
            limits = f"min='{self.low:g}' max='{self.high:g}' step='{self.step:g}'"
            limits += f" value='{self.value:g}'"
            if self.number:
                inside = (
                    f"{label}<input type='number' inputmode='numeric' id='{own}' "
                    f"data-control='{name}' {limits}><input type='range' data-mirror='{name}' "
                    f"aria-labelledby='{own}-label' {limits}>"
                )
            else:
                inside = (
                    f"{label}<output for='{own}' aria-live='off'></output>"
                    f"<input type='range' id='{own}' data-control='{name}' {limits}>"
                )
        return f"<div class='companion-control'>{inside}</div>"


@dataclass(frozen=True, eq=False)
class Widget:
    """An interactive figure.

    `kind` says which part of the script draws it, and is the end of its address on the page;
    `numbers` maps names in the script to what readers call them; `data` is what the script needs,
    as JSON; `still` the SVG of the still figure, `alt` what that shows and `moving` what the moving
    one shows; `caption` is what both mean, `still_caption` what is to be added where nothing moves.
    """

    kind: str
    title: str
    controls: tuple[Control, ...]
    numbers: Mapping[str, str]
    data: Mapping[str, Any] = field(repr=False)
    still: bytes = field(repr=False)
    alt: str
    moving: str
    caption: str
    still_caption: str

    def html(self, page: str) -> str:
        """The figure as HTML, for a page with the book's script and style."""
        prefix = f"widget-{page}-{self.kind}"
        numbers = "".join(
            f"<div><dt>{html.escape(text)}</dt><dd><data data-shown='{html.escape(name)}' value=''>"
            "</data></dd></div>"
            for name, text in self.numbers.items()
        )
        # Within a script `<` might begin `</script>`: JSON can do without it.
        data = json.dumps(self.data, allow_nan=False, separators=(",", ":"))
        data = data.replace("<", "\\u003c")
        return (
            f"<figure class='companion-widget' data-widget='{self.kind}' id='{prefix}'>"
            f"<div class='companion-still'>{image_html(self.still, self.alt)}"
            f"<p class='companion-said'>{html.escape(self.still_caption)}</p></div>"
            "<div class='companion-live' hidden>"
            f"<div class='companion-controls' role='group' aria-label='{html.escape(self.title)}'>"
            f"{''.join(control.html(prefix) for control in self.controls)}</div>"
            f"<svg role='img' aria-label='{html.escape(self.moving)}'></svg>"
            f"<dl class='companion-numbers'>{numbers}</dl>"
            "<p class='companion-said' role='status' aria-live='polite'></p>"
            f"<script type='application/json'>{data}</script></div>"
            f"<figcaption>{html.escape(self.caption)}</figcaption></figure>"
        )


def show(chapter: Chapter, widget: Widget) -> None:
    """Show an interactive figure as the output of a chapter's cell."""
    _display(
        {
            "text/html": widget.html(chapter.name),
            "text/plain": f"[interactive figure {widget.kind}: {widget.alt}]",
        }
    )


# ---------------------------------------------------------------------- the posterior of epsilon


def epsilon_posterior(
    counts: audit.AttackCounts, delta: float = 1e-5, level: float = 0.95
) -> Widget:
    """The posterior of epsilon and its interval as an attack's four counts move (P3)."""
    low, high = audit.epsilon_interval(counts, delta, level)
    names = {
        "tp": "True positives: “in”, and it was",
        "fp": "False positives: “in”, but it was not",
        "tn": "True negatives: “out”, and it was",
        "fn": "False negatives: “out”, but it was in",
    }
    posterior = audit.epsilon_posterior(counts, delta)
    right = max(0.5, 1.15 * float(posterior.isf((1 - level) / 20)))
    figure, ax = new_figure()
    eps = np.linspace(1e-4, right, 200)
    ax.plot(eps, posterior.pdf(eps), color=COLOURS[1], marker="")
    inside = np.linspace(max(low, 1e-4), max(high, 1e-4), 100)
    ax.fill_between(inside, posterior.pdf(inside), color=COLOURS[1], alpha=0.2)
    ax.set_ylim(bottom=0)
    ax.set_xlabel("epsilon")
    ax.set_ylabel("posterior density")
    listed = ", ".join(f"{name.upper()} {getattr(counts, name)}" for name in names)
    return Widget(
        kind="epsilon-posterior",
        title="Counts of an attack",
        controls=tuple(
            Control(name, label, 0, _MOST_TRIALS, 1, getattr(counts, name), number=True)
            for name, label in names.items()
        ),
        numbers={
            "low": f"{100 * level:g}% interval, low",
            "high": "high",
            "median": "median",
            "zero": "probability of epsilon = 0",
        },
        data={"delta": delta, "level": level, "most": _MOST_TRIALS},
        still=svg_bytes(figure, "epsilon-posterior"),
        alt=f"Density of epsilon for {listed}, shaded from {low:.2f} to {high:.2f}.",
        moving="Posterior density of epsilon with its interval shaded and drawn below.",
        caption=(
            f"What an attack's counts say about epsilon at delta = {delta:g}: posterior density "
            f"(Jeffreys priors) and equal-tailed {100 * level:g}% interval."
        ),
        still_caption=f"{listed}: from {low:.3f} to {high:.3f}.",
    )


# ---------------------------------------------------------------------- suitability


def suitability_decision(
    folds: Mapping[str, Sequence[Any]], margin: float = 0.0, alpha: float = 0.05
) -> Widget:
    """The suitability filter's decision as margin and significance level move (P2).

    `folds` maps the name of a user fold to ``(test, user, true_drop)``: the estimated correctness
    of each sample, and the true accuracy on test data minus that on user data. The margin is in
    [0, 0.1], alpha in [0.001, 0.2]. Where it can, it opens on data whose verdict the control turns.
    """
    margin, alpha = round(margin, 3), round(alpha, 3)
    folds = _telling_first(folds, margin, alpha)
    margins = np.linspace(-0.1, 0.2, 151)
    figure, ax = new_figure(height=3.2)
    data, said = [], []
    for i, (label, (test, user, true_drop)) in enumerate(folds.items()):
        moments = []
        for sample in (test, user):
            values = np.asarray(sample, dtype=float)
            moments.append([float(values.mean()), float(values.var(ddof=1)), len(values)])
        data.append(
            {"label": label, "test": moments[0], "user": moments[1], "true_drop": float(true_drop)}
        )
        p = suitability.welch_non_inferiority(*moments[0], *moments[1], margins)[1]
        found = float(suitability.welch_non_inferiority(*moments[0], *moments[1], margin)[1])
        said.append(f"{label}: {'SUITABLE' if found <= alpha else 'INCONCLUSIVE'}")
        ax.plot(
            margins, p, color=COLOURS[i % 7], marker="", label=label,
            linestyle=("-", "--", "-.", ":")[i % 4],
        )  # fmt: skip
    ax.axhline(alpha, color="black", linestyle=":", linewidth=1.2, marker="")
    ax.axvline(margin, color="black", linestyle=":", linewidth=1.2, marker="")
    ax.set(xlabel="margin", ylabel="p-value")
    ax.legend(fontsize=9)
    # The axis stays while controls move, but for folds far away from the rest.
    drops = [d["test"][0] - d["user"][0] for d in data]
    span = [min(-0.02, *drops), max(0.1, *drops)]
    return Widget(
        kind="suitability-decision",
        title="User data, margin and significance level",
        controls=(
            Control("fold", "User data", options=tuple(folds)),
            Control("margin", "Margin m: acceptable drop", 0, _LARGEST_MARGIN, 0.001, margin),
            Control("alpha", "Significance level alpha", 0.001, 0.2, 0.001, alpha),
        ),
        numbers={
            "decision": "decision",
            "p_value": "p-value",
            "required": "smallest suitable margin",
            "drop": "estimated drop",
        },
        data={"folds": data, "span": span},
        still=svg_bytes(figure, "suitability-decision"),
        alt=(
            f"p-value of the non-inferiority test against the margin, falling, for {len(folds)} "
            "sets of user data; dotted lines mark alpha and the margin."
        ),
        moving=(
            "A scale of the drop in accuracy: the estimated drop with its upper confidence limit, "
            "and the margin. Suitable if the whole bar is left of the margin."
        ),
        caption=(
            "The filter's decision. SUITABLE if the upper confidence limit of the drop, at level "
            "1 - alpha, is at most the margin: the p-value is then at most alpha. Raise the margin "
            "until the verdict turns, and compare it with the true drop."
        ),
        still_caption=f"At margin {margin:g} and alpha {alpha:g}: {'; '.join(said)}.",
    )


_LARGEST_MARGIN = 0.1  # of the control


def _telling_first(
    folds: Mapping[str, Sequence[Any]], margin: float, alpha: float
) -> dict[str, Sequence[Any]]:
    """Put the user data first that show the most, and leave the order of the others.

    Those are suitable at the largest margin but not at the given one; among them, those whose
    estimates hide the most of the true drop.
    """

    def turns(test: Any, user: Any) -> bool:
        p = [suitability.non_inferiority_test(test, user, m).p_value for m in (margin, most)]
        return p[1] <= alpha < p[0]

    most = _LARGEST_MARGIN
    hidden = {
        label: true_drop - (np.mean(test) - np.mean(user))
        for label, (test, user, true_drop) in folds.items()
        if turns(test, user)
    }
    first = max(hidden, key=hidden.get, default=None)
    return dict(sorted(folds.items(), key=lambda item: item[0] != first))
