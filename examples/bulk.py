"""From a folder of Parquet or JSON Lines files to entities, shard by shard: in this process, or on Ray.

Run it again with the same arguments, and it goes on where it was stopped. ``nestree predict --engine`` does the same.
On Ray it needs the extra ``ray``: ``pip install nestree[ray]``.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

from nestree.data import read
from nestree.prediction.engines import Engine, Job, local, predict_shards


def main() -> int:
    """Predicts, and counts what was found; 2 if a shard failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("inputs", type=Path, help="a folder of shards with a column 'text'")
    parser.add_argument("output", type=Path)
    parser.add_argument("--ray", action="store_true")
    options = parser.parse_args()

    engine: Engine = local.do
    if options.ray:
        from nestree.prediction.engines import ray

        engine = ray.engine(ray.Pool(workers=1))
    done = predict_shards(Job(options.model, options.output), [options.inputs], engine, say=print)
    print(f"{done.documents} documents, {done.entities} entities now; {done.before} shards were done before")

    labels: Counter[str] = Counter()
    for path in sorted(options.output.glob("*.parquet")):
        labels.update(entity.label for document in read(path) for entity in document.entities)
    for label, number in labels.most_common():
        print(f"{label}\t{number}")
    if done.failed:
        print(f"{len(done.failed)} shards failed; run it again to try them alone", file=sys.stderr)
    return 2 if done.failed else 0


if __name__ == "__main__":
    sys.exit(main())
