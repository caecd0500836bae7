"""Records to test with: a golden one with every kind of thing in it, and the awkward ones.

Run as a program, it writes `schema/` anew: `python tests/reports/specimens.py`.
"""

import json
import random
from pathlib import Path

import msgspec

from netdyno.records import codec
from netdyno.records.diagnosis import Experiment, Finding, Outcome, Saving
from netdyno.records.environment import Ceilings, Environment
from netdyno.records.evidence import (
    Chore,
    Chores,
    Ending,
    EvaluationUse,
    GraphBreaks,
    Layer,
    LayerTable,
    LineCost,
    LineCosts,
    Loader,
    LoaderProfile,
    LoaderUse,
    MachineState,
    MemoryAccount,
    Op,
    OpTable,
    OptimizerUse,
    ParameterUse,
    Place,
    ScriptTrace,
    StepTimeline,
    SyncSite,
    SyncSites,
    ThreadUse,
    UpdateOrder,
    Warned,
    Warnings,
)
from netdyno.records.measured import Interval, Measurement, Split
from netdyno.records.record import Baseline, Failure, Patch, Plan, Proposal, Record, SmokeCheck, Target, Unpatched
from netdyno.records.scores import Round, Scores
from netdyno.records.trial import (
    ArmTimes,
    Attribution,
    Change,
    Guard,
    Interaction,
    Memory,
    Parity,
    Prediction,
    Share,
    Stability,
    Ticks,
    Trial,
    Verdict,
)

SCHEMA = Path(__file__).parents[2] / "schema"
ENVIRONMENT = "3f9a1c07"

WORKERS = Change(id="loader-workers", settings={"workers": 2})
BATCHED = Change(id="batch-transforms")
LAYOUT = Change(id="channels-last")
FUSED = Change(id="fused-optimizer", settings={"kind": "fused"})
HALF = Change(id="bf16-autocast")
COMPILED = Change(id="compile", settings={"mode": "default", "dynamic": False})
FASTER_BUT_SHAKY = Change(id="batch-size", settings={"times": 2, "rate": "sqrt"})
RECIPE = (WORKERS, BATCHED, LAYOUT)


def interval(middle: float, low: float, high: float) -> Interval:
    return Interval(middle=middle, low=low, high=high)


def seconds(quantity: str, middle: float, *, count: int = 60, seed: int = 1, spread: float = 0.02) -> Measurement:
    """Step times around `middle`: a lognormal body, and one in twenty disturbed."""
    chance = random.Random(seed)
    draws = (chance.lognormvariate(0.0, spread) * (1.15 if chance.random() < 0.05 else 1.0) for _ in range(count))
    return Measurement(
        quantity=quantity,
        unit="s",
        samples=tuple(round(middle * draw, 7) for draw in draws),
        warmup=tuple(round(middle * slow, 7) for slow in (4.1, 1.6, 1.1)),
        items_per_sample=64,
        environment=ENVIRONMENT,
        waiting_share=0.031,
    )


def gain_of(control: Measurement, treatment: Measurement) -> Interval:
    """The median saved share of all pairs, with order statistics around it. The level is what a campaign leaves a trial."""
    shares = sorted(1 - fast / slow for slow, fast in zip(control.samples, treatment.samples, strict=True))
    half = len(shares) // 2
    reach = max(1, round(1.5 * len(shares) ** 0.5))
    ends = (max(half - reach, 0), min(half + reach, len(shares) - 1))
    low, high = (round(shares[place], 4) for place in ends)
    return Interval(middle=round(shares[half], 4), low=low, high=high, level=0.9983)


def trial(change: Change, *, control_s: float, saves: float, pairs: int, seed: int, **more: object) -> Trial:
    chance = random.Random(seed)
    fields: dict[str, object] = {
        "against": (),
        "form": "in-process",
        "numerics": "same-bits",
        "order": tuple(chance.choice(("AB", "BA")) for _ in range(pairs)),
        "looks": tuple(range(8, pairs + 1, 8)),
        "steps_per_turn": 4,
        "planned_pairs": pairs + 8,
        "noise": 0.021,
        "cost_s": round(pairs * control_s * 9, 2),
        "checksums": ("9d3b70e2", "9d3b70e2"),
    }
    return Trial(
        change=change,
        control=seconds("time per step", control_s, count=pairs, seed=seed),
        treatment=seconds("time per step", control_s * (1 - saves), count=pairs, seed=seed + 1000),
        **(fields | more),
    )


def prediction(low: float, high: float, why: str) -> Prediction:
    return Prediction(low=low, high=high, why=why)


def trials() -> tuple[Trial, ...]:
    return (
        trial(
            WORKERS,
            control_s=0.01243,
            saves=0.292,
            pairs=40,
            seed=11,
            form="processes",
            spawns=tuple(pair // 8 for pair in range(40)),
            rerun=3,
            prediction=prediction(
                0.20, 0.41, "data takes 41 % of a step and runs on a core; 2 workers hide up to all of it"
            ),
            parity=(Parity(output="first batches", worst=0.0, allowed=0.0, measure="bits"),),
            guards=(Guard(name="data order", holds=True, says="the first 3 batches are byte-equal on both sides"),),
            memory_control=Memory(activations=9_437_184, state=1_482_240, peak=412_000_000),
            memory_treatment=Memory(activations=9_437_184, state=1_482_240, peak=771_000_000),
            setup_s=0.61,
        ),
        trial(
            BATCHED,
            against=(WORKERS,),
            control_s=0.00881,
            saves=0.152,
            pairs=32,
            seed=12,
            numerics="other-randomness",
            form="processes",
            spawns=tuple(pair // 8 for pair in range(32)),
            prediction=prediction(
                0.05, 0.30, "augmentation is 71 % of the time per sample and can run on whole batches"
            ),
            parity=(Parity(output="validation loss", worst=0.004, allowed=0.012, measure="envelope"),),
            guards=(
                Guard(
                    name="stability",
                    holds=True,
                    says="validation loss spreads 0.011 (0.008 to 0.016) against 0.012 before",
                ),
            ),
        ),
        trial(
            LAYOUT,
            against=(WORKERS, BATCHED),
            control_s=0.00748,
            saves=0.088,
            pairs=48,
            seed=13,
            numerics="reordered",
            prediction=prediction(0.0, 0.22, "convolutions take 62 % of a step; layout moves at most a third of that"),
            parity=(Parity(output="loss trajectory", worst=2.1e-7, allowed=1.2e-6, measure="rel"),),
        ),
        trial(
            FUSED,
            against=RECIPE,
            control_s=0.00683,
            saves=0.021,
            pairs=96,
            seed=14,
            prediction=prediction(0.01, 0.06, "the optimizer takes 8 % of a step"),
            parity=(Parity(output="parameters after 20 steps", worst=0.0, allowed=0.0, measure="bits"),),
        ),
        trial(
            HALF,
            against=RECIPE,
            control_s=0.00683,
            saves=-0.34,
            pairs=16,
            seed=15,
            numerics="lower-precision",
            prediction=prediction(
                0.10, 0.35, "matrix work takes 55 % of a step; bfloat16 is 1.6× faster here on large ones"
            ),
            parity=(Parity(output="loss trajectory", worst=0.0031, allowed=0.02, measure="envelope"),),
        ),
        trial(
            FASTER_BUT_SHAKY,
            against=RECIPE,
            control_s=0.00683,
            saves=0.17,
            pairs=24,
            seed=16,
            numerics="other-training",
            prediction=prediction(0.05, 0.20, "fixed costs per step are 20 % and are paid half as often"),
            guards=(
                Guard(
                    name="stability",
                    holds=False,
                    says="validation loss spreads 0.031 (0.022 to 0.047) against 0.012 before",
                ),
                Guard(name="quality", holds=None, says="too few rounds fitted into 30 s to compare the metric"),
            ),
        ),
        Trial(
            change=COMPILED,
            against=RECIPE,
            form="processes",
            numerics="reordered",
            control=seconds("time per step", 0.00683, count=2, seed=17),
            treatment=Measurement(quantity="time per step", unit="s", samples=()),
            prediction=prediction(0.05, 0.25, "Python takes 22 % of a step between operators"),
            cost_s=61.2,
            failed="the treatment was still compiling after 60 s and was ended",
            last_words="torch._inductor: compiling subprocess pool of 2\nKilled",
        ),
    )


def verdicts(tried: tuple[Trial, ...]) -> tuple[Verdict, ...]:
    gains = [gain_of(one.control, one.treatment) if one.failed is None else None for one in tried]
    ticks = Ticks(
        quantified="data takes 41 % of a step",
        undoable="the loader is built anew from the same arguments",
        attributable="all of the interval lies above 5 %",
    )
    missing = msgspec.structs.replace(ticks, attributable=None)
    said: tuple[tuple[str, tuple[str, ...], Ticks | None], ...] = (
        ("keep", ("all of the interval lies above 5 %",), ticks),
        (
            "keep",
            ("all of the interval lies above 5 %", "same quality within the envelope of 3 seeds"),
            ticks,
        ),
        ("keep", ("all of the interval lies above 5 %",), ticks),
        (
            "undecided",
            ("the interval reaches from below 5 % to above it, and the 96 pairs are spent",),
            missing,
        ),
        ("drop", ("all of the interval lies below 5 %: it is slower",), missing),
        ("drop", ("stability: validation loss spreads 2.6 times as wide; rolled back",), missing),
        ("drop", ("it did not run: the treatment was still compiling after 60 s and was ended",), None),
    )
    return tuple(
        Verdict(trial=number, decision=decision, gain=gain, reasons=reasons, ticks=tick)
        for number, (gain, (decision, reasons, tick)) in enumerate(zip(gains, said, strict=True))
    )


def share(
    number: int, change: Change, gain: Interval, forward: Interval, backward: Interval, left_out: Interval, code: str
) -> Share:
    return Share(
        change=change, gain=gain, forward=forward, backward=backward, left_out=left_out, trial=number, code=code
    )


def attribution() -> Attribution:
    """Rows plus residual are the total to the last digit: 3.52 + 1.41 + 0.64 + 0.03 = 5.60 ms."""
    chance = random.Random(5)

    def arm(recipe: tuple[Change, ...], middle: float) -> ArmTimes:
        rows = tuple(tuple(round(middle * chance.lognormvariate(0, 0.015), 6) for _ in range(4)) for _ in range(5))
        return ArmTimes(recipe=recipe, times=rows)

    def check(middle: float) -> tuple[tuple[float, ...], ...]:
        return tuple(tuple(round(middle * chance.lognormvariate(0, 0.01), 6) for _ in range(3)) for _ in range(5))

    return Attribution(
        baseline_s=interval(0.01243, 0.01231, 0.01256),
        final_s=interval(0.00683, 0.00672, 0.00695),
        total=interval(0.00560, 0.00544, 0.00577),
        speedup=interval(1.820, 1.783, 1.857),
        shares=(
            share(
                0,
                WORKERS,
                interval(0.00352, 0.00334, 0.00371),
                interval(0.00362, 0.00341, 0.00383),
                interval(0.00342, 0.00322, 0.00362),
                interval(0.00339, 0.00317, 0.00360),
                "loader = DataLoader(train, batch_size=64, shuffle=True, num_workers=2, persistent_workers=True)",
            ),
            share(
                1,
                BATCHED,
                interval(0.00141, 0.00126, 0.00157),
                interval(0.00133, 0.00116, 0.00150),
                interval(0.00149, 0.00131, 0.00167),
                interval(0.00146, 0.00127, 0.00164),
                "augment = kornia.augmentation.AugmentationSequential(RandomAffine(10, (0.1, 0.1)))\nimages = augment(images)",
            ),
            share(
                2,
                LAYOUT,
                interval(0.00064, 0.00052, 0.00076),
                interval(0.00065, 0.00050, 0.00079),
                interval(0.00063, 0.00048, 0.00078),
                interval(0.00064, 0.00049, 0.00078),
                "model = model.to(memory_format=torch.channels_last)\nimages = images.to(memory_format=torch.channels_last)",
            ),
        ),
        residual=interval(0.00003, -0.00011, 0.00017),
        interactions=(
            Interaction(change=BATCHED, term=interval(-0.00020, -0.00035, -0.00006), distinguishable=True),
            Interaction(change=LAYOUT, term=interval(0.00002, -0.00013, 0.00016), distinguishable=False),
        ),
        arms=(
            arm((), 0.01243),
            arm((WORKERS,), 0.00881),
            arm((WORKERS, BATCHED), 0.00748),
            arm(RECIPE, 0.00683),
            arm((LAYOUT,), 0.01180),
            arm((BATCHED, LAYOUT), 0.01022),
            arm((WORKERS, LAYOUT), 0.00829),
        ),
        check_baseline=check(0.01243),
        check_final=check(0.00683),
        steps_per_epoch=23,
        cost_s=41.8,
    )


def split(running: float, waiting: float = 0.0, blocked: float = 0.0) -> Split:
    return Split(running=running, waiting=waiting, blocked=blocked)


def timeline() -> StepTimeline:
    phases = {
        "data": split(0.00488, 0.00021, 0.00022),
        "collate": split(0.00034, 0.00001),
        "copy": split(0.00002),
        "forward": split(0.00236, 0.00006),
        "loss": split(0.00009),
        "backward": split(0.00329, 0.00009),
        "optimizer": split(0.00098, 0.00002),
        "log": split(0.00004, 0.0, 0.00001),
        "rest": split(0.00008),
    }
    whole = sum(phases.values(), Split())
    return StepTimeline(steps=240, step=whole, phases=phases, own_overhead_s=0.000021, cost_s=4.2)


def timeline_after() -> StepTimeline:
    phases = {
        "data": split(0.00021, 0.00001, 0.00074),
        "copy": split(0.00061),
        "forward": split(0.00196, 0.00006),
        "loss": split(0.00009),
        "backward": split(0.00229, 0.00009),
        "optimizer": split(0.00081, 0.00002),
        "log": split(0.00004),
        "rest": split(0.00007),
    }
    return StepTimeline(
        steps=240, step=sum(phases.values(), Split()), phases=phases, own_overhead_s=0.000021, cost_s=2.1
    )


def layer(module: str, kind: str, flops: float, moved: float, took: float, ceiling: float | None, line: int) -> Layer:
    return Layer(
        module=module,
        kind=kind,
        flops=flops,
        bytes=moved,
        seconds=took,
        intensity=flops / moved,
        share_of_ceiling=ceiling,
        where=Place(file="work.py", line=line, module=module),
    )


def layers() -> LayerTable:
    return LayerTable(
        layers=(
            layer("stem.0", "Conv2d", 2.36e6, 0.543e6, 0.00031, 0.17, 21),
            layer("stem.1", "BatchNorm2d", 1.05e6, 1.049e6, 0.00014, 0.61, 22),
            layer("body.0.conv", "Conv2d", 37.7e6, 0.598e6, 0.00074, 0.45, 25),
            layer("body.1.conv", "Conv2d", 75.5e6, 0.610e6, 0.00082, 0.81, 26),
            layer("body.1.relu", "ReLU", 0.0, 0.524e6, 0.00004, None, 27),
            layer("head.0", "Linear", 16.8e6, 0.672e6, 0.00020, 0.74, 30),
            layer("head.2", "Linear", 0.16e6, 0.038e6, 0.00002, 0.20, 32),
        ),
        forward_flops=133.6e6,
        step_flops=398.4e6,
        step_bytes=11.9e6,
        dtype="float32",
        ridge=6.2,
        compute_seconds=0.00576,
        cost_s=0.4,
    )


def evidence() -> tuple:
    return (
        timeline(),
        LoaderProfile(
            sample=split(0.000071, 0.000002, 0.000003),
            augment=split(0.000052, 0.000001),
            collate=split(0.00034),
            batch_bytes=16_896,
            samples=512,
            dataset_bytes=368_640,
            deterministic=False,
            stackable=True,
            workers=0,
            first_batch_s=0.0121,
            epoch_start_s=0.0063,
            memory_slope_bytes=12.0,
            cost_s=0.9,
        ),
        layers(),
        MemoryAccount(
            parameters=494_080,
            buffers=640,
            gradients=494_080,
            optimizer_state=988_160,
            activations=9_437_184,
            workspace=2_359_296,
            batch=16_896,
            peak=13_790_336,
            capacity=8_330_000_000,
            available=5_120_000_000,
            cost_s=0.6,
        ),
        OpTable(
            ops=(
                Op(name="aten::convolution_backward", calls=3, seconds=0.00241),
                Op(name="aten::convolution", calls=3, seconds=0.00152),
                Op(name="aten::_foreach_addcdiv_", calls=1, seconds=0.00031),
            ),
            dispatches=412.0,
            operator_s=0.00503,
            python_s=0.00151,
            cost_s=0.3,
        ),
        SyncSites(
            sites=(SyncSite(where=Place(file="work.py", line=58), call=".item()", per_step=1.0),),
            seconds_per_step=0.00004,
            cost_s=0.2,
        ),
        ThreadUse(
            torch_threads=2,
            interop_threads=2,
            cores=2,
            workers=0,
            worker_threads=0,
            waiting_share=0.031,
            others_share=0.18,
            step_seconds_by_threads={"1": 0.0131, "2": 0.0124},
            cost_s=1.8,
        ),
        GraphBreaks(
            graphs=2, breaks=1, reasons=("work.py:58 Tensor.item() is data dependent",), compile_s=23.4, cost_s=24.0
        ),
        MachineState(
            load=0.7,
            cpu_pressure=0.04,
            memory_available=5_120_000_000,
            memory_total=8_330_000_000,
            swap_used=0,
            temporary_free=21_400_000_000,
            shared_memory_free=67_100_000,
        ),
        *script_evidence(),
    )


def script_evidence() -> tuple:
    """What is seen of a script that nobody edited."""

    def at(line: int) -> Place:
        return Place(file="train.py", line=line)

    return (
        ScriptTrace(
            attached="sitecustomize",
            processes=2,
            updates=412,
            counted_by="optimizer",
            cycle=1,
            events=(("data zero_grad fwd bwd step0", 404), ("data zero_grad fwd bwd step0 save", 8)),
            optimizers=(
                OptimizerUse(
                    index=0,
                    optimizer="AdamW",
                    steps=412,
                    skipped=1,
                    settings={"fused": "None"},
                ),
            ),
            span_s=9.6,
            own_s=0.05,
            unattributed=0.031,
            watched=410,
            burst=(50, 500),
            troubles=("loss: RuntimeError: no scalar",),
            threads=1,
            unfired=("autograd.backward",),
            stopped="updates",
            checksum="9d3b70e2",
            cost_s=0.05,
        ),
        LineCosts(
            lines=(
                LineCost(
                    where=at(61),
                    function="train_model",
                    phase="after zero_grad",
                    samples=130,
                    share=0.27,
                    framework="numpy",
                ),
                LineCost(where=at(17), function="forward", phase="forward", samples=201, share=0.42),
            ),
            samples=480,
            hz=50.0,
        ),
        LoaderUse(
            loaders=(
                Loader(
                    where=at(34),
                    dataset="MNIST",
                    trains=True,
                    iterable=False,
                    batch_size=64,
                    batches_per_pass=938,
                    sampler="SequentialSampler",
                    own_order=False,
                    ordered=True,
                    workers=1,
                    batches=412,
                    build_s=0.0002,
                    start_s=0.021,
                    labels_vary=True,
                ),
            ),
            span_s=9.6,
        ),
        EvaluationUse(
            updates=412,
            forwards=80,
            own_forwards=80,
            rounds=4,
            seconds=0.8,
            training_s=7.1,
            span_s=9.6,
            with_gradients=12,
            gradient_s=0.1,
            where=at(48),
        ),
        ParameterUse(
            updates=412,
            parameters=17,
            unreached=("head.extra.weight",),
            unreached_count=1,
            ran=True,
            homeless=("log_scale",),
        ),
        UpdateOrder(
            updates=412,
            clips=412,
            scaled_clips=412,
            clip_where=at(57),
            scaler_steps=413,
            skipped=1,
            skipped_late=1,
            never_cleared=True,
        ),
        Chores(
            chores=(
                Chore(what="save", where=at(64), count=8, seconds=0.31, share=0.032),
                Chore(what="log", where=at(59), count=412, seconds=0.2, share=0.021),
            ),
            updates=412,
        ),
        Scores(
            measure="accuracy",
            train_first=0.11,
            train_last=0.93,
            rounds=(Round(at=206, score=0.88, loss=0.41, rows=360), Round(at=412, score=0.91, loss=None, rows=360)),
            cost_s=0.003,
        ),
        Warnings(warnings=(Warned(category="UserWarning", message="Using a target size …", where=at(41), times=2),)),
        Ending(error="ValueError", message="no more files", where=at(77), words="Traceback …", updates=412),
    )


def experiments() -> tuple[Experiment, ...]:
    return (
        Experiment(
            finding="input-bound",
            change=BATCHED,
            asks="does `batch-transforms` help the seconds per update?",
            quantity="seconds per update",
            seeds=(0, 1, 2),
            control=(0.0121, 0.0123, 0.0122),
            treatment=(0.0061, 0.0063, 0.0061),
            effect=interval(0.494, 0.47, 0.52),
            verdict="proven",
            says="seconds per update 0.0122 → 0.00617 over 3 seeds: +0.494 (+0.47 to +0.52) of it saved",
            cost_s=41.0,
        ),
    )


def outcomes() -> tuple[Outcome, ...]:
    return (
        Outcome(
            rule="input-bound",
            state="found",
            finding=Finding(
                id="input-bound",
                says="the loop waits for data in 41 % of every step, and the loader is running on a core, not blocked",
                layer="data",
                saves=Saving(low=0.20, high=0.41),
                because={"data_s": 0.0051, "step_s": 0.01222, "blocked_share": 0.043, "workers": 0.0},
                fix="let worker processes prepare batches ahead, or transform whole batches at once",
                where=Place(file="work.py", line=34, module="Digits.train"),
                explains=("idle-overlap",),
                suggests=("loader-workers", "batch-transforms"),
            ),
        ),
        Outcome(
            rule="idle-overlap",
            state="found",
            finding=Finding(
                id="idle-overlap",
                says="nothing else runs while a batch is made: loading and computing take turns",
                layer="data",
                saves=Saving(low=0.15, high=0.38),
                because={"overlap_share": 0.0, "data_s": 0.0051},
                fix="prefetch the next batch while this one is computed",
                confidence=0.9,
                suggests=("loader-workers",),
            ),
        ),
        Outcome(
            rule="python-bound",
            state="suspected",
            finding=Finding(
                id="python-bound",
                says="12 % of a step is spent in Python between 412 operator calls",
                layer="compute",
                saves=Saving(low=0.03, high=0.12),
                because={"python_s": 0.00151, "dispatches": 412.0},
                fix="compile the model, or use fused operators",
                where=Place(file="work.py", line=58),
                confidence=0.5,
                suggests=("compile", "fused-optimizer"),
            ),
        ),
        Outcome(rule="memory-pressure", state="failed", reason="KeyError: 'VmHWM'"),
        Outcome(rule="gpu-starved", state="skipped", reason="no KernelTable was collected"),
        Outcome(rule="compute-bound", state="clear"),
        Outcome(rule="hidden-syncs", state="clear"),
        Outcome(rule="oversubscribed-threads", state="clear"),
    )


def proposals() -> tuple[Proposal, ...]:
    def proposal(
        change: Change, layers: tuple[str, ...], numerics, low: float, high: float, why: str, effort: float, **more
    ) -> Proposal:
        return Proposal(
            change=change,
            layers=layers,
            numerics=numerics,
            predicted_low=low,
            predicted_high=high,
            why=why,
            effort=effort,
            **more,
        )

    return (
        proposal(WORKERS, ("data",), "same-bits", 0.20, 0.41, "data takes 41 % of a step", 2.0),
        proposal(BATCHED, ("data", "compute"), "other-randomness", 0.05, 0.30, "augmentation is 71 % of a sample", 20.0),
        proposal(LAYOUT, ("compute", "memory"), "reordered", 0.0, 0.22, "convolutions take 62 % of a step", 2.0),
        proposal(FUSED, ("optimisation",), "same-bits", 0.01, 0.06, "the optimizer takes 8 % of a step", 1.0),
        proposal(HALF, ("compute", "memory"), "lower-precision", 0.10, 0.35, "matrix work takes 55 % of a step", 5.0, trust=0.4),
        proposal(
            FASTER_BUT_SHAKY,
            ("data", "compute", "optimisation"),
            "other-training",
            0.05,
            0.20,
            "fixed costs are paid half as often",
            30.0,
        ),
        proposal(COMPILED, ("compute",), "reordered", 0.05, 0.25, "Python takes 22 % of a step", 10.0),
        proposal(
            Change(id="pin-memory"), ("data",), "same-bits", 0.0, 0.0, "", 1.0,
            refused="the batch never leaves the host: the device is a CPU",
        ),
        proposal(
            Change(id="embedding-bag"), ("memory",), "reordered", 0.0, 0.0, "", 15.0,
            refused="the model has no embedding that is looked up and reduced",
        ),
        proposal(Change(id="cache-samples"), ("data", "memory"), "same-bits", 0.01, 0.04, "decoding is 9 % of a sample", 5.0),
    )  # fmt: skip


def baseline() -> Baseline:
    return Baseline(
        data=seconds("time between batches", 0.00512, seed=21, spread=0.04),
        forward=seconds("forward", 0.00241, seed=22),
        forward_zeros=seconds("forward on zeros", 0.00236, seed=23),
        backward=seconds("backward", 0.00334, seed=24),
        optimizer=seconds("optimizer step", 0.00099, seed=25),
        step=seconds("time per step", 0.01243, count=120, seed=26),
        epoch_s=0.29,
        first_batch_s=0.0121,
        peak_bytes=412_000_000,
        phases=timeline().phases,
        stability=Stability(
            over_epochs=interval(0.012, 0.009, 0.017), over_seeds=interval(0.021, 0.012, 0.055), rounds=6, seeds=3
        ),
        memory_slope_bytes=180.0,
        hash="c51d0a7790f4",
    )


def environment() -> Environment:
    return Environment(
        id=ENVIRONMENT,
        machine="x86_64, 2 cores, 8.3 GB",
        processor="Example Xeon at 2.2 GHz, avx2 avx512f amx_bf16",
        cores=2,
        memory_bytes=8_330_000_000,
        device="cpu",
        system="Linux 6.1",
        python="3.11.2",
        torch="2.13.0+cpu",
        threads=2,
        seed=0,
        flags={"deterministic": "False", "mkldnn": "True", "OMP_WAIT_POLICY": "PASSIVE"},
        packages={"kornia": "0.8.1", "numpy": "2.4.6", "pillow": "12.0.0", "scikit-learn": "1.8.0"},
        build="PyTorch built with:\n  - GCC 13.3\n  - C++ Version: 201703",
        taken_at="2026-11-30T12:00:05+00:00",
    )


def ceilings() -> Ceilings:
    return Ceilings(
        environment=ENVIRONMENT,
        threads=2,
        matmul={"float32": 114.0e9, "bfloat16": 402.0e9},
        bandwidth=18.4e9,
        taken_at="2026-11-30T12:00:09+00:00",
    )


def smoke() -> tuple[SmokeCheck, ...]:
    return (
        SmokeCheck(name="loss falls", ok=True, says="2.31 to 1.07 in 40 steps"),
        SmokeCheck(name="labels", ok=True, says="10 classes, 0 to 9, and the model has 10 outputs"),
        SmokeCheck(
            name="checkpoint",
            ok=False,
            says="`checkpoints/` cannot be written",
            hint="create it, or give another folder",
        ),
        SmokeCheck(name="layout", ok=None, says="the batch holds no 4-dimensional tensor"),
    )


def empty() -> Record:
    """Nothing but what was asked for."""
    return Record(
        id="2026-11-30-120000-digits",
        made_by="netdyno 0.1.0",
        made_at="2026-11-30T12:00:00+00:00",
        command="netdyno tune work.py:Digits",
        target=Target(
            name="Digits",
            source="work.py:Digits",
            item="image",
            items_per_step=64,
            steps_per_epoch=23,
            source_hash="77aa01",
            settings={"batch_size": "64", "optimizer": "AdamW(lr=0.001)"},
        ),
        plan=Plan(),
    )


def patch() -> Patch:
    """Two of three kept changes as an edit that was run again."""
    return Patch(
        diff="--- a/train.py\n+++ b/train.py\n@@ -34 +34 @@\n-loader = DataLoader(train)\n+loader = DataLoader(train, num_workers=2)\n",
        files=("train.py",),
        unpatched=(Unpatched(change=LAYOUT, why="the model is built in another package", where=Place(line=21)),),
        verified=True,
        says="the edited script was run in 5 pairs of processes",
        parity=Parity(output="losses", worst=0.0, allowed=0.0, measure="bits"),
    )


def golden() -> Record:
    """A run to the end in which everything that can happen did happen."""
    tried = trials()
    return msgspec.structs.replace(
        empty(),
        environment=environment(),
        ceilings=ceilings(),
        smoke=smoke(),
        baseline=baseline(),
        evidence=evidence(),
        outcomes=outcomes(),
        experiments=experiments(),
        proposals=proposals(),
        trials=tried,
        verdicts=verdicts(tried),
        recipe=RECIPE,
        after=(timeline_after(),),
        attribution=attribution(),
        patch=patch(),
        wrote=("runs/model.pt",),
        done=("describe", "smoke", "baseline", "gather", "diagnose", "propose", "try", "attribute", "close"),
        failures=(Failure(step="gather", says="the probe `graph-breaks` gave up after 30 s and was tried once more"),),
        finished=True,
        wall_s=171.4,
    )


def interrupted() -> Record:
    """Killed in the middle of the trials: two changes kept, nothing attributed."""
    whole = golden()
    return msgspec.structs.replace(
        whole,
        trials=whole.trials[:3],
        verdicts=whole.verdicts[:2],
        recipe=RECIPE[:2],
        after=(),
        attribution=None,
        done=whole.done[:6],
        finished=False,
        failures=(Failure(step="try", says="interrupted by the user"),),
    )


def no_win() -> Record:
    """To the end, and nothing was proven."""
    whole = golden()
    only = tuple(msgspec.structs.replace(one, against=()) for one in whole.trials[3:])
    said = tuple(msgspec.structs.replace(one, trial=number) for number, one in enumerate(whole.verdicts[3:]))
    return msgspec.structs.replace(whole, trials=only, verdicts=said, recipe=(), after=(), attribution=None)


def no_more_than_noise() -> Record:
    """A change was kept, and the independent check of the whole does not show it."""
    whole = golden()
    total = attribution()
    shaky = msgspec.structs.replace(
        total,
        final_s=interval(0.01231, 0.01214, 0.01252),
        total=interval(0.00012, -0.00013, 0.00037),
        speedup=interval(1.010, 0.990, 1.031),
        shares=(msgspec.structs.replace(total.shares[2], gain=interval(0.00009, -0.00012, 0.00031)),),
        residual=interval(0.00003, -0.00019, 0.00026),
        interactions=(),
    )
    return msgspec.structs.replace(whole, recipe=(LAYOUT,), attribution=shaky, after=())


def memory_goal() -> Record:
    """Less memory was the goal, and time was paid for it."""
    checkpointing = Change(id="gradient-checkpointing", settings={"every": 1})
    one = trial(
        checkpointing,
        control_s=0.0812,
        saves=-0.31,
        pairs=24,
        seed=31,
        numerics="reordered",
        memory_control=Memory(activations=145_300_000, state=31_000_000, peak=612_000_000),
        memory_treatment=Memory(activations=13_000_000, state=31_000_000, peak=481_000_000),
    )
    verdict = Verdict(
        trial=0,
        decision="keep",
        gain=gain_of(one.control, one.treatment),
        reasons=("saves 132 MB of activations for 1.31× the time",),
    )
    total = msgspec.structs.replace(
        attribution(),
        baseline_s=interval(0.0812, 0.0803, 0.0822),
        final_s=interval(0.1064, 0.1049, 0.1079),
        total=interval(-0.0252, -0.0268, -0.0236),
        speedup=interval(0.763, 0.751, 0.776),
        shares=(
            share(
                0,
                checkpointing,
                *(interval(-0.0251, -0.0266, -0.0236),) * 4,
                "x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)",
            ),
        ),
        residual=interval(-0.0001, -0.0009, 0.0007),
        interactions=(),
    )
    return msgspec.structs.replace(
        golden(),
        plan=Plan(goal="memory", memory_budget=500_000_000),
        trials=(one,),
        verdicts=(verdict,),
        recipe=(checkpointing,),
        attribution=total,
        after=(),
    )


def one_spawn() -> Record:
    """Two processes that were started once each: nothing is known about the spread, and all ranges say so."""
    whole = golden()
    boundless = Interval(middle=0.29, low=-999.0, high=0.9993, level=0.9983)
    verdict = msgspec.structs.replace(whole.verdicts[0], decision="undecided", gain=boundless)
    one = msgspec.structs.replace(whole.trials[0], spawns=(0,) * 40)
    total = attribution()

    def open_ended(middle: float) -> Interval:
        return interval(middle, middle - 12.43, middle + 12.43)

    unknown = msgspec.structs.replace(
        total,
        baseline_s=open_ended(0.01243),
        final_s=open_ended(0.00891),
        total=open_ended(0.00352),
        speedup=interval(1.395, 0.0014, 1395.0),
        shares=(msgspec.structs.replace(total.shares[0], gain=open_ended(0.00349)),),
        residual=open_ended(0.00003),
        interactions=(Interaction(change=WORKERS, term=open_ended(0.0), distinguishable=False),),
    )
    return msgspec.structs.replace(
        whole, trials=(one,), verdicts=(verdict,), recipe=(WORKERS,), attribution=unknown, after=()
    )


NASTY = "</script><script>alert('$x_1$')</script>\x1b[31m&\"' [bold]{{ 7 * 7 }}"


def hostile() -> Record:
    """Every string that a user's program can put into a record tries to break out of it."""

    raw = json.loads(codec.encode(golden()))
    raw["target"] |= {"name": NASTY, "source": f"{NASTY}.py:X", "item": NASTY, "settings": {NASTY: NASTY}}
    raw["command"] = NASTY
    raw["smoke"][0]["says"] = NASTY
    raw["environment"]["processor"] = NASTY
    raw["environment"]["flags"] = {NASTY: NASTY}
    raw["trials"][0]["change"]["settings"] = {NASTY: NASTY}
    raw["trials"][6] |= {"failed": NASTY, "last_words": NASTY}
    raw["verdicts"][0]["reasons"] = [NASTY]
    raw["outcomes"][0]["finding"] |= {"says": NASTY, "fix": NASTY, "where": {"file": NASTY, "line": 3, "module": NASTY}}
    raw["outcomes"][3]["reason"] = NASTY
    raw["attribution"]["shares"][0]["code"] = NASTY
    for evidence_item in raw["evidence"]:
        if evidence_item["kind"] == "LayerTable":
            for one in evidence_item["layers"]:
                one["module"] = NASTY
        if evidence_item["kind"] == "StepTimeline":
            evidence_item["phases"][NASTY] = {"running": 0.001}
    return msgspec.convert(raw, Record)


def stored() -> dict[str, Record]:
    """The golden record of every schema version, as it lies in `schema/`."""
    return {path.stem: codec.decode(path.read_bytes()) for path in sorted(SCHEMA.glob("record.v*.golden.json"))}


def every() -> dict[str, Record]:
    """All records that every renderer must render."""
    return {
        "golden": golden(),
        "empty": empty(),
        "interrupted": interrupted(),
        "no-win": no_win(),
        "no-more-than-noise": no_more_than_noise(),
        "memory-goal": memory_goal(),
        "one-spawn": one_spawn(),
        "hostile": hostile(),
        **stored(),
    }


def write() -> None:
    """Writes the schema and the golden record of today's version."""
    SCHEMA.mkdir(exist_ok=True)
    version = golden().schema_version
    (SCHEMA / f"record.v{version}.schema.json").write_bytes(
        msgspec.json.format(msgspec.json.encode(codec.schema()), indent=2) + b"\n"
    )
    (SCHEMA / f"record.v{version}.golden.json").write_bytes(codec.encode(golden(), indent=1))


if __name__ == "__main__":
    write()
