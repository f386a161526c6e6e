"""A small tokenizer of whole words, trained with the package tokenizers, as a ``tokenizer.json``."""

from __future__ import annotations

from pathlib import Path

WORDS = "a good movie was bad the plot and story very boring great".split()  # noqa: SIM905


def write_tokenizer(path: Path, words: list[str] = WORDS, *, pad: str = "[PAD]") -> Path:
    """Numbers 0 to 3 are [UNK], [CLS], [SEP] and the padding; a text gets [CLS] and [SEP]."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    names = ["[UNK]", "[CLS]", "[SEP]", pad, *words]
    vocabulary = {name: number for number, name in enumerate(names)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    tokenizer.save(str(path))
    return path
