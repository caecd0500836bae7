"""Lines beside the model's work: which are named, and how sure."""

import pytest

from netdyno.rules.costly_line import _costs, _line, _parameters, costly_line, spots_of


def gap(line, samples, **fields):
    return _line(line, samples, **({"phase": "after optimizer"} | fields))


def test_histograms_of_all_weights_and_gradients_are_named_by_both_lines():
    lines = _costs(
        gap(120, 140, framework="wandb.Histogram"), gap(122, 130), gap(130, 4), _line(99, 500, phase="backward")
    )
    finding = costly_line(lines, None)
    assert finding.says.startswith("lines 120, 122 of train.py (`train_model`) take 27% of the time")
    assert finding.where.line == 120
    assert finding.because["share_low"] < 0.27 < finding.because["share_high"]


@pytest.mark.parametrize(
    ("samples", "looks", "found"), [(27, 100, True), (270, 1000, True), (10, 100, False), (100, 1000, True)]
)
def test_few_looks_prove_less(samples, looks, found):
    assert (costly_line(_costs(gap(61, samples), looks=looks), None) is not None) == found


def test_a_line_that_was_picked_from_many_needs_more_proof():
    alone = _costs(gap(61, 12), looks=100)
    among = _costs(gap(61, 12), *(gap(200 + n, 1, function=f"f{n}") for n in range(60)), looks=100)
    assert costly_line(alone, None) is not None
    assert costly_line(among, None) is None


def test_one_line_in_several_gaps_is_one_line():
    (spot,) = spots_of(_costs(gap(61, 70), gap(61, 50, phase="after data")))
    assert (spot.lines, spot.samples) == ((61,), 120)


def test_no_more_than_three_lines_are_named_and_the_rest_is_not_counted():
    (spot,) = spots_of(_costs(*(gap(number, 50) for number in range(1, 7))))
    assert (len(spot.lines), spot.samples) == (3, 150)


def test_lines_of_different_functions_are_not_added_up():
    assert costly_line(_costs(gap(61, 60, function="a"), gap(71, 60, function="b")), None) is None


@pytest.mark.parametrize("framework", ["torch.nn.functional.cross_entropy", "kornia.losses.dice.dice_loss", ""])
def test_what_may_be_the_loss_is_left_alone(framework):
    assert costly_line(_costs(gap(41, 300, phase="after forward", framework=framework)), None) is None


@pytest.mark.parametrize("framework", ["numpy.histogram", "json.dump", "sklearn.metrics.f1_score"])
def test_what_no_gradient_passes_through_is_no_loss(framework):
    assert costly_line(_costs(gap(41, 300, phase="after forward", framework=framework)), None) is not None


def test_a_gap_that_may_be_a_model_called_past_its_call_is_a_suspicion():
    finding = costly_line(_costs(gap(61, 440)), _parameters(unseen=True))
    assert finding.confidence < 0.7
    assert "may be the model's own work" in finding.says


def test_a_line_that_makes_a_watched_call_is_not_accused_of_the_call_itself():
    call = gap(19, 150, phase="after loss")
    assert costly_line(_costs(call), None) is not None
    assert costly_line(_costs(call, gap(19, 3, phase="backward")), None) is None
