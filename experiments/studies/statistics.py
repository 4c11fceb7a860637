"""Statistics of the corpora (the paper's Table 1)."""

from __future__ import annotations

from typing import Any

from experiments import paper, provenance
from experiments.corpora import title
from experiments.groups import Results
from experiments.markdown import listed, number, table
from experiments.planning import Request
from experiments.store import write_json
from experiments.study import Section, Study
from nestree.training import TrainConfig, load_part

CORPORA = ("genia", "litbank", "germeval")
ROWS = {
    "sentences": "sentences",
    "nested_sentences": "with nested entities",
    "entities": "entities",
    "nested_entities": "nested entities",
    "average_length": "average length",
}
"""The rows of the paper, and what they are called there."""
MORE = {"depth": "depth of nesting", "words_per_entity": "words per entity", "same_span": "spans with several labels"}


def measure(request: Request) -> list[str]:
    """Counts train and dev of each corpus."""
    found: dict[str, Any] = {}
    for corpus in request.of(*CORPORA):
        parts = {}
        for name, path in (("train", corpus.train), ("dev", corpus.dev)):
            part = load_part(path, TrainConfig().splitter)
            counted = part.statistics.as_dict()
            kept = {key: value for key, value in counted.items() if key not in ("sentence_lengths", "entity_lengths")}
            parts[name] = {"fingerprint": part.fingerprint, **kept}
        found[corpus.name] = parts
    path = request.store.other_path("statistics")
    write_json(path, {"code": provenance.code(), "corpora": found})
    return [f"{', '.join(found)} counted; written to {path}"]


def section(results: Results, found: Section) -> None:
    """The paper's rows, and a few more."""
    content = results.store.other("statistics")
    if content is None:
        return
    corpora: dict[str, Any] = content["corpora"]
    head, columns = [""], list[list[str]]()
    for corpus, parts in corpora.items():
        for part, counted in parts.items():
            head.append(f"{title(corpus)} {part}")
            cells = [_cell(row, counted[row]) for row in (*ROWS, *MORE)]
            columns.append([*cells, str(len(counted["labels"]))])
            theirs = paper.STATISTICS.get(corpus, {}).get(part)
            if theirs:
                head.append("*paper*")
                columns.append([f"*{number(value)}*" for value in theirs] + [""] * (len(MORE) + 1))
    for corpus in [one for one in paper.STATISTICS if one not in corpora]:
        for part, theirs in paper.STATISTICS[corpus].items():
            if part != "test":
                head.append(f"*{paper.CORPORA[corpus]} {part}*")
                columns.append([f"*{number(value)}*" for value in theirs] + [""] * (len(MORE) + 1))
    names = [*ROWS.values(), *MORE.values(), "labels"]
    rows = [[name, *(column[at] for column in columns)] for at, name in enumerate(names)]
    found.add(table(head, rows), *_comparison(corpora), *_nesting(corpora))


def _cell(row: str, value: float) -> str:
    """Averages have two digits behind the point, whatever they are."""
    return f"{value:.2f}" if isinstance(value, float) else number(value)


def _comparison(corpora: dict[str, Any]) -> list[str]:
    """What differs from the paper, corpus by corpus."""
    lines = []
    for corpus in corpora.keys() & paper.STATISTICS.keys():
        same, differ = 0, []
        for part, counted in corpora[corpus].items():
            for (row, name), theirs in zip(ROWS.items(), paper.STATISTICS[corpus][part], strict=True):
                ours = round(counted[row], 2)
                if ours == theirs:
                    same += 1
                else:
                    differ.append(f"{name} of {part} ({number(ours)}, paper {number(theirs)})")
        told = f"; not: {listed(differ)}" if differ else ""
        lines.append(f"{title(corpus)}: {same} of {same + len(differ)} of the paper's numbers are met exactly{told}.")
    return lines


def _nesting(corpora: dict[str, Any]) -> list[str]:
    """How much nesting there is, which is what a stand-in is to have."""
    shares = {
        title(corpus): parts["train"]["nested_sentences"] / parts["train"]["sentences"]
        for corpus, parts in corpora.items()
        if "train" in parts
    }
    shares |= {
        f"{paper.CORPORA[corpus]} (paper)": parts["train"][1] / parts["train"][0]
        for corpus, parts in paper.STATISTICS.items()
        if corpus not in corpora
    }
    told = ", ".join(f"{name} {100 * share:.0f}%" for name, share in shares.items())
    return [
        f"Training sentences with nested entities: {told}. Entities are counted as they are listed in the files; exact "
        "duplicates are scored once."
    ]


STUDY = Study("statistics", "Table 1", "What is in the corpora?", section, measure=measure)
