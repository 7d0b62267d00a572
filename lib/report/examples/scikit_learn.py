"""From a scikit-learn classifier to the report's file, with an attack."""

import numpy as np


def save_predictions(path, model, train, holdout, test, user):
    """All but `user` are pairs of inputs and labels, 0 to k - 1."""
    arrays = {"user_logits": model.decision_function(user)}
    for part, (x, y) in {"holdout": holdout, "test": test}.items():
        arrays[f"{part}_logits"] = model.decision_function(x)
        arrays[f"{part}_labels"] = y
    for name, z in arrays.items():  # one column for two classes
        if "logits" in name and z.ndim == 1:
            arrays[name] = np.column_stack([-z / 2, z / 2])
    for kind, (x, y) in {"member": train, "nonmember": holdout}.items():
        p = model.predict_proba(x)[np.arange(len(y)), y]
        arrays[f"{kind}_scores"] = np.log(np.maximum(p, 1e-300))
    np.savez(path, **arrays)
