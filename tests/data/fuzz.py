"""Throws damaged files at every reader: nothing but a DataError may come out.

    python -m tests.data.fuzz --seconds 600                     # random damage to the shipped corpora
    pip install atheris; python -m tests.data.fuzz --engine atheris --seconds 600   # guided by coverage

Whatever a reader accepts is split, fitted and written as columns and as JSON Lines, and read again.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import sys
import tempfile
import time
from pathlib import Path

from nestree.data import DataError, Policies, Report, Splitter, read, write
from nestree.data.conversion import fit
from nestree.data.formats import FORMATS, detect
from tests.data.cases import CORPORA, SHIPPED

NAMES = [name for name, file in SHIPPED.items() if (CORPORA / file).is_file()] + ["brat"]
POLICIES = Policies("expand", "drop_shorter", "composite", "cover")
SPLITTER = Splitter("whitespace", "en", "lines")


PIECES = [b"\n", b"\t", b"-1", b"99999", b'"', b"{", b"]", b"null", b"\xed\xa0\x80", b"&x;"]


def content_of(name: str) -> bytes:
    """A corpus that is right."""
    if name == "brat":
        return (CORPORA / "brat" / "museum.ann").read_bytes()
    return (CORPORA / SHIPPED[name]).read_bytes()


def attempt(name: str, content: bytes, folder: Path) -> bool:
    """Reads bytes as a format; whether they were accepted. Anything but a DataError is a fault."""
    path = folder / ("a.ann" if name == "brat" else "corpus")
    path.write_bytes(content)
    if name == "brat":
        (folder / "a.txt").write_bytes((CORPORA / "brat" / "museum.txt").read_bytes())
    with contextlib.suppress(DataError):
        detect(path)
    try:
        documents = list(read(path, name))
    except DataError:
        return False
    for target in ("columns", "jsonl"):
        try:
            fitting = list(fit(documents, FORMATS[target], POLICIES, SPLITTER, Report()))
            write(fitting, folder / "out", target)
        except DataError:
            continue  # what was read does not fit into the other format
        if fitting:
            again = list(read(folder / "out", target))
            if target == "jsonl" and again != fitting:
                raise AssertionError(f"{name}: JSON Lines changed a document")
            if [one.words for one in again] != [one.words for one in fitting]:
                raise AssertionError(f"{name}: {target} changed a word")
    return True


def damaged(content: bytes, rng: random.Random) -> bytes:
    """Bytes with a few faults."""
    found = bytearray(content)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(found) + 1)
        match rng.randrange(6):
            case 0 if at < len(found):
                found[at] = rng.randrange(256)
            case 1:
                del found[at:]
            case 2:
                found[at:at] = rng.randbytes(rng.randint(1, 5))
            case 3:
                del found[at : at + rng.randint(1, 40)]
            case 4:
                found[at:at] = found[at : at + rng.randint(1, 60)]
            case 5:
                found[at:at] = rng.choice(
                    [b"\n", b"\t", b"-1", b"99999", b'"', b"{", b"]", b"null", b"\xed\xa0\x80", b"&x;"]
                )
    return bytes(found)


def by_chance(seconds: float, seed: int) -> None:
    """Random damage until the time is up."""
    rng, began, tried, accepted = random.Random(seed), time.monotonic(), 0, 0
    with tempfile.TemporaryDirectory() as folder:
        while time.monotonic() - began < seconds:
            name = rng.choice(NAMES)
            content = damaged(content_of(name), rng)
            try:
                accepted += attempt(name, content, Path(folder))
            except BaseException:
                kept = Path(tempfile.gettempdir(), "nestree-fuzz-failure")
                kept.write_bytes(content)
                print(f"{name}: after {tried} files; the bytes are in {kept}", file=sys.stderr)
                raise
            tried += 1
    print(f"{tried} damaged files in {seconds:g} s: {accepted} read, {tried - accepted} refused, no other exception")


def by_coverage(seconds: float) -> None:
    """Damage guided by which lines it reaches. The first byte chooses the format."""
    import atheris

    folder = Path(tempfile.mkdtemp())
    seeds = folder / "seeds"
    seeds.mkdir()
    for number, name in enumerate(NAMES):
        (seeds / name).write_bytes(bytes([number]) + content_of(name))
    atheris.instrument_all()
    Path(folder, "work").mkdir()

    def one(data: bytes) -> None:
        if data:
            attempt(NAMES[data[0] % len(NAMES)], data[1:], folder / "work")

    atheris.Setup(
        [sys.argv[0], f"-max_total_time={int(seconds)}", "-max_len=6000", "-print_final_stats=1", str(seeds)], one
    )
    atheris.Fuzz()


def main() -> None:
    """Parses and runs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--engine", choices=["chance", "atheris"], default="chance")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.engine == "atheris":
        by_coverage(options.seconds)
    else:
        by_chance(options.seconds, options.seed)


if __name__ == "__main__":
    main()
