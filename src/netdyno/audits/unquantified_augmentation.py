"""An augmentation policy does not say how strong its transforms are, or says something else than was meant.

Looks for:  transforms without numbers in the policy file; a contrast, brightness or saturation far from what it was, as
            `adjust_contrast` with 0.2 leaves a fifth while a jitter of 0.2 goes from 0.8 to 1.2; in medical pictures whatever is
            not contrast or noise.
Matters:    nobody can repeat, compare or bisect an augmentation that has no numbers.
Try:        write the range of each transform: `degrees = 10`, `contrast = 0.2`; a mirror gets `p = 0.5`.
Not this:   the choice of transforms, which only a trial can judge.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from netdyno.audits import _policy as policies
from netdyno.audits._base import Skip, View, audit, wrong
from netdyno.audits._specimens import specimen
from netdyno.records.diagnosis import Finding


@audit(stage="settings")
def unquantified_augmentation(view: View) -> Finding | None:
    named = view.notes.get("policy")
    if named is None:
        raise Skip("no augmentation policy was named")
    policy = policies.read(Path(named)) if isinstance(named, str | Path) else policies.parsed(named)
    bare = [each.name for each in policy.transforms if not each.quantified]
    if bare:
        return wrong(
            f"{len(bare)} of {len(policy.transforms)} transforms have no number that says how strong they are: {', '.join(bare)}",
            fix="give each its range: degrees = 10, contrast = 0.2; a mirror gets p = 0.5",
            because={"transforms": float(len(policy.transforms)), "without_numbers": float(len(bare))},
        )
    unfit = policies.unfit(policy)
    if unfit:
        return wrong(
            f"{len(unfit)} of {len(policy.transforms)} transforms change more than contrast and noise of medical pictures: "
            f"{', '.join(unfit)}",
            fix="leave them out, or have somebody who reads such pictures say that they keep what is seen",
            because={"transforms": float(len(policy.transforms)), "unfit": float(len(unfit))},
            confidence=0.6,
        )
    harsh = [policies.meaning(each) for each in policy.transforms if policies.strong(each)]
    if not harsh:
        return None
    return wrong(
        f"{len(harsh)} of {len(policy.transforms)} transforms are strong: {'; '.join(harsh)}",
        fix="if a range around 1 was meant, write it as one: contrast = [0.8, 1.2]",
        because={"transforms": float(len(policy.transforms)), "strong": float(len(harsh))},
        confidence=0.6,
    )


def _asked(*transforms: dict[str, Any], **more: Any) -> Callable[[], View]:
    return lambda: specimen("images", notes={"policy": {"transform": list(transforms), **more}})


SICK = (
    _asked({"name": "rotate"}, {"name": "noise", "sigma": 0.1}),
    _asked({"name": "adjust_contrast", "contrast_factor": 0.2}),
    _asked({"name": "rotate", "degrees": 10}, domain="medical"),
)
WELL = (
    _asked({"name": "ColorJitter", "contrast": 0.2}, {"name": "RandomHorizontalFlip", "p": 0.5}),
    _asked({"name": "contrast", "contrast": 0.2}, {"name": "GaussianNoise", "sigma": 0.02}, domain="medical"),
    lambda: specimen("images"),
)
