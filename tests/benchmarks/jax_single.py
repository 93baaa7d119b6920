"""jax_single in turn with a bare jitted loop, whose rows are on the device."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from jax_impl import single
from tests.benchmarks import bare_jax, paired

if __name__ == "__main__":
    paired.main(single, bare_jax.make_window)
