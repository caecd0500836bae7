"""Something is fitted on all data before the test part is split off.

Looks for:  `Xs = SelectKBest(...).fit_transform(X, y)` or a scaler's, and then `train_test_split(Xs, ...)`, in one block.
Wrong:      select or scale on everything, then split: the test part has been seen.
Right:      split first, `fit` on the training part, `transform` both; or a `Pipeline`.
Not this:   a fit on the training part; a pipeline; data that are not split afterwards.
"""

import ast
from collections.abc import Iterator

from netdyno.lint._base import REMARK, Hit, lint
from netdyno.lint._python import Python

SPLITS = ("sklearn.model_selection.train_test_split",)


@lint(
    fix="split first, fit on the training part only",
    layer="generalisation",
    stage="data",
    confidence=0.85,
)
def fitted_before_split(source: Python) -> Iterator[Hit]:
    for split in source.calls(*SPLITS):
        for given in split.args:
            behind = source.origin(given)
            if (
                not isinstance(behind, ast.Call)
                or not isinstance(behind.func, ast.Attribute)
                or behind.func.attr != "fit_transform"
            ):
                continue
            made = source.made(behind.func.value)
            full = source.name(made.func) if made is not None else ""
            if full.startswith("sklearn.") and not full.endswith(("LabelEncoder", "OneHotEncoder", "LabelBinarizer")):
                looks_at_labels = full.startswith("sklearn.feature_selection.")
                says = f"`{full.rpartition('.')[2]}` was fitted on the test part too"
                # What a scaler learns of the test part is next to nothing; a selector that saw its labels is another matter.
                yield Hit(behind, says, confidence=None if looks_at_labels else REMARK)


BAD = (
    """\
from sklearn.feature_selection import SelectKBest
from sklearn.model_selection import train_test_split
X = SelectKBest(k=10).fit_transform(X, y)
a, b, c, d = train_test_split(X, y)
""",
    """\
from sklearn.preprocessing import StandardScaler
from sklearn.model_selection import train_test_split
scaler = StandardScaler()
Xs = scaler.fit_transform(X)
a, b, c, d = train_test_split(Xs, y)
""",
)
GOOD = (
    """\
from sklearn.preprocessing import StandardScaler
from sklearn.model_selection import train_test_split
a, b, c, d = train_test_split(X, y)
scaler = StandardScaler().fit(a)
a = scaler.transform(a)
""",
)
