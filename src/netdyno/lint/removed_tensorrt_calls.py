"""TensorRT is called in a way that its recent versions have removed.

Looks for:  `execute_async_v2`, `execute_async`, `max_workspace_size`, `build_engine`, `STRICT_TYPES`, and the calls about
            numbered bindings, in a file that imports `tensorrt`; `execute_async_*` on an engine.
Wrong:      `engine.execute_async_v2(bindings, stream)`
Right:      `context.set_tensor_address(...)`, `context.execute_async_v3(stream)`; `config.set_memory_pool_limit(...)`
Not this:   code that asks for the version first.
"""

import ast
from collections.abc import Iterator

from netdyno.lint._base import Hit, lint
from netdyno.lint._python import Python

GONE = {
    "execute_async": "`execute_async_v3` of the execution context",
    "execute_async_v2": "`execute_async_v3` of the execution context",
    "execute_v2": "`execute_async_v3` of the execution context",
    "max_workspace_size": "`config.set_memory_pool_limit(MemoryPoolType.WORKSPACE, n)`",
    "build_engine": "`build_serialized_network`",
    "build_cuda_engine": "`build_serialized_network`",
    "STRICT_TYPES": "nothing: layers choose among the precisions that are allowed",
    "get_binding_shape": "`get_tensor_shape`",
    "get_binding_name": "`get_tensor_name`",
    "num_bindings": "`num_io_tensors`",
    "set_binding_shape": "`set_input_shape`",
}
# Still there in version 10, though people are told to leave it.
GONE.pop("execute_v2")


@lint(
    fix="use the calls of TensorRT 10",
    layer="deployment",
    stage="failure",
    ledger=("C-074", "C-080"),
    confidence=0.8,
)
def removed_tensorrt_calls(source: Python) -> Iterator[Hit]:
    if not source.imports("tensorrt") or source.has_word("__version__", "hasattr("):
        return
    for each in source.of(ast.Attribute):
        if each.attr in GONE:
            yield Hit(each, f"`{ast.unparse(each)}` is gone in TensorRT 10", f"use {GONE[each.attr]}")


BAD = (
    "import tensorrt as trt\nengine.execute_async_v2(bindings, stream.handle)\n",
    "import tensorrt as trt\nconfig.max_workspace_size = 1 << 30\nconfig.set_flag(trt.BuilderFlag.STRICT_TYPES)\n",
)
GOOD = (
    "import tensorrt as trt\ncontext.execute_async_v3(stream.handle)\n",
    "import tensorrt as trt\nif trt.__version__ < '10':\n    context.execute_async_v2(bindings, stream.handle)\n",
    "pool.build_engine()\n",
)
