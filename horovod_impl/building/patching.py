"""The patches of Horovod 0.28.1: to build today, keep strangers out, keep secrets, and give reasons for failures.

Each file of the folder patches is a unified diff whose head says why. They apply in the order of their names.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from common.errors import UserError

FOLDER = Path(__file__).parent

ADDITIONS = {
    "cmake/FindMPI.cmake": "cmake/lockstep/FindMPI.cmake",
    "cmake/FindPytorch.cmake": "cmake/lockstep/FindPytorch.cmake",
    "cmake/FindTensorflow.cmake": "cmake/lockstep/FindTensorflow.cmake",
    "request_signature.py": "horovod/runner/common/util/request_signature.py",
    "request_signature.h": "third_party/HTTPRequest/include/request_signature.h",
}
"""Files of this folder, and their paths in Horovod's source."""


@dataclass(frozen=True)
class Patch:
    """One change of Horovod's source: its file's name, the reason in the file's head, and the unified diff below."""

    name: str
    reason: str
    diff: str

    def apply(self, source: Path) -> None:
        """Change the tree at `source`; raise UserError at the first line that isn't where the diff has it."""
        for change in self.diff.split("\n--- a/"):
            path, _, *lines = change.split("\n")
            file, position = source / path, 0
            text = file.read_text(encoding="utf-8").split("\n") if file.exists() else []
            for line in lines:
                if line.startswith("@@"):
                    # Counted in the new file, since the hunks before are in it already.
                    position = int(re.search(r"\+(\d+)", line)[1]) - 1
                elif line.startswith("+"):
                    text.insert(position, line[1:])
                    position += 1
                elif text[position : position + 1] != [line[1:]]:
                    raise UserError(
                        f"The patch {self.name} of Horovod's {path} ({self.reason}) no longer applies, since line "
                        f"{position + 1} isn't {line[1:]!r}: bring the patches up to date."
                    )
                elif line.startswith("-"):
                    del text[position]
                else:
                    position += 1
            file.write_text("\n".join(text), encoding="utf-8")


def read_patches() -> list[Patch]:
    """Return all patches in their order: some change the text of others. Each head ends before the first `--- a/`."""
    patches = []
    for file in sorted(FOLDER.glob("patches/*.patch")):
        head, _, diff = file.read_text(encoding="utf-8").removesuffix("\n").partition("\n--- a/")
        patches.append(Patch(file.name, " ".join(head.split()), diff))
    return patches


def addition_texts() -> dict[str, str]:
    """Return the text of each file that is added to Horovod's source, by its path there."""
    return {path: (FOLDER / name).read_text(encoding="utf-8") for name, path in ADDITIONS.items()}


def edit(source: Path) -> None:
    """Apply all patches to the tree at `source`, and add the files that addition_texts lists; raise UserError."""
    for patch in read_patches():
        patch.apply(source)
    for path, text in addition_texts().items():
        (source / path).parent.mkdir(parents=True, exist_ok=True)
        (source / path).write_text(text, encoding="utf-8")
