"""Edits with which Horovod's parts for Keras work with Keras 3."""

from horovod_impl.building.edits.edit import Edit

TENSORFLOW_INIT = "horovod/tensorflow/__init__.py"
TENSORFLOW_UTIL = "horovod/tensorflow/util.py"
SYNC_BATCH_NORM = "horovod/tensorflow/sync_batch_norm.py"
KERAS_OPTIMIZER = "horovod/_keras/__init__.py"
KERAS_CALLBACKS = "horovod/_keras/callbacks.py"

KERAS = (
    Edit(
        TENSORFLOW_UTIL,
        "return wrapper\n\n\ndef vars_to_refs",
        """return wrapper


def variable_of(variable):
    # A variable of Keras 3 is none of TensorFlow's, but keeps its value in one.
    value = getattr(variable, 'value', None)
    return value if isinstance(value, tf.Variable) else variable


def vars_to_refs""",
        "see the next edits",
    ),
    Edit(TENSORFLOW_UTIL, "return vars.ref()", "return variable_of(vars).ref()", "see the next edits"),
    Edit(
        TENSORFLOW_INIT,
        "_cache, vars_to_refs, refs_to_vars",
        "_cache, variable_of, vars_to_refs, refs_to_vars",
        "see the next edits",
    ),
    Edit(
        TENSORFLOW_INIT,
        "(source.ref())",
        "(variable_of(source).ref())",
        "a tape takes variables of Keras 3 as those whose gradients stay local",
    ),
    Edit(
        TENSORFLOW_INIT,
        """use_generic_names=False):
            gradients = super""",
        """use_generic_names=False):
            sources = [variable_of(source) for source in sources]
            gradients = super""",
        "a tape takes variables of Keras 3 as sources",
    ),
    Edit(
        TENSORFLOW_INIT,
        "is_local_source = s.ref()",
        "is_local_source = variable_of(s).ref()",
        "see the edits before",
    ),
    Edit(
        "horovod/tensorflow/functions.py",
        "import _cache, _executing_eagerly, _make_subgraph\n",
        "import _cache, _executing_eagerly, _make_subgraph, variable_of\n",
        "see the next edit",
    ),
    Edit(
        "horovod/tensorflow/functions.py",
        """broadcasts
    \"""
    if inplace:""",
        """broadcasts
    \"""
    variables = [variable_of(variable) for variable in variables]
    if inplace:""",
        "variables of Keras 3 can be broadcast",
    ),
    Edit(SYNC_BATCH_NORM, ".__init__(fused=fused, **kwargs)", ".__init__(**kwargs)", "Keras 3 has no fused layer"),
    Edit(
        SYNC_BATCH_NORM,
        "  def _moments(self, inputs, reduction_axes, keep_dims, **kwargs):",
        """    # XLA knows no operation of Horovod's.
    self.supports_jit = False

  def _moments(self, inputs, mask):""",
        "Keras 3 calls it with other arguments",
    ),
    Edit(
        SYNC_BATCH_NORM,
        """self)._moments(
      inputs, reduction_axes, keep_dims=keep_dims, **kwargs)
""",
        """self)._moments(inputs, mask)
    if mask is not None:
      raise NotImplementedError(
        'SyncBatchNormalization counts the rows of each worker as equally many, which a mask may not leave so.')
""",
        "see the edit before",
    ),
    Edit(
        SYNC_BATCH_NORM,
        """
  def call(self, *args, **kwargs):
    outputs = super(SyncBatchNormalization, self).call(*args, **kwargs)
    try:
      # A temporary hack for TF1 compatibility with Keras batch norm.
      # Ops are added to tf.GraphKeys.UPDATE_OPS manually to mimic
      # behavior of TF1 batch norm layer for use in control dependencies.
      for u in self.updates:
        tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, u)
    except AttributeError:
      pass
    return outputs
""",
        "",
        "Keras 3 builds a layer by the names of its call's arguments; what this did was for TensorFlow 1",
    ),
    Edit(
        KERAS_OPTIMIZER,
        "import rank, size_op\n\n\n_PRE",
        "import rank, size_op\nfrom horovod.tensorflow.util import variable_of\n\n\n_PRE",
        "see the next edits",
    ),
    Edit(
        KERAS_OPTIMIZER,
        "return CallableList(super(self.__class__, self).variables())",
        "variables = super(self.__class__, self).variables\n"
        "                return CallableList(variables() if callable(variables) else variables)",
        "an optimizer of Keras 3 has a list",
    ),
    Edit(
        KERAS_OPTIMIZER,
        "self._local_vars.add(var.ref())",
        "self._local_vars.add(variable_of(var).ref())",
        "see the edits before",
    ),
    Edit(
        KERAS_OPTIMIZER,
        """            if backward_passes_per_step > 1:
                if hvd""",
        """            if backward_passes_per_step > 1:
                if hasattr(optimizer, 'apply'):
                    raise NotImplementedError('Keras 3 adds gradients up itself: give its optimizer '
                                              'gradient_accumulation_steps instead of backward_passes_per_step.')
                if hvd""",
        "what adds gradients up here doesn't know Keras 3's variables",
    ),
    Edit(
        KERAS_OPTIMIZER,
        """                return __filtered_reduce_grads(grads, vars)

        def apply_""",
        """                return __filtered_reduce_grads(grads, vars)

        def apply(self, grads, trainable_variables=None):
            # All that Keras 3 calls, by itself or by way of `apply_gradients`.
            if trainable_variables is None:
                trainable_variables = self._trainable_variables
            trainable_variables = list(trainable_variables)
            grads = self._allreduce(list(grads), [variable_of(var) for var in trainable_variables])
            super(self.__class__, self).apply(grads, trainable_variables)

        def apply_""",
        "every worker would train for itself, without an error, since Keras 3 no longer calls what averaged",
    ),
    Edit(
        KERAS_CALLBACKS,
        "import horovod.tensorflow as hvd\nimport tensorflow",
        "import horovod.tensorflow as hvd\nfrom horovod.tensorflow.util import variable_of\nimport tensorflow",
        "see the next edits",
    ),
    Edit(
        KERAS_CALLBACKS,
        "self._local_vars.add(var.ref())",
        "self._local_vars.add(variable_of(var).ref())",
        "see the edits before",
    ),
    Edit(
        KERAS_CALLBACKS,
        "if var.ref() not in",
        "if variable_of(var).ref() not in",
        "see the edits before",
    ),
    Edit(
        KERAS_CALLBACKS,
        "hvd.broadcast_variables(self.model.optimizer.variables(),",
        """variables = self.model.optimizer.variables
                hvd.broadcast_variables(variables() if callable(variables) else variables,""",
        "an optimizer of Keras 3 has a list",
    ),
    Edit(
        KERAS_CALLBACKS,
        "hvd.allreduce(self.backend.constant(value, name=metric)).numpy()",
        "hvd.allreduce(tf.constant(value, name=metric)).numpy()",
        "Keras 3's backend makes no constants",
    ),
)
