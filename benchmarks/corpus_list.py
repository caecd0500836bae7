"""Training scripts that others wrote and published: how each is started, and what is known to be wrong with it.

No script is changed. Options make a run small; files that `corpus_data.py` lays beside the script stand in for data that
would be downloaded. `defects` are those that reading or measuring the script turned up before: none was planted, and the
doctor has to find them by itself.
"""

from dataclasses import dataclass, field

# A folder of the corpus stands in a command or in the environment as {root}.
QUIET = {"WANDB_MODE": "disabled", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "MPLBACKEND": "Agg"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Public:
    """One public script as its author starts it.

    `folder` is the working directory, under the repository's checkout; `command` comes after the interpreter's name, or is a
    program beside the interpreter if it starts with one of PROGRAMS. `updates` is how many updates a look needs: more for
    quick steps. `defects` maps what the doctor should say (a rule) to the reason why.
    """

    name: str
    repository: str
    command: str
    folder: str = "."
    data: str = "none"
    environment: dict[str, str] = field(default_factory=dict)
    updates: int = 40
    processes: int = 1
    defects: dict[str, str] = field(default_factory=dict)
    note: str = ""
    tune: bool = False
    whole: str = (
        ""  # the command of a run as long as its author's, for tuning: what a change costs to set up must pay back
    )


PROGRAMS = ("torchrun", "accelerate")

MNIST = "Fashion-MNIST in the layout of MNIST"
NO_GYM = "needs the package gym, which works no longer with numpy 2"
TEXT = "the documentation that comes with Python"


def _example(name: str, command: str, *, folder: str, **fields: object) -> Public:
    return Public(name=name, repository="pytorch/examples", folder=f"examples/{folder}", command=command, **fields)


EXAMPLES = (
    _example(
        "mnist",
        "main.py --epochs 1",
        whole="main.py",
        folder="mnist",
        data=MNIST,
        tune=True,
        defects={
            "sequential-sampler": "on a CPU the training loader gets no shuffle=True: it stands in the accelerator's branch"
        },
    ),
    _example("mnist_hogwild", "main.py --epochs 1 --num-processes 2", folder="mnist_hogwild", data=MNIST, processes=2),
    _example(
        "mnist_rnn",
        "main.py --epochs 1",
        whole="main.py",
        folder="mnist_rnn",
        data=MNIST,
        tune=True,
        defects={"input-bound": "each sample is decoded again from memory by the training process"},
    ),
    _example(
        "vae",
        "main.py --epochs 1",
        whole="main.py",
        folder="vae",
        data=MNIST,
        tune=True,
        defects={"input-bound": "each sample is decoded again from memory by the training process"},
    ),
    _example(
        "imagenet",
        "main.py --dummy -a resnet18 -b 8 --epochs 1 -j 1 --print-freq 5",
        folder="imagenet",
        updates=6,
        tune=True,
    ),
    _example(
        "dcgan", "main.py --dataset fake --niter 1 --workers 0 --batchSize 16", folder="dcgan", updates=12, tune=True
    ),
    _example(
        "mnist_forward_forward",
        "main.py --epochs 40 --no_accel --train_size 1000 --test_size 200",
        folder="mnist_forward_forward",
        data=MNIST,
    ),
    _example(
        "siamese",
        "main.py --epochs 1",
        whole="main.py",
        tune=True,
        folder="siamese_network",
        data=MNIST,
        updates=6,
        defects={
            "sequential-sampler": "on a CPU the training loader gets no shuffle=True: it stands in the accelerator's branch"
        },
    ),
    _example(
        "super_resolution",
        "main.py --upscale_factor 3 --batchSize 4 --testBatchSize 50 --nEpochs 1 --threads 0",
        folder="super_resolution",
        data="made-up pictures",
        updates=8,
        tune=True,
    ),
    _example(
        "word_lm",
        "main.py --epochs 1 --model LSTM --emsize 100 --nhid 100",
        folder="word_language_model",
        data=TEXT,
        defects={"hidden-syncs": "the loss is read back on every step"},
    ),
    _example(
        "word_lm_optimizer",
        "main.py --epochs 1 --use-optimizer --model Transformer --emsize 64 --nhid 64 --nhead 2",
        folder="word_language_model",
        data=TEXT,
        defects={"hidden-syncs": "the loss is read back on every step"},
        tune=True,
    ),
    _example(
        "time_sequence",
        "train.py --steps 2",
        folder="time_sequence_prediction",
        data="made-up sine waves",
        environment={"TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1"},
        updates=1,
        note="without that variable it fails since torch 2.6",
    ),
    _example("regression", "main.py", folder="regression", updates=60),
    _example(
        "gcn",
        "main.py --epochs 60",
        folder="gcn",
        data="a made-up citation graph",
        environment={"PYTHONPATH": "{root}/shims"},
        defects={"costly-evaluation": "two whole evaluations for each update"},
    ),
    _example(
        "gat",
        "main.py --epochs 20 --hidden-dim 16 --num-heads 2",
        folder="gat",
        data="a made-up citation graph",
        updates=5,
        defects={"costly-evaluation": "two whole evaluations for each update"},
    ),
    _example("reinforce", "reinforce.py", folder="reinforcement_learning"),
    _example("actor_critic", "actor_critic.py", folder="reinforcement_learning"),
)

NANO = (
    "train.py --device=cpu --dataset=pydoc --eval_interval=1000 --eval_iters=2 --log_interval=10 --block_size=64 --batch_size=12 "
    "--n_layer=4 --n_head=4 --n_embd=128 --max_iters=200 --lr_decay_iters=200 --dropout=0.0 --gradient_accumulation_steps=3"
)
KARPATHY = (
    Public(
        name="nanogpt",
        repository="karpathy/nanoGPT",
        folder="nanoGPT",
        command=f"{NANO} --compile=False",
        data=TEXT,
        updates=20,
        tune=True,
    ),
    Public(
        name="nanogpt_compiled",
        repository="karpathy/nanoGPT",
        folder="nanoGPT",
        command=f"{NANO} --compile=True",
        data=TEXT,
        updates=20,
    ),
    Public(
        name="mingpt_chargpt",
        repository="karpathy/minGPT",
        folder="minGPT",
        command="projects/chargpt/chargpt.py --model.model_type=gpt-nano --trainer.max_iters=60 --trainer.num_workers=0",
        environment={"PYTHONPATH": "{root}/minGPT"},
        data=TEXT,
    ),
    Public(
        name="mingpt_adder",
        tune=True,
        repository="karpathy/minGPT",
        folder="minGPT",
        command="projects/adder/adder.py --trainer.max_iters=120 --trainer.num_workers=0",
        environment={"PYTHONPATH": "{root}/minGPT"},
    ),
    Public(
        name="makemore",
        repository="karpathy/makemore",
        folder="makemore",
        command="makemore.py -i names.txt -o out --type transformer --max-steps 200 --num-workers 0 --device cpu",
        whole="makemore.py -i names.txt -o out --type transformer --max-steps 4000 --num-workers 0 --device cpu",
        updates=60,
        tune=True,
    ),
    Public(
        name="makemore_gru",
        repository="karpathy/makemore",
        folder="makemore",
        command="makemore.py -i names.txt -o out_gru --type gru --max-steps 200 --num-workers 0 --device cpu",
        updates=60,
    ),
)

GAN = "PyTorch-GAN/implementations"


def _gan(name: str, command: str, **fields: object) -> Public:
    folder = command.partition(".py")[0]
    return Public(
        name=f"gan_{name}",
        repository="eriklindernoren/PyTorch-GAN",
        folder=f"{GAN}/{folder}",
        command=command,
        data=MNIST,
        **fields,
    )


GANS = (
    _gan("wgan_gp", "wgan_gp.py --n_epochs 1", whole="wgan_gp.py --n_epochs 20", updates=36, tune=True),
    _gan(
        "infogan",
        "infogan.py --n_epochs 1 --batch_size 32",
        whole="infogan.py --n_epochs 20 --batch_size 32",
        updates=18,
        tune=True,
    ),
    _gan("plain", "gan.py --n_epochs 1", whole="gan.py --n_epochs 20", tune=True),
    _gan("wgan", "wgan.py --n_epochs 1", whole="wgan.py --n_epochs 20", updates=36, tune=True),
    _gan(
        "dcgan",
        "dcgan.py --n_epochs 1 --batch_size 32",
        whole="dcgan.py --n_epochs 20 --batch_size 32",
        updates=20,
        tune=True,
    ),
    _gan(
        "acgan",
        "acgan.py --n_epochs 1 --batch_size 32",
        whole="acgan.py --n_epochs 20 --batch_size 32",
        updates=20,
        tune=True,
    ),
    _gan("aae", "aae.py --n_epochs 1", whole="aae.py --n_epochs 20", tune=True),
)

UNET = (
    Public(
        name="unet",
        tune=True,
        repository="milesial/Pytorch-UNet",
        folder="Pytorch-UNet",
        command="train.py --amp --epochs 1 --batch-size 1 --scale 0.5",
        data="made-up pictures and masks",
        updates=8,
        defects={"costly-line": "histograms of all weights and gradients inside the training loop"},
    ),
)


def _clean(name: str, command: str, **fields: object) -> Public:
    return Public(
        name=f"cleanrl_{name}",
        repository="vwxyzjn/cleanrl",
        folder="cleanrl",
        command=f"cleanrl/{command}",
        environment={"PYTHONPATH": "{root}/cleanrl"},
        **fields,
    )


CLEANRL = (
    # These want gymnasium 0.29; with 1.x those with continuous actions fail.
    _clean("ppo", "ppo.py --total-timesteps 4000 --no-cuda", updates=60),
    _clean("dqn", "dqn.py --total-timesteps 3000 --learning-starts 500 --no-cuda"),
    _clean("c51", "c51.py --total-timesteps 3000 --learning-starts 500 --no-cuda"),
    _clean(
        "ppo_continuous", "ppo_continuous_action.py --env-id Pendulum-v1 --total-timesteps 4096 --no-cuda", updates=60
    ),
    _clean(
        "ddpg", "ddpg_continuous_action.py --env-id Pendulum-v1 --total-timesteps 2000 --learning-starts 300 --no-cuda"
    ),
    _clean(
        "td3", "td3_continuous_action.py --env-id Pendulum-v1 --total-timesteps 2000 --learning-starts 300 --no-cuda"
    ),
    _clean(
        "sac", "sac_continuous_action.py --env-id Pendulum-v1 --total-timesteps 2000 --learning-starts 300 --no-cuda"
    ),
)


def _xt(name: str, command: str, **fields: object) -> Public:
    return Public(
        name=f"xt_{name}",
        repository="lucidrains/x-transformers",
        folder="x-transformers",
        command=command,
        updates=fields.pop("updates", 4),
        **fields,
    )


X_TRANSFORMERS = (
    _xt("enwik8", "train_enwik8.py --cpu=True --seq_len=128 --batch_size=2 --num_batches=20", data=TEXT),
    _xt("copy", "train_copy.py"),
    _xt("parity", "train_parity.py", note="asks for a GPU by `.cuda()`"),
)


def _light(name: str, folder: str, command: str, **fields: object) -> Public:
    return Public(
        name=f"lightning_{name}",
        repository="Lightning-AI/pytorch-lightning",
        folder=f"lightning/examples/{folder}",
        command=command,
        **fields,
    )


LIGHTNING = (
    _light("transformer", "pytorch/basics", "transformer.py", data=TEXT, updates=10, tune=True),
    _light(
        "autoencoder",
        "pytorch/basics",
        "autoencoder.py --trainer.max_epochs 1 --trainer.accelerator cpu",
        data=MNIST,
    ),
    _light(
        "autoencoder_ddp",
        "pytorch/basics",
        "autoencoder.py --trainer.max_epochs 1 --trainer.accelerator cpu --trainer.devices 2 --trainer.strategy ddp",
        data=MNIST,
        updates=6,
        processes=2,
    ),
    _light(
        "backbone",
        "pytorch/basics",
        "backbone_image_classifier.py --trainer.max_epochs 1 --trainer.accelerator cpu",
        data=MNIST,
    ),
    _light("bug_report", "pytorch/bug_report", "bug_report_model.py", updates=1),
    _light("dqn", "pytorch/domain_templates", "reinforce_learn_Qnet.py --warm_start_steps 200", note=NO_GYM),
    _light("ppo", "pytorch/domain_templates", "reinforce_learn_ppo.py", note=NO_GYM),
    _light(
        "gan",
        "pytorch/domain_templates",
        "generative_adversarial_net.py",
        data=MNIST,
        note="asks for a GPU in its source",
    ),
    _light("fabric_lm", "fabric/language_model", "train.py", data=TEXT, updates=10),
    _light("fabric_images", "fabric/image_classifier", "train_fabric.py --epochs 1", data=MNIST, updates=20),
    _light("plain_images", "fabric/image_classifier", "train_torch.py --epochs 1", data=MNIST, updates=20),
    _light("fabric_kfold", "fabric/kfold_cv", "train_fabric.py --epochs 1", data=MNIST, updates=20),
    _light("fabric_ppo", "fabric/reinforcement_learning", "train_fabric.py --total-timesteps 4096"),
)

SFT = (
    "-m trl.scripts.sft --model_name_or_path {root}/tiny-gpt2 --dataset_name {root}/conversations --output_dir out --max_steps 20 "
    "--per_device_train_batch_size 4 --gradient_accumulation_steps 2 --max_length 128 --use_cpu --report_to none --logging_steps 5"
)
OTHERS = (
    Public(
        name="skorch_cli",
        repository="skorch-dev/skorch",
        folder="skorch/examples/cli",
        command="train.py net --n_samples=2000 --max_epochs=5",
    ),
    Public(
        name="skorch_word_lm",
        repository="skorch-dev/skorch",
        folder="skorch/examples/word_language_model",
        command="train.py --epochs 1 --no-cuda",
        data=TEXT,
        updates=20,
        note="its train_split takes no `y`, which skorch gives since some versions",
    ),
    Public(
        name="skorch_accelerate",
        repository="skorch-dev/skorch",
        folder="skorch/examples/accelerate-multigpu",
        command="run-no-skorch.py",
    ),
    Public(
        name="timm_resnet18",
        repository="huggingface/pytorch-image-models",
        folder="timm",
        command="train.py --data-dir {root}/images --model resnet18 --num-classes 4 --epochs 1 --batch-size 8 --img-size 96 --workers 1 --device cpu --no-prefetcher",
        data="made-up pictures",
        updates=8,
        tune=True,
    ),
    Public(name="trl_sft", repository="huggingface/trl", folder="trl", command=SFT, data=TEXT, updates=10),
    Public(
        name="trl_sft_ddp",
        repository="huggingface/trl",
        folder="trl",
        command=f"torchrun --nproc_per_node=2 {SFT}",
        data=TEXT,
        updates=5,
        processes=2,
    ),
)

PUBLIC = (*EXAMPLES, *KARPATHY, *GANS, *UNET, *CLEANRL, *X_TRANSFORMERS, *LIGHTNING, *OTHERS)
