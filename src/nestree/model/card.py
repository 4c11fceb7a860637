"""The model card: the README.md that is written beside a model, for people and for the hub."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from nestree.data import split_label
from nestree.encoders import EMBEDDED
from nestree.model.config import ModelConfig
from nestree.model.hub import is_hub_name

MARKER = "<!-- Written by nestree, and written anew when the model is saved. Without this line, it stays as it is. -->"
_FRACTIONS = ("precision", "recall", "f1")
_WHOLE = "all labels"


def model_card(
    config: ModelConfig,
    *,
    name: str,
    metrics: Mapping[str, Any] | None = None,
    training: Mapping[str, Any] | None = None,
) -> str:
    """The text of a README.md.

    Args:
        config: the settings of the model.
        name: of the model: a folder, or where it stands on the hub.
        metrics: scores by the name of the data, as ``{"dev": {"micro": {"precision": ...}, "labels": {...}}}``. What
            looks different is left out.
        training: data and settings of the training, by name.
    """
    scores = list(_scores(metrics or {}))
    parts = [
        f"---\n{_front_matter(config, name, scores)}\n---\n\n{MARKER}",
        f"# {_line(name.rpartition('/')[2])}\n\n{_summary(config)}{_together(training or {})}",
        "## Labels\n\n" + _labels(config),
        "## Use\n\n" + _use(name),
        "## Scores\n\n" + _score_table(scores),
        "## Training\n\n" + table(("setting", "value"), _flat(training)) if training else "",
        "## How text and annotation were prepared\n\n" + _preparation(config),
        "## Limits\n\n" + _limits(config),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


# --- For the hub -----------------------------------------------------------------------------------------------------


def base_model(encoder: str) -> str | None:
    """The name of an encoder on the hub, if it has one."""
    if encoder in EMBEDDED:
        return EMBEDDED[encoder][2]
    return encoder if is_hub_name(encoder) and not Path(encoder).exists() else None


def shown_encoder(encoder: str) -> str:
    """Its name on the hub, or that of its folder, without what is special to this machine; those of several, too."""
    return ", ".join(base_model(one) or Path(one).name for one in encoder.split(", "))


def _front_matter(config: ModelConfig, name: str, scores: Sequence[tuple[str, str, Mapping[str, float]]]) -> str:
    from huggingface_hub import EvalResult, ModelCardData

    results = [
        EvalResult(
            task_type="token-classification",
            task_name="Nested named entity recognition",
            dataset_type=data,
            dataset_name=data,
            metric_type=kind,
            metric_name=kind,
            metric_value=values[kind],
        )
        for data, label, values in scores
        if label == _WHOLE
        for kind in _FRACTIONS
        if kind in values
    ]
    language = config.splitter.language
    tags = ["nestree", "named-entity-recognition", "nested-ner"] + (["treecrf"] if config.loss == "treecrf" else [])
    data = ModelCardData(
        library_name="nestree",
        pipeline_tag="token-classification",
        tags=tags,
        language=None if language == "xx" else language,  # spaCy's word for any
        base_model=base_model(config.encoder),
        model_name=name,
        eval_results=results or None,
    )
    if not results:
        del data.model_name  # it means nothing to the hub without results
    return data.to_yaml().rstrip()


# --- For people ------------------------------------------------------------------------------------------------------


def _summary(config: ModelConfig) -> str:
    known = base_model(config.encoder)
    encoder = f"[{known}](https://huggingface.co/{known})" if known else "a pretrained encoder"
    if config.loss == "local":
        return (
            f"Finds nested named entities in text that is split into words: {encoder} reads a sentence, and every span "
            "of words gets a probability for each label, by itself."
        )
    return (
        f"Finds nested named entities in text that is split into words: {encoder} reads a sentence, every span of "
        "words gets a score for each label, and a TreeCRF takes the entities from a binary tree over the sentence. "
        "So entities lie inside one another or apart, and each comes with its exact marginal probability."
    )


def _together(training: Mapping[str, Any]) -> str:
    """That a model is several, if it is."""
    members = training.get("members")
    if training.get("combined") != "potentials" or not isinstance(members, Sequence):
        return ""
    return (
        f"\n\nThese are {len(members)} models together: each reads the sentence with its own encoder, and the mean of "
        "their normalised log potentials goes into one TreeCRF. So it takes as long as all of them."
    )


def _labels(config: ModelConfig) -> str:
    lines = []
    for label in config.labels:
        parts = split_label(label) if config.policies.same_span == "composite" else (label,)
        several = f": several labels on one span, {', '.join(map(_code, parts))}" if len(parts) > 1 else ""
        lines.append(f"- {_code(label)}{several}")
    return "\n".join(lines)


def _use(name: str) -> str:
    quoted = name.replace("\\", "\\\\").replace('"', '\\"')
    return f"""```python
from nestree.model import NestedNER

ner = NestedNER.from_pretrained("{quoted}")
for entity in ner.predict("Some text."):
    print(entity.text, entity.label, entity.start, entity.end, entity.score)  # characters, and the probability
```

```
nestree predict path/to/the/model letters.txt
nestree evaluate path/to/the/model test.jsonl
```"""


def _score_table(scores: Sequence[tuple[str, str, Mapping[str, float]]]) -> str:
    if not scores:
        return "None were saved with this model."
    rows = [
        (data, label, *(f"{values[kind]:.2%}".rstrip("%") if kind in values else "" for kind in _FRACTIONS))
        for data, label, values in scores
    ]
    intro = "An entity is right if its words and its label are; in percent. The first row of each data set is micro."
    return intro + "\n\n" + table(("data", "label", "precision", "recall", "F1"), rows)


def _scores(metrics: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, float]]]:
    """Data, label, and fractions: of all labels first, and then of each."""
    found = {"evaluation": metrics} if isinstance(metrics.get("micro"), Mapping) else metrics
    for data, values in found.items():
        if not isinstance(values, Mapping):
            continue
        labels = values.get("labels")
        for label, one in ((_WHOLE, values.get("micro")), *(labels.items() if isinstance(labels, Mapping) else ())):
            if not isinstance(one, Mapping):
                continue
            numbers = {kind: float(one[kind]) for kind in _FRACTIONS if _is_number(one.get(kind))}
            if numbers:
                yield str(data), str(label), numbers


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _flat(values: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}.")
        elif isinstance(value, (list, tuple)) and value and all(isinstance(one, Mapping) for one in value):
            for number, one in enumerate(value, 1):
                yield from _flat(one, f"{before}{name}.{number}.")
        elif isinstance(value, (list, tuple)):
            yield f"{before}{name}", ", ".join(map(str, value))
        else:
            yield f"{before}{name}", "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _preparation(config: ModelConfig) -> str:
    split, policies = config.splitter, config.policies
    rows = [
        ("words of raw text", split.words),
        ("sentences of raw text", split.sentences),
        ("language", split.language),
        ("entities not on word boundaries", policies.alignment),
        ("entities that overlap without nesting", policies.crossing),
        ("several labels on one span", policies.same_span),
        ("entities of several pieces", policies.discontinuous),
    ]
    words = "Text should be split into words as the training data was. The names are those of `Splitter` and `Policies`"
    return f"{words} in `nestree.data`.\n\n" + table(("what", "how"), [(what, _code(how)) for what, how in rows])


def _limits(config: ModelConfig) -> str:
    crossing = "" if config.loss == "local" else ", entities that overlap without nesting"
    return f"""- It finds runs of whole words. It cannot find entities of several pieces{crossing} and parts of words.
- It knows the labels above, as its training data use them. Expect more errors in other kinds of text.
- A probability is exact for this model, and the model can be wrong. Look at the scores on your own data."""


# --- Markdown --------------------------------------------------------------------------------------------------------


def table(head: Sequence[str], rows: Iterator[Sequence[str]] | Sequence[Sequence[str]]) -> str:
    """A table of Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(_line(cell).replace("|", "\\|") for cell in row) + " |" for row in lines)


def _line(text: str) -> str:
    return " ".join(text.split())


def _code(text: str) -> str:
    """Text as code, whatever is in it."""
    text = _line(text)
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence, space = "`" * (longest + 1), " " if longest else ""
    return fence + space + text + space + fence
