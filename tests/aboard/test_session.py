"""Orders between two updates: what is counted in a turn, what is left out, and who is driven at all."""

import contextlib
import json
import socket
import threading
from types import SimpleNamespace

import pytest
import torch

from netdyno.aboard import session as room
from netdyno.aboard.config import Config
from netdyno.aboard.session import Beside, Line, Session, Turn, Weighing, place_of
from netdyno.aboard.view import View


class Observer:
    """An observer whose clock moves when it is told to."""

    def __init__(self, cycle=1):
        self.view = View()
        self.updates = 0
        self.cycle = cycle
        self.boundary = []
        self.event = "data fwd bwd step0"
        self.losses = []
        self.account = SimpleNamespace(exact=False)
        self.wall = self.waiting = 0

    def work(self, nanoseconds, waiting=0):
        self.wall += nanoseconds
        self.waiting += waiting

    def update(self, event="data fwd bwd step0", spent=100, waiting=0):
        self.work(spent, waiting)
        self.updates += 1
        self.event = event
        self.losses.append(float(self.updates))
        for call in self.boundary[:]:
            call()

    def reading(self):
        running = self.wall - self.waiting
        phases = {"forward": [running, self.waiting, 0]}
        return {
            "wall": self.wall,
            "running": running,
            "waiting": self.waiting,
            "phases": phases,
            "updates": self.updates,
        }

    def summary(self):
        return {"checksum": "abc"}


def took(turn, observer, *iterations, usual="usual"):
    """The turn's answer to each iteration: its kind, and its nanoseconds."""
    answers = []
    for kind, spent in iterations:
        observer.work(spent)
        observer.updates += 1
        observer.losses.append(float(observer.updates))
        answers.append(turn.took(kind, usual))
    return answers


def test_a_turn_counts_usual_iterations_after_its_lead():
    observer = Observer()
    turn = Turn(observer, 2, lead=1, switching=7)
    turn.begin()
    assert took(turn, observer, ("usual", 900), ("usual", 10), ("usual", 20)) == [False, False, True]
    told = turn.told()
    assert (told["steps"], told["odd"], told["wall"], told["lead"], told["switching"]) == (2, 0, 30, [900], 7)
    assert told["phases"]["forward"] == [30, 0, 0]
    assert told["losses"] == [2.0, 3.0]


def test_odd_iterations_are_left_out_and_counted():
    observer = Observer()
    turn = Turn(observer, 2, lead=0, switching=0)
    turn.begin()
    assert took(turn, observer, ("usual", 10), ("evaluating", 5000), ("usual", 20)) == [False, False, True]
    told = turn.told()
    assert (told["wall"], told["odd"], told["losses"]) == (30, 1, [1.0, 3.0])


def test_a_whole_turn_counts_the_iteration_in_which_a_pass_begins():
    observer = Observer()
    turn = Turn(observer, 3, lead=0, switching=0, whole=True)
    turn.begin()
    assert took(turn, observer, ("usual", 10), ("loader usual", 5000), ("usual", 20)) == [False, False, True]
    told = turn.told()
    assert (told["wall"], told["odd"]) == (5030, 0)


def test_without_a_usual_iteration_none_is_odd():
    observer = Observer()
    turn = Turn(observer, 2, lead=0, switching=0)
    turn.begin()
    assert took(turn, observer, ("a", 10), ("b", 20), usual=None) == [False, True]


def test_a_turn_ends_although_what_was_usual_never_comes_again():
    observer = Observer()
    turn = Turn(observer, 1, lead=0, switching=0)
    turn.begin()
    assert any(took(turn, observer, *[("new", 1)] * 1000))


def test_work_between_turns_is_in_none():
    observer = Observer()
    turn = Turn(observer, 1, lead=0, switching=0)
    observer.work(10_000)
    turn.begin()
    took(turn, observer, ("usual", 3))
    assert turn.told()["wall"] == 3


def test_losses_are_told_for_all_iterations_or_for_none():
    observer = Observer()
    turn = Turn(observer, 2, lead=0, switching=0)
    turn.begin()
    took(turn, observer, ("usual", 1))
    observer.work(1)
    assert turn.took("usual", "usual")
    assert turn.told()["losses"] == []


def test_other_threads_are_counted_from_the_first_look_on_and_new_ones_from_their_birth():
    before = Beside({1: (1.0, 0.5)}, ended=2.0, busy=10.0)
    after = Beside({1: (1.5, 0.75), 2: (0.25, 0.0)}, ended=2.0, busy=13.0)
    others = after.since(before, wall_ns=2_000_000_000)
    assert (others.running, others.waiting, others.foreign) == (0.75, 0.25, 2.25)
    assert others.part(1.0, own_ns=1_000_000_000).foreign == 1.25
    assert others.part(0.5, own_ns=0).running == 0.375


def test_weighing_counts_what_autograd_keeps_without_weights_and_inputs():
    view = View()
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh())
    view.models.append(model)
    weighing = Weighing(view)
    weighing.begin()
    (args, kwargs), rows = view.inputs[0]((torch.ones(2, 4),), {}), 2
    with view.around_forward[0]():
        model(*args, **kwargs).sum()
    assert weighing.took("usual", "usual")
    assert (view.inputs, view.around_forward) == ([], [])
    told = weighing.told()
    assert told["activations"] == rows * 8 * 4
    assert told["state"] == (4 * 8 + 8) * 4


class Lab:
    """The other end of the line, in a thread: gives its orders one by one and keeps what it is told."""

    def __init__(self, path, orders):
        self.told = []
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.bind(str(path))
        self.socket.listen(1)
        self.thread = threading.Thread(target=self._drive, args=(list(orders),))
        self.thread.start()

    def _drive(self, orders):
        line, _ = self.socket.accept()
        with line, line.makefile("rw") as file:
            self.told += [json.loads(ready) for ready in [file.readline()] if ready]
            for order in orders:
                file.write(json.dumps(order) + "\n")
                file.flush()
                self.told.append(json.loads(file.readline()))

    def close(self):
        self.thread.join(10)
        self.socket.close()


def updates(observer, count, cycle=1):
    for number in range(count):
        observer.update(event=f"step{number % cycle}")


class Stopped(SystemExit):
    pass


@pytest.fixture
def driven(tmp_path, monkeypatch):
    """An observer with a session whose lab gives orders; the lab hangs up after the last."""
    labs, lines = [], []

    def stop():
        raise Stopped

    def line(path):
        lines.append(Line(path))
        return lines[-1]

    monkeypatch.setattr(room, "_stop", stop)
    monkeypatch.setattr(room.atexit, "register", lambda *_: None)
    monkeypatch.setattr(room, "_tie_children", lambda: None)
    monkeypatch.setattr(room, "Line", line)

    def drive(*orders, cycle=1, warmup=2, recipe=()):
        line = tmp_path / f"line{len(labs)}"
        labs.append(Lab(line, orders))
        observer = Observer(cycle)
        Session(Config(folder=str(tmp_path), line=str(line), warmup=warmup, recipe=recipe), observer)
        return observer, labs[-1]

    yield drive
    for lab in labs:
        with contextlib.suppress(OSError):
            if lab.thread.is_alive() and not lab.told:
                line(lab.socket.getsockname())._socket.close()  # nobody else will call, and it waits
        lab.close()
    for each in lines:
        each._socket.close()


def test_the_script_waits_for_orders_after_its_warm_up_and_stops_when_the_lab_hangs_up(driven):
    observer, lab = driven({"do": "turn", "steps": 3, "lead": 1})
    with pytest.raises(Stopped):
        updates(observer, 20)
    lab.close()
    ready, turn = lab.told
    assert (ready["is"], ready["updates"], ready["cycle"], ready["checksum"]) == ("ready", 2, 1, "abc")
    assert (turn["is"], turn["steps"], turn["wall"]) == ("turn", 3, 300)
    assert observer.updates == 2 + 1 + 3


def test_a_stop_that_was_swallowed_is_raised_again(driven):
    observer, _ = driven()
    with pytest.raises(Stopped):
        updates(observer, 3)
    with pytest.raises(Stopped):
        observer.update()


def test_an_iteration_is_a_whole_period_of_the_script(driven):
    observer, lab = driven({"do": "turn", "steps": 2, "lead": 0}, cycle=3)
    with pytest.raises(Stopped):
        updates(observer, 30, cycle=3)
    lab.close()
    ready, turn = lab.told
    assert (ready["updates"], ready["event"]) == (3, "step0 | step1 | step2")
    assert (turn["steps"], turn["wall"], turn["losses"]) == (2, 600, [6.0, 9.0])


def test_while_the_period_is_unknown_nobody_waits(driven):
    observer, _ = driven(cycle=None)
    for _ in range(room.PATIENCE):
        observer.update()
    with pytest.raises(Stopped):
        observer.update()


def test_another_rank_than_the_first_is_not_driven(driven, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    observer, lab = driven()
    for _ in range(10):
        observer.update()
    assert lab.told == []


def test_of_two_processes_of_a_script_the_first_is_driven(driven, tmp_path):
    (tmp_path / "line0.taken").touch()
    observer, lab = driven()
    for _ in range(10):
        observer.update()
    assert lab.told == []


def test_a_question_is_answered_without_a_step(driven):
    observer, lab = driven({"do": "ask", "change": {"id": "threads", "settings": {"threads": 10_000}}})
    with pytest.raises(Stopped):
        updates(observer, 3)
    lab.close()
    assert lab.told[1]["when"] == "toggle"
    assert "cores" in lab.told[1]["refused"]


def test_an_order_that_cannot_be_obeyed_is_answered_in_words(driven):
    observer, lab = driven({"do": "turn", "steps": 1, "recipe": [{"id": "loader-workers", "settings": {}}]})
    with pytest.raises(Stopped):
        updates(observer, 3)
    lab.close()
    assert lab.told[1]["is"] == "failed"
    assert "only works from the start" in lab.told[1]["says"]


def test_what_only_works_from_the_start_is_on_before_a_loader_is_made(driven):
    observer, _ = driven(recipe=[{"id": "loader-workers", "settings": {"workers": 3}}])
    (change,) = observer.view.loader_arguments
    assert change([1, 2], {"batch_size": 4}) == {"batch_size": 4, "num_workers": 3}


def test_a_place_is_the_last_line_that_is_the_users(tmp_path):
    file = tmp_path / "train.py"
    file.write_text("import json\n\n\njson.loads('not json')\n")
    with pytest.raises(ValueError) as met:
        exec(compile(file.read_text(), str(file), "exec"), {})
    assert place_of(met.value) == f" ({file}:4)"
    assert place_of(ValueError()) == ""
