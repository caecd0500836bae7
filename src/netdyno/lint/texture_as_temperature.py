"""A device attribute is read as if it were the temperature.

Looks for:  `cudaDeviceGetAttribute(..., cudaDevAttrMaxTexture1DWidth, ...)` into something named after a temperature.
Wrong:      `cudaDeviceGetAttribute(&temp, cudaDevAttrMaxTexture1DWidth, 0)`: the width of a texture.
Right:      the thermal zones under `/sys/class/thermal`, or NVML
Not this:   the same attribute under another name.
"""

from collections.abc import Iterator

from netdyno.lint._base import Hit, lint
from netdyno.lint._text import Text


@lint(
    fix="read `/sys/class/thermal/thermal_zone*/temp`, or ask NVML",
    layer="deployment",
    stage="use",
    ledger=("C-082",),
    confidence=0.95,
)
def texture_as_temperature(source: Text) -> Iterator[Hit]:
    for line, _ in source.search(r"cudaDeviceGetAttribute\(\s*&\w*[tT]emp\w*\s*,\s*cudaDevAttr(?!.*[tT]emp)"):
        yield Hit(line, "this reads a limit of the device, and no temperature")


FILE = "watch.cpp"
BAD = ("cudaDeviceGetAttribute(&temp, cudaDevAttrMaxTexture1DWidth, 0);\n",)
GOOD = ("cudaDeviceGetAttribute(&width, cudaDevAttrMaxTexture1DWidth, 0);\n",)
