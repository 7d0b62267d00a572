"""From a scikit-learn classifier to the report's file, with an attack on its training data."""

import numpy as np


def save_predictions(path, model, pool, holdout, test, user, seed):
    """Trains `model`. All but `user` are pairs of inputs and labels, 0 to k - 1."""
    x, y = pool  # who is a member must be decided by coins: a hold-out set is no substitute
    member = np.random.default_rng(seed).random(len(y)) < 0.5
    model.fit(x[member], y[member])
    arrays = {"user_logits": model.decision_function(user)}
    for part, (u, v) in {"holdout": holdout, "test": test}.items():
        arrays[f"{part}_logits"] = model.decision_function(u)
        arrays[f"{part}_labels"] = v
    for name, z in arrays.items():  # one column for two classes
        if "logits" in name and z.ndim == 1:
            arrays[name] = np.column_stack([-z / 2, z / 2])
    s = np.log(np.maximum(model.predict_proba(x)[np.arange(len(y)), y], 1e-300))
    arrays["member_scores"], arrays["nonmember_scores"] = s[member], s[~member]
    np.savez(path, **arrays)
