"""Two faults in one program: the edits of both, in a host that takes both."""

from collections.abc import Iterator
from importlib import import_module

from benchmarks.faults import _base
from benchmarks.faults._base import Edit, Fault, FaultError

PARTS: dict[str, tuple[str, str]] = {
    "X01": ("D03", "O01"),
    "X02": ("D07", "G01"),
    "X03": ("T01", "T02"),
    "X04": ("O07", "O38"),
    "X05": ("C01", "C12"),
    "X06": ("D05", "T04"),
    "X07": ("O12", "O47"),
    "X08": ("D12", "G04"),
    "X09": ("O21", "O03"),
    "X10": ("M01", "C14"),
}

# Where the edits of the parts get into each other's way, or know no common host: both faults in edits of their own.
OWN: dict[str, dict[str, tuple[Edit, ...]]] = {
    "X02": {
        "digits_mlp_functional": (
            Edit("width=128, p=0.2", "width=1024, p=0.0"),
            Edit(
                "    X_tr = torch.tensor(",
                "    X_tr, y_tr = X_tr[:200], y_tr[:200]\n"
                "    flip = np.random.rand(len(y_tr)) < 0.3\n"
                "    y_tr = np.where(flip, np.random.randint(0, 10, len(y_tr)), y_tr)\n"
                "    X_tr = torch.tensor(",
            ),
            Edit("epochs = 20\n", "epochs = 120\n"),
            Edit("weight_decay=1e-4", "weight_decay=0.0"),
        )
    },
    "X03": {"digits_mlp_trainer": (Edit("        self.model.eval()\n", ""),)},
    "X04": {
        "digits_mlp_functional": (
            Edit("batch_size = 32\n", "batch_size = 4\nmicro_batches = 8\n"),
            Edit("        for xb, yb in train_dl:\n", "        for i, (xb, yb) in enumerate(train_dl):\n"),
            Edit(
                "            opt.zero_grad()\n            loss.backward()\n            opt.step()\n",
                "            loss.backward()\n            if (i + 1) % micro_batches == 0:\n                opt.step()\n",
            ),
        )
    },
    "X06": {
        "digits_cnn": (
            Edit("BATCH_SIZE = 64\n", "BATCH_SIZE = 2\n"),
            Edit("EPOCHS = 12\n", "EPOCHS = 4\n"),
            Edit("(digits.images / 16.0).astype(np.float32)", "digits.images.astype(np.float32)"),
            Edit("DigitImages(train_x, train_y, augment=True)", "DigitImages(train_x / 16.0, train_y, augment=True)"),
        )
    },
    "X07": {
        "digits_cnn": (
            Edit(
                "    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)\n",
                "    for name, parameter in model.named_parameters():\n"
                '        parameter.requires_grad = "bn" in name\n'
                '    groups = [{"params": model.bn1.parameters(), "lr": 0.0}, {"params": model.bn2.parameters()}]\n'
                "    optimizer = torch.optim.Adam(groups, lr=1e-3)\n",
            ),
        )
    },
    "X08": {
        "digits_mlp_functional": (
            Edit("width=128, p=0.2", "width=256, p=0.0"),
            Edit(
                "    X_tr = torch.tensor(",
                "    X_tr, y_tr = X_tr[:150], y_tr[:150]\n"
                "    flip = np.random.rand(150) < 0.15\n"
                "    y_tr = np.where(flip, np.random.randint(0, 10, 150), y_tr)\n"
                "    X_va, y_va = np.concatenate([X_va, X_tr[:45]]), np.concatenate([y_va, y_tr[:45]])\n"
                "    X_tr = torch.tensor(",
            ),
            Edit("epochs = 20\n", "epochs = 120\n"),
        )
    },
}


def single_faults() -> dict[str, Fault]:
    """The faults of the other modules by id, as far as the modules are there."""
    found: dict[str, Fault] = {}
    for name in _base.MODULES:
        if name != "compound" and (_base.HERE / f"{name}.py").is_file():
            found |= {fault.id: fault for fault in import_module(f"{__package__}.{name}").FAULTS}
    return found


def compounds() -> Iterator[Fault]:
    """Each compound whose parts are there and go together in at least one host."""
    known = single_faults()
    for name, (first, second) in PARTS.items():
        if first in known and second in known:
            edits = dict(_shared(known[first], known[second])) or OWN.get(name, {})
            if edits:
                yield _composed(name, known[first], known[second], edits)


def _composed(name: str, first: Fault, second: Fault, edits: dict[str, tuple[Edit, ...]]) -> Fault:
    return Fault(
        id=name,
        kind=f"{first.kind}+{second.kind}",
        layer=first.layer,
        edits=edits,
        accept=(*first.accept, *second.accept),
        metric="val_loss" if name in OWN else first.metric,
        better="lower" if name in OWN else first.better,
        fix=f"{first.fix}; {second.fix}",
        environment={**first.environment, **second.environment},
        note=f"{first.id} and {second.id}",
    )


def _shared(first: Fault, second: Fault) -> Iterator[tuple[str, tuple[Edit, ...]]]:
    for host in first.hosts:
        if host in second.edits:
            for one, other in ((first, second), (second, first)):
                edits = (*_settled(one, host), *_settled(other, host))
                if _goes(edits, host):
                    yield host, edits
                    break


def _settled(fault: Fault, host: str) -> Iterator[Edit]:
    """The edits with the values of the clear severity in them."""
    grade = "clear" if "clear" in fault.severities else next(iter(fault.severities))
    for edit in fault.edits[host]:
        new = edit.new
        for name, value in fault.severities[grade].items():
            new = new.replace(f"<<{name}>>", value)
        yield Edit(edit.old, new)


def _goes(edits: tuple[Edit, ...], host: str) -> bool:
    """Whether the edits find their pieces one after the other; where one takes the other's away, they do not."""
    both = Fault(id="both", kind="both", layer="none", edits={host: edits})
    try:
        compile(_base.source(both, host), host, "exec")
    except (FaultError, SyntaxError):
        return False
    return True


FAULTS: tuple[Fault, ...] = tuple(compounds())
# Compounds that wait for a part, or whose parts share no host: the page tells them.
MISSING: tuple[str, ...] = tuple(name for name in PARTS if name not in {fault.id for fault in FAULTS})
