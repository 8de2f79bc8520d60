"""Fixtures that several test files need."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on `sys.path`; what is imported from it is forgotten afterwards."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    yield folder
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith(str(folder)):
            del sys.modules[name]


@pytest.fixture
def install(site: Path) -> Callable[..., None]:
    """Write a distribution that offers a plugin, as an installer would: `install("dsh-sample", code)`.

    Its one module has the class `Sample` in `code`, which may use what `dsh_hookspecs` exports. `offers` is the name of
    the entry point (default: the distribution's), `folder` another place than `site`.
    """

    def write(name: str, code: str = "", offers: str = "", version: str = "1.0", folder: Path = site) -> None:
        module = name.replace("-", "_")
        imports = "from attrs import define, frozen\nfrom msgspec import Struct\nfrom dsh_hookspecs import *\n"
        (folder / f"{module}.py").write_text(imports + code, encoding="utf-8")
        info = folder / f"{module}-{version}.dist-info"
        info.mkdir()
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        (info / "METADATA").write_text(metadata, encoding="utf-8")
        entry_point = f"[dsh_time.plugins]\n{offers or name} = {module}:Sample\n"
        (info / "entry_points.txt").write_text(entry_point, encoding="utf-8")
        importlib.invalidate_caches()  # a folder's listing may be cached from the moment before

    return write
