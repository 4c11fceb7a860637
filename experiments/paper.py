"""The paper's numbers (Fu, Tan, Chen, Huang and Huang, AAAI 2021), in percent unless it says otherwise."""

from __future__ import annotations

from typing import NamedTuple


class PRF(NamedTuple):
    """Precision, recall and F1."""

    precision: float
    recall: float
    f1: float


ENCODERS = {"ace2004": "bert-large-cased", "ace2005": "bert-large-cased", "genia": "BioBERT v1.1"}
CORPORA = {"ace2004": "ACE2004", "ace2005": "ACE2005", "genia": "GENIA"}
STAND_INS = ("litbank",)
"""Corpora that have the kinds of entities of the paper's that are not open."""

STATISTICS: dict[str, dict[str, tuple[float, ...]]] = {
    # Table 1: sentences, with nested entities, entities, nested entities, average length
    "ace2004": {
        "train": (7078, 2691, 22172, 10080, 20.38),
        "dev": (859, 290, 2510, 1086, 20.69),
        "test": (922, 377, 3024, 1410, 20.96),
    },
    "ace2005": {
        "train": (7194, 2691, 24441, 9389, 19.21),
        "dev": (969, 338, 3200, 1112, 18.93),
        "test": (1047, 330, 2993, 1118, 17.19),
    },
    "genia": {
        "train": (14836, 3199, 46473, 8337, 30.13),
        "dev": (1855, 362, 5014, 903, 29.17),
        "test": (1855, 448, 5600, 1217, 30.48),
    },
}

MAIN = {  # Table 2, on test; five runs
    "ace2004": PRF(86.7, 86.5, 86.6),
    "ace2005": PRF(84.5, 86.4, 85.4),
    "genia": PRF(78.2, 78.2, 78.2),
}
MAIN_DEVIATION = {
    "ace2004": PRF(0.4, 0.4, 0.3),
    "ace2005": PRF(0.4, 0.2, 0.1),
    "genia": PRF(0.7, 0.8, 0.1),
}
RUNS = {  # Table 6
    "ace2004": (
        PRF(86.94, 86.20, 86.57),
        PRF(86.92, 86.63, 86.77),
        PRF(86.83, 85.97, 86.40),
        PRF(86.14, 86.63, 86.38),
        PRF(87.03, 87.09, 87.06),
    ),
    "ace2005": (
        PRF(84.82, 86.33, 85.57),
        PRF(84.80, 86.42, 85.61),
        PRF(83.92, 86.76, 85.31),
        PRF(84.16, 86.52, 85.33),
        PRF(84.62, 86.09, 85.35),
    ),
    "genia": (
        PRF(77.31, 79.31, 78.29),
        PRF(78.92, 77.58, 78.24),
        PRF(77.96, 78.39, 78.17),
        PRF(77.85, 78.62, 78.24),
        PRF(79.00, 77.29, 78.14),
    ),
}
ABLATION = {  # Table 2, lower part; one run each
    "bilinear": {"ace2004": PRF(86.0, 86.7, 86.4), "ace2005": PRF(83.0, 86.5, 84.7), "genia": PRF(79.9, 75.5, 77.6)},
    "without smoothing": {
        "ace2004": PRF(86.1, 86.4, 86.2),
        "ace2005": PRF(83.5, 85.8, 84.6),
        "genia": PRF(78.7, 76.5, 77.6),
    },
    "without PN and smoothing": {
        "ace2004": PRF(86.0, 85.3, 85.7),
        "ace2005": PRF(82.7, 86.2, 84.4),
        "genia": PRF(76.5, 78.1, 77.3),
    },
    "without TreeCRF": {
        "ace2004": PRF(84.4, 85.4, 84.9),
        "ace2005": PRF(82.0, 86.4, 84.1),
        "genia": PRF(80.5, 74.5, 77.4),
    },
}
LATENT_LABELS = {  # Table 7: number of latent labels, as a number or a multiple of the labels
    "ace2004": {
        "1": PRF(86.7, 86.5, 86.6),
        "2": PRF(86.5, 86.0, 86.3),
        "3": PRF(86.2, 86.9, 86.6),
        "4": PRF(85.6, 86.6, 86.1),
        "5": PRF(84.8, 88.1, 86.4),
        "6": PRF(84.9, 87.4, 86.1),
        "label size": PRF(84.3, 87.4, 85.8),
        "2 × label size": PRF(84.2, 87.5, 85.8),
        "3 × label size": PRF(83.5, 87.4, 85.4),
    },
    "ace2005": {
        "1": PRF(84.5, 86.4, 85.4),
        "2": PRF(84.1, 86.9, 85.1),
        "3": PRF(83.0, 87.4, 85.1),
        "4": PRF(83.1, 86.8, 84.9),
        "5": PRF(83.7, 86.9, 85.3),
        "6": PRF(82.6, 87.8, 85.1),
        "label size": PRF(82.6, 87.5, 85.0),
        "2 × label size": PRF(82.6, 87.0, 84.7),
        "3 × label size": PRF(82.3, 86.5, 84.3),
    },
    "genia": {
        "1": PRF(78.2, 78.2, 78.2),
        "2": PRF(76.6, 79.9, 78.2),
        "3": PRF(77.7, 78.1, 77.9),
        "4": PRF(75.2, 80.2, 77.6),
        "label size": PRF(76.7, 77.6, 77.2),
        "2 × label size": PRF(77.0, 76.7, 76.9),
        "3 × label size": PRF(76.6, 77.3, 77.0),
    },
}
UNLABELLED_RECALL = 96.3  # ACE2005
ERROR_LABELS = ("PER", "LOC", "ORG", "GPE", "FAC", "VEH", "WEA")
ERROR_PRIOR = (0.58, 0.02, 0.17, 0.14, 0.05, 0.03, 0.02)
ERROR_TABLE = {  # Table 3: rows are predicted, columns are gold
    "PER": (0.93, 0.00, 0.07, 0.05, 0.01, 0.03, 0.00),
    "LOC": (0.00, 0.72, 0.00, 0.02, 0.05, 0.00, 0.00),
    "ORG": (0.02, 0.02, 0.77, 0.00, 0.02, 0.01, 0.00),
    "GPE": (0.00, 0.06, 0.03, 0.84, 0.03, 0.00, 0.00),
    "FAC": (0.00, 0.02, 0.01, 0.00, 0.70, 0.03, 0.00),
    "VEH": (0.00, 0.00, 0.00, 0.00, 0.01, 0.67, 0.00),
    "WEA": (0.00, 0.00, 0.00, 0.00, 0.00, 0.01, 0.84),
    "Latent": (0.02, 0.15, 0.08, 0.05, 0.12, 0.15, 0.10),
    "None": (0.03, 0.04, 0.04, 0.03, 0.06, 0.10, 0.06),
}
SYNTAX = {  # Table 8: "UAS"
    "random": 10.83,
    "left-branching": 5.61,
    "right-branching": 0.15,
    "TreeCRF": 16.95,
    "oracle": 78.51,
}
SPEED_SECONDS = {  # Tables 4 and 9: one epoch of ACE2004; a P100, and a quad-core i7 at 2.6 GHz
    "vanilla Inside": {"gpu": 898, "cpu": 7500},
    "vanilla partial marginalisation": {"gpu": 490, "cpu": 1560},
    "Masked Inside": {"gpu": 200, "cpu": 1440},
    "biaffine": {"gpu": 147, "cpu": 1330},
}


def beside(corpus: str) -> tuple[str, ...]:
    """The paper's corpora that one is compared with: itself, or those that the others stand in for."""
    return (corpus,) if corpus in MAIN else ("ace2004", "ace2005")


def change(ablation: str, corpus: str) -> float:
    """The F1 that an ablation adds in the paper; most take some away."""
    return ABLATION[ablation][corpus].f1 - MAIN[corpus].f1
