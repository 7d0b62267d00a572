"""From a PyTorch classifier and its loaders to the report's file."""

import numpy as np
import torch


def save_predictions(path, model, loaders):
    """`loaders`: "holdout", "test", "user" to loaders of (x, y)."""
    arrays = {}
    model.eval()
    for part, loader in loaders.items():
        with torch.inference_mode():
            batches = [(model(x), y) for x, y in loader]
        logits, labels = (torch.cat(t) for t in zip(*batches, strict=True))
        arrays[f"{part}_logits"] = logits.cpu().numpy()
        arrays[f"{part}_labels"] = labels.cpu().numpy()
    np.savez(path, **arrays)
