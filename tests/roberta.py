"""RoBERTa-base at its size, with random weights, for machines that have no network."""

from pathlib import Path

import torch

from lib.training.text import ROBERTA


def make_roberta(folder: Path) -> None:
    """Write its files into the folder. A letter is a token, and a text ends after 24 of them."""
    from tokenizers import Regex
    from tokenizers.normalizers import Replace
    from tokenizers.pre_tokenizers import ByteLevel
    from transformers import (
        PreTrainedTokenizerFast,
        RobertaConfig,
        RobertaForSequenceClassification,
        RobertaTokenizerFast,
    )
    from transformers.utils import logging

    logging.disable_progress_bar()
    path = folder / ROBERTA.partition("/")[2]
    config = RobertaConfig(vocab_size=50265, max_position_embeddings=514, type_vocab_size=1)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        RobertaForSequenceClassification(config).save_pretrained(path)
    tokens = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", *sorted(ByteLevel.alphabet())]
    numbers = {token: number for number, token in enumerate(tokens)}
    tokenizer = RobertaTokenizerFast(vocab=numbers, merges=[]).backend_tokenizer
    tokenizer.normalizer = Replace(Regex("(?<=^.{24}).+"), "")
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>").save_pretrained(path)
