"""What stands beside the code for those who pick it up: versions, the workflow, hooks and templates."""

import re
import subprocess
import sys
import tomllib

import pytest

from common.paths import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_every_document_has_the_version_of_the_project():
    [cited] = re.findall(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    newest = re.search(r"^## (\S+) - \d{4}-\d\d-\d\d$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest
    assert cited == newest[1] == PROJECT["project"]["version"]


@pytest.mark.parametrize(
    ("schema", "files"),
    [
        ("github-workflows", ".github/workflows/*.yml"),
        ("github-issue-forms", ".github/ISSUE_TEMPLATE/*.yml"),
        ("citation-file-format", "CITATION.cff"),
    ],
)
def test_what_other_programs_read_follows_their_schema(schema, files):
    paths = [str(path) for path in ROOT.glob(files)]
    assert paths
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", *paths]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout


def test_the_workflow_runs_what_continuous_integration_runs_on_every_supported_python():
    workflow = (ROOT / ".github/workflows/ci.yml").read_text()
    [listed] = re.findall(r"python: \[(.+)\]", workflow)
    supported = re.fullmatch(r">=3\.(\d+),<3\.(\d+)", PROJECT["project"]["requires-python"])
    assert listed == ", ".join(f'"3.{minor}"' for minor in range(int(supported[1]), int(supported[2])))
    assert "- run: .ci/run\n" in workflow


def test_every_line_that_students_are_shown_is_in_its_file():
    text = (ROOT / "STUDENTS.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^\[[^\]\n]+\]\(([^)\n]+)\)\n\n```python\n(.+?)```", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) == text.count("```python")
    for path, block in blocks:
        lines = {line.strip() for line in (ROOT / path).read_text(encoding="utf-8").splitlines()}
        assert {line.strip() for line in block.splitlines()} - {"..."} <= lines, path


def test_hooks_run_programs_and_files_that_there_are():
    entries = re.findall(r"entry: (.+)$", (ROOT / ".pre-commit-config.yaml").read_text(), re.MULTILINE)
    assert entries
    for entry in entries:
        program, *words = entry.split()
        assert program == ".nox/tools/bin/python"
        assert [word for word in words if "/" in word and not (ROOT / word).exists()] == []
        module = words[words.index("-m") + 1]
        assert any(pin.startswith(f"{module}==") for pin in PROJECT["dependency-groups"]["dev"] if isinstance(pin, str))
