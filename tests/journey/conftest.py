"""One data folder for each test, and the two brokers that take turns on it."""

import os
from pathlib import Path

import pytest

pytest.register_assert_rewrite("content", "folder")

from folder import Folder

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def binary():
    path = os.environ.get("MAINSTEM_BIN") or os.environ.get("MAINSTEM_BINARY") or str(ROOT / "target/debug/mainstem")
    if not Path(path).is_file():
        pytest.exit(f"{path} is not there: build it, or name another in MAINSTEM_BIN", returncode=2)
    return path


@pytest.fixture
def make_folder(tmp_path, binary):
    """Makes a folder that nobody has used yet, with settings for either broker."""
    made = []

    def make(**settings):
        made.append(Folder(tmp_path / f"data{len(made) or ''}", binary, **settings))
        return made[-1]

    yield make
    for folder in made:
        folder.end()


@pytest.fixture
def folder(make_folder):
    return make_folder()
