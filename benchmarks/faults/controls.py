"""Healthy programs that tempt a false alarm: whole scripts, each of which learns what it is meant to with every seed."""

from benchmarks.faults._programs import Program


def _control(number, script, tempts, metric, bound, *, better="higher") -> Program:
    return Program(
        id=f"H{number:02}", script=f"healthy/{script}", tempts=tempts, metric=metric, bound=bound, better=better
    )


CONTROLS: tuple[Program, ...] = (
    _control(1, "tuned_mlp", "all rules (base rate)", "val_acc", 0.94),
    _control(2, "cnn_batchnorm", "all rules (base rate)", "val_acc", 0.94),
    _control(3, "batch_of_four", "loss not decreasing, spikes", "val_acc", 0.92),
    _control(4, "sparse_codes", "dead units by the share of zeros", "val_acc", 0.92),
    _control(5, "frozen_features", "unchanged tensor, no gradient", "val_acc", 0.92),
    _control(6, "two_player_game", "oscillation, divergence, over-fitting", "distance", 0.08, better="lower"),
    _control(7, "group_norm_pairs", "tiny batch", "val_acc", 0.88),
    _control(8, "warm_restarts", "jump of the learning rate, bump of the loss", "val_acc", 0.94),
    _control(9, "noisy_labels", "validation better than training, label errors", "val_acc", 0.88),
    _control(10, "accumulation", "gradients not cleared, weights unchanged", "val_acc", 0.93),
    _control(11, "late_bloom", "over-fitting, plateau", "val_acc", 0.90),
    _control(12, "harder_in_training", "validation better than training", "val_acc", 0.92),
    _control(13, "fast_with_batchnorm", "learning rate too high", "val_acc", 0.94),
    _control(14, "wide_vocabulary", "dead units by zero gradients", "val_acc", 0.90),
    _control(15, "weighted_rare_class", "class imbalance", "balanced_acc", 0.90),
    _control(16, "micrometres", "vanishing gradient by an absolute bound", "r2", 0.80),
    _control(17, "house_prices", "loss above 1000, exploding", "r2", 0.80),
    _control(18, "negative_likelihood", "negative loss", "val_loss", -1.5, better="lower"),
    _control(19, "lstm_memory", "saturation", "val_acc", 0.90),
    _control(20, "margin_reached", "zero loss, unchanged loss", "val_acc", 0.93),
    _control(21, "last_polish", "not learning, learning rate too low", "val_acc", 0.94),
    _control(22, "one_pass_stream", "validation better than training", "val_acc", 0.85),
    _control(23, "raw_pixels", "input range", "val_acc", 0.93),
    _control(24, "zero_init_residual", "zero or constant initialisation, zero gradient", "val_acc", 0.93),
    _control(25, "gelu_adamw", "dead units, spread of activations", "val_acc", 0.93),
    _control(26, "pruned", "dead weights", "val_acc", 0.92),
    _control(27, "idle_experts", "no gradient, unused module", "val_acc", 0.90),
    _control(28, "contrastive", "loss stuck at log K", "val_acc", 0.90),
    _control(29, "bandit", "noise, sign of the loss", "val_acc", 0.80),
    _control(30, "curriculum", "jump of the loss, drift", "val_acc", 0.93),
    _control(31, "drifting_series", "drift", "r2", 0.70),
    _control(32, "other_domain", "covariate shift", "val_acc", 0.93),
    _control(33, "mc_dropout", "dropout active in evaluation", "val_acc", 0.92),
    _control(34, "taking_turns", "missing gradients", "val_acc", 0.92),
    _control(35, "small_and_cached", "too few workers", "val_acc", 0.92),
    _control(36, "filling_cache", "memory leak", "val_acc", 0.90),
)
