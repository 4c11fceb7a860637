"""One step further than the paper's main results: models on adapted encoders, combined, and distilled."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.benchmarked import RAW, Adapted
from experiments.corpora import encoder_title, of_encoder, title
from experiments.groups import Group
from experiments.markdown import p_text, table
from experiments.significance import Difference
from experiments.study import Section

FURTHER = {
    "adapted": "encoder adapted on the training text",
    "plain-ensemble": "5 plain ones combined",
    "adapted-ensemble": "5 adapted ones combined",
    "student": "student of the 5 adapted ones",
    "student-ensemble": "students of the 5 adapted ones, combined",
    f"{RAW}adapted": "encoder adapted on the training text and raw text",
    f"{RAW}adapted-ensemble": "5 adapted on raw text too, combined",
    f"{RAW}student": "student of those 5, with raw text",
    f"{RAW}student-average": "mean of the weights of students with raw text",
    f"{RAW}student-ensemble": "students with raw text, combined",
}
SINGLE = ("adapted", "student", f"{RAW}adapted", f"{RAW}student", f"{RAW}student-average")
"""Those that are one model each."""


def one_step_further(found: Section, further: Sequence[Adapted]) -> None:
    """Adapted, combined and distilled models, beside plain ones."""
    rows = []
    for one in further:
        plain = one.kinds["plain"]
        rows.append([*cells(one.corpus, one.encoder, "plain", plain), ""])
        for kind, name in FURTHER.items():
            if group := one.kinds.get(kind):
                said = f"{name} ({one.notes[kind]})" if kind in one.notes else name
                rows.append([*cells(one.corpus, one.encoder, said, group), _against(group.better_than(plain))])
    found.add(
        "### One step further: adapted, combined, distilled",
        "The same recipe on an encoder that first read the training text on its own, several models as one TreeCRF, "
        "and one student of them (`docs/adapting.md`, which has what was tried, and what did harm); trained by "
        "`benchmarks.adapt`, with as many epochs as the recipe has. *Plain* are the models that they were compared "
        "with, which are not always those above. Rows with raw text had other epochs; which, and what text that was, "
        "is told in the same place.",
        table(["corpus", "encoder", "model", "P", "R", "F1", "seeds", "against plain models"], rows),
    )
    more = [one for one in further if not one.kinds.keys().isdisjoint(FURTHER)]
    gains = [_gains(one) for one in more]
    if gains:
        found.sum_up("**Adapting, combining and distilling** (F1)", "; ".join(gains))
    for one in more:
        name, best = max(
            ((name, group) for kind, name in FURTHER.items() if (group := one.kinds.get(kind))),
            key=lambda pair: pair[1].mean(),
        )
        gain = best.better_than(one.kinds["plain"])
        told = f"{of_encoder(one.corpus, one.encoder)}, against plain models"
        if "adapted" in one.kinds:
            told += f": adapting the encoder {_against(one.kinds['adapted'].better_than(one.kinds['plain']))}"
        found.find(f"{told}; best is “{name}” with {best.mean():.2f} F1, {_against(gain)}.")


def cells(corpus: str, encoder: str, name: str, group: Group) -> list[str]:
    """The first cells of a row: whose it is, P, R and F1, seeds."""
    scores = [group.text(measure) for measure in ("precision", "recall", "f1")]
    return [title(corpus), encoder_title(encoder), name, *scores, str(len(group.runs))]


def _gains(one: Adapted) -> str:
    """The best of all, and the best that reads as quickly as a plain model."""
    kinds = {kind: one.kinds[kind].mean() for kind in FURTHER if kind in one.kinds}
    best = max(kinds, key=lambda kind: kinds[kind])
    told = f"{of_encoder(one.corpus, one.encoder)} {one.kinds['plain'].mean():.1f}, "
    told += f"{FURTHER[best]} {kinds[best]:.1f}"
    single = [kind for kind in SINGLE if kind in kinds]
    if single and best not in SINGLE:
        other = max(single, key=lambda kind: kinds[kind])
        told += f", {FURTHER[other]} {kinds[other]:.1f}"
    return told


def _against(difference: Difference) -> str:
    return f"{difference} {p_text(difference.p)}"
