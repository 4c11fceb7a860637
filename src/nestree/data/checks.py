"""Everything about a corpus that could hurt training, with file and line, and how much of it a model can reach."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from nestree.data.errors import shown
from nestree.data.model import Document
from nestree.data.policies import Policies, apply, join_labels, split_label
from nestree.data.report import Report
from nestree.data.splitting import Splitter
from nestree.encoders import PieceCounter

ERRORS = {
    "crossing",
    "alignment",
    "discontinuous",
    "same span",
    "white space",
    "leakage",
    "unseen label",
    "no entities",
}
"""Kinds that make the check fail: training would stop, or its result would mislead. Policies excuse the first four."""
_POLICY = {  # the policy for a kind of fault
    "alignment": "alignment",
    "crossing": "crossing",
    "same span": "same_span",
    "discontinuous": "discontinuous",
}
_COUNTED = {  # what is counted of it
    "alignment": "entities off token boundaries",
    "crossing": "crossing entities",
    "same span": "spans with several labels",
    "discontinuous": "discontinuous entities",
}
_STOPS = {"alignment": "strict", "crossing": "error", "same_span": "error", "discontinuous": "error"}
_INSTEAD = {"alignment": "expand", "crossing": "drop_shorter", "same_span": "composite", "discontinuous": "cover"}
_REMEMBERED = 1_000_000


@dataclass
class Check:
    """Looks through one split after the other; the first is what a model is trained on.

    Args:
        policies: what training will be told; a kind that they take care of is no error.
        splitter: for text without words.
        longest: sentences with more words are mentioned.
        pieces: counts an encoder's pieces; sentences with more than it reads at a time are mentioned.
    """

    policies: Policies = field(default_factory=Policies)
    splitter: Splitter = field(default_factory=Splitter)
    longest: int = 256
    report: Report = field(default_factory=Report)
    pieces: PieceCounter | None = None
    entities: int = 0
    as_they_are: int = 0

    def __post_init__(self) -> None:
        self._seen: dict[int, str] = {}  # a sentence's words to the split they were first seen in
        self._labels: dict[str, set[str]] = {}
        self.splits: list[str] = []
        changes: dict[str, Any] = {
            name: _INSTEAD[name] for name, value in vars(self.policies).items() if value == _STOPS[name]
        }
        self._lenient = replace(self.policies, **changes)

    def split(self, name: str, documents: Iterable[Document]) -> None:
        """Looks through a split."""
        name = name if name not in self.splits else f"{name} ({len(self.splits) + 1})"
        self.splits.append(name)
        before = self.entities
        labels: dict[str, str] = {}
        for document in documents:
            self._document(document, name, labels)
        for label, where in labels.items():
            if len(self.splits) > 1 and label not in self._labels[self.splits[0]]:
                message = f"no entity of {self.splits[0]} is a {label!r}"
                self.report.note("unseen label", where, message)
        self._labels[name] = set(labels)
        if self.entities == before:
            self.report.note("no entities", name, "nothing is annotated in it")

    def _document(self, document: Document, split: str, labels: dict[str, str]) -> None:
        for number, entity in enumerate(document.entities):
            labels.setdefault(entity.label, document.place_of(number))
            said = document.text[entity.start : entity.end]
            if said != said.strip():
                what = "is white space only" if not said.strip() else "begins or ends with white space"
                self.report.note("white space", document.place_of(number), f"{shown(said)} {entity.label} {what}")
        if not document.text.strip():
            self.report.note("empty document", document.place, "it has no text")
        document = self.splitter.split(document)
        notes = Report()
        result = apply(document, self._lenient, notes)
        for note in notes:  # what stops training is not said to be handled
            stops = note.kind in _POLICY and not self._excused(note.kind)
            self.report.add(note._replace(action="") if stops else note)
        composite = self._lenient.same_span == "composite"
        whole = {
            (one.start, one.end, join_labels([one.label]) if composite else one.label)
            for one in document.entities
            if not one.fragments
        }
        self.entities += len(document.entities)
        self.as_they_are += sum((one.start, one.end, one.label) in whole for one in result.entities)
        for one in result.entities:
            if composite and len(split_label(one.label)) > 1:
                labels.setdefault(one.label, document.place)
        self._sentences(result, split)

    def _sentences(self, document: Document, split: str) -> None:
        for start, end in document.sentences or ():
            if end - start > self.longest:
                message = f"a sentence has {end - start} words: {shown(' '.join(document.words[start : start + 8]))}"
                self.report.note("long sentence", document.place, message)
            if self.pieces is not None and (count := self.pieces(document.words[start:end])) > self.pieces.limit:
                message = f"a sentence has {count} pieces, {self.pieces.name} reads {self.pieces.limit} at a time"
                self.report.note("long for the encoder", document.place, message, "read in windows")
            key = hash(document.words[start:end])
            first = self._seen.get(key)
            if first is None:
                if len(self._seen) < _REMEMBERED:
                    self._seen[key] = split
                elif not self.report.counts["not compared"]:
                    message = f"only the first {_REMEMBERED:,} different sentences are remembered, to find leakage"
                    self.report.note("not compared", document.place, message)
            elif first != split and end - start > 3:  # short ones ("Abstract .") come again by themselves
                said = shown(" ".join(document.words[start:end]))
                self.report.note("leakage", document.place, f"this sentence is in {first} too: {said}")

    # --- Results ---

    @property
    def failed(self) -> list[str]:
        """The kinds that were found and that nothing takes care of."""
        return [kind for kind in self.report.counts if kind in ERRORS and not self._excused(kind)]

    def _excused(self, kind: str) -> bool:
        policy = _POLICY.get("alignment" if kind == "white space" else kind)  # alignment cuts white space off
        return policy is not None and getattr(self.policies, policy) != _STOPS[policy]

    def reach(self) -> str:
        """What a model will be able to reach."""
        lines = [f"{self.as_they_are} of {self.entities} gold entities are representable as they are."]
        for kind, policy in _POLICY.items():
            number = self.report.counts[kind]
            if not number:
                continue
            value = getattr(self.policies, policy)
            if value == _STOPS[policy]:
                lines.append(
                    f"{number} {_COUNTED[kind]} would stop training under the policy {policy} = {value}; "
                    f"{policy} = {_INSTEAD[policy]} would handle them."
                )
            else:
                done = [f"{count} {action}" for (of, action), count in self.report.actions.items() if of == kind]
                what = f"{number} {_COUNTED[kind]} will be handled by the policy {policy} = {value}"
                lines.append(f"{what}: {', '.join(done)}.")
        if self.report.counts["duplicate"]:
            lines.append(f"{self.report.counts['duplicate']} duplicates are dropped.")
        return "\n".join(lines)
