#!/usr/bin/env python3
"""The first 20 steps of a model by an independent implementation: PyTorch in float64.

    oracle.py MODEL --weights DIR/weights.safetensors --out RECORD.json
    oracle.py MODEL --defines       the settings, as arguments of ctrc
    oracle.py MODEL --log           its log's name

MODEL is one of MODELS in oracle_models.py. Records each step's loss, the norm of each weight's gradient before
clipping and as the optimizer gets it, and the metrics over all rows as they were predicted in training. Nothing
here comes from ctrc but the initial weights: oracle_parts.py parses and hashes the log, holds the layers and the
optimizers, which update touched rows of tables only; oracle_models.py has the networks. Needs torch, numpy and
xxhash.
"""
import argparse
import json
import os

import torch
import xxhash

from oracle_models import MODELS
from oracle_parts import SEED, Weights, adam, auc, digest_of, logloss, read_safetensors

STEPS = 20
HERE = os.path.dirname(os.path.abspath(__file__))


def clipped(g, most):
    """One weight's gradient, scaled to the norm `most` if it is longer."""
    return g * min(1.0, most / max(g.norm().item(), 1e-300)) if most else g


def step(model, w, batch, t, record):
    w.touched = {}
    rows, predictions = batch.forward(w, t)
    loss = rows.mean()
    loss.backward()
    record["losses"].append(loss.item())
    for name in w.trained():
        p = w.p[name]
        before = p.grad if p.grad is not None else torch.zeros_like(p)
        g = clipped(before, getattr(model, "clip_norm", None))
        record["gradients"].setdefault(name, []).append(before.norm().item())
        record["clipped"].setdefault(name, []).append(g.norm().item())
        if hasattr(batch, "optimize"):
            batch.optimize(w, name, g, t)
        else:
            adam(w, name, g, t, model.defines["lr"])
    for p in w.p.values():
        p.grad = None
    return {n: (p.detach().flatten(), y.flatten()) for n, (p, y) in predictions.items()}


def run(model, tensors):
    w = Weights(tensors)
    record = {"losses": [], "metrics": {}, "gradients": {}, "clipped": {}}
    log = model.read(os.path.join(HERE, model.log))
    size = model.defines["batch"]
    seen = [step(model, w, model(log, slice((t - 1) * size, t * size)), t, record) for t in range(1, STEPS + 1)]
    assert set(w.p) == w.used, f"weights that this implementation doesn't know: {sorted(set(w.p) - w.used)}"
    for kind, of in (("auc", auc), ("logloss", logloss)):
        for name in model.metrics.get(kind, ()):
            p, y = (torch.cat([s[name][i] for s in seen]).numpy() for i in (0, 1))
            record["metrics"].setdefault(kind, {})[name] = of(p, y)
    # the same norms once more where nothing was clipped would only make the record longer
    record["clipped"] = {n: v for n, v in record["clipped"].items() if v != record["gradients"][n]}
    return record


def digest_of_file(name):
    with open(os.path.join(HERE, name), "rb") as f:
        return xxhash.xxh3_64_hexdigest(f.read())


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("model", choices=list(MODELS))
    a.add_argument("--weights")
    a.add_argument("--out")
    a.add_argument("--defines", action="store_true")
    a.add_argument("--log", action="store_true")
    o = a.parse_args()
    model = MODELS[o.model]
    if o.log:
        return print(model.log)
    if o.defines:
        return print(*(f"-D {k}={v}" for k, v in model.defines.items()))
    tensors = read_safetensors(o.weights)
    record = {"model": o.model,
              "made_by": f"oracle.py {o.model} --weights … (torch {torch.__version__.split('+')[0]}, float64)",
              "log": model.log, "files": {f: digest_of_file(f) for f in [model.log, *getattr(model, "beside", [])]},
              "defines": model.defines,
              **({"ftrl_lr": model.ftrl_lr} if hasattr(model, "ftrl_lr") else {}), "seed": SEED,
              "weights_xxh3": digest_of(tensors), **run(model, tensors)}
    with open(o.out, "w") as f:
        f.write(to_text(record))


def to_text(record):
    """A line a weight: the norms of its gradient, step by step."""
    lines = []
    for key, v in record.items():
        text = json.dumps(v, ensure_ascii=False)
        if key in ("gradients", "clipped") and v:
            text = "{\n" + ",\n".join(f"  {json.dumps(n)}: {json.dumps(x)}" for n, x in v.items()) + "\n }"
        lines.append(f" {json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


main()
