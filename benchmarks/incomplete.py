"""What incomplete annotation costs, and what of it comes back: corpora with entities removed.

    python -m benchmarks.incomplete train.data --output cut --seed 0
    nestree train cut/60-open-0.jsonl --dev dev.data --epochs 5 --output runs/60-open-0     # for each file and seed
    python -m benchmarks.runs runs --name incomplete

It writes, for each share that is removed, two corpora with the same entities: `open` says that no label was
annotated completely, `negative` says nothing, so that what is missing counts as no entity. Of `labels-...`, every
second document was annotated for some labels only.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from nestree.data import Document, read, write

SHARES = (0, 30, 60, 90)


def thinned(documents: Iterable[Document], removed: float, seed: int) -> Iterator[Document]:
    """Documents with some of their entities removed at random."""
    chance = random.Random(seed)
    for document in documents:
        yield replace(document, entities=tuple(one for one in document.entities if chance.random() >= removed))


def without_labels(documents: Iterable[Document], kept: set[str], seed: int, *, say: bool) -> Iterator[Document]:
    """Documents of which every second one, at random, has entities with some labels only."""
    chance = random.Random(seed)
    for document in documents:
        if chance.random() < 0.5:
            yield document
            continue
        entities = tuple(one for one in document.entities if one.label in kept)
        yield replace(document, entities=entities, complete_labels=tuple(sorted(kept)) if say else None)


def make(source: Path, output: Path, seed: int) -> None:
    """Writes all corpora of one seed."""
    documents = list(read(source))
    output.mkdir(parents=True, exist_ok=True)
    for share in SHARES:
        cut = list(thinned(documents, share / 100, seed))
        write((replace(one, complete_labels=()) for one in cut), output / f"{share}-open-{seed}.jsonl")
        write(cut, output / f"{share}-negative-{seed}.jsonl")
    frequent = Counter(entity.label for one in documents for entity in one.entities).most_common()
    kept = {label for at, (label, _) in enumerate(frequent) if at % 2 == 0}
    for name, say in (("open", True), ("negative", False)):
        found = without_labels(documents, kept, seed, say=say)
        write(found, output / f"labels-{name}-{seed}.jsonl")
    print(
        f"{output}: removed {', '.join(map(str, SHARES))} percent; or all but {', '.join(sorted(kept))} in every second"
    )


def main() -> None:
    """Makes the corpora of one seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train", type=Path)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    make(options.train, options.output, options.seed)


if __name__ == "__main__":
    main()
