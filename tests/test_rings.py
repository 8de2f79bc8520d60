"""Who may import whom: a plugin the contract only, the host never a plugin, the contract nothing of ours."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
OURS = {"dsh_time", "dsh_hookspecs"}


def packages() -> dict[str, Path]:
    """Every package of the project by name, where the checkout has it."""
    roots = [ROOT / "dsh_time", ROOT / "hookspecs" / "dsh_hookspecs", *sorted((ROOT / "plugins").glob("*/dsh_*"))]
    return {path.name: path for path in roots if (path / "__init__.py").exists()}


def imported(package: Path) -> set[str]:
    """The top-level names that a package imports absolutely, anywhere in its files."""
    names: set[str] = set()
    for file in package.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                names |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                names.add(node.module.split(".")[0])
    return names


@pytest.mark.skipif(not packages(), reason="the packages are installed, not beside the tests")
def test_imports_follow_the_rings() -> None:
    found = {name: imported(path) - {name} for name, path in packages().items()}
    plugins = set(found) - OURS
    assert not found["dsh_hookspecs"] & {"dsh_time", *plugins}
    assert not found["dsh_time"] & plugins
    for plugin in plugins:
        assert not found[plugin] & ({"dsh_time", *plugins} - {plugin}), plugin
