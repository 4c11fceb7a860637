"""Settings: one flat table with presets, files and flags, and errors that list what is known."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from nestree.cli.main import main
from nestree.data import DataError
from nestree.training import PRESETS, TrainConfig, preset, read_config


@pytest.mark.parametrize(
    ("name", "encoder", "rate", "smoothing"),
    [
        ("ace2004", "bert-large-cased", 2e-5, 0.01),
        ("ace2005", "bert-large-cased", 3e-5, 0.02),
        ("genia", "dmis-lab/biobert-v1.1", 3e-5, 0.02),
    ],
)
def test_presets_are_the_papers(name: str, encoder: str, rate: float, smoothing: float) -> None:
    found = preset(name)
    assert (found.encoder, found.encoder_lr, found.head_lr, found.smoothing) == (encoder, rate, rate, smoothing)
    assert (found.dropout, found.scorer, found.normalize, found.decoding) == (0.2, "biaffine", True, "map")
    assert (found.gain, found.mask, found.ema) == (0.0, 0.0, 0.0)


def test_all_presets_are_settings_and_unknown_ones_are_listed() -> None:
    assert {name: preset(name) for name in PRESETS}["default"] == TrainConfig()
    with pytest.raises(ValueError, match="no preset 'ace'; known are default, ace2004, ace2005, genia"):
        preset("ace")


def test_a_file_gives_back_the_settings(tmp_path: Path) -> None:
    config = TrainConfig().updated({"encoder": 'a "b" \\ c\n', "ema": 0.5, "gumbel": True, "epochs": 7})
    (tmp_path / "config.toml").write_text(config.as_toml())
    assert TrainConfig().updated(read_config(tmp_path / "config.toml")) == config


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"epoch": 3}, "unknown key 'epoch'. Did you mean 'epochs'\\? Known are encoder, word, "),
        ({"epochs": 0}, "epochs is 0; it must be at least 1"),
        ({"epochs": 2.5}, "epochs is 2.5; it must be a whole number"),
        ({"epochs": True}, "must be a whole number"),
        ({"encoder_lr": "2e-5"}, "encoder_lr is '2e-5'; it must be a number"),
        ({"encoder_lr": float("nan")}, "encoder_lr is nan"),
        ({"loss": "crf"}, "loss is 'crf'; known are 'treecrf', 'local'"),
        ({"mask": 1.0}, "mask is 1.0; it must be at least 0 and less than 1"),
        ({"crossing": "drop"}, "crossing is 'drop'; known are 'error', 'drop_shorter', 'drop_later'"),
        ({"seed": 2**32}, "seed is 4294967296; it must be less"),
        ({"entropy_weight": float("nan")}, "entropy_weight is nan"),
        ({"encoder": ""}, "encoder is empty"),
        ({"latent_labels": 0}, "latent nodes need at least one"),
    ],
)
def test_what_cannot_be_is_said(values: dict[str, object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        TrainConfig().updated(values)


def test_whole_numbers_are_numbers() -> None:
    assert TrainConfig().updated({"clip": 1}).clip == 1.0


def test_tables_and_what_is_no_toml_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("[model]\nencoder = 'x'\n")
    with pytest.raises(DataError, match="Settings are flat"):
        read_config(path)
    path.write_text("encoder = x\n")
    with pytest.raises(DataError, match="this is no TOML"):
        read_config(path)


def test_every_key_is_a_flag(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    text = capsys.readouterr().out
    for one in fields(TrainConfig):
        assert f"--{one.name.replace('_', '-')}" in text


def test_unknown_keys_of_a_file_end_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "c.toml").write_text("epoch = 3\n")
    flags = ["--dev", "dev.jsonl", "--output", str(tmp_path / "run"), "--config", str(tmp_path / "c.toml")]
    assert main(["train", "train.jsonl", *flags]) == 2
    said = capsys.readouterr().err
    assert "c.toml: unknown key 'epoch'. Did you mean 'epochs'? Known are encoder" in said
