"""Annotated text: read exactly or refused clearly, checked, counted, converted. No torch here.

::

    from nestree.data import read, write
    for document in read("train.data"):
        print(document.words, document.entities)
    write(read("corpus/"), "corpus.jsonl")
"""

from nestree.data.conversion import convert, fit
from nestree.data.errors import DataError
from nestree.data.formats import FORMATS, detect
from nestree.data.formats.base import Format
from nestree.data.model import Admissible, Document, Entity, Source, Token, Tokens
from nestree.data.policies import Policies, apply, join_labels, split_label
from nestree.data.reading import read, write
from nestree.data.report import Note, Report
from nestree.data.returns import returned
from nestree.data.splitting import Splitter, best_words, splitter_like

__all__ = [
    "FORMATS",
    "Admissible",
    "DataError",
    "Document",
    "Entity",
    "Format",
    "Note",
    "Policies",
    "Report",
    "Source",
    "Splitter",
    "Token",
    "Tokens",
    "apply",
    "best_words",
    "convert",
    "detect",
    "fit",
    "join_labels",
    "read",
    "returned",
    "split_label",
    "splitter_like",
    "write",
]
