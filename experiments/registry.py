"""All experiments, in the order of the paper."""

from __future__ import annotations

from experiments.studies import ablation, latent_labels, main
from experiments.study import Study

STUDIES: dict[str, Study] = {
    module.STUDY.name: module.STUDY
    for module in (
        main,
        ablation,
        latent_labels,
    )
}
