#!/usr/bin/env python3
"""Loads a checkpoint or an exported safetensors file into the reference PyTorch model (oracle_models.py) and predicts.

    predict.py MODEL --weights FILE.safetensors --predictions P.csv [--limit 1e-5]

P.csv is what `MODEL predict --header` prints for the model's log (oracle.py MODEL --log); the largest difference is
printed, and more than the limit is a failure. An exported file is opened by the package safetensors where it is there.
Needs torch and numpy.
"""
import argparse
import csv
import os
import sys

import numpy as np
import torch

from oracle_models import MODELS
from oracle_parts import Weights, read_safetensors

HERE = os.path.dirname(os.path.abspath(__file__))


def read_weights(path):
    try:
        from safetensors.numpy import load_file
    except ImportError:
        return read_safetensors(path)
    return load_file(path)


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("model", choices=list(MODELS))
    a.add_argument("--weights", required=True)
    a.add_argument("--predictions", required=True)
    a.add_argument("--limit", type=float, default=1e-5)
    o = a.parse_args()
    model = MODELS[o.model]
    w = Weights({n: t for n, t in read_weights(o.weights).items()})
    w.evaluating = True
    log = model.read(os.path.join(HERE, model.log))
    with torch.no_grad():
        _, got = model(log, slice(0, log.rows)).forward(w, None)
    with open(o.predictions) as f:
        want = list(csv.DictReader(f))
    assert len(want) == log.rows, (len(want), log.rows)
    worst = 0
    for name in want[0]:
        off = np.abs(got[name][0].numpy().reshape(-1) - np.array([float(r[name]) for r in want]))
        worst = max(worst, float(off.max()))
        assert not np.isnan(off).any(), name
    print(f"{o.model}: {log.rows} rows by the reference, {len(w.p)} weights, largest difference {worst:.3g}")
    sys.exit(worst > o.limit)


main()
