"""PyTorch as it is, and with batch norms folded."""

import pytest
from torch import nn

from netdyno.errors import ArmError
from netdyno.records.deployment import Running
from netdyno.runtimes.eager import Eager
from runtimes.specimens import arrays_of, decibels, expected, exportable, images, release, traits_of


def test_folded_batch_norms_are_counted_and_answers_stay(tmp_path):
    runtime = Eager(folded=True)
    notes = runtime.export(exportable("Pictures"), tmp_path)
    assert "5 batch norms are folded into the convolutions before them" in notes
    tensors = (images(6, seed=4)[0],)
    answers = runtime.load(tmp_path, Running())(arrays_of(tensors))
    plain = Eager().load(tmp_path, Running())(arrays_of(tensors))
    assert 100 < decibels(answers, expected(release("Pictures"), tensors)) < float("inf")
    assert decibels(plain, expected(release("Pictures"), tensors)) == float("inf")


def test_folding_without_a_batch_norm_is_refused_before_and_fails_in_one_line(tmp_path):
    assert "no batch norm" in Eager(folded=True).refuses(traits_of(release("Sentences")))
    with pytest.raises(ArmError, match="no batch norm stands right behind") as caught:
        Eager(folded=True).export(exportable("Sentences"), tmp_path)
    assert len(str(caught.value).splitlines()) == 1


def test_channels_last_is_refused_without_images():
    assert "2-D" in Eager(channels_last=True).refuses(traits_of(release("Sentences")))


def test_the_weights_are_those_that_were_exported(tmp_path):
    subject = exportable("Pictures")
    for module in subject.model.modules():
        if isinstance(module, nn.Linear):
            module.weight.data.zero_()
            module.bias.data.fill_(2.0)
    Eager().export(subject, tmp_path)
    (answer,) = Eager().load(tmp_path, Running())(arrays_of((images(2)[0],)))
    assert (answer == 2.0).all()


def test_rows_that_cannot_be_written_to_are_answered_without_a_warning(tmp_path, recwarn):
    Eager().export(exportable("Pictures"), tmp_path)
    (array,) = arrays_of((images(2)[0],))
    array.flags.writeable = False
    Eager().load(tmp_path, Running())((array,))
    assert not recwarn.list
