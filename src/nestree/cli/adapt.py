"""``nestree adapt``: an encoder that knows your kind of text."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nestree.cli import common
from nestree.data.errors import DataError

if TYPE_CHECKING:
    from nestree.adaptation import AdaptConfig, AdaptResult, Text

EXAMPLE = """\
examples:
  nestree adapt minilm letters/ reports.txt.gz --output encoders/mine
  nestree train train.jsonl --dev dev.jsonl --encoder encoders/mine --output runs/mine
  nestree adapt --output encoders/mine --resume
  accelerate launch -m nestree adapt minilm articles.jsonl --output encoders/mine
"""


def add_commands(commands: Any, *, settings: bool) -> None:
    """Adds ``adapt``. ``settings``: with a flag for every key of AdaptConfig."""
    parser = commands.add_parser(
        "adapt",
        help="train an encoder further on raw text, before a model is trained with it",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "encoder", metavar="ENCODER", nargs="?", help="name or folder of a Hugging Face encoder; minilm is embedded"
    )
    parser.add_argument(
        "text",
        metavar="TEXT",
        nargs="*",
        type=Path,
        help="text (.txt), or a corpus in any format, whose annotation is not looked at; files, compressed or not, and "
        "folders",
    )
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="folder for the adapted encoder")
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings as TOML: any of the keys below")
    parser.add_argument("--text", action="store_true", dest="plain", help="files are plain text, whatever their ending")
    parser.add_argument("--resume", action="store_true", help="go on with what was begun in DIR")
    parser.add_argument("--force", action="store_true", help="replace an adapted encoder that is in DIR")
    common.add_reading(parser)
    parser.set_defaults(run=_adapt, later="text")
    if settings:
        from nestree.adaptation.config import AdaptConfig

        common.add_keys(parser, AdaptConfig)


def _adapt(options: argparse.Namespace) -> int:
    from nestree.adaptation.folder import AdaptFolder
    from nestree.adaptation.head import check_encoder

    if options.resume and options.force:
        raise DataError("--resume goes on with what was begun and --force replaces it: choose one")
    folder = AdaptFolder(options.output)
    begun = options.resume and folder.begun
    encoder, how = options.encoder, {"paths": options.text}
    if begun and not options.text:
        run = folder.run
        encoder, how = encoder or run["encoder"], dict(run["source"])
        if not how:
            what = "the text of this adaptation is known to the command alone that began it, `nestree train --adapt-on`"
            raise DataError(what, path=options.output, advice="Give that command again, with --resume.")
    if options.resume and not begun and not options.text:
        raise DataError("nothing was begun here", path=options.output, advice="Name ENCODER and TEXT.")
    if not encoder or not how["paths"]:
        missing = "TEXT" if encoder else "ENCODER"
        raise DataError(f"{missing} is missing", advice="`nestree adapt --help` has examples.")
    if not begun:
        folder.check_place(encoder, force=options.force)  # before anything slow
    config = _config(options, folder)
    if options.text:
        how |= {"format_name": options.format, "options": common.pairs(options.set), "plain": options.plain}
    if not begun:
        check_encoder(encoder)  # before text is read, which can take long
    with folder.only_if_it_begins():
        if not begun:
            folder.check_writable()  # not after reading, either
        text = read(how, config)
        _check_options(text, common.pairs(options.set))
    run_adaptation(encoder, text, options.output, config, resume=options.resume, force=options.force)
    return 0


def _check_options(text: Text, given: dict[str, str]) -> None:
    """Raises an error if an option was set that no file's format has."""
    from nestree.adaptation.text import TEXT
    from nestree.data.formats import get

    formats = {name for one in text.files for name in str(one["format"]).split(" and ") if name != TEXT}
    known = {name for one in formats for name in get(one).options}
    for name in given:
        if name not in known:
            what = f"--set {name}: none of the texts has a format with this option"
            advice = f"Known are {', '.join(sorted(known))}." if known else "Plain text has no options."
            raise DataError(what, advice=advice)


def read(how: dict[str, Any], config: AdaptConfig) -> Text:
    """Reads text, and says what there is. ``how``: the arguments of :func:`nestree.adaptation.read_text`."""
    from nestree.adaptation import read_text
    from nestree.training.machine import is_first_process

    how = dict(how)
    text = read_text(how.pop("paths"), config.splitter, **how)
    if is_first_process():
        for one in text.files:
            common.say(f"{one['file']}: read as {one['format']}, {one['sentences']:,} sentences")
        common.say_report(text.report)
    return text


def run_adaptation(
    encoder: str, text: Text, output: Path, config: AdaptConfig, *, resume: bool, force: bool, alone: bool = True
) -> AdaptResult:
    """Adapts, and says how it ended. ``alone``: nothing follows by itself."""
    from nestree.adaptation import adapt
    from nestree.training.machine import is_first_process

    result = adapt(encoder, text, output, config, resume=resume, force=force)
    if is_first_process():
        common.say(
            f"held out: perplexity {result.before:,.2f} before, {result.after:,.2f} after ({result.seconds:,.0f} s); "
            f"the encoder is in {output}"
        )
    if is_first_process() and alone and result.round:
        common.say(f"next: nestree train TRAIN --dev DEV --encoder {output} --output RUN")
    return result


def _config(options: argparse.Namespace, folder: Any) -> AdaptConfig:
    """The settings: file, then flags; those of what was begun if nothing is said with --resume."""
    from nestree.adaptation import AdaptConfig
    from nestree.settings import read_settings

    flags = common.chosen_keys(options)
    try:
        if options.resume and folder.begun and not options.config:
            return folder.config().updated(flags, "the command line")
        from_file = read_settings(options.config) if options.config else {}
        return AdaptConfig().updated(from_file, str(options.config)).updated(flags, "the command line")
    except ValueError as error:
        raise DataError(str(error).removesuffix(".")) from None
