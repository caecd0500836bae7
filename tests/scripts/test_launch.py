"""How a script is started and followed, by the clock of a test."""

from netdyno.aboard.config import VARIABLE, Config, from_environment
from netdyno.records.trial import Change
from netdyno.scripts import launch as launching
from netdyno.scripts.launch import SITE, Following, _place, _sentence, opened, options, reworded, with_door
from netdyno.scripts.stream import Hello, Process, Stopped, Stream


def test_an_ordinary_command_is_left_as_it_is():
    argv = ("/usr/bin/python3", "-u", "train.py", "-E")
    assert reworded(argv, {"PYTHONHOME": "x"}) == (argv, {"PYTHONHOME": "x"})
    assert reworded(("/bin/torchrun", "-I", "train.py"), {})[0] == ("/bin/torchrun", "-I", "train.py")


def test_options_that_close_the_door_become_an_environment_without_pythons_variables():
    environment = {"PYTHONPATH": "/elsewhere", "HOME": "/home/me"}
    assert reworded(("python", "-E", "train.py"), environment) == (("python", "train.py"), {"HOME": "/home/me"})
    assert reworded(("python", "-uIW", "error", "train.py"), environment)[0] == (
        "python", "-s", "-P", "-uW", "error", "train.py",
    )  # fmt: skip


def test_a_modules_own_options_are_its_own():
    assert reworded(("python", "-Em", "pkg", "-I"), {})[0] == ("python", "-m", "pkg", "-I")
    assert options(("python", "-c", "print()", "-S")).letters == ""
    assert options(("python", "-Xdev", "-mpkg")).rest == ("-m", "pkg")
    assert options(("python", "--check-hash-based-pycs", "always", "-E", "x.py")).letters == "E"


def test_without_site_a_few_lines_stand_in_for_the_script():
    argv, _ = reworded(("python", "-S", "train.py", "3"), {})
    assert argv[:3] == ("python", "-S", "-c")
    assert argv[-2:] == ("train.py", "3")


def test_the_door_stands_first_and_the_wishes_arrive():
    config = Config(folder="/told", seed=3, updates=5, recipe=({"id": "threads", "settings": {"threads": 2}},), lab=17)
    environment = with_door({"PYTHONPATH": "/mine"}, config)
    assert environment["PYTHONPATH"] == f"{SITE}:/mine"
    assert environment["PYTHONHASHSEED"] == "3"
    assert from_environment(environment) == config
    assert '"lab": 17,' in environment[VARIABLE]  # looked for by `boot.arm` before the JSON is read


def test_a_hash_seed_that_the_user_set_stays():
    assert with_door({"PYTHONHASHSEED": "random"}, Config(folder="/told", seed=3))["PYTHONHASHSEED"] == "random"


def test_a_run_that_nobody_watches_is_not_seeded_and_does_not_die_with_us(tmp_path):
    _, environment = opened(
        ("python", "train.py"), (Change(id="threads", settings={"threads": 2}),), folder=str(tmp_path)
    )
    config = from_environment(environment)
    assert (config.seed, config.watch, config.updates, config.seconds, config.lab) == (None, False, None, None, None)
    assert config.recipe[0]["id"] == "threads"


WORDS = """Traceback (most recent call last):
  File "/home/me/train.py", line 6, in <module>
    fit()
  File "/venv/lib/python3.11/site-packages/torch/nn/functional.py", line 10, in linear
RuntimeError: mat1 and mat2 shapes cannot be multiplied
"""


def test_a_traceback_becomes_a_sentence_and_the_users_line():
    assert _sentence(WORDS) == ": `RuntimeError: mat1 and mat2 shapes cannot be multiplied`"
    assert _place(WORDS) == " (/home/me/train.py:6)"
    assert _sentence("nothing but words: here") == ""


class Stage:
    """A launched script as the follower sees it."""

    def __init__(self, folder):
        self.folder, self.name, self.alive, self.left, self.told = folder, "x", True, [1], Stream()

    def stream(self):
        return self.told

    def members(self):
        return self.left

    def tell(self, *processes):
        self.told = Stream(processes)
        (self.folder / "1.jsonl").write_text("x" * (1 + len(list(self.folder.iterdir())) + len(repr(processes))))


def process(pid, reason=None):
    stopped = Stopped(reason=reason, updates=5) if reason else None
    return Process(pid, hello=Hello(pid=pid, ppid=0), stopped=stopped)


def follow(stage, **wishes):
    return Following(stage, clock=lambda: 0.0, patience_s=1000.0, **{"grace_s": 10.0, **wishes})


def test_grace_is_measured_from_the_last_process_that_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(launching, "_torch_without_us", lambda _: None)
    stage = Stage(tmp_path)
    following = follow(stage)
    stage.tell(process(1, "updates"), process(2))
    assert not following.is_over(100.0)
    stage.tell(process(1, "updates"), process(2, "updates"))
    assert not following.is_over(109.0)
    assert not following.is_over(118.0)
    assert following.is_over(120.0)


def test_a_process_that_came_to_its_own_end_leaves_the_others_their_time(tmp_path):
    stage = Stage(tmp_path)
    following = follow(stage, seconds=50.0)
    stage.tell(process(1, "ended"), process(2))
    assert not following.is_over(0.0)
    assert not following.is_over(59.0)
    assert following.is_over(61.0)


def test_without_a_budget_in_seconds_a_script_is_followed_as_long_as_it_lives(tmp_path):
    stage = Stage(tmp_path)
    following = follow(stage)
    stage.tell(process(1))
    assert not following.is_over(0.0)
    assert not following.is_over(1e6)
    stage.alive, stage.left = False, []
    assert following.is_over(1e6 + 1)


def test_stragglers_of_a_script_that_ended_have_their_grace(tmp_path):
    stage = Stage(tmp_path)
    following = follow(stage)
    stage.tell(process(1, "ended"))
    stage.alive = False
    assert not following.is_over(5.0)
    assert following.is_over(16.0)


def test_progress_counts_updates(tmp_path):
    stage, heard = Stage(tmp_path), []
    following = follow(stage, updates=5, listener=heard.append)
    stage.tell(process(1, "updates"))
    following.is_over(0.0)
    assert (heard[-1].done, heard[-1].total) == (5, 5)
