"""What is tried next: the data layer first, then gain per effort; a second chance only for better prospects."""

from netdyno.records.evidence import MemoryAccount, StepTimeline
from netdyno.records.measured import Split
from netdyno.records.record import Plan, Proposal
from netdyno.records.trial import Change
from netdyno.targets.workload import load
from netdyno.trials.choose import best_setting, due, next_choice, proposals, remembered_as
from netdyno.trials.lab import Lab


def proposal(name, layer, *, high, effort=1.0, trust=1.0, refused=None):
    return Proposal(
        change=Change(id=name),
        layers=(layer,),
        numerics="same-bits",
        predicted_low=high,
        predicted_high=high,
        why="",
        effort=effort,
        trust=trust,
        refused=refused,
    )


def timeline(data):
    phases = {"data": Split(running=data), "forward": Split(running=1 - data)}
    return StepTimeline(steps=1, step=Split(running=1.0), phases=phases)


def test_faults_in_two_layers_yield_the_data_fault_first():
    proposed = [proposal("bf16-autocast", "compute", high=0.5), proposal("cache-samples", "data", high=0.2)]
    assert next_choice(proposed, tried={}, timeline=timeline(0.4)).id == "cache-samples"


def test_a_layer_is_left_when_it_is_no_longer_the_bottleneck():
    proposed = [proposal("bf16-autocast", "compute", high=0.5), proposal("cache-samples", "data", high=0.06)]
    assert next_choice(proposed, tried={}, timeline=timeline(0.07)).id == "bf16-autocast"


def test_within_a_layer_the_order_is_gain_per_effort():
    proposed = [
        proposal("compile-model", "compute", high=0.30, effort=10),
        proposal("fused-optimizer", "compute", high=0.06, effort=1),
        proposal("threads", "compute", high=0.10, effort=4),
    ]
    order, tried = [], {}
    while choice := next_choice(proposed, tried=tried, timeline=timeline(0.0)):
        order.append(choice.id)
        tried[choice.id] = choice.proposals[0].predicted_high
    assert order == ["fused-optimizer", "compile-model", "threads"]


def test_an_intervention_with_a_poor_record_of_predictions_is_tried_later():
    proposed = [
        proposal("channels-last", "compute", high=0.30, trust=0.2),
        proposal("threads", "compute", high=0.10, trust=1.0),
    ]
    assert next_choice(proposed, tried={}, timeline=timeline(0.0)).id == "threads"


def test_what_was_tried_gets_a_second_chance_only_when_its_prospects_have_grown():
    proposed = [proposal("bf16-autocast", "compute", high=0.20)]
    assert next_choice(proposed, tried={"bf16-autocast": 0.18}, timeline=timeline(0.0)) is None
    assert next_choice(proposed, tried={"bf16-autocast": 0.06}, timeline=timeline(0.0)) is not None


def test_a_refused_proposal_is_never_chosen():
    assert next_choice([proposal("x", "compute", high=0.9, refused="no")], tried={}, timeline=None) is None


DEEP = "garage:deep_activations"


def deep_proposals(**plan):
    """What is proposed of gradient checkpointing where a forward pass takes half a step."""
    lab = Lab(reference=DEEP, workload=load(DEEP), plan=Plan(only=("gradient-checkpointing",), **plan))
    phases = {"forward": Split(running=0.5), "backward": Split(running=0.5)}
    account = MemoryAccount(
        parameters=1, buffers=0, gradients=1, optimizer_state=2, activations=80, workspace=0, batch=1, peak=90,
        capacity=1000, available=900,
    )  # fmt: skip
    facts = {
        StepTimeline: StepTimeline(steps=1, step=Split(running=1.0), phases=phases),
        MemoryAccount: account,
    }
    found = proposals(lab, lab.workload.fresh(0), facts, recipe=(), trust={})
    return lab, [each for each in found if each.change.id == "gradient-checkpointing"]


def test_what_costs_more_time_than_may_be_lost_is_not_proposed_and_says_so():
    _, (all_of_it, a_third) = deep_proposals(goal="memory", time_price=0.2)
    assert "20% may be lost" in all_of_it.refused
    assert a_third.refused is None


def test_under_a_memory_goal_the_setting_that_saves_most_within_the_price_is_tried():
    lab, proposed = deep_proposals(goal="memory", time_price=0.6)
    choice = next_choice(proposed, tried={}, timeline=None)
    assert best_setting(lab, choice, against=()).change.settings["share"] == 1.0


def test_what_was_too_dear_whole_is_tried_in_part_and_then_no_more():
    _, proposed = deep_proposals(goal="memory", time_price=0.6)
    tried, order = {}, []
    while choice := next_choice(proposed, tried=tried, timeline=None):
        order.append(choice.proposals[0].change.settings["share"])
        tried[remembered_as(choice.proposals[0].change)] = choice.proposals[0].predicted_high
    assert order == [1.0, 0.33]


def test_memory_is_not_bought_while_the_goal_is_time():
    _, proposed = deep_proposals()
    assert all("--goal memory" in each.refused for each in proposed)


def test_who_still_waits_is_known():
    waiting = (
        proposal("threads", "compute", high=0.1),
        proposal("pin-memory", "memory", high=0.2),
        proposal("prefetch-factor", "data", high=0.3, refused="no workers"),
    )
    assert due(waiting, {"threads": 0.1}) == {"pin-memory"}
