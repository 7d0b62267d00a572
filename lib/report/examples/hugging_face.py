"""From a Hugging Face classifier of texts to the report's file."""

import numpy as np
import torch


def save_predictions(path, model, tokenizer, parts, batch=32):
    """`parts`: "holdout", "test", "user" to (texts, labels or None)."""
    arrays, options = {}, {"padding": True, "truncation": True}
    model.eval()
    for part, (texts, labels) in parts.items():
        logits = []
        for i in range(0, len(texts), batch):
            x = tokenizer(texts[i : i + batch], return_tensors="pt", **options)
            with torch.inference_mode():
                logits.append(model(**x.to(model.device)).logits.cpu())
        arrays[f"{part}_logits"] = torch.cat(logits).float().numpy()
        if labels is not None:
            arrays[f"{part}_labels"] = np.asarray(labels)
    np.savez(path, **arrays)
