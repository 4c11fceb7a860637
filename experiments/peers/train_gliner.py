"""GLiNER on the same encoder, fine-tuned on the same data.

    PYTHON experiments/peers/train_gliner.py SPEC.json

Its span head begins with random weights: pretrained GLiNER models have another encoder and have seen other data.
"""

from __future__ import annotations

import json
import random
import sys
import time
from pathlib import Path
from typing import Any

THRESHOLD = 0.5


def make(spec: dict[str, Any]) -> Any:
    """GLiNER around the encoder."""
    from gliner import GLiNER
    from gliner.config import GLiNERConfig

    settings = {"model_name": spec["encoder"], "max_width": spec["max_width"], "max_len": spec["max_words"]}
    config = GLiNERConfig(**settings, hidden_size=spec["width"], max_types=len(spec["labels"]), dropout=0.3)
    return GLiNER.from_config(config)


def predicted(model: Any, documents: list[dict[str, Any]], spec: dict[str, Any]) -> list[list[list[Any]]]:
    """The entities of each document: start, end, label. Words are the corpus's own: text is joined by spaces."""
    texts, starts = [], []
    for one in documents:
        place, at = {}, 0
        for number, word in enumerate(one["words"]):
            place[at] = number
            at += len(word) + 1
        texts.append(" ".join(one["words"]))
        starts.append(place)
    names = spec["names"]
    found = model.inference(
        texts, list(names.values()), flat_ner=False, threshold=THRESHOLD, batch_size=spec["batch_size"]
    )
    labels = {name: label for label, name in names.items()}
    result = []
    for one, place, entities in zip(documents, starts, found, strict=True):
        ends = {at + len(one["words"][number]): number + 1 for at, number in place.items()}
        known = [e for e in entities if e["start"] in place and e["end"] in ends]
        result.append([[place[e["start"]], ends[e["end"]], labels[e["label"]]] for e in known])
    return result


class OnSpaces:
    """Splits text at spaces: into the corpus's own words."""

    def __call__(self, text: str) -> Any:
        """Words with their places."""
        at = 0
        for word in text.split(" "):
            if word:
                yield word, at, at + len(word)
            at += len(word) + 1


def main() -> None:
    """Trains, keeps the predictions of the best epoch, writes them."""
    import gliner
    import torch

    sys.path.insert(0, str(Path(__file__).parent))
    from train_spancat import f1, is_look  # type: ignore[import-not-found]

    spec = json.loads(Path(sys.argv[1]).read_text())
    train, dev = (json.loads(Path(spec[name]).read_text()) for name in ("train", "dev"))
    torch.set_num_threads(spec["threads"])
    torch.manual_seed(spec["seed"])
    random.seed(spec["seed"])
    # Its prompts are made of label names: readable ones.
    spec["names"] = {label: label.rpartition("#")[2].replace("_", " ").lower() for label in spec["labels"]}
    model = make(spec).to(spec["device"])
    model.data_processor.words_splitter = OnSpaces()
    names = spec["names"]
    rows = [
        {
            "tokenized_text": one["words"],
            "ner": [[start, end - 1, names[label]] for start, end, label in one["entities"]],
            "ner_labels": list(names.values()),  # the same question as in prediction
        }
        for one in train
        if len(one["words"]) <= spec["max_words"]
    ]
    collate = model._create_data_collator()
    head = [value for name, value in model.named_parameters() if "token_rep_layer" not in name]
    encoder = [value for name, value in model.named_parameters() if "token_rep_layer" in name]
    groups = [{"params": encoder, "lr": spec["encoder_lr"]}, {"params": head, "lr": spec["head_lr"]}]
    optimizer = torch.optim.AdamW(groups, weight_decay=0.01)
    steps = spec["epochs"] * -(-len(rows) // spec["batch_size"])
    warm = max(1, steps // 20)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / warm, max(0.0, (steps - step) / max(1, steps - warm)))
    )
    best, kept, began, curve = -1.0, [], time.monotonic(), []
    chance = random.Random(spec["seed"])
    for epoch in range(1, spec["epochs"] + 1):
        model.train()
        chance.shuffle(rows)
        total = 0.0
        for first in range(0, len(rows), spec["batch_size"]):
            batch = collate(rows[first : first + spec["batch_size"]])
            batch = {name: value.to(spec["device"]) if hasattr(value, "to") else value for name, value in batch.items()}
            loss = model(**batch).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad(set_to_none=True)
            total += float(loss.detach())
        if not is_look(epoch, spec):
            continue
        model.eval()
        with torch.inference_mode():
            found = predicted(model, dev, spec)
        curve.append(round(100 * f1(dev, found), 2))
        print(f"epoch {epoch}: loss {total:.2f}, dev F1 {curve[-1]}", flush=True)
        if curve[-1] > best:
            best, kept = curve[-1], found
    content = {
        "predicted": kept,
        "dev_f1_by_epoch": curve,
        "seconds": round(time.monotonic() - began, 1),
        "versions": {"gliner": gliner.__version__, "torch": torch.__version__},
    }
    Path(spec["output"]).write_text(json.dumps(content))


if __name__ == "__main__":
    main()
