"""What the oracle's models are made of: the log's rows, hashing and features, weights, optimizers, layers. Written
from the numerics page; see oracle.py."""
import csv
import ctypes
import gzip
import json
import math
import struct

import numpy as np
import torch

try:
    import xxhash
except ImportError:  # the library itself does for features; records need the package
    xxhash = None
    XXH3 = ctypes.CDLL("libxxhash.so.0").XXH3_64bits
    XXH3.argtypes, XXH3.restype = [ctypes.c_char_p, ctypes.c_size_t], ctypes.c_uint64

torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)

SEED = 1  # of dropout


# ---- the log ----------------------------------------------------------------------------------------------

class Log:
    """Rows of text by column; the first row names the columns unless names are given."""

    def __init__(self, path, separator, names=None, quoted=True):
        with gzip.open(path, "rt", newline="") as f:
            # after a separator only a quote at once opens a quoted field; spaces around fields go away
            quoting = csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE
            rows = [r for r in csv.reader(f, delimiter=separator, quotechar='"', quoting=quoting) if r]
        names = names or [n.strip() for n in rows.pop(0)]
        assert all(len(r) == len(names) for r in rows)
        self.columns = {n: [r[i].strip() for r in rows] for i, n in enumerate(names)}
        self.rows = len(rows)


def f32(x):
    """Numbers are read as float32."""
    return float(np.float32(x))


def xxh3(data):
    return xxhash.xxh3_64_intdigest(data, seed=0) if xxhash else XXH3(data, len(data))


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

    def __init__(self, texts, default=None, missing=(), separator=";"):
        self.texts, self.default, self.missing, self.separator = texts, default, missing, separator

    def empty(self, text):
        return text == "" or text in self.missing

    def strings(self):
        return [self.default if self.empty(t) else t for t in self.texts]

    def numbers(self):
        return [f32(self.default if self.empty(t) else t) for t in self.texts]

    def elements(self):
        """An empty field is an empty list."""
        return [[e.strip() for e in t.split(self.separator)] if t else [] for t in self.texts]

    def string_lists(self):
        """Empty elements without a default are left out."""
        return [[e for e in row if not self.empty(e)] for row in self.elements()]

    def aligned_lists(self, most):
        """Lists that share an axis: an empty element holds its place; the first `most` are used."""
        return [[None if self.empty(e) else e for e in row[:most]] for row in self.elements()]

    def number_lists(self):
        return [[f32(self.default if self.empty(e) else e) for e in row] for row in self.elements()]


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
        self.evaluating = False  # batchnorm takes the running statistics

    def __getitem__(self, name):
        self.used.add(name)
        return self.p[name]

    def trained(self):
        """What the model has read, in the checkpoint's order; running statistics are no parameters."""
        return [name for name in self.p if name in self.used and ".moving_" not in name]

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


def adam(w, name, g, t, lr, b1=0.9, b2=0.999, eps=1e-8):
    with torch.no_grad():
        p, m, v = w.p[name], slot(w, name, "m", 0.0), slot(w, name, "v", 0.0)
        at = sorted(w.touched[name]) if name in w.touched else slice(None)
        g = g[at]
        m[at] = b1 * m[at] + (1 - b1) * g
        v[at] = b2 * v[at] + (1 - b2) * g * g
        p[at] -= lr * math.sqrt(1 - b2 ** t) / (1 - b1 ** t) * m[at] / (v[at].sqrt() + eps)


def ftrl(w, name, g, lr, l1, l2, init=0.1):
    with torch.no_grad():
        p, n, z = w.p[name], slot(w, name, "n", init), slot(w, name, "z", 0.0)
        at = sorted(w.touched[name]) if name in w.touched else slice(None)
        g = g[at]
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
    """In training: statistics of the batch, biased variance."""
    if w.evaluating:
        mean, var = w[name + ".moving_mean"], w[name + ".moving_variance"]
        return (x - mean) / (var + 1e-3).sqrt() * w[name + ".gamma"] + w[name + ".beta"]
    mean, var = x.mean(0), x.var(0, unbiased=False)
    w.used.update({name + ".moving_mean", name + ".moving_variance"})  # of evaluation only
    return (x - mean) / (var + 1e-3).sqrt() * w[name + ".gamma"] + w[name + ".beta"]


def frozen_batchnorm(w, name, x):
    """As in evaluation, with mean 0 and variance 1."""
    return w[name + ".gamma"] * x / math.sqrt(1 + 1e-3) + w[name + ".beta"]


def mlp(w, name, x, depth, act=torch.relu, norm=False):
    for i in range(depth):
        x = act(dense(w, f"{name}.mlp.{i}.dense", x))
        if norm:
            x = batchnorm(w, f"{name}.mlp.{i}.batchnorm", x)
    return x


def prelu(w, name, x):
    return torch.clamp(x, min=0) + w[name + ".alpha"] * torch.clamp(x, max=0)


def mix32(x):
    x = x ^ (x >> np.uint32(16))
    x = x * np.uint32(0x7FEB352D)
    x = x ^ (x >> np.uint32(15))
    x = x * np.uint32(0x846CA68B)
    return x ^ (x >> np.uint32(16))


def dropout(x, rate, name, step):
    """By a counter-based generator over (seed, step, key of the op, element); the key is the hash of its path.
    Without a step, which is evaluation, x itself."""
    if step is None:
        return x
    key = xxh3(name.encode()) & 0x7FFFFFFF
    u32 = lambda v: np.array([v & 0xFFFFFFFF], dtype=np.uint32)
    base = mix32(u32(step) + mix32(u32(key) + mix32(u32(SEED) ^ mix32(u32(SEED >> 32)))))
    u = mix32(np.arange(x.numel(), dtype=np.uint32) + base).astype(np.float64)
    keep = torch.tensor((u >= rate * 2.0 ** 32).astype(np.float64)).reshape(x.shape)
    return x * keep / (1 - rate)


def bce_logits(z, y):
    return torch.clamp(z, min=0) - z * y + torch.log1p(torch.exp(-z.abs()))


# Lists are padded here to the longest row of the batch: x [rows, positions, width], live [rows, positions] says which
# positions exist. What stands in the others never reaches a result.

def attention(w, name, query, facts, live):
    """Scores [rows, positions]: softmax over the positions that exist; zeros in a row without any."""
    q = prelu(w, name + ".prelu", dense(w, name + ".dense", query))[:, None].expand_as(facts)
    x = mlp(w, name, torch.cat([q, facts, q - facts, q * facts], 2), 2, torch.sigmoid)
    e = dense(w, name + ".dense_1", x).squeeze(2)
    weights = torch.exp(torch.where(live, e, -math.inf) - torch.where(live, e, 0.0).amax(1, keepdim=True).detach())
    return weights / torch.where(live.any(1, keepdim=True), weights.sum(1, keepdim=True), 1.0)


def gru(w, name, x, live, scores=None):
    """The state after each position; it is held past a row's end. With scores: augru."""
    kernel, bias = w[name + ".candidate.kernel"], w[name + ".candidate.bias"]
    h, states = torch.zeros(x.shape[0], bias.shape[0]), []
    for t in range(x.shape[1]):
        r, u = torch.sigmoid(dense(w, name + ".gates", torch.cat([x[:, t], h], 1))).chunk(2, 1)
        c = torch.tanh(torch.cat([x[:, t], r * h], 1) @ kernel + bias)
        if scores is not None:
            u = (1 - scores[:, t, None]) * u
        h = torch.where(live[:, t, None], u * h + (1 - u) * c, h)
        states.append(h)
    return torch.stack(states, 1)


# ---- metrics ----------------------------------------------------------------------------------------------

def auc(p, y):
    """How often a positive row stands above a negative one; ties count half."""
    above = p[y == 1][:, None] - p[y == 0][None, :]
    return float((above > 0).mean() + 0.5 * (above == 0).mean())


def logloss(p, y):
    p = np.clip(p, 1e-7, 1 - 1e-7)
    return float(-(y * np.log(p) + (1 - y) * np.log1p(-p)).mean())
