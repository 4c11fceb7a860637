"""What requests and answers look like; the OpenAPI document is made of these."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import to_json

Probability = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Range = Annotated[list[int], Field(min_length=2, max_length=2, description="[start, end), half-open")]


Item = TypeVar("Item")
Items = Annotated[list[Item], Field(fail_fast=True)]
"""A list of which the first error is enough: there may be half a million."""


def _whole(value: Any) -> Any:
    """1.0 is a whole number in JSON."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


INPUTS = ("text", "texts", "tokens")


class PredictRequest(BaseModel):
    """What to read: exactly one of `text`, `texts` and `tokens`; and how."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={
            "examples": [
                {"text": "The daughter of the chairman of the Bank of Malta resigned."},
                {"tokens": [["The", "IL-2", "gene"]], "threshold": 0.5, "trees": True, "alternatives": 2},
            ]
        },
    )

    text: Annotated[str | None, Field(description="One text, split as the model was trained to read.")] = None
    texts: Annotated[Items[str] | None, Field(description="Several texts.")] = None
    tokens: Annotated[
        Items[Items[str]] | None, Field(description="Lists of words, each of which is a sentence. Offsets count words.")
    ] = None
    threshold: Annotated[
        Probability | dict[str, Probability] | None,
        Field(description="The least probability of an entity, of all labels or by label; null: the model decides."),
    ] = None
    flat: Annotated[
        Literal["outermost", "innermost", "best"] | None,
        Field(description="Which entities stay where some share a word; null: all, nested."),
    ] = None
    trees: Annotated[bool, Field(description="Whether to give the tree of each sentence.")] = False
    alternatives: Annotated[
        int,
        BeforeValidator(_whole),
        Field(ge=0, description="How many next best trees of each sentence to give, beside the best one."),
    ] = 0

    @model_validator(mode="after")
    def _one_input(self) -> PredictRequest:
        given = [name for name in INPUTS if name in self.model_fields_set]
        if len(given) != 1:
            found = f"there are {' and '.join(given)}" if given else "there is none of them"
            raise ValueError(f"exactly one of text, texts and tokens is needed; {found}")
        if getattr(self, given[0]) is None:
            raise ValueError(f"{given[0]} is null; exactly one of text, texts and tokens is needed")
        return self


class Answer(BaseModel):
    """Answers have these keys and no others."""

    model_config = ConfigDict(extra="forbid", strict=True)


class ModelName(Answer):
    """Which model answered."""

    name: str = Field(description="The name of its folder.")
    version: str = Field(description="Of nestree.")


class FoundEntity(Answer):
    """An entity; offsets count characters (Unicode code points), of lists of words they count words."""

    text: str
    label: str
    start: int
    end: int
    score: Probability = Field(description="The exact marginal probability of span and label.")
    depth: int = Field(ge=1, description="1 for entities that are in no other.")
    parent: int | None = Field(description="The number, in this list, of the smallest entity around it.")
    token_start: int
    token_end: int


class FoundNode(Answer):
    """A node of a tree; its label is null if it is latent."""

    start: int
    end: int
    label: str | None
    score: Probability


class FoundTree(Answer):
    """The tree of a sentence: every word is a node, and so is the sentence."""

    nodes: list[FoundNode]


class AlternativeNode(Answer):
    """A node of one of the best trees; its label is null if it is latent."""

    start: int
    end: int
    label: str | None


class AlternativeTree(Answer):
    """One of the best trees, and its exact probability among all trees of the sentence."""

    probability: Probability
    nodes: list[AlternativeNode]


class FoundDocument(Answer):
    """What was found in a text."""

    text: str = Field(description="As it was given; of a list of words, the words joined by spaces.")
    words: list[Range] = Field(description="The characters of each word that was read.")
    sentences: list[Range] = Field(description="The words of each sentence.")
    entities: list[FoundEntity] = Field(description="Outer ones before those within them.")
    windowed: list[Range] = Field(description="Sentences too long to be read at once, which were read in windows.")
    trees: list[FoundTree] | None = Field(description="One for each sentence, if asked for.")
    alternatives: list[list[AlternativeTree]] | None = Field(
        description="Of each sentence its best tree, and the next best ones; none if it was read in windows."
    )


class PredictResponse(Answer):
    """A document for each text, in their order."""

    model: ModelName
    documents: list[FoundDocument]


class ToldLimits(Answer):
    """What a request may ask for."""

    request_bytes: int = Field(description="Of the body of a request.")
    texts: int = Field(description="In one request, or lists of words.")
    characters: int = Field(description="Of one text.")
    words: int = Field(description="Of one list of words.")
    alternatives: int = Field(description="Next best trees of a sentence.")
    alternative_words: int = Field(description="Of a sentence that has next best trees; longer ones have none.")
    queue_words: int = Field(
        description="That wait or are being read, or what takes a third of `seconds`; more are refused with 503."
    )
    seconds: float = Field(description="From the last byte of a request to its answer.")


class ModelResponse(Answer):
    """What the model is, and what it may be asked."""

    name: str
    version: str
    labels: list[str] = Field(description="That entities can have.")
    loss: Literal["treecrf", "local"]
    trees: bool = Field(description="Whether it has trees.")
    encoder: str
    threshold: Probability | None = Field(description="The least probability of entities, if the model has one.")
    card: str | None = Field(description="The model card, in Markdown.")
    limits: ToldLimits


class Health(Answer):
    """How the service is."""

    status: Literal["ok", "ready"]


class ProblemDetails(BaseModel):
    """An error (RFC 9457): what went wrong, where, and what to do."""

    model_config = ConfigDict(extra="forbid")

    type: str = Field(description="Where this kind of problem is described.")
    title: str
    status: int = Field(ge=400, le=599)
    detail: str = Field(description="What was found.")
    where: str | None = Field(description="JSON pointer into the request.")
    advice: str = Field(description="What to do.")


def request_schema(limits: Any, labels: list[str], trees: bool) -> dict[str, Any]:
    """The JSON schema of requests, as exact as this model and these limits allow."""
    schema = PredictRequest.model_json_schema()
    properties = schema["properties"]
    probability = {"type": "number", "minimum": 0, "maximum": 1}
    word = {"type": "string", "pattern": r"\S"}
    by_label = {
        "type": "object",
        "properties": dict.fromkeys(labels, probability),
        "additionalProperties": False,
    }
    types: dict[str, dict[str, Any]] = {
        "text": {"type": "string", "maxLength": limits.characters},
        "texts": {
            "type": "array",
            "maxItems": limits.texts,
            "items": {"type": "string", "maxLength": limits.characters},
        },
        "tokens": {
            "type": "array",
            "maxItems": limits.texts,
            "items": {"type": "array", "maxItems": limits.words, "items": word},
        },
        "threshold": {"anyOf": [probability, by_label, {"type": "null"}], "default": None},
        "alternatives": {"type": "integer", "minimum": 0, "maximum": limits.alternatives if trees else 0, "default": 0},
    }
    if not trees:
        types["trees"] = {"type": "boolean", "const": False, "default": False}
    for name, type_ in types.items():
        properties[name] = {"description": properties[name]["description"], **type_}
    schema["oneOf"] = [{"required": [name]} for name in INPUTS]
    return schema


def as_json(content: Any) -> bytes:
    """Plain values as JSON."""
    return to_json(content)
