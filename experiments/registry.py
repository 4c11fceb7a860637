"""All experiments, in the order of the paper."""

from __future__ import annotations

from experiments.studies import (
    ablation,
    errors,
    incomplete,
    latent_labels,
    learning_curve,
    main,
    peers,
    speed,
    statistics,
    syntax,
    trees,
)
from experiments.study import Study

STUDIES: dict[str, Study] = {
    module.STUDY.name: module.STUDY
    for module in (
        statistics,
        main,
        ablation,
        latent_labels,
        errors,
        trees,
        syntax,
        speed,
        incomplete,
        learning_curve,
        peers,
    )
}
