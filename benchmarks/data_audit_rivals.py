"""cleanlab and deepchecks on the arrays that `data_audit.py` laid down. Runs in an interpreter that has them; netdyno need not be there.

    /path/to/python benchmarks/data_audit_rivals.py data-audit/rivals

cleanlab's Datalab gets the inputs as features and probabilities of a cross-validated logistic regression, as its documentation asks;
deepchecks runs the checks of its suites for data integrity and for the validation of a split, with their default conditions, over
columns: pictures as the means of 16 tiles, of series every fourth value; texts are left out, for its part for them wants models of a hub.
"""

import json
import os
import sys
import time
import warnings
from pathlib import Path
from typing import Any

# They must be set before the import: a benchmark tells nobody that it ran.
os.environ["DISABLE_DEEPCHECKS_ANONYMOUS_TELEMETRY"] = "True"
os.environ["DISABLE_LATEST_VERSION_CHECK"] = "True"
os.environ["HF_HUB_OFFLINE"] = "1"  # Datalab keeps its data in a library that asks a hub
warnings.filterwarnings("ignore")

import numpy as np  # noqa: E402


def numbers(case: Any, name: str) -> Any:
    """The inputs as rows of finite numbers; texts by their words."""
    x = case[f"x_{name}"]
    if x.dtype.kind not in "US":
        return x.reshape(len(x), -1).astype(np.float64)
    from sklearn.feature_extraction.text import TfidfVectorizer

    words = TfidfVectorizer(max_features=300).fit(case["x_train"])
    return words.transform(x).toarray()


def columns_of(case: Any, name: str) -> Any:
    """Columns for a library of tables: pictures as the means of 16 tiles, of a series every fourth value."""
    x = case[f"x_{name}"]
    if x.ndim == 4:
        tiles = [part.mean((1, 2, 3)) for rows in np.array_split(x, 4, 2) for part in np.array_split(rows, 4, 3)]
        return np.stack(tiles, 1)
    return numbers(case, name)[:, ::4] if x.shape[1] > 40 else numbers(case, name)


def cleanlab(case: Any) -> list[str] | None:
    """The kinds of issues that Datalab reports on both splits together, as it is meant for copies between them."""
    from cleanlab import Datalab
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_predict
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    x = np.vstack([numbers(case, name) for name in ("train", "val")])
    y = np.concatenate([case["y_train"], case["y_val"]])
    features = np.nan_to_num(x, posinf=1e6, neginf=-1e6)
    if str(case["task"]) == "numbers":
        lab = Datalab({"y": y}, label_name="y", task="regression", verbosity=0)
        lab.find_issues(features=x if np.isnan(x).any() else features)
    else:
        model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=200))
        probabilities = cross_val_predict(model, features, y, cv=3, method="predict_proba")
        lab = Datalab({"y": y}, label_name="y", verbosity=0)
        lab.find_issues(features=x if np.isnan(x).any() else features, pred_probs=probabilities)
    summary = lab.get_issue_summary()
    return [kind for kind, count in zip(summary["issue_type"], summary["num_issues"], strict=True) if count > 0]


def deepchecks(case: Any) -> list[str] | None:
    """The checks with a condition that fails."""
    import pandas as pd
    from deepchecks.tabular import Dataset
    from deepchecks.tabular.suites import data_integrity, train_test_validation

    if case["x_train"].dtype.kind in "US":
        return None
    held = {}
    for name in ("train", "val"):
        frame = pd.DataFrame(columns_of(case, name))
        frame.columns = [f"c{at}" for at in frame.columns]
        frame["label"] = case[f"y_{name}"]
        named = {}
        if f"groups_{name}" in case.files:
            frame["subject"], named["index_name"] = case[f"groups_{name}"], "subject"
        if f"times_{name}" in case.files:
            frame["when"], named["datetime_name"] = pd.to_datetime(case[f"times_{name}"], unit="D"), "when"
        kind = "regression" if str(case["task"]) == "numbers" else "multiclass"
        held[name] = Dataset(frame, label="label", label_type=kind, cat_features=[], **named)
    results = [
        data_integrity().run(held["train"], with_display=False),
        train_test_validation().run(held["train"], held["val"], with_display=False),
    ]
    return [
        type(each.check).__name__
        for result in results
        for each in result.get_not_passed_checks(fail_if_warning=True)
    ]  # fmt: skip


def looked(rival: Any, case: Any) -> Any:
    """What a rival says of a case, or None and why it could not."""
    try:
        return rival(case), None
    except Exception as error:
        return None, f"{type(error).__name__}: {error}"[:300]


def main(folder: Path) -> None:
    """Every case without an answer yet."""
    there = {}
    for rival in (cleanlab, deepchecks):
        try:
            __import__(rival.__name__)
            there[rival.__name__] = rival
        except Exception as error:
            print(f"{rival.__name__} is left out: {type(error).__name__}: {error}")
    for path in sorted(folder.glob("*.npz")):
        answer = path.with_suffix(".json")
        told: dict[str, Any] = json.loads(answer.read_text()) if answer.exists() else {}
        with np.load(path) as case:
            for name, rival in there.items():
                if name in told:
                    continue
                began = time.perf_counter()
                told[name], told[f"{name}_failed"] = looked(rival, case)
                told[f"{name}_s"] = time.perf_counter() - began
        answer.write_text(json.dumps(told))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
