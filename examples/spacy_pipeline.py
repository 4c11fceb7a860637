"""A spaCy pipeline that finds nested entities: texts in, ``doc.spans`` and a drawing of displaCy out.

``python examples/spacy_pipeline.py MODEL`` takes any model's folder; ``make demo`` trains one, demo/treecrf.
Needs the extra ``spacy``: ``pip install nestree[spacy]``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import spacy
from spacy import displacy

import nestree.integrations.spacy  # noqa: F401  (not needed where nestree is installed: spaCy finds it)

TEXTS = [
    "The daughter of the chairman of the Bank of Malta has opened a restaurant.",
    "The mayor of Leeds resigned. Her deputy, a professor at the University of Porto, takes over.",
]


def main() -> None:
    """Adds the component, reads, saves, loads, draws."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", nargs="?", default="demo/treecrf", help="a model's folder (demo/treecrf)")
    parser.add_argument("--output", type=Path, default=Path("demo/spacy"), help="where to write to (demo/spacy)")
    options = parser.parse_args()

    nlp = spacy.blank("en")  # or spacy.load("en_core_web_sm"): other components are welcome
    nlp.add_pipe("sentencizer")  # not needed: without sentences the model finds its own
    nlp.add_pipe("nestree", config={"model": options.model, "ents": "outermost"})
    for doc in nlp.pipe(TEXTS):
        group = doc.spans["sc"]
        print(doc.text)
        for span, score in zip(group, group.attrs["scores"], strict=True):
            print(f"  {span.label_:8} {score:.2f}  {span.text}")
        print(f"  doc.ents: {', '.join(entity.text for entity in doc.ents) or 'none'}")

    options.output.mkdir(parents=True, exist_ok=True)
    nlp.to_disk(options.output / "pipeline")  # the model goes along
    again = spacy.load(options.output / "pipeline")
    drawn = displacy.render(list(again.pipe(TEXTS)), style="span", page=True, jupyter=False)
    (options.output / "spans.html").write_text(drawn, encoding="utf-8")
    print(
        f"{options.output / 'pipeline'} can be loaded with spacy.load; {options.output / 'spans.html'} shows the spans"
    )


if __name__ == "__main__":
    main()
