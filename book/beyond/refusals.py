# %% [markdown]
# # Two services that refuse, watched
#
# When may you stop comparing two services that may refuse, and keep the better one, if you look at
# their scores whenever you like?
#
# **Answer.** As soon as an interval that is valid at *every* time excludes zero: for two services
# that label satellite images, after {value}`refusals.decided:,` of them.
#
# ```{result} stream
# ```
#
# Once the band excludes zero (dotted line), it is safe to stop. A minimizes empirical risk (ERM), B
# invariant risk (IRM).
#
# **Do this.** Have the probabilities of refusing logged, and agree on a floor: a chance of an
# answer of at least one fifth, say. Monitor with {py:obj}`~lib.counterfactual.exact_sequence`; you
# may stop at any time. [More](#what-to-do).
#
# ## What holds, and what does not
#
# - *Wrong if you look more than once.* Fixed-time intervals promise to miss in 5%. Even with known
#   propensities they missed at some time in up to {value}`refusals.fixed_worst:.0%` of the streams.
# - *Holds.* The exact sequence missed {value}`refusals.when_missed`, even with few points and rare
#   answers. It needs no model to be right.
# - *Caution.* The asymptotic sequence missed in up to {value}`refusals.asymptotic_worst:.1%` of the
#   streams where points are few or answers rare. With fitted propensities and rare answers it
#   missed more often still (table). It promises nothing for any given number of points.
# - *The price.* By the exact sequence half of the first streams have excluded 0
#   {value}`refusals.when_half_exact`. By the asymptotic one they have
#   {value}`refusals.when_half_asymptotic`.
# - *The price.* With rare answers the exact sequence is {value}`refusals.exact_rare:.2f` wide, the
#   asymptotic one {value}`refusals.asymptotic_rare:.2f`: the bound on a step, $2 / \epsilon$, makes
#   the difference.
#
# ## What to do
#
# - If propensities must be fitted, use {py:obj}`lib.counterfactual.predictable_nuisances` and
#   {py:obj}`lib.counterfactual.confidence_sequence`. Wait for many points, and do not rely on it
#   where answers are rare.
# - For groups call `by_group` on an {py:obj}`lib.counterfactual.Estimate`.

# %% tags=["parameters"]
stream_points: int = 8000  # [500, 100000] images of the stream, or all that there are
start: int = 100  # [10, 10000] images that the first models learn from
replays: int = 60  # [1, 1000000] streams with refusals drawn anew
points: int = 2000  # [200, 1000000] points of a simulated stream
floor: float = 0.2  # (0, 0.5] least probability of an answer there
few_points: int = 400  # [50, 1000000] points of a short one
few_start: int = 20  # [5, 100000] of these teach the first models
rare: float = 0.05  # (0, 0.5] least probability of an answer where answers are rare
streams: int = 150  # [1, 1000000] simulated streams of each kind
fitted: int = 20  # [1, 1000000] of these in which propensities are fitted, too
learner: str = "forest"  # {linear, forest, super} learner where they are
many: int = 67349  # [100, 67349] phrases that text classifier A learns from
few: int = 6000  # [100, 67349] phrases that B learns from
seed: int = 0  # [0, 1000000] of everything

# %%
import numpy as np

from lib.book.session import open_chapter

chapter = open_chapter("refusals", globals())

from lib import data
from lib.book import evidence
from lib.runs import stored_table
from lib.studies.beyond import refusal_figures
from lib.studies.beyond import refusals as studies

images_here = all(
    data.available(f"suitability/{name}")
    for name in ("fmow_ERM_0", "fmow_IRM_0", "folds_fmow_id", "folds_fmow_ood")
)
texts_here = all(map(data.available, ("sst2/train", "sst2/dev", "sst2_sentences/test")))
stream_data = (
    "FMoW, 2002 to 2017: ERM and IRM" if images_here else "P4's simulation in place of FMoW"
)
text_data = "SST-2" if texts_here else "P4's simulation in place of SST-2"
chapter.note(f"Data: {stream_data}; {text_data}; simulated streams.")

# %% [markdown]
# ## The idea
#
# Two things mislead an observer. The scores seen are those of the images that each service *chose*
# to answer. And whoever looks often enough sees, sooner or later, a difference that is not there.
#
# Ask both services for their probabilities of refusing. Then every answer can be weighted so that
# its mean is what the service would score on everything, and the only randomness left is in coins
# with known odds. An interval can be computed for *every* time at once, without approximation.
#
# ## An interval for every time
#
# As [before](../counterfactual.py), $R_t = 1$ where a service abstains, with {term}`propensity`
# $\pi_t$, and $S_t \in [0, 1]$ is its score. Let $m_t$ be a {term}`predictable` guess of it, from
# earlier points. The influence value
#
# $$
# \varphi_t = m_t + \frac{1 - R_t}{1 - \pi_t} (S_t - m_t)
# $$ (eq-refusal-value)
#
# has the mean $S_t$ over the coin $R_t$, however bad the guess is. For two services take the
# difference. If every answer has a probability of at least $\epsilon$, this is off by at most $c =
# 2 / \epsilon$. That is what Choe and Ramdas {cite}`choe2023comparing` need for their
# {term}`confidence sequence` of forecasters who always answer:
#
# $$
# \frac{1}{n} \sum_{t \le n} \varphi_t \;\pm\; \frac{u_{\alpha/2}(V_n)}{n} , \qquad
# V_n = \sum_{t \le n} (\varphi_t - \gamma_t)^2 .
# $$ (eq-exact-sequence)
#
# $u$ is the gamma-exponential boundary {cite}`howard2021time`: a sum with steps down to $-c$
# crosses it at some time with probability at most $\alpha / 2$. $\gamma_t$ is known before the
# coin. With $\gamma_t = m_t$ (the difference of both guesses) the sequence covers the mean score
# difference *of the first $n$ points themselves*, at all $n$ jointly. Nothing is assumed about
# these points: years may differ, and images may be dependent.
#
# ## Satellite images, year after year
#
# Here A answers more often the surer it is. B is cautious: it nearly always answers where it is
# sure, and seldom elsewhere, but never with a probability below {value}`refusals.least:g`.

# %%
rng = np.random.default_rng(seed)
stream = (
    studies.satellite_images(stream_points, rng)
    if images_here
    else studies.simulated(stream_points, seed)
)
watched = stored_table(studies.watch, stream, start, "linear", seed=seed)

# %%
chapter.table(
    refusal_figures.stream_table(watched),
    "stream",
    f"{stream_data}: A less B at some of the points, in order of arrival",
    {"n": ",d"}
    | dict.fromkeys(["lower", "upper", "center", "fixed time", "truth", "answered"], "+.3f"),
    aside=True,
)
chapter.drawn(refusal_figures.draw_stream)

# %%
last = watched.iloc[-1]
above = {way: watched.loc[watched[way] > 0, "n"].min() for way in ("lower", "asymptotic, fitted")}
decided = {way: 0 if np.isnan(n) else int(n) for way, n in above.items()}
again = stored_table(studies.replay, stream, replays, start, seed=seed).set_index("way")["missed"]
chapter.values(
    least=1 - max(p.max() for p in stream.propensities),
    truth=last["truth"],
    selective=last["answered"],
    low=last["lower"],
    high=last["upper"],
    decided=decided["lower"],
    decided_fitted=decided["asymptotic, fitted"],
    replays=replays,
    again_exact=int(again["exact, sample"]),
    again_fixed=int(again["fixed time"]),
)

# %% [markdown]
# By what they answered, A minus B is {value}`refusals.selective:+.3f` at the end. Had both always
# answered, it would be {value}`refusals.truth:+.3f`. The exact sequence ends at
# [{value}`refusals.low:.3f`, {value}`refusals.high:.3f`]. It first excludes zero at
# {value}`refusals.decided:,` points. The asymptotic one with fitted propensities does at
# {value}`refusals.decided_fitted:,` (0: never). Then one may stop. (Whoever goes on may see zero
# again, since the mean of the points so far moves.)
#
# We redrew the refusals {value}`refusals.replays` times on the same images. In
# {value}`refusals.again_exact` of these streams the exact sequence missed the truth so far at any
# time. The interval for a fixed time, looked at after every image, did in
# {value}`refusals.again_fixed`.
#
# ## How often each is wrong
#
# Simulated streams of P4's experiment 1 have a known difference. We compare intervals for a fixed
# time (looked at after every point), the asymptotic sequence of P4's appendix, and the exact one.
# Guesses are refitted as points arrive, from earlier points alone. Two settings are deliberately
# hard: few points, and answers that are rare in places.

# %%
settings = [(points, start, floor), (few_points, few_start, floor), (points, start, rare)]
found = stored_table(studies.monitoring, settings, learner, streams, fitted, seed=seed)
ends = found.groupby([*studies.KINDS, "way"], sort=False).tail(1).reset_index(drop=True)
half = found[found["excluded"] >= found["streams"] / 2].groupby([*studies.KINDS, "way"])["n"].min()
errors = ends.assign(missed=ends["missed"] / ends["streams"]).drop(columns=["n", "excluded"])
errors = errors.join(half.rename("half decided"), on=[*studies.KINDS, "way"])

# %%
chapter.table(
    errors,
    "errors",
    "Streams in which some interval missed the truth, mean width at the end, and the time by which "
    "half of the streams have excluded 0",
    {"points": ",d", "floor": "g", "half decided": ",.0f"}
    | dict.fromkeys(["missed", "width"], ".3f"),
)
chapter.drawn(refusal_figures.draw_errors)

# %%
ways = [kind.set_index("way") for _, kind in errors.groupby(studies.KINDS, sort=False)]
rates = [way["missed"] for way in ways]
first, *_, scarce = [way["width"] for way in ways]
worst = max(max(rate["exact"], rate["exact, sample"]) for rate in rates)
chapter.values(
    fixed=rates[0]["fixed time"],
    fixed_worst=max(rate["fixed time"] for rate in rates),
    asymptotic=rates[0]["asymptotic"],
    asymptotic_worst=max(rate["asymptotic"] for rate in rates),
    exact=worst,
    exact_width=first["exact"],
    asymptotic_width=first["asymptotic"],
    half_exact=int(np.nan_to_num(ways[0]["half decided"]["exact"])),
    half_asymptotic=int(np.nan_to_num(ways[0]["half decided"]["asymptotic"])),
    exact_rare=scarce["exact"],
    asymptotic_rare=scarce["asymptotic"],
)
after = {
    way: "never" if np.isnan(n) else f"after {n:,.0f} points"
    for way, n in ways[0]["half decided"].items()
}
chapter.values(
    volatile=True,
    asymptotic_fitted=rates[0]["asymptotic, fitted"],  # forests: rounding may move a split
    when_missed=f"in at most {worst:.1%} of the streams" if worst else "in no stream",
    when_half_exact=after["exact"],
    when_half_asymptotic=after["asymptotic"],
)
missed = round(rates[0]["asymptotic, fitted"] * fitted)
_ = chapter.check("P4-sequence-fitted", evidence.share(missed, fitted))

# %% [markdown]
# ## Two text classifiers that may refuse
#
# We had no public table of a language model's answers *and* refusals under a free license. So two
# bag-of-words models judge sentences of film reviews. A is a logistic regression that learned from
# many phrases. B is naive Bayes from few, and refuses half of the time. Which would be better if
# neither might refuse? The groups' intervals hold jointly if sentences are independent.

# %%
texts = studies.sentences(many, few) if texts_here else studies.simulated(2000, seed + 1)
overall, by_group = studies.compare(texts, "forest", seed=seed)

# %%
numbers = by_group.columns.drop(["group", "points"])
chapter.table(
    by_group,
    "groups",
    "Fractions answered, difference of the answers' accuracies, and the estimated difference, had "
    "both always answered, with the truth",
    {"points": ",d"} | dict.fromkeys(numbers, ".3f"),
)
chapter.drawn(refusal_figures.draw_groups)

# %%
groups = by_group[1:]
inside = (groups["low"] <= groups["true difference"]) & (
    groups["true difference"] <= groups["high"]
)
chapter.values(
    volatile=True,
    text_selective=by_group["selective difference"].iloc[0],
    text_estimate=overall.value,
    text_low=overall.interval[0],
    text_high=overall.interval[1],
    text_truth=by_group["true difference"].iloc[0],
    groups=len(groups),
    groups_held=int(inside.sum()),
    groups_apart=int(((groups["low"] > 0) | (groups["high"] < 0)).sum()),
)

# %% [markdown]
# By what they answered the two differ by {value}`refusals.text_selective:+.3f`. Had both always
# answered, the difference would be {value}`refusals.text_truth:+.3f`. The estimate of it is
# {value}`refusals.text_estimate:+.3f`, with the interval [{value}`refusals.text_low:.3f`,
# {value}`refusals.text_high:.3f`]. In {value}`refusals.groups_apart` of {value}`refusals.groups`
# groups one can tell which is better. The 95% confidence is for all groups together. The intervals
# of {value}`refusals.groups_held` groups cover the truth.
#
# ## The program of Choe and Ramdas
#
# If nobody abstains, Eq. {eq}`eq-exact-sequence` with $\gamma_t$ the mean so far is their sequence.
# On their baseball forecasts ours ended where their notebook does, at all five digits printed.
# (This was tried once: the forecasts are not among the book's data.) Their boundary comes from the
# package confseq; ours is tested against its published values. Their program sets $V_n$ to at least
# 1, which ours does not need.
#
# ## What this page leaves out
#
# - *Coins that lie.* A service that reports wrong propensities is weighted wrongly.
# - *Abstention by a rule* has no floor. What remains are
#   [bounds](../counterfactual_limits.py).
# - *Betting.* Sequences that test each value by a bet {cite}`waudby2024estimating` can be narrower
#   where points are alike. Ours hold even where the difference drifts.
# - *Forecasts beyond the next point*, for which the past is not known in time.
#
# ## Exercises
#
# *Try it.* Copy this cell, or open the page by its rocket. Change the true lead, or the least
# chance of an answer, and watch when one may stop.

# %% tags=["try-it"]
import numpy as np

from lib.counterfactual import Nuisances, exact_sequence

lead, floor, rng, n = 0.1, 0.5, np.random.default_rng(0), 20_000
right, refuse = [1.0 * (rng.random(n) < p) for p in (0.8, 0.8 - lead)], np.full(n, 1 - floor)
known = [Nuisances(rng.random(n) > floor, s, refuse, np.full(n, 0.75)) for s in right]
found = exact_sequence(known, floor=floor)
apart = found.n[found.lower > 0]
print(f"A is shown to lead after {apart[0]:,} points" if len(apart) else "not shown yet")

# %% [markdown]
# 1. A service answers always, half of the time, or one time in ten. What happens to the width of
#    the exact sequence for the population's score?
#
#    :::{dropdown} Solution
#    It grows about as the square root of one over the chance, like a standard error. Even with all
#    answers it is wider than an interval for one look. That is the price of looking at any time.
#    :::

# %% tags=["solution"]
import numpy as np

from lib.counterfactual import Nuisances, exact_sequence

rng, n = np.random.default_rng(0), 5000
right = 1.0 * (rng.random(n) < 0.8)
for floor in (1.0, 0.5, 0.1):
    known = Nuisances(rng.random(n) > floor, right, np.full(n, 1 - floor), np.full(n, 0.8))
    found = exact_sequence(known, floor=floor, target="population")
    print(f"answers {floor:.0%}: {found.upper[-1] - found.lower[-1]:.3f} wide")

# %% [markdown]
# 2. The true difference is 0.05. After how many points does a sequence exclude 0?
#
#    :::{dropdown} Solution
#    Somewhere between the second and the third number. Until then, stopping and reporting "no
#    difference" would be as wrong as stopping at a lucky moment: the interval says undecided.
#    :::

# %% tags=["solution"]
import numpy as np

from lib.counterfactual import confidence_sequence

values = np.random.default_rng(0).normal(0.05, 1.0, 20_000)
sequence = confidence_sequence(values)
for n in (1000, 4000, 16_000):
    low, high = sequence.lower[sequence.n == n][0], sequence.upper[sequence.n == n][0]
    print(f"{n:>6,} points: [{low:+.3f}, {high:+.3f}]")

# %% [markdown]
# 3. How much wider is a sequence than an interval for a single look at the same number of points?
#
#    :::{dropdown} Solution
#    About one and a half to two times, and more at the start. An ordinary interval that is watched
#    errs far more often than it says.
#    :::

# %% tags=["solution"]
import numpy as np

from lib.counterfactual import confidence_sequence

values = np.random.default_rng(0).normal(0.0, 1.0, 10_000)
sequence = confidence_sequence(values)
for n in (1000, 10_000):
    width = (sequence.upper - sequence.lower)[sequence.n == n][0]
    print(f"{n:>6,} points: {width / (2 * 1.96 / n**0.5):.2f} times the width of one look")

# %% [markdown]
# Rerun:
# ```sh
# papermill book/beyond/refusals.py out.ipynb -f params/quick/refusals.yml -p floor 0.5
# ```
#
# ## Summary
#
# By their answers the services differ by {value}`refusals.selective:+.3f`; on everything they would
# differ by {value}`refusals.truth:+.3f`. With known propensities, an interval that one may look at
# any time tells the sign while data arrive. Groups have intervals that hold jointly.

# %% tags=["remove-cell", "expect-numbers"]
print(chapter.numbers())
