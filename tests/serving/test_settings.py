"""Settings that make no sense are refused, with a word on what would; and so are keys."""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from nestree import serving
from nestree.cli.main import main
from nestree.data.errors import DataError
from nestree.serving import Limits, Settings
from nestree.serving.security import Keys, read_keys

GOOD, OTHER = "a-key-of-sixteen-characters", "another-key-of-many-characters"


def test_settings_come_back_as_they_went() -> None:
    settings = Settings(
        Limits(texts=3, seconds=0.5), cors=("https://a.example", "*"), batch_work=7, page=False, name="é"
    )
    assert Settings.from_json(settings.as_json()) == settings


@pytest.mark.parametrize("text", ['{"nothing": 1}', '{"limits": {"nothing": 1}}'])
def test_unknown_keys_are_refused_with_the_known_ones(text: str) -> None:
    with pytest.raises(ValueError, match=r"unknown key 'nothing'; known are (limits|request_bytes)"):
        Settings.from_json(text)


@pytest.mark.parametrize(
    ("kind", "values", "message"),
    [
        (Limits, {"texts": 0}, "texts is 0; it must be 1 at least"),
        (Limits, {"alternatives": -1}, "it must be 0 at least"),
        (Limits, {"seconds": 0}, "seconds is 0"),
        (Limits, {"seconds": float("nan")}, "seconds is nan"),
        (Settings, {"threads": 0}, "threads is 0"),
        (Settings, {"batch_work": 0}, "batch_work is 0"),
        (Settings, {"max_words": 7}, "max_words is 7"),
        (Settings, {"drain_seconds": -1}, "drain_seconds is -1"),
        (Settings, {"name": " "}, "name is ' '; it must have a character at least"),
        (Settings, {"name": "a\nb"}, "only printable ones"),
        (Settings, {"cors": ("example.org",)}, "'example.org' is no origin"),
        (Settings, {"cors": ("https://example.org/a",)}, "is no origin"),
    ],
)
def test_what_makes_no_sense_is_refused(kind: Any, values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kind(**values)


def test_keys_come_from_a_file_and_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "keys"
    file.write_text(f"# of the team\n\n  {GOOD}  # Anna\n")
    assert read_keys(file) == [GOOD]
    monkeypatch.setenv("NESTREE_API_KEYS", f"{OTHER},")
    assert sorted(read_keys(file)) == sorted([GOOD, OTHER])
    assert read_keys(None) == [OTHER]


@pytest.mark.parametrize(
    ("text", "message"),
    [("short", ":1: a key has 16"), ("a" * 20 + " b", "spaces"), ("é" * 20, "ASCII"), ("#", "no key")],
)
def test_bad_keys_are_refused(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "keys").write_text(text)
    with pytest.raises(DataError, match=message):
        read_keys(tmp_path / "keys")


@pytest.mark.parametrize(
    ("headers", "admitted"),
    [
        ([(b"x-api-key", GOOD.encode())], True),
        ([(b"authorization", b"Bearer " + GOOD.encode())], True),
        ([(b"authorization", b"Basic abc"), (b"x-api-key", GOOD.encode())], True),
        ([(b"authorization", b"Bearer wrong"), (b"x-api-key", GOOD.encode())], False),
        ([(b"x-api-key", b"")], False),
        ([(b"x-api-key", b"\xff")], False),
        ([], False),
    ],
)
def test_a_request_needs_a_key_and_no_wrong_one(headers: list[tuple[bytes, bytes]], admitted: bool) -> None:
    assert Keys([OTHER, GOOD]).admit(headers) is admitted
    assert Keys().admit(headers)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--max-texts", "0"], "texts is 0"),
        (["--cors", "example.org"], "is no origin"),
        (["--name", ""], "name is ''"),
        (["--api-keys", "nothing"], "the keys cannot be read"),
    ],
)
def test_the_command_says_what_is_wrong(
    options: list[str], message: str, saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", str(saved), *options]) == 2
    assert message in capsys.readouterr().err


def test_the_command_needs_a_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", str(tmp_path / "nothing")]) == 2
    assert "there is no such folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("host", "keys", "warned"), [("0.0.0.0", "", True), ("0.0.0.0", GOOD, False), ("::1", "", False)]
)
def test_who_opens_the_door_to_everybody_is_warned(
    host: str,
    keys: str,
    warned: bool,
    saved: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NESTREE_API_KEYS", keys)
    monkeypatch.setattr("nestree.cli.serve._run", lambda *_: 0)
    assert main(["serve", str(saved), "--host", host]) == 0
    assert ("WARNING" in capsys.readouterr().err) is warned


def test_without_the_extra_the_command_names_it(
    saved: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nestree.serving.extra.PACKAGES", ("no_such_package",))
    assert main(["serve", str(saved)]) == 2
    assert 'pip install "nestree[serve]"' in capsys.readouterr().err


def test_the_command_passes_the_name_on(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Settings] = []
    monkeypatch.setattr("nestree.cli.serve._run", lambda _, settings, __: given.append(settings) or 0)
    assert main(["serve", str(saved)]) == main(["serve", str(saved), "--name", "news"]) == 0
    assert [one.name for one in given] == [None, "news"]


def test_there_are_only_so_many_ports(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One that is too large would be taken for another one, and the service said that it is where it is not."""
    with pytest.raises(SystemExit, match="2"):
        main(["serve", str(saved), "--port", "99999"])
    assert "it must not be more than 65535" in capsys.readouterr().err


def test_a_port_that_is_taken_is_said_before_the_model_is_loaded(
    saved: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("uvicorn.run", lambda *_, **__: pytest.fail("it went on"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["serve", str(saved), "--port", str(port)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: nothing can listen on 127.0.0.1, port {port}: ")
    assert "Name another --port" in line


def test_ctrl_c_that_python_drops_while_it_imports_is_not_lost(
    saved: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Serving(ModuleType):
        def __getattr__(self, name: str) -> Any:
            # As it is if Ctrl-C comes within a destructor: Python hands the error to this and goes on.
            sys.unraisablehook(SimpleNamespace(exc_type=KeyboardInterrupt))  # type: ignore[arg-type]
            return getattr(serving, name)

    monkeypatch.setitem(sys.modules, "nestree.serving", Serving("nestree.serving"))
    monkeypatch.setattr("uvicorn.run", lambda *_, **__: pytest.fail("it goes on"))
    assert main(["serve", str(saved), "--port", "0"]) == 130
    assert "stopped" in capsys.readouterr().err
