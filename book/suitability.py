# ---
# jupyter:
#   kernelspec: {name: python3, display_name: Python 3, language: python}
# ---

# %% [markdown]
# # Suitability filters: may this model be used on that data?
#
# A hospital buys a classifier that was tested elsewhere. Its own patients differ from those of the
# test, and nobody has labelled their images yet. Will the classifier be about as accurate here as
# the seller measured there? Labels would tell; there are none. A *suitability filter*
# {cite}`pouget2025suitability` looks at the classifier's outputs alone and answers SUITABLE only if
# a statistical test says so, with a bounded risk of being wrong; otherwise it answers INCONCLUSIVE.
#
# This chapter runs the paper's main experiment, complete, on the authors' own signals from
# FMoW-WILDS (satellite images, shifted in time and place) and RxRx1-WILDS (cell images, shifted
# between laboratories' batches) {cite}`koh2021wilds`.

# %% tags=["parameters", "hide-input"]
datasets: list[str] = ["fmow", "rxrx1"]  # {fmow, rxrx1} data sets whose published signals are used
model_seeds: list[int] = [0, 1, 2]  # {0, 1, 2} seeds of the authors' ERM models
n_folds: int = 15  # [2, 30] folds the source data are cut into
margin: float = 0.0  # (-1, 1) largest acceptable drop in accuracy, m in Definition 3.1
alpha: float = 0.05  # (0, 1) significance level of the test
partition_seeds: list[int] = [32]  # [0, 4294967295] seeds of the shuffles; the authors' is 32
digits_seed: int = 0  # [0, 4294967295] seed of the fallback on digits

# %% tags=["hide-input"]
from lib.book.session import open_chapter

chapter = open_chapter("suitability", globals())
