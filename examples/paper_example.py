"""The paper's running example: nested entities in one sentence as a partially observed tree.

There is no encoder here: the log potentials of this one sentence are trained directly, so that every step can be seen.
"""

from __future__ import annotations

import torch

from nestree.crf import PartialTrees, TreeCRF
from nestree.drawing import draw_marginals, draw_symbols, draw_tree

WORDS = ["U.S.", "State", "Department", "spokesman", "Richard", "Boucher"]
LABELS = ["GPE", "ORG", "PER", "latent"]  # entity labels first, latent labels last
ENTITIES = [(0, 0, "GPE"), (0, 2, "ORG"), (0, 5, "PER")]  # both ends inclusive
STEPS = 40


def main() -> None:
    """Observes, trains, decodes."""
    n, entity_labels = len(WORDS), LABELS.index("latent")
    spans = [(start, end, LABELS.index(label)) for start, end, label in ENTITIES]
    partial = PartialTrees.from_spans([spans], [n], entity_labels=entity_labels, latent_labels=1)

    heading("Annotated entities")
    for start, end, label in ENTITIES:
        print(f"  {label}  {' '.join(WORDS[start : end + 1])}")

    heading("Symbol tree (Algorithm 1): ● observed, □ latent, ○ rejected; row = first word, column = last word")
    print(draw_symbols(partial.symbols[0], WORDS))

    torch.manual_seed(1)
    log_potentials = torch.randn(1, n, n, len(LABELS), requires_grad=True)
    optimizer = torch.optim.Adam([log_potentials], lr=0.2)
    heading("Training: log p(T|x) = Masked Inside - Inside, all latent trees summed out")
    for step in range(STEPS + 1):
        log_prob = TreeCRF(log_potentials).log_prob(partial).sum()
        if step % 10 == 0:
            print(f"  step {step:2}  log p(T|x) = {log_prob.item():8.4f}   p(T|x) = {log_prob.exp().item():.4f}")
        optimizer.zero_grad()
        (-log_prob).backward()
        optimizer.step()

    with torch.no_grad():
        crf = TreeCRF(log_potentials)
        heading("Best tree (CKY), with each node's exact probability: ─ entity, ╌ latent constituent")
        print(draw_tree(crf.argmax[0], WORDS, LABELS, entity_labels=entity_labels, marginals=crf.marginals[0]))
        heading("Span marginals (inside-outside), 0.15 and more")
        print(draw_marginals(crf.marginals[0], WORDS, LABELS, at_least=0.15))
        heading("The distribution")
        print(f"  log Z = {crf.log_partition.item():.3f}   entropy = {crf.entropy.item():.3f} nats")
        scores, _ = crf.topk(3)
        shares = "  ".join(f"{p:.3f}" for p in (scores[:, 0] - crf.log_partition).exp().tolist())
        print(f"  the three best trees have probability {shares}   (backend: {crf.backend})")


def heading(text: str) -> None:
    """A line between parts."""
    print(f"\n{text}\n" + "-" * len(text))


if __name__ == "__main__":
    main()
