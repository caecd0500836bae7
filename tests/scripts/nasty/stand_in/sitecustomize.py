"""A stand-in for the observer: counts optimizer steps, so that attaching and stopping are tested by themselves."""

import sys


class View:
    def __init__(self):
        self.models, self.optimizers, self.loaders = [], [], []
        self.around_forward, self.around_evaluation, self.inputs = [], [], []
        self.calls, self.loader_arguments, self.optimizer_arguments = {}, [], []
        self.explicit = {}


class Observer:
    def __init__(self, config):
        import torch
        from torch.optim.optimizer import register_optimizer_step_post_hook

        self.view, self.updates, self.cycle, self.boundary = View(), 0, None, []
        self.training_thread = None
        register_optimizer_step_post_hook(self.stepped)
        if config.nudge:
            from netdyno_aboard import seeds

            original = torch.nn.Module.__call__
            known = set()

            def call(model, *arguments, **settings):
                if id(model) not in known:
                    known.add(id(model))
                    seeds.nudge(model, config.nudge)
                return original(model, *arguments, **settings)

            torch.nn.Module.__call__ = call

    def stepped(self, optimizer, arguments, settings):
        self.updates += 1
        for do in self.boundary:
            do()

    def summary(self):
        return {"updates": self.updates, "iterations": self.updates, "counted_by": "optimizer"}

    def close(self):
        pass


def stands_in(name, **contents):
    module = sys.modules[name] = type(sys)(name)
    vars(module).update(contents)


stands_in("netdyno_aboard.observe", install=Observer)
# The first optimizer brings in the compiler, to be left alone by it; that is half of a start, and nobody compiles here.
stands_in("torch._dynamo", disable=lambda function, *_, **__: function, graph_break=lambda: None)
