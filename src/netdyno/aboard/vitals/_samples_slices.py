"""Groups of rows that share a value of one feature: which of them is answered worse than its classes let expect."""

from typing import Any

# A column of so few values names groups; one of more is a quantity.
KINDS = 4
# Fewer rows than these tell nothing of a group, and a group of nearly all rows is no group.
LEAST, MOST_SHARE = 20, 0.5
COLUMNS = 512


def weakest(x: Any, right: Any, labels: Any) -> dict[str, Any]:
    """The worst group, by how many standard deviations its hits lie below what the recall of its classes gives."""
    import torch

    if len(x) < 4 * LEAST or bool((labels < 0).any()):
        return {}
    hits = right.double()
    of_class = torch.zeros(int(labels.max()) + 1, dtype=torch.float64)
    expected = (of_class.index_add(0, labels, hits) / labels.bincount().clamp(min=1))[labels]
    # Nothing is certain: a class that was always right may be wrong once.
    spread = (expected * (1 - expected)).clamp(min=1 / len(x))
    columns = x[:, :COLUMNS]
    worst: dict[str, Any] = {}
    slices = 0
    for feature in range(columns.shape[1]):
        kinds = columns[:64, feature].unique()
        if not 2 <= len(kinds) <= KINDS or len(kinds := columns[:, feature].unique()) > KINDS:
            continue
        for kind in kinds:
            inside = columns[:, feature] == kind
            many = int(inside.sum())
            if many < LEAST or many > MOST_SHARE * len(x):
                continue
            slices += 1
            below = float((hits - expected)[inside].sum() / spread[inside].sum().sqrt())
            if not worst or below < worst["slice_z"]:
                worst = {
                    "slice_feature": feature,
                    "slice_value": float(kind),
                    "slice_rows": many,
                    "slice_score": float(hits[inside].mean()),
                    "slice_rest": float(hits[~inside].mean()),
                    "slice_expected": float(expected[inside].mean()),
                    "slice_z": below,
                }
    return worst | {"slices": slices} if worst else {}
