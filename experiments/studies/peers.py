"""Beyond the paper: other tools with the same encoder, data and budget, scored by the same program."""

from __future__ import annotations

import json
import shutil
import statistics
from pathlib import Path
from typing import Any

from experiments import measures, pool, provenance
from experiments import peers as tools
from experiments.corpora import CorpusFiles, of_encoder
from experiments.groups import Group, Results
from experiments.markdown import p_text, table
from experiments.planning import Plan, Request, joined, planned, seeded
from experiments.provenance import Encoder
from experiments.runs import Run
from experiments.store import write_json
from experiments.studies.learning_curve import changes_at
from experiments.study import Section, Study
from experiments.worker import cut
from nestree.data import Document
from nestree.training import TrainConfig, load_part

CORPORA = ("genia",)
TOOLS = {"spaCy spancat": "train_spancat.py", "GLiNER": "train_gliner.py"}
OURS: dict[str, dict[str, Any]] = {"nestree": {}, "nestree without trees": {"loss": "local"}}
SHARE = "0.1"
"""Of the training data: other tools take long on CPUs. ``--set share=1`` takes all; with ``--set looks=4`` they predict
dev after four of their epochs, the last among them, instead of after each."""
RATES = {"GLiNER": (2e-4, 5e-4)}
"""Learning rates of encoder and head where ours do not do: GLiNER adds its loss up over spans, and with our rate for
the head its scores stop moving within the first epoch."""
ONE_RATE = ("spaCy spancat",)
"""Tools whose optimizer has one learning rate, for which the encoder's is taken."""
MAX_WIDTH = 12
"""Words of the longest entity that other tools look for; more make them slow."""


def _runs(request: Request, corpus: CorpusFiles, encoder: Encoder, changes: dict[str, Any]) -> list[Run]:
    share = float(request.options.get("share", SHARE))
    run = Run(
        corpus.name, encoder.name, changes=tuple(changes_at(corpus.name, share, changes).items()), sentences=share
    )
    return seeded(request, run)


def plan(request: Request) -> Plan:
    """Our own models: TreeCRF and local."""
    return joined(
        planned(_runs(request, corpus, request.encoders[0], changes))
        for corpus in request.of(*CORPORA)
        for changes in OURS.values()
    )


def measure(request: Request) -> list[str]:
    """The other tools, in the Pythons that were named for them."""
    said = [
        f'{name} is left out: name a Python that has it with --python "{name}=EXECUTABLE"'
        for name in TOOLS
        if name not in request.pythons
    ]
    unknown = [name for name in request.pythons if name not in TOOLS]
    if unknown:
        raise LookupError(f"there is no tool {unknown[0]!r}; known are {', '.join(TOOLS)}.")
    failed = []
    for corpus in request.of(*CORPORA):
        for name in request.pythons:
            for run in _runs(request, corpus, request.encoders[0], {}):
                try:
                    said.append(_one(request, corpus, request.encoders[0], name, run))
                except RuntimeError as error:  # the others go on
                    failed.append(str(error))
    if failed:
        raise RuntimeError("; ".join(failed))
    return said


def _name(tool: str, run: Run) -> str:
    return f"peers/{tool.replace(' ', '-')}/{run.name}"


def _one(request: Request, corpus: CorpusFiles, encoder: Encoder, tool: str, run: Run) -> str:
    target = request.store.other_path(_name(tool, run))
    if target.is_file():
        return f"{tool}, {run.name}: done before"
    folder = request.work / "peers" / tool.replace(" ", "-") / run.name
    folder.mkdir(parents=True, exist_ok=True)
    splitter = TrainConfig().splitter
    gold = list(load_part(corpus.dev, splitter).documents)
    train = cut(load_part(corpus.train, splitter).documents, run)
    spec = _spec(request, encoder, tool, run, folder, {one.label for document in train for one in document.entities})
    for name, documents in (("train", train), ("dev", gold)):
        sentences = [_plain(one, where) for one in documents for where in one.sentences or ()]
        Path(spec[name]).write_text(json.dumps(sentences), encoding="utf-8")
    (folder / "spec.json").write_text(json.dumps(spec, indent=1), encoding="utf-8")
    program = Path(tools.__file__).with_name(TOOLS[tool])
    python = shutil.which(request.pythons[tool]) or request.pythons[tool]
    job = pool.Job(f"{tool}, {run.name}", [python, str(program), str(folder / "spec.json")], folder / "log.txt")
    outcome = pool.run([job])
    if job.name in outcome.failed:
        raise RuntimeError(f"{job.name} failed; all of it is in {job.log}")
    found = json.loads(Path(spec["output"]).read_text(encoding="utf-8"))
    predicted = _documents(gold, found.pop("predicted"))
    content = {
        "tool": tool,
        "run": run.as_dict(),
        "code": provenance.code(),
        "encoder": encoder.as_dict(),
        "machine": provenance.machine(),
        "spec": {
            key: spec[key]
            for key in ("epochs", "looks", "batch_size", "encoder_lr", "head_lr", "max_width", "device", "threads")
        },
        **found,
        "scores": {"decoding": "own", "own": measures.scored(gold, predicted)},
    }
    write_json(target, content)
    return f"{tool}, {run.name}: written to {target}"


def _spec(request: Request, encoder: Encoder, tool: str, run: Run, folder: Path, labels: set[str]) -> dict[str, Any]:
    import torch

    config = run.config(encoder.width)
    rates = RATES.get(tool, (config.encoder_lr, config.head_lr))
    return {
        "train": str(folder.resolve() / "train.json"),
        "dev": str(folder.resolve() / "dev.json"),
        "output": str(folder.resolve() / "output.json"),
        "encoder": encoder.argument,
        "width": encoder.width,
        "labels": sorted(labels),
        "epochs": config.epochs,
        "looks": max(1, min(config.epochs, int(request.options.get("looks", config.epochs)))),
        "batch_size": config.batch_size,
        "encoder_lr": rates[0],
        "head_lr": rates[1],
        "seed": run.seed,
        "max_width": MAX_WIDTH,
        "max_words": 256,
        "device": "cuda" if request.device == "cuda" else "cpu",
        "threads": torch.get_num_threads(),
    }


def _plain(document: Document, where: tuple[int, int]) -> dict[str, Any]:
    """A sentence as any tool can read it."""
    start, end = where
    entities = {
        (one.tokens[0] - start, one.tokens[1] - start, one.label)
        for one in document.entities
        if one.tokens and start <= one.tokens[0] and one.tokens[1] <= end
    }
    return {"words": list(document.words[start:end]), "entities": sorted(entities)}


def _documents(gold: list[Document], predicted: list[list[list[Any]]]) -> list[Document]:
    """Predictions on gold's documents."""
    following = iter(predicted)
    found = []
    for document in gold:
        spans = []
        for start, _ in document.sentences or ():
            spans += [(start + first, start + last, label) for first, last, label in next(following)]
        made = Document.from_words(document.words, spans, sentences=document.sentences)
        characters = [document.tokens.characters(first, last) for first, last, _ in spans] if document.tokens else []
        entities = tuple(
            entity._replace(start=place[0], end=place[1])
            for entity, place in zip(made.entities, characters, strict=True)
        )
        found.append(Document(document.text, entities=entities, tokens=document.tokens, sentences=document.sentences))
    return found


# --- The report ------------------------------------------------------------------------------------------------------


def section(results: Results, found: Section) -> None:
    """A table for each corpus and share of the data."""
    peers: dict[tuple[str, str, float, int], dict[str, list[tuple[Run, dict[str, Any]]]]] = {}
    for _, content in results.store.others("peers/**/*"):
        run = Run.from_dict(content["run"])
        kind = (run.corpus, run.encoder, run.sentences, content["spec"]["epochs"])
        peers.setdefault(kind, {}).setdefault(content["tool"], []).append((run, content))
    for kind, by_tool in peers.items():
        _one_table(results, found, kind, {name: Group(tuple(runs)) for name, runs in by_tool.items()})


def _one_table(results: Results, found: Section, kind: tuple[str, str, float, int], groups: dict[str, Group]) -> None:
    corpus, encoder, share, epochs = kind
    seeds = {run.seed for group in groups.values() for run, _ in group.runs}
    own = {}
    for name, changes in OURS.items():
        group = results.group(corpus, encoder, "default", {**changes, "epochs": epochs}, sentences=share)
        # A seed chooses the sentences: models of other seeds saw others.
        runs = tuple(one for one in group.runs if one[0].seed in seeds) if group and group.epochs == epochs else ()
        if runs:
            own[name] = Group(runs)
    where = f"{of_encoder(corpus, encoder)}, {100 * share:g}% of the training data, {epochs} epochs"
    rows = []
    for name, group in (own | groups).items():
        beside = "nestree" in own and name != "nestree" and not _finds_nothing(group)
        difference = own["nestree"].better_than(group) if beside else None
        row = [name, *(group.text(one) for one in ("precision", "recall", "f1")), group.text("recall", "unlabelled")]
        known = group.results[0].get("spec") or group.results[0]["config"]
        row.append(f"{known['encoder_lr']:g}" + ("" if name in ONE_RATE else f" / {known['head_lr']:g}"))
        row.append(f"{difference} {p_text(difference.p)}" if difference else "")
        row += [_seconds(group.results), str(len(group.runs))]
        rows.append(row)
    found.add(
        f"### {where}",
        "All start from the same encoder, see the same sentences as often, in batches of the same size, with the "
        "learning rates that are listed (encoder / head); each has its own loss and head. The rates are those of our "
        "recipe, but for GLiNER's head, which does not learn with ours; none was tuned for the other tools. The best "
        f"epoch on dev is taken: {_looks(groups, epochs)}. Other tools look for entities of up to {MAX_WIDTH} words, "
        "and keep those with a score of at least one half, as nestree does. *Span recall*: whatever the label. "
        "Times of different machines say nothing of each other.",
        table(["", "P", "R", "F1", "span recall", "learning rates", "nestree is ahead by", "training", "seeds"], rows),
    )
    everybody = {name: group for name, group in (own | groups).items() if not _finds_nothing(group)}
    told = ", ".join(f"{name} {group.mean():.1f}" for name, group in everybody.items())
    if everybody.keys() - own.keys():
        topic = "**Other tools** (F1 with the same encoder, sentences and epochs)"
        found.sum_up(topic, f"{where}: {told}{' (one seed)' * (len(seeds) == 1)}")
    for name, group in groups.items():
        if _finds_nothing(group):
            found.find(f"{where}: {name} finds nothing with this budget.")
        elif "nestree" in own:
            difference = own["nestree"].better_than(group)
            side = "ahead of" if difference.value > 0 else "behind"
            sure = "" if difference.significant else ", which may be chance"
            found.find(
                f"{where}: nestree is {side} {name} by {abs(difference.value):.2f} F1 ({p_text(difference.p)}{sure})."
                f"{_rising(name, group)}"
            )


def _finds_nothing(group: Group) -> bool:
    return group.mean() == 0


def _seconds(results: list[dict[str, Any]]) -> str:
    """How long a training took on each kind of machine."""
    by_machine: dict[str, list[float]] = {}
    for one in results:
        by_machine.setdefault(_machine(one), []).append(one["seconds"])
    return ", ".join(f"{statistics.mean(seconds):.0f} s ({machine})" for machine, seconds in by_machine.items())


def _machine(result: dict[str, Any]) -> str:
    """Where it was trained: a GPU, or a CPU with so many threads."""
    spec = result.get("spec")
    if spec is None:
        return str(result["machine"]["device"]).partition(" ")[0]
    return "cuda" if spec.get("device") == "cuda" else f"cpu, {spec['threads']} thread{'s' * (spec['threads'] != 1)}"


def _rising(name: str, group: Group) -> str:
    """Whether a tool was still getting better when its epochs were over: then more would bring it closer."""
    curves = [one["dev_f1_by_epoch"] for one in group.results if len(one.get("dev_f1_by_epoch", [])) > 1]
    if not curves or any(max(curve) != curve[-1] for curve in curves):
        return ""
    told = "; ".join(", ".join(f"{value:.1f}" for value in curve) for curve in curves)
    return f" {name} was still rising at the end ({told} when it was looked at), and more epochs might help it."


def _looks(groups: dict[str, Group], epochs: int) -> str:
    """At which epochs models were looked at."""
    fewest = min(one["spec"].get("looks", epochs) for group in groups.values() for one in group.results)
    if fewest == epochs:
        return "all were scored after every epoch"
    return f"our models were scored after every epoch, the other tools after {fewest} of {epochs}, the last included"


STUDY = Study(
    "peers", "beyond", "How do other tools do with the same encoder, data and budget?", section, plan, measure
)
