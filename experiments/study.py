"""What an experiment is: the runs it needs, what else it measures, and what the report says of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from experiments.groups import Results
from experiments.planning import Plan, Request

NOT_RUN = "Not run yet."


class Claim(NamedTuple):
    """What the paper says, and what came out here.

    Attributes:
        text: what it says.
        theirs: its numbers.
        ours: the numbers here.
        verdict: whether it holds.
    """

    text: str
    theirs: str
    ours: str
    verdict: str


@dataclass
class Section:
    """What the report says of an experiment.

    Attributes:
        parts: Markdown, block by block.
        folder: where pictures go.
        claims: what the paper says, judged by the numbers, for the table on top.
        short: what matters most, in at most a line or two for each topic, for those who read no further.
        shown: pictures beneath these.
    """

    folder: Path
    parts: list[str] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    short: dict[str, list[str]] = field(default_factory=dict)
    shown: list[str] = field(default_factory=list)

    def add(self, *blocks: str) -> None:
        """Adds paragraphs, tables or pictures."""
        self.parts += [block for block in blocks if block]

    def explain(self, paragraph: str) -> None:
        """Adds a paragraph that holds for all that follows, the first time that it is asked for."""
        if paragraph not in self.parts:
            self.parts.append(paragraph)

    def find(self, sentence: str) -> None:
        """Adds a sentence that follows from the numbers."""
        self.parts.append(f"**{sentence}**")

    def sum_up(self, topic: str, told: str) -> None:
        """Adds what matters most, for the very top; what is said of one topic stands together."""
        self.short.setdefault(topic, []).append(told)

    def show(self, picture: str) -> None:
        """Adds a picture of what matters most, for the very top."""
        self.shown.append(picture)

    def judge(self, text: str, theirs: str, ours: str, verdict: str) -> None:
        """Adds a claim of the paper to the table on top."""
        self.claims.append(Claim(text, theirs, ours, verdict))


def _no_plan(request: Request) -> Plan:
    return {}


@dataclass(frozen=True)
class Study:
    """An experiment.

    Attributes:
        name: on the command line.
        paper: what it is in the paper.
        question: in a sentence.
        section: writes what the report says; an empty section means that nothing was run.
        plan: the training runs that it needs.
        measure: what else it measures, in this process or others; gives the names of what it wrote.
    """

    name: str
    paper: str
    question: str
    section: Callable[[Results, Section], None]
    plan: Callable[[Request], Plan] = _no_plan
    measure: Callable[[Request], list[str]] | None = None
