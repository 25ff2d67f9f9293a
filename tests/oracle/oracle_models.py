"""The models that the oracle knows, written from the models page, the numerics page and models/*.ctr; see oracle.py.

A class a model. An object is a batch: it takes the rows of the log and makes features of them; `forward` gives
the loss of each row and the predictions with their labels. The class says how the model is compiled for the
record (`defines`, of `ctrc -D`), on which log it trains and what else is read `beside` it, which metrics it
declares, and `clip_norm` and `ftrl_lr`, where it has them.
"""
import os

import torch

from oracle_parts import (Column, Log, adam, attention, bce_logits, bucket, crossed, dense, dropout, frozen_batchnorm,
                          ftrl, gru, hashed, mlp)


# ---- ELM: wdl, deepfm, dlrm -------------------------------------------------------------------------------

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
    defines, log, metrics = dict(batch=32, buckets=1000, lr=0.001), "elm.csv.gz", {"auc": ["ctr"], "logloss": ["ctr"]}

    @staticmethod
    def read(path):
        return Log(path, ",", ELM_COLUMNS)

    def __init__(self, log, rows):
        self.column = {n: Column(v[rows], ELM_DEFAULTS.get(n)) for n, v in log.columns.items()}
        self.buckets = self.defines["buckets"]
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


class Wdl(Elm):
    def forward(self, w, step):
        x = torch.cat(self.fields(w) + [self.numbers()], 1)
        x = x / torch.clamp((x * x).sum(1, keepdim=True), min=1e-12).sqrt()
        deep = dense(w, "deep.dense", mlp(w, "deep", x, 4))
        z = deep + self.first_order(w) + dense(w, "wide.dense", self.numbers())
        return bce_logits(z, self.y), {"ctr": (torch.sigmoid(z), self.y)}


class Deepfm(Elm):
    def forward(self, w, step):
        fields = self.fields(w)
        deep = mlp(w, "deep", torch.cat(fields + [self.numbers()], 1), 3, norm=True)
        v = torch.stack(fields, 1)
        pair = 0.5 * (v.sum(1) ** 2 - (v * v).sum(1))
        x = torch.cat([deep, self.first_order(w), pair], 1)
        p = torch.sigmoid(dense(w, "top.dense", mlp(w, "top", x, 2, norm=True)))
        return (p - self.y) ** 2, {"ctr": (p, self.y)}


class Dlrm(Elm):
    def forward(self, w, step):
        bottom = mlp(w, "bottom", self.numbers(), 4, norm=True)
        v = torch.stack([bottom] + self.fields(w), 1)
        i, j = torch.tril_indices(25, 25, -1)
        pairs = (v @ v.transpose(1, 2))[:, i, j]
        z = dense(w, "top.dense", mlp(w, "top", torch.cat([bottom, pairs], 1), 2))
        return bce_logits(z, self.y), {"ctr": (torch.sigmoid(z), self.y)}


# ---- Amazon Books: din, dien ------------------------------------------------------------------------------

class Amazon:
    defines, log, metrics = dict(batch=32, lr=0.001), "amazon.tsv.gz", {"auc": ["ctr"], "logloss": ["ctr"]}
    beside = ["amazon.tsv_neg.gz", "uid_voc.txt", "mid_voc.txt", "cat_voc.txt"]
    clip_norm = 5

    @classmethod
    def read(cls, path):
        folder = os.path.dirname(path)
        cls.words = {}
        for which in ("uid", "mid", "cat"):
            with open(os.path.join(folder, which + "_voc.txt")) as f:
                cls.words[which] = {text: i for i, text in enumerate(f.read().splitlines())}
        log = Log(path, "\t", "click uid item category hist_item hist_cat".split(), quoted=False)
        beside = Log(path.replace(".tsv", ".tsv_neg"), "\t", ["neg_item", "neg_cat"], quoted=False)
        assert beside.rows == log.rows
        log.columns.update(beside.columns)
        return log

    def __init__(self, log, rows):
        self.column = {n: Column(v[rows], separator="\x02") for n, v in log.columns.items()}
        self.y = torch.tensor([[float(v)] for v in log.columns["click"][rows]])
        self.lengths = [len(row) for row in self.column["hist_item"].aligned_lists(50)]
        self.longest = max(self.lengths)
        width = max(self.longest, 1)  # so that a batch without any position has no special case
        self.live = torch.arange(width) < torch.tensor(self.lengths)[:, None]

    def id_of(self, text, which):
        """What a vocabulary doesn't know is its first value; an empty field has no id."""
        return None if text is None else self.words[which].get(text, 0)

    def pair(self, w, item, category):
        return torch.cat([w.rows("items", [self.id_of(t, "mid") for t in item]),
                          w.rows("cats", [self.id_of(t, "cat") for t in category])], 1)

    def pairs(self, w, item, category):
        """Of two lists: [rows, positions, 36], padded with zeros."""
        width = self.live.shape[1]
        flat = []
        for name in (item, category):
            lists = self.column[name].aligned_lists(50)
            assert [len(row) for row in lists] == self.lengths
            flat.append([t for row in lists for t in row + [None] * (width - len(row))])
        return self.pair(w, *flat).reshape(len(self.lengths), width, -1)

    def inputs(self, w):
        user = w.rows("user", [self.id_of(t, "uid") for t in self.column["uid"].strings()])
        target = self.pair(w, self.column["item"].strings(), self.column["category"].strings())
        return user, target, self.pairs(w, "hist_item", "hist_cat")

    def top(self, w, user, target, hist, interest):
        total = hist.sum(1)
        x = torch.cat([user, target, total, target * total, interest], 1)
        x = mlp(w, "z", frozen_batchnorm(w, "z.batchnorm", x), 2)
        return dense(w, "z.dense_1", dense(w, "z.dense", x))


class Din(Amazon):
    def forward(self, w, step):
        user, target, hist = self.inputs(w)
        a = attention(w, "interest.attention", target, hist, self.live)
        z = self.top(w, user, target, hist, (a[:, :, None] * hist).sum(1))
        return bce_logits(z, self.y), {"ctr": (torch.sigmoid(z), self.y)}


class DinClipped(Din):
    """Where din.ctr says 5: so that gradients are clipped at all."""
    clip_norm = 0.05


class Dien(Amazon):
    def forward(self, w, step):
        user, target, hist = self.inputs(w)
        states = gru(w, "states.gru", hist, self.live)
        a = attention(w, "interest.attention", target, states, self.live)
        last = gru(w, "interest.augru", states, self.live, a)[:, -1]
        z = self.top(w, user, target, hist, last)
        loss = bce_logits(z, self.y) + self.auxiliary(w, states, hist)
        return loss, {"ctr": (torch.sigmoid(z), self.y)}

    def judge(self, w, state, following):
        x = frozen_batchnorm(w, "judge.score.batchnorm", torch.cat([state, following], 2))
        x = dense(w, "judge.score.dense", mlp(w, "judge.score", x, 2, torch.sigmoid))
        return torch.softmax(x, 2)[:, :, 0]

    def auxiliary(self, w, states, hist):
        """A state must tell what comes next in the history from what the negative list has there."""
        negative = self.pairs(w, "neg_item", "neg_cat")
        yes = self.judge(w, states[:, :-1], hist[:, 1:])
        no = self.judge(w, states[:, :-1], negative[:, 1:])
        off = -(torch.log(yes + 1e-8) + torch.log(1 - no + 1e-8)) * self.live[:, 1:]
        return off.sum(1, keepdim=True) / min(max(self.longest - 1, 1), 50)


# ---- Taobao: mmoe -----------------------------------------------------------------------------------------

TAOBAO_COLUMNS = """clk buy pid adgroup_id cate_id campaign_id customer brand user_id cms_segid cms_group_id
final_gender_code age_level pvalue_level shopping_level occupation new_user_class_level tag_category_list
tag_brand_list price""".split()
# in the order of the model's `fields`; 1000 where the file says 100000, see models.sh
TAOBAO_BUCKETS = dict(adgroup_id=1000, campaign_id=1000, customer=1000, brand=1000, user_id=1000,
                      tag_category_list=1000, tag_brand_list=1000, cate_id=10000, cms_segid=100, cms_group_id=100,
                      pid=10, age_level=10, pvalue_level=10, shopping_level=10, occupation=10, new_user_class_level=10)


class Mmoe:
    defines, log = dict(batch=32, lr=0.001), "taobao.csv.gz"
    metrics = {"auc": ["click", "purchase"]}
    experts = 4

    @staticmethod
    def read(path):
        return Log(path, ",", TAOBAO_COLUMNS)

    def __init__(self, log, rows):
        self.column = {n: Column(v[rows], separator="|") for n, v in log.columns.items()}
        label = lambda name: torch.tensor([[float(v)] for v in log.columns[name][rows]])
        self.click, self.purchase = label("clk"), label("buy")

    def field(self, w, name, buckets):
        c = self.column[name]
        texts = c.string_lists() if name.endswith("_list") else [[] if t is None else [t] for t in c.strings()]
        return w.pooled("fields." + name, [[hashed(t, buckets) for t in row] for row in texts], mean=True)

    def tower(self, w, name, x):
        return dense(w, name + ".tower.dense", mlp(w, name + ".tower", x, 4))

    def forward(self, w, step):
        prices = [int(t) for t in self.column["price"].texts]
        x = torch.cat([self.field(w, *f) for f in TAOBAO_BUCKETS.items()] + [w.rows("fields.price", prices)], 1)
        experts = torch.stack([mlp(w, f"task.mmoe.{i}.expert", x, 4) for i in range(self.experts)], 1)
        gate = lambda t: torch.softmax(dense(w, f"task.mmoe.{t}.gate.dense", x), 1)
        task = [(gate(t)[:, :, None] * experts).sum(1) for t in (0, 1)]
        click, purchase = self.tower(w, "clk_z", task[0]), self.tower(w, "buy_z", task[1])
        loss = (bce_logits(click, self.click) + bce_logits(purchase, self.purchase)) / 2
        return loss, {"click": (torch.sigmoid(click), self.click), "purchase": (torch.sigmoid(purchase), self.purchase)}


# ---- adult and bank ---------------------------------------------------------------------------------------

def weights_of(w, ids):
    return sum(w.rows(f"wide.{i}.weight_of.dense.kernel", v) for i, v in enumerate(ids))


class Adult:
    defines, log = dict(batch=32, buckets=1000, lr=0.001), "adult.csv.gz"
    metrics = {"auc": ["income"], "logloss": ["income"]}
    ftrl_lr = 0.02
    WORDS = ["workclass", "education", "marital_status", "occupation", "relationship", "race", "sex", "native_country"]

    @staticmethod
    def read(path):
        return Log(path, ",")

    def __init__(self, log, rows):
        buckets = self.defines["buckets"]
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

    def optimize(self, w, name, g, t):
        """`wide` and what stands under it has an optimizer of its own."""
        if name.startswith("wide."):
            ftrl(w, name, g, lr=self.ftrl_lr, l1=0.1, l2=0.1)
        else:
            adam(w, name, g, t, self.defines["lr"])

    def forward(self, w, step):
        x = torch.cat([w.rows(f"deep.{i}.field", v) for i, v in enumerate(self.ids)] + [self.numbers], 1)
        x = dropout(mlp(w, "deep", x, 2), 0.1, "deep.dropout", step)
        wide = weights_of(w, self.ids + self.crosses) + dense(w, "wide.dense", self.numbers)
        z = dense(w, "deep.dense", x) + wide
        return bce_logits(z, self.y), {"income": (torch.sigmoid(z), self.y)}


class Bank:
    defines, log = dict(batch=32, lr=0.001), "bank.csv.gz"
    metrics = {"auc": ["deposit"], "logloss": ["deposit"]}
    WORDS = ["job", "marital", "education", "default", "housing", "loan", "contact", "month", "poutcome"]

    @staticmethod
    def read(path):
        return Log(path, ";")

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

    def forward(self, w, step):
        ids = self.ids + self.crosses
        x = torch.cat([w.rows(f"fields.{i}.field", v) for i, v in enumerate(ids)], 1)
        x = mlp(w, "deep", dropout(x, 0.2, "deep.dropout", step), 2)
        x = dropout(x, 0.2, "deep.dropout_1", step)
        z = dense(w, "deep.dense", x) + weights_of(w, ids)
        return bce_logits(z, self.y), {"deposit": (torch.sigmoid(z), self.y)}


MODELS = {"wdl": Wdl, "deepfm": Deepfm, "dlrm": Dlrm, "din": Din, "din_clipped": DinClipped, "dien": Dien,
          "mmoe": Mmoe, "adult": Adult, "bank": Bank}
