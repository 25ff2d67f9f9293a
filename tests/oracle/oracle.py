#!/usr/bin/env python3
"""The first losses of five models by an independent implementation: PyTorch in float64.

    oracle.py MODEL --log FILE.csv.gz --weights DIR/weights.safetensors --out RECORD.json
    oracle.py MODEL --defines       the settings, as arguments of ctrc

MODEL is wdl, deepfm, dlrm, adult or bank. Nothing here comes from ctrc but the initial weights: the log is parsed
and hashed by this file, the networks are written from models/*.ctr and the numerics page by hand, the
optimizers update touched rows of tables only, as that page says. Needs torch, numpy and xxhash.
"""
import argparse
import csv
import gzip
import json
import math
import os
import struct

import numpy as np
import torch
import xxhash

torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)

# How the models are compiled for the record; `ctrc -D`.
SETTINGS = {
    "wdl": dict(batch=32, buckets=1000, lr=0.001),
    "deepfm": dict(batch=32, buckets=1000, lr=0.001),
    "dlrm": dict(batch=32, buckets=1000, lr=0.001),
    "adult": dict(batch=32, buckets=1000, lr=0.001),
    "bank": dict(batch=32, lr=0.001),
}
SEED = 1
STEPS = 20


# ---- the log ----------------------------------------------------------------------------------------------

class Log:
    """Rows of text by column; the first row names the columns unless names are given."""

    def __init__(self, path, separator, names=None):
        with gzip.open(path, "rt", newline="") as f:
            # after a separator only a quote at once opens a quoted field; spaces around fields go away
            rows = [r for r in csv.reader(f, delimiter=separator, quotechar='"', doublequote=True) if r]
        names = names or [n.strip() for n in rows.pop(0)]
        assert all(len(r) == len(names) for r in rows)
        self.columns = {n: [r[i].strip() for r in rows] for i, n in enumerate(names)}
        self.rows = len(rows)


def f32(x):
    """Numbers are read as float32."""
    return float(np.float32(x))


def xxh3(data):
    return xxhash.xxh3_64_intdigest(data, seed=0)


def hashed(text, buckets):
    """None: no value, no id."""
    return None if text is None else xxh3(text.encode()) % buckets


def crossed(parts, buckets):
    """XXH3 over the parts' 64-bit words: of a column the hash of its bytes, of an id its value."""
    if any(p is None for p in parts):
        return None
    words = [xxh3(p.encode()) if isinstance(p, str) else p for p in parts]
    return xxh3(b"".join(struct.pack("<Q", w) for w in words)) % buckets


def bucket(x, bounds):
    return sum(b <= x for b in bounds)


class Column:
    """One column of one batch. A string without a value is None; a list is a list of such."""

    def __init__(self, texts, default=None, missing=()):
        self.texts, self.default, self.missing = texts, default, missing

    def empty(self, text):
        return text == "" or text in self.missing

    def strings(self):
        return [self.default if self.empty(t) else t for t in self.texts]

    def numbers(self):
        return [f32(self.default if self.empty(t) else t) for t in self.texts]

    def string_lists(self):
        """Empty elements without a default are left out; an empty field is an empty list."""
        return [[e.strip() for e in t.split(";") if not self.empty(e.strip())] if t else [] for t in self.texts]

    def number_lists(self):
        return [[f32(self.default if self.empty(e.strip()) else e) for e in t.split(";")] if t else [] for t in self.texts]


# ---- weights and optimizers -------------------------------------------------------------------------------

def read_safetensors(path):
    with open(path, "rb") as f:
        raw = f.read()
    size = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:8 + size])
    header.pop("__metadata__", None)
    out = {}
    for name, t in header.items():
        assert t["dtype"] == "F32", (name, t)
        lo, hi = t["data_offsets"]
        out[name] = np.frombuffer(raw[8 + size + lo:8 + size + hi], dtype="<f4").reshape(t["shape"])
    return out


def digest_of(tensors):
    """XXH3 over all weights in order of name: name, a zero byte, the values. Slots start from constants and are left
    out."""
    h = xxhash.xxh3_64()
    for name in sorted(tensors):
        if "/" not in name:
            h.update(name.encode() + b"\0")
            h.update(tensors[name].tobytes())
    return h.hexdigest()


class Weights:
    """Parameters by name. Tables note which rows a step reads."""

    def __init__(self, tensors):
        self.p = {n: torch.tensor(v.astype(np.float64), requires_grad=True) for n, v in tensors.items() if "/" not in n}
        self.touched = {}
        self.used = set()
        self.slots = {}

    def __getitem__(self, name):
        self.used.add(name)
        return self.p[name]

    def rows(self, name, ids):
        """Rows by id; None gives zeros. ids: a list; a tensor [len(ids), dim]."""
        table = self[name]
        have = [i for i, v in enumerate(ids) if v is not None]
        index = torch.tensor([ids[i] for i in have], dtype=torch.long)
        self.touched.setdefault(name, set()).update(index.tolist())
        out = torch.zeros(len(ids), table.shape[1])
        return out.index_copy(0, torch.tensor(have, dtype=torch.long), table[index])

    def pooled(self, name, lists, mean):
        """Sum or mean of the rows of each list; zeros for an empty one. The mean counts elements without an id."""
        flat = [e for ids in lists for e in ids]
        row = torch.tensor([r for r, ids in enumerate(lists) for _ in ids], dtype=torch.long)
        out = torch.zeros(len(lists), self.p[name].shape[1]).index_add(0, row, self.rows(name, flat))
        if mean:
            out = out / torch.tensor([float(max(len(ids), 1)) for ids in lists])[:, None]
        return out


def slot(w, name, key, start):
    return w.slots.setdefault((name, key), torch.full_like(w.p[name], start))


def adam(w, name, t, lr, b1=0.9, b2=0.999, eps=1e-8):
    with torch.no_grad():
        p, m, v = w.p[name], slot(w, name, "m", 0.0), slot(w, name, "v", 0.0)
        at = sorted(w.touched[name]) if name in w.touched else slice(None)
        g = p.grad[at] if p.grad is not None else torch.zeros_like(p[at])
        m[at] = b1 * m[at] + (1 - b1) * g
        v[at] = b2 * v[at] + (1 - b2) * g * g
        p[at] -= lr * math.sqrt(1 - b2 ** t) / (1 - b1 ** t) * m[at] / (v[at].sqrt() + eps)


def ftrl(w, name, t, lr, l1, l2, init=0.1):
    with torch.no_grad():
        p, n, z = w.p[name], slot(w, name, "n", init), slot(w, name, "z", 0.0)
        at = sorted(w.touched[name]) if name in w.touched else slice(None)
        g = p.grad[at] if p.grad is not None else torch.zeros_like(p[at])
        more = n[at] + g * g
        z[at] += g - (more.sqrt() - n[at].sqrt()) / lr * p[at]
        n[at] = more
        p[at] = torch.where(z[at].abs() <= l1, torch.zeros_like(p[at]),
                            (z[at].sign() * l1 - z[at]) / (n[at].sqrt() / lr + 2 * l2))


# ---- layers -----------------------------------------------------------------------------------------------

def dense(w, name, x, bias=True):
    y = x @ w[name + ".kernel"]
    return y + w[name + ".bias"] if bias else y


def batchnorm(w, name, x):
    """Training: statistics of the batch, biased variance."""
    mean, var = x.mean(0), x.var(0, unbiased=False)
    w.used.update({name + ".moving_mean", name + ".moving_variance"})  # of evaluation only
    return (x - mean) / (var + 1e-3).sqrt() * w[name + ".gamma"] + w[name + ".beta"]


def mlp(w, name, x, sizes, norm=False):
    for i in range(len(sizes)):
        x = torch.relu(dense(w, f"{name}.mlp.{i}.dense", x))
        if norm:
            x = batchnorm(w, f"{name}.mlp.{i}.batchnorm", x)
    return x


def mix32(x):
    x = x ^ (x >> np.uint32(16))
    x = x * np.uint32(0x7FEB352D)
    x = x ^ (x >> np.uint32(15))
    x = x * np.uint32(0x846CA68B)
    return x ^ (x >> np.uint32(16))


def dropout(x, rate, name, step):
    """By a counter-based generator over (seed, step, key of the op, element); the key is the hash of its path."""
    key = xxh3(name.encode()) & 0x7FFFFFFF
    u32 = lambda v: np.array([v & 0xFFFFFFFF], dtype=np.uint32)
    base = mix32(u32(step) + mix32(u32(key) + mix32(u32(SEED) ^ mix32(u32(SEED >> 32)))))
    u = mix32(np.arange(x.numel(), dtype=np.uint32) + base).astype(np.float64)
    keep = torch.tensor((u >= rate * 2.0 ** 32).astype(np.float64)).reshape(x.shape)
    return x * keep / (1 - rate)


def bce_logits(z, y):
    return torch.clamp(z, min=0) - z * y + torch.log1p(torch.exp(-z.abs()))


# ---- the ELM models ---------------------------------------------------------------------------------------

ELM_COLUMNS = """clicked user_id gender visit_city avg_price is_supervip ctr_30 ord_30 total_amt_30 shop_id item_id
city_id district_id shop_aoi_id shop_geohash_6 shop_geohash_12 brand_id category_1_id merge_standard_food_id rank_7
rank_30 rank_90 shop_id_list item_id_list category_1_id_list merge_standard_food_id_list brand_id_list price_list
shop_aoi_id_list shop_geohash6_list timediff_list hours_list time_type_list weekdays_list times hours time_type weekdays
geohash12""".split()
ELM_DEFAULTS = {"gender": -99, "visit_city": "0", "avg_price": 0, "is_supervip": 0, "ctr_30": 0, "ord_30": 0,
                "total_amt_30": 0, "city_id": "0", "district_id": "0", "brand_id": "0", "category_1_id": "0",
                "merge_standard_food_id": "0", "rank_7": 0, "rank_30": 0, "rank_90": 0, "price_list": 0,
                "hours_list": 0, "hours": 0}
KINDS = ["lunch", "night", "dinner", "tea", "breakfast"]
# field → its table, in the order of the model's `fields`
ELM_FIELDS = [("shop_id", "shops"), ("shop_id_list", "shops"), ("item_id", "items"), ("item_id_list", "items"),
              ("category_1_id", "categories"), ("category_1_id_list", "categories"),
              ("merge_standard_food_id", "foods"), ("merge_standard_food_id_list", "foods"),
              ("brand_id", "brands"), ("brand_id_list", "brands"), ("shop_aoi_id", "aois"), ("shop_aoi_id_list", "aois"),
              ("shop_geohash_12", "geohash12s"), ("geohash12", "geohash12s"),
              ("shop_geohash_6", "geohash6s"), ("shop_geohash6_list", "geohash6s"),
              ("visit_city", "cities"), ("city_id", "cities"), ("user_id", "fields.user_id.t"),
              ("district_id", "fields.district_id.t"), ("times", "fields.times.t"),
              ("timediff_list", "fields.timediff_list.t"), ("time_type", "fields.time_type.t"),
              ("time_type_list", "fields.time_type_list.t")]
ELM_FIRST_ORDER = ["shop_id", "item_id", "category_1_id", "merge_standard_food_id", "brand_id", "shop_aoi_id",
                   "shop_geohash_12", "geohash12", "shop_geohash_6", "visit_city", "city_id", "user_id", "district_id",
                   "times", "timediff_list", "time_type"]
ELM_NUMBERS = ["gender", "avg_price", "is_supervip", "ctr_30", "ord_30", "total_amt_30", "rank_7", "rank_30", "rank_90",
               "hours"]


class Elm:
    def __init__(self, log, rows, buckets):
        self.column = {n: Column(v[rows], ELM_DEFAULTS.get(n)) for n, v in log.columns.items()}
        self.buckets = buckets
        self.y = torch.tensor([[float(v)] for v in log.columns["clicked"][rows]])

    def ids(self, name):
        """Lists of ids, one element or none for a column that is no list. A vocabulary drops what it doesn't know."""
        c = self.column[name]
        texts = c.string_lists() if name.endswith("_list") else [[] if t is None else [t] for t in c.strings()]
        if name.startswith("time_type"):
            return [[KINDS.index(t) for t in row if t in KINDS] for row in texts]
        return [[hashed(t, self.buckets) for t in row] for row in texts]

    def fields(self, w):
        return [w.pooled(table, self.ids(name), mean=True) for name, table in ELM_FIELDS]

    def numbers(self):
        cols = [self.column[n].numbers() for n in ELM_NUMBERS]
        for n in ("price_list", "hours_list"):
            cols.append([sum(v) / len(v) if v else 0.0 for v in self.column[n].number_lists()])
        return torch.tensor(cols).T

    def first_order(self, w):
        """A weight for each value: sums over the list."""
        name = lambda n: "first_order.dense.kernel" if n == "time_type" else f"first_order.{n}.dense.kernel"
        return sum(w.pooled(name(n), self.ids(n), mean=False) for n in ELM_FIRST_ORDER)


def wdl(w, batch, step):
    x = torch.cat(batch.fields(w) + [batch.numbers()], 1)
    x = x / torch.clamp((x * x).sum(1, keepdim=True), min=1e-12).sqrt()
    deep = dense(w, "deep.dense", mlp(w, "deep", x, [1024, 512, 256, 64]))
    wide = batch.first_order(w) + dense(w, "wide.dense", batch.numbers())
    return bce_logits(deep + wide, batch.y)


def deepfm(w, batch, step):
    fields = batch.fields(w)
    deep = mlp(w, "deep", torch.cat(fields + [batch.numbers()], 1), [512, 128, 32], norm=True)
    v = torch.stack(fields, 1)
    pair = 0.5 * (v.sum(1) ** 2 - (v * v).sum(1))
    x = torch.cat([deep, batch.first_order(w), pair], 1)
    p = torch.sigmoid(dense(w, "top.dense", mlp(w, "top", x, [128, 64], norm=True)))
    return (p - batch.y) ** 2


def dlrm(w, batch, step):
    bottom = mlp(w, "bottom", batch.numbers(), [512, 256, 64, 16], norm=True)
    v = torch.stack([bottom] + batch.fields(w), 1)
    i, j = torch.tril_indices(25, 25, -1)
    pairs = (v @ v.transpose(1, 2))[:, i, j]
    z = dense(w, "top.dense", mlp(w, "top", torch.cat([bottom, pairs], 1), [512, 256]))
    return bce_logits(z, batch.y)


# ---- adult and bank ---------------------------------------------------------------------------------------

class Adult:
    WORDS = ["workclass", "education", "marital_status", "occupation", "relationship", "race", "sex", "native_country"]

    def __init__(self, log, rows, buckets):
        col = {n: Column(v[rows], missing=("?",)) for n, v in log.columns.items()}
        text = {n: col[n].strings() for n in self.WORDS}
        num = {n: col[n].numbers() for n in ("age", "education_num", "capital_gain", "capital_loss", "hours_per_week")}
        cut = lambda n, bounds: [bucket(x, bounds) for x in num[n]]
        ages = cut("age", [18, 21, 25, 30, 35, 40, 45, 50, 55, 60, 65, 75])
        hours = cut("hours_per_week", [10, 20, 30, 35, 40, 41, 45, 50, 55, 60, 70])
        gains = cut("capital_gain", [1, 2000, 3000, 4000, 5000, 6500, 7500, 10000, 15000, 20000, 50000])
        losses = cut("capital_loss", [1, 1000, 1500, 1700, 1800, 1900, 2000, 2200, 2400, 3000])
        years = cut("education_num", list(range(2, 17)))
        self.ids = [[hashed(t, buckets) for t in text[n]] for n in self.WORDS] + [ages, hours, gains, losses, years]
        cross = lambda n, *parts: [crossed(p, n) for p in zip(*parts)]
        self.crosses = [cross(5000, text["education"], text["occupation"]),
                        cross(20000, ages, text["education"], text["occupation"]),
                        cross(2000, text["marital_status"], text["occupation"]),
                        cross(2000, text["relationship"], hours),
                        cross(5000, gains, losses, text["marital_status"])]
        scaled = lambda n, mean, std: (torch.tensor(num[n]) - mean) / std
        self.numbers = torch.stack([scaled("age", 38.6, 13.6), scaled("education_num", 10.1, 2.6),
                                    torch.log1p(torch.tensor(num["capital_gain"])) / 8,
                                    torch.log1p(torch.tensor(num["capital_loss"])) / 7,
                                    scaled("hours_per_week", 40.4, 12.3)], 1)
        self.y = torch.tensor([[float(v == ">50K")] for v in log.columns["wage_class"][rows]])


class Bank:
    WORDS = ["job", "marital", "education", "default", "housing", "loan", "contact", "month", "poutcome"]

    def __init__(self, log, rows):
        col = {n: Column(v[rows]) for n, v in log.columns.items()}
        text = {n: col[n].strings() for n in self.WORDS}
        cut = lambda n, bounds: [bucket(x, bounds) for x in col[n].numbers()]
        cuts = [cut("age", [25, 30, 35, 40, 45, 50, 55, 60, 65, 70, 80]),
                cut("balance", [-500, 0, 1, 100, 300, 500, 800, 1200, 2000, 3000, 5000, 10000]),
                cut("campaign", [2, 3, 4, 5, 7, 10, 15]),
                cut("pdays", [0, 60, 90, 95, 120, 180, 185, 270, 360]),
                cut("previous", [1, 2, 3, 4, 6, 10]),
                [int(v) for v in col["day"].texts]]
        self.ids = [[hashed(t, 1000) for t in text[n]] for n in self.WORDS] + cuts
        cross = lambda n, *parts: [crossed(p, n) for p in zip(*parts)]
        self.crosses = [cross(2000, text["month"], col["day"].texts), cross(1000, text["job"], text["education"]),
                        cross(500, text["month"], text["contact"]), cross(500, text["poutcome"], text["month"]),
                        cross(500, text["housing"], text["month"])]
        self.y = torch.tensor([[float(v == "yes")] for v in log.columns["y"][rows]])


def weights_of(w, ids):
    return sum(w.rows(f"wide.{i}.weight_of.dense.kernel", v) for i, v in enumerate(ids))


def adult(w, batch, step):
    x = torch.cat([w.rows(f"deep.{i}.field", v) for i, v in enumerate(batch.ids)] + [batch.numbers], 1)
    x = dropout(mlp(w, "deep", x, [96, 48]), 0.1, "deep.dropout", step)
    wide = weights_of(w, batch.ids + batch.crosses) + dense(w, "wide.dense", batch.numbers)
    return bce_logits(dense(w, "deep.dense", x) + wide, batch.y)


def bank(w, batch, step):
    ids = batch.ids + batch.crosses
    x = torch.cat([w.rows(f"fields.{i}.field", v) for i, v in enumerate(ids)], 1)
    x = mlp(w, "deep", dropout(x, 0.2, "deep.dropout", step), [64, 32])
    x = dropout(x, 0.2, "deep.dropout_1", step)
    return bce_logits(dense(w, "deep.dense", x) + weights_of(w, ids), batch.y)


# ---- running ----------------------------------------------------------------------------------------------

def batches(model, path):
    s = SETTINGS[model]
    if model in ("wdl", "deepfm", "dlrm"):
        log, make = Log(path, ",", ELM_COLUMNS), Elm
    elif model == "adult":
        log, make = Log(path, ","), Adult
    else:
        log, make = Log(path, ";"), Bank
    extra = [s["buckets"]] if "buckets" in s else []
    for step in range(STEPS):
        yield make(log, slice(step * s["batch"], (step + 1) * s["batch"]), *extra)


def optimize(model, w, t):
    """`wide` and what stands under it has an optimizer of its own in adult."""
    for name in w.p:
        if name not in w.used or ".moving_" in name:
            continue
        if model == "adult" and name.startswith("wide."):
            ftrl(w, name, t, lr=0.02, l1=0.1, l2=0.1)
        else:
            adam(w, name, t, SETTINGS[model]["lr"])


def run(model, path, tensors):
    w, losses = Weights(tensors), []
    forward = {"wdl": wdl, "deepfm": deepfm, "dlrm": dlrm, "adult": adult, "bank": bank}[model]
    for t, batch in enumerate(batches(model, path), 1):
        w.touched = {}
        loss = forward(w, batch, t).mean()
        loss.backward()
        losses.append(loss.item())
        optimize(model, w, t)
        for p in w.p.values():
            p.grad = None
    unused = set(w.p) - w.used
    assert not unused, f"weights that this implementation doesn't know: {sorted(unused)}"
    return losses


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("model", choices=sorted(SETTINGS))
    a.add_argument("--log")
    a.add_argument("--weights")
    a.add_argument("--out")
    a.add_argument("--defines", action="store_true")
    o = a.parse_args()
    if o.defines:
        print(*(f"-D {k}={v}" for k, v in SETTINGS[o.model].items()))
        return
    tensors = read_safetensors(o.weights)
    with open(o.log, "rb") as f:
        log_digest = xxhash.xxh3_64_hexdigest(f.read())
    record = {"model": o.model,
              "made_by": f"oracle.py {o.model} --log {os.path.basename(o.log)} --weights … (torch "
                         f"{torch.__version__.split('+')[0]}, float64)",
              "log": os.path.basename(o.log), "log_xxh3": log_digest, "defines": SETTINGS[o.model], "seed": SEED,
              "weights_xxh3": digest_of(tensors), "losses": run(o.model, o.log, tensors)}
    with open(o.out, "w") as f:
        json.dump(record, f, indent=1, ensure_ascii=False)
        f.write("\n")


main()
