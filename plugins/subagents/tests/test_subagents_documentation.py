"""`docs/subagents.md` is true: its patch holds every setting with its default, and its tool has these arguments."""

import re
from pathlib import Path

from attrs import asdict, fields

from dsh_subagents import SubagentArguments, Subagents
from dsh_time.deployment import load_deployment
from dsh_time.structure import camel_case

TEXT = (Path(__file__).parents[3] / "docs" / "subagents.md").read_text("utf-8")


def test_the_patch_holds_every_setting_with_its_default(tmp_path: Path) -> None:
    patch = tmp_path / "patch.yaml"
    [block] = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
    patch.write_text(block, encoding="utf-8")
    deployment = load_deployment(patches=[patch])
    entry = deployment.plugins[-1]
    assert asdict(deployment.configure(entry, Subagents)) == asdict(Subagents())
    assert [camel_case(field.name) for field in fields(Subagents)] == re.findall(r"^\| `(\w+)` \|", TEXT, re.MULTILINE)


def test_the_tool_has_the_arguments_that_are_listed() -> None:
    assert SubagentArguments.__struct_fields__ == ("prompt", "resume")
    assert "`subagent(prompt, resume?)`" in TEXT
