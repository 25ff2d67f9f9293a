#!/usr/bin/env python3
"""Runs an exported ONNX model by onnxruntime on a log, and compares with the program's own predictions.

    onnx_check.py MODEL.onnx --log LOG [--vocabularies DIR] --predictions P.csv [--limit 1e-5]

Inputs are made here from what the file itself says of them (each input's doc_string), so this is also an example of
how to feed such a model. P.csv is what `MODEL predict --header` prints. Needs onnx, onnxruntime and numpy; the
hash is libxxhash's own, XXH3_64bits.
"""
import argparse
import csv
import ctypes
import gzip
import json
import os
import sys

import numpy as np
import onnx
import onnxruntime

XXH3 = ctypes.CDLL("libxxhash.so.0").XXH3_64bits
XXH3.argtypes, XXH3.restype = [ctypes.c_char_p, ctypes.c_size_t], ctypes.c_uint64


def xxh3(data):
    return XXH3(data, len(data))


def read_log(path, meta):
    """Rows of texts, and the header's names if the file has any."""
    opened = gzip.open if path.endswith(".gz") else open
    quoting = csv.QUOTE_MINIMAL if meta["quote"] else csv.QUOTE_NONE
    with opened(path, "rt", newline="", encoding="utf-8") as f:
        rows = [r for r in csv.reader(f, delimiter=meta["separator"], quotechar=meta["quote"] or None, quoting=quoting)
                if r]
    return rows, [n.strip() for n in rows.pop(0)] if meta["header"] == "true" else None


class Features:
    def __init__(self, rows, header, meta, vocabularies):
        self.rows, self.header, self.vocabularies = rows, header, vocabularies
        self.trim, self.missing = meta["trim"] == "true", json.loads(meta["missing"])

    def text(self, s):
        """None: no value."""
        s = s.strip(" \t") if self.trim else s
        return None if s == "" or s in self.missing else s

    def number(self, doc, s):
        return np.float32(doc["default"] if s is None else s)

    def elements(self, doc, field):
        """A list's values: an empty field is an empty list; an empty text keeps its place only among aligned lists."""
        if self.text(field) is None:
            return []
        parts = [self.text(e) for e in field.split(doc["list"])]
        if doc["kind"] == "string" and "default" not in doc and not doc.get("aligned"):
            parts = [e for e in parts if e is not None]
        return parts[:doc.get("max")]

    def column(self, doc):
        field = doc["field"] if "field" in doc else self.header.index(doc["header"])
        texts = [r[field] for r in self.rows]
        one = (lambda s: s if s is not None else doc.get("default")) if doc["kind"] == "string" else \
            (lambda s: self.number(doc, s))
        if "list" in doc:
            return [[one(e) for e in self.elements(doc, t)] for t in texts]
        return [one(self.text(t)) for t in texts]

    def vocabulary(self, doc):
        if "listed" in doc:
            values = [v.encode() for v in doc["listed"]]
        else:
            path = os.path.join(self.vocabularies, os.path.basename(doc["path"])) if self.vocabularies else doc["path"]
            with open(path, "rb") as f:
                values = f.read().splitlines()
        return {v: i for i, v in enumerate(values)}

    def values(self, doc):
        """One a row; of a list, a list a row. -1: no id."""
        op = doc["op"]
        if op == "column":
            return self.column(doc)
        parts = [self.values(d) for d in doc["of"]]
        if op == "hash":
            assert doc["fn"] == "xxh3"
            known = lambda s: -1 if s is None else xxh3(s.encode()) % doc["buckets"]
        elif op == "vocab":
            ids, unknown = self.vocabulary(doc), doc["unknown"]
            known = lambda s: -1 if s is None else ids.get(s.encode(), unknown)
        elif op == "number":
            known = lambda x: x
        elif op == "identity":
            known = int
        elif op == "bucketize":
            known = lambda x: sum(np.float32(b) <= x for b in doc["bounds"])
        elif op == "truncate":
            n = doc["n"]
            return [row[-n:] if doc["keep"] == "last" else row[:n] for row in parts[0]]
        else:
            raise SystemExit(f"onnx_check.py: no rule for '{op}'")
        rows = [[known(v) for v in x] if isinstance(x, list) else known(x) for x in parts[0]]
        if op == "vocab" and doc["unknown"] < 0:  # what isn't known is left out of a list
            rows = [[v for v in x if v >= 0] if isinstance(x, list) else x for x in rows]
        return rows


def feeds(model, features):
    out, lengths = {}, {}
    for x in model.graph.input:
        doc = json.loads(x.doc_string)
        if doc["op"] == "lengths":
            continue
        kind = np.int64 if x.type.tensor_type.elem_type == onnx.TensorProto.INT64 else np.float32
        rows = features.values(doc)
        dim = x.type.tensor_type.shape.dim[0].dim_param
        if dim != "rows":  # "positions of AXIS"
            lengths[dim[len("positions of "):]] = [len(r) for r in rows]
            rows = [v for r in rows for v in r]
        out[x.name] = np.array(rows, dtype=kind)
    for x in model.graph.input:
        doc = json.loads(x.doc_string)
        if doc["op"] == "lengths":
            out[x.name] = np.array(lengths[doc["axis"]], dtype=np.int64)
    return out


def main():
    a = argparse.ArgumentParser()
    a.add_argument("model")
    for name in ("log", "predictions"):
        a.add_argument("--" + name, required=True)
    a.add_argument("--vocabularies")
    a.add_argument("--limit", type=float, default=1e-5)
    a = a.parse_args()
    model = onnx.load(a.model)
    onnx.checker.check_model(model, full_check=True)
    meta = {p.key: p.value for p in model.metadata_props}
    rows, header = read_log(a.log, meta)
    inputs = feeds(model, Features(rows, header, meta, a.vocabularies))
    session = onnxruntime.InferenceSession(a.model, providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    got = dict(zip(names, session.run(names, inputs)))
    with open(a.predictions) as f:
        lines = list(csv.DictReader(f))
    assert len(lines) == len(rows), (len(lines), len(rows))
    worst = 0
    for name in names:
        want = np.array([float(r[name]) for r in lines])
        assert got[name].shape == want.shape, (name, got[name].shape)
        off = np.abs(got[name].astype(np.float64) - want)
        worst = max(worst, float(off.max()))
        assert not np.isnan(off).any(), name
        assert want.std() > 1e-4, f"{name}: predictions are all alike"
    print(f"{meta['model']}: {len(rows)} rows, {len(model.graph.node)} nodes, largest difference {worst:.3g}")
    sys.exit(worst > a.limit)


if __name__ == "__main__":
    main()
