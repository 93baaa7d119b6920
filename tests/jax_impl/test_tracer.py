"""The messages of JAX's strategies: the collectives in the compiled program of the step."""

from types import SimpleNamespace

import pytest

from common.errors import UserError
from jax_impl.strategies import DATA_PARALLEL
from jax_impl.tracer import messages_of, trace_of

PROGRAM = """
HloModule jit_train_step, is_scheduled=true
ENTRY %main (a: f32[8,4]) -> f32[8,4] {
  %rows = s32[2]{0} all-gather(%own), channel_id=1
  %all_gather.1 = f32[8,4]{0,1} all-gather(%wrapped_copy), channel_id=1, op_name="jit(train_step)/all_gather"
  %all-reduce = (f32[10,3]{1,0}, f32[]) all-reduce(%dot, %dot.1), channel_id=1, op_name="jit(f)/all-reduce"
  %sum = f32[10]{0} add(%all-reduce, %all-reduce.1)
  ROOT %reduce_scatter.1 = f32[4,4]{1,0} reduce-scatter(%copy), channel_id=1
}
"""


def test_a_program_tells_each_array_of_each_collective_in_their_order_without_counts():
    assert [(message.collective, message.size_bytes) for message in messages_of(PROGRAM, 2)] == [
        ("all_gather", 128),
        ("all_reduce", 120),
        ("all_reduce", 4),
        ("reduce_scatter", 128),
    ]


@pytest.mark.parametrize(
    ("program", "backend", "reason"), [("", "gloo", "sends nothing"), (PROGRAM, "nccl", "give --device cpu")]
)
def test_what_could_not_be_replayed_is_refused(program, backend, reason):
    run = SimpleNamespace(strategy=DATA_PARALLEL, world=SimpleNamespace(size=2, backend=backend))
    with pytest.raises(UserError, match=reason):
        trace_of(run, [program])
