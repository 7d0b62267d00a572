"""From CSV files of logits to the report's file."""

import numpy as np
import pandas as pd


def save_predictions(path, labeled, user, seed=0):
    """`labeled` and `user`: CSV files with columns logit_0, logit_1, ..., and label if known."""
    columns = r"^(logit_\d+|label)$"  # no others, such as identifiers: the report refuses them
    known, new = (pd.read_csv(one).filter(regex=columns) for one in (labeled, user))
    half = np.random.default_rng(seed).permutation(len(known)) % 2
    known["part"] = np.where(half == 1, "holdout", "test")
    new["part"] = "user"
    pd.concat([known, new]).to_csv(path, index=False)
