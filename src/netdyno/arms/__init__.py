"""The sides of a trial: a target under given changes that steps only when told."""

from netdyno.arms.base import steps_per_turn as steps_per_turn
