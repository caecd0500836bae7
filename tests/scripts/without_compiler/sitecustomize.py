"""The first optimizer brings in the compiler, to be left alone by it: half of a start. Here an empty module stands in for it."""

import sys

module = sys.modules["torch._dynamo"] = type(sys)("torch._dynamo")
module.disable = lambda function, *_, **__: function
module.graph_break = lambda: None
