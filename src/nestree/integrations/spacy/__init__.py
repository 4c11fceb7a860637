"""A component for spaCy: ``nlp.add_pipe("nestree", config={"model": "runs/mine"})``.

spaCy finds it by an entry point, which it loads for every pipeline of anybody who has nestree installed. So this module
imports neither torch nor anything slow, and leaves it to the factory to complain.
"""

# Annotations are evaluated here, not postponed: spaCy checks settings against them.

import sys
from types import CodeType, FrameType

try:
    from spacy.about import __version__ as spacy_version
    from spacy.language import Language
except ImportError:
    raise ImportError('a spaCy pipeline needs spaCy: pip install "nestree[spacy]"') from None

from nestree.integrations.spacy.component import NestedEntityRecognizer
from nestree.integrations.spacy.settings import Settings

OLDEST = (3, 8)
"""The oldest spaCy that is tested."""


@Language.factory(
    "nestree",
    assigns=["doc.spans"],
    default_config={
        "model": None,
        "spans_key": "sc",
        "ents": None,
        "threshold": None,
        "words": "model",
        "sentences": "spacy",
        "overwrite": False,
        "device": "auto",
    },
)
def make_nestree(
    nlp: Language,
    name: str,
    model: str | None,
    spans_key: str,
    ents: str | None,
    threshold: float | dict[str, float] | None,
    words: str,
    sentences: str,
    overwrite: bool,
    device: str,
) -> NestedEntityRecognizer:
    """What ``nlp.add_pipe("nestree")`` calls; :class:`Settings` says what the settings mean.

    Of a pipeline that is being loaded the model follows (``from_disk``, ``from_bytes``), whatever ``model`` says: the
    folder it once came from need not exist any more. Otherwise it is loaded, and checked, at once.

    Raises:
        ImportError: this spaCy is too old.
        ModelError: there is no model of this name, or it is damaged.
        ValueError: a setting makes no sense.
    """
    check_version(spacy_version)
    settings = Settings(
        model=model,
        spans_key=spans_key,
        ents=ents,
        threshold=threshold,
        words=words,
        sentences=sentences,
        overwrite=overwrite,
        device=device,
    )
    found = NestedEntityRecognizer(name, settings)
    if not _is_being_loaded():
        found.load()
    return found


def check_version(version: str) -> None:
    """Raises an ImportError if this spaCy is too old."""
    found = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if found < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise ImportError(
            f'nestree works with spaCy {oldest} or newer, and this is {version}: pip install --upgrade "nestree[spacy]"'
        )


def _is_being_loaded() -> bool:
    """Whether spaCy makes the component from the settings of a whole pipeline, as ``spacy.load`` does.

    A factory is not told. To look who called is the only way to refuse a mistyped folder in ``add_pipe`` at once, and
    still to load a pipeline whose folder has moved to another machine.
    """
    loading: CodeType = Language.from_config.__func__.__code__  # type: ignore[attr-defined]
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code is not loading:
        frame = frame.f_back
    return frame is not None


__all__ = ["NestedEntityRecognizer", "Settings", "make_nestree"]
