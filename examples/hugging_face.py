"""nestree with the call and the answers of a Hugging Face pipeline, and a model on its way to the hub and back.

    python examples/hugging_face.py [MODEL]        # a folder, or a name on the hub; left out: a small new model

Without a model, one is made with random weights, so that there is nothing to download: its entities mean nothing.
"""

from __future__ import annotations

import string
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import torch
from transformers import BertConfig, BertModel, BertTokenizer

from nestree import NestedNER
from nestree.integrations.hugging_face import pipeline
from nestree.model import ModelConfig

TEXTS = ["The mayor of Leeds resigned.", "Anna Bo met the chairman of the Bank of Malta."]


def main() -> None:
    """One text, several texts, a stream; then a folder as the hub holds it."""
    with tempfile.TemporaryDirectory() as folder:
        ner = pipeline(sys.argv[1] if len(sys.argv) > 1 else new_model(Path(folder)), threshold=0.6)

        print("One text, a list of dictionaries:")
        for entity in ner(TEXTS[0]):
            print("  ", entity)

        print("\nSeveral texts, a list of lists:", [len(found) for found in ner(TEXTS)], "entities")

        print("\nA stream, read as it is asked for:")
        for found in ner(endless(), batch_size=2):
            print("  ", [one["word"] for one in found])
            break

        saved = Path(folder, "saved")
        ner.model.save_pretrained(saved)  # what push_to_hub("org/name") sends
        print("\nA folder as the hub holds it:", *sorted(file.name for file in saved.iterdir()))
        again = pipeline(saved, threshold=0.6)  # or pipeline("org/name", revision="v1")
        print("The same entities:", again(TEXTS[0]) == ner(TEXTS[0]))


def endless() -> Iterator[str]:
    """Any number of texts."""
    while True:
        yield from TEXTS


def new_model(folder: Path) -> NestedNER:
    """A model with random weights, whose tokenizer knows letters."""
    letters = string.ascii_lowercase + string.punctuation
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{letter}" for letter in letters)]
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
    tokenizer = BertTokenizer(vocab=str(folder / "vocab.txt"))
    torch.manual_seed(0)
    settings = BertConfig(
        vocab_size=len(vocabulary), hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64
    )
    encoder = BertModel(settings, add_pooling_layer=False)
    return NestedNER(ModelConfig(("PER", "ORG", "GPE"), decoding="mbr"), encoder, tokenizer).eval()


if __name__ == "__main__":
    main()
