"""Fine-tuning RoBERTa, as P3 does on SST-2, where ``transformers`` is installed.

Weights and tokenizer come from a folder ``roberta-base`` in ``COMPANION_DATA`` if there is one,
for machines without a network; else from Hugging Face's hub, at a fixed revision.
"""

import importlib.util
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from lib.data.store import local_folder

ROBERTA = "FacebookAI/roberta-base"
ROBERTA_REVISION = "e2da8e2f811d1448a5b465c236feacd80ffbac7b"

_PADDING = 1  # RoBERTa's


class TextClassifier(nn.Module):
    """A ``RobertaForSequenceClassification`` on token numbers stored as floats."""

    def __init__(self, network: nn.Module):
        super().__init__()
        self.network = network

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Class logits of texts given as token numbers, padded with 1 at their ends."""
        numbers = tokens.long()
        mask = (numbers != _PADDING).long()
        longest = max(1, int(mask.any(0).sum()))  # what is padding in all texts costs nothing
        return self.network(numbers[:, :longest], attention_mask=mask[:, :longest]).logits


def pretrained(classes: int, dropout: float) -> TextClassifier:
    """RoBERTa-base with a new head, drawn from PyTorch's global generator."""
    require_transformers()
    from transformers import RobertaForSequenceClassification
    from transformers.utils import logging

    logging.disable_progress_bar()
    network = RobertaForSequenceClassification.from_pretrained(
        **_source(),
        use_safetensors=True,  # other files of weights are pickles
        num_labels=classes,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
        # Fused attention has no gradient per example.
        attn_implementation="eager",
    )
    return TextClassifier(network)


def tokens_of(texts: Sequence[str], length: int) -> npt.NDArray[np.float32]:
    """Token numbers (n, length) of texts, cut or padded; as floats exact, RoBERTa has 50,265."""
    require_transformers()
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(**_source())
    found = tokenizer(list(texts), truncation=True, max_length=length, padding="max_length")
    return np.asarray(found["input_ids"], dtype=np.float32)


def _source() -> dict[str, str]:
    folder = local_folder(ROBERTA.partition("/")[2])
    if folder is not None:
        return {"pretrained_model_name_or_path": str(folder)}
    return {"pretrained_model_name_or_path": ROBERTA, "revision": ROBERTA_REVISION}


def require_transformers() -> None:
    """Raise a ModuleNotFoundError that says how to install ``transformers`` where it is missing."""
    if importlib.util.find_spec("transformers") is None:
        raise ModuleNotFoundError(
            "a model 'roberta' needs the package transformers:"
            ' pip install "abstention-privacy-companion[text]"'
        )
