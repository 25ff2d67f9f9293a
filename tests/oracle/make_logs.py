#!/usr/bin/env python3
"""Writes the logs that the oracle's records were made on: elm.csv, adult.csv, bank.csv, taobao.csv, amazon.tsv
with amazon.tsv_neg, and the vocabularies that go with it.

    make_logs.py DIR

640 rows each: 20 steps of 32. They hold what readers and models stumble over: empty fields, empty lists, empty
list elements, lists of one and of more than 50, spaces, quotes, repeated values, values that no vocabulary knows.
Only `random.random` is used, whose stream Python keeps.
"""
import os
import random
import sys

ROWS, BATCH = 640, 32
rng = random.Random(20190401)


def below(n):
    return int(rng.random() * n)


def chance(p):
    return rng.random() < p


def pick(values):
    return values[below(len(values))]


def skewed(n):
    """Small numbers are frequent, so ids repeat within a batch."""
    return int(n * rng.random() ** 3)


def number(top, digits=2):
    return f"{rng.random() * top:.{digits}f}"


def some_list(element, most):
    """Up to `most` elements; one list in six is empty, one element in twelve too."""
    if chance(1 / 6):
        return ""
    return ";".join("" if chance(1 / 12) else element() for _ in range(1 + below(most)))


KINDS = ["lunch", "night", "dinner", "tea", "breakfast", "brunch"]  # the last is in no vocabulary


def elm_row():
    maybe = lambda text, p=0.1: "" if chance(p) else text
    word = lambda prefix, n: f"{prefix}{skewed(n)}"
    clicked = "1" if chance(0.3) else "0"
    row = [clicked, maybe(word("u", 400)), maybe(str(below(3))), maybe(word("city", 20)), maybe(number(90)),
           maybe(str(below(2))), maybe(number(1, 4)), maybe(str(below(30))), maybe(number(500)),
           word("s", 150), word("i", 500), maybe(word("city", 20)), maybe(word("d", 40)), word("aoi", 60),
           word("g6", 50), word("g12", 200), maybe(word("b", 60)), maybe(word("c", 12)), maybe(word("f", 40)),
           maybe(str(below(50))), maybe(str(below(90))), maybe(str(below(120)))]
    row += [some_list(lambda: word("s", 150), 8), some_list(lambda: word("i", 500), 8),
            some_list(lambda: word("c", 12), 5), some_list(lambda: word("f", 40), 5),
            some_list(lambda: word("b", 60), 5), some_list(lambda: number(80), 8),
            some_list(lambda: word("aoi", 60), 5), some_list(lambda: word("g6", 50), 5),
            some_list(lambda: str(below(40)), 8), some_list(lambda: str(below(24)), 8),
            some_list(lambda: pick(KINDS), 8), some_list(lambda: str(below(7)), 8)]
    row += [str(below(5)), maybe(str(below(24))), pick(KINDS), str(below(7)), maybe(word("g12", 200))]
    return ",".join(row)


def adult_row():
    words = lambda prefix, n, p=0.05: "?" if chance(p) else f"{prefix}-{skewed(n)}"
    gain = str(below(15000)) if chance(0.1) else "0"
    loss = str(below(3000)) if chance(0.05) else "0"
    row = [str(17 + below(70)), words("Work", 8), str(below(900000)), words("Edu", 16, 0), str(1 + below(16)),
           words("Marital", 7, 0), words("Job", 14), words("Rel", 6, 0), words("Race", 5, 0),
           pick(["Male", "Female"]), gain, loss, str(1 + below(98)), words("Land", 40)]
    return ", ".join(row + [">50K" if chance(0.25) else "<=50K"])


def bank_row():
    quoted = lambda values: '"' + pick(values) + '"'
    row = [str(18 + below(70)), quoted(["admin.", "blue-collar", "own; \"small\" firm".replace('"', '""'), "unknown"]),
           quoted(["married", "single", "divorced"]), quoted(["primary", "secondary", "tertiary", "unknown"]),
           quoted(["no", "no", "yes"]), str(below(12000) - 800), quoted(["yes", "no"]), quoted(["yes", "no"]),
           quoted(["cellular", "unknown", "telephone"]), str(1 + below(31)),
           quoted(["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]),
           str(below(900)), str(1 + skewed(20)), str(-1 if chance(0.7) else below(400)), str(skewed(12)),
           quoted(["unknown", "failure", "success", "other"]), '"yes"' if chance(0.15) else '"no"']
    return ";".join(row)


def taobao_row():
    maybe = lambda text, p=0.08: "" if chance(p) else text
    word = lambda prefix, n: f"{prefix}{skewed(n)}"
    clicked = chance(0.3)
    row = ["1" if clicked else "0", "1" if clicked and chance(0.4) else "0", maybe(f"430{below(2)}"), word("ad", 500),
           maybe(word("", 90)), maybe(word("", 200)), maybe(word("c", 200)), maybe(word("b", 80)), maybe(word("", 400)),
           maybe(str(below(97))), maybe(str(below(13))), maybe(str(1 + below(2)))]
    row += [maybe(str(below(7))), maybe(str(1 + below(3))), maybe(str(1 + below(3))), maybe(str(below(2))),
            maybe(str(1 + below(4)))]
    many = lambda: 55 if chance(0.05) else 8
    row += ["|".join(some_list(lambda: word("", n), many()).split(";")) for n in (90, 80)]
    return ",".join(row + [str(below(50))])


# Of each vocabulary a log knows some values that aren't in it; the first value stands for those.
AMAZON = {"uid": ("A", 60), "mid": ("B", 150), "cat": ("C", 12)}


def amazon_word(which):
    prefix, n = AMAZON[which]
    return f"{prefix}{skewed(n * 5 // 4)}"


def history_length(row):
    """Most are short, some pass the 50 that are used. One step has no list longer than one, one has no list."""
    step = row // BATCH
    if step in (7, 11):
        return below(2) if step == 7 else 0
    u = rng.random()
    return 0 if u < 0.12 else 1 if u < 0.25 else 50 + below(15) if u < 0.3 else 2 + skewed(20)


def amazon_rows():
    """The log's rows and those of its companion, whose lists are as long."""
    rows, beside = [], []
    for i in range(ROWS):
        n = history_length(i)
        empty = lambda which: "" if chance(1 / 15) else amazon_word(which)
        # a single empty element would be an empty list
        some = lambda which: "\x02".join([empty(which) if n > 1 else amazon_word(which) for _ in range(n)])
        rows.append("\t".join(["1" if chance(0.4) else "0", empty("uid"), empty("mid"), empty("cat"),
                               some("mid"), some("cat")]))
        beside.append("\t".join([some("mid"), some("cat")]))
    return rows, beside


ADULT = ("age, workclass, fnlwgt, education, education_num, marital_status, occupation, relationship, race, sex, "
         "capital_gain, capital_loss, hours_per_week, native_country, wage_class")
BANK = ";".join(f'"{c}"' for c in "age job marital education default balance housing loan contact day month "
                "duration campaign pdays previous poutcome y".split())


def write(name, lines):
    with open(os.path.join(sys.argv[1], name), "w", newline="\n") as f:
        f.writelines(line + "\n" for line in lines)


for name, header, row in ("elm", [], elm_row), ("adult", [ADULT], adult_row), ("bank", [BANK], bank_row):
    write(name + ".csv", header + [row() for _ in range(ROWS)])
rng = random.Random(20180819)
write("taobao.csv", [taobao_row() for _ in range(ROWS)])
rng = random.Random(20170621)
for name, lines in zip(("amazon.tsv", "amazon.tsv_neg"), amazon_rows()):
    write(name, lines)
for which, (prefix, n) in AMAZON.items():
    write(which + "_voc.txt", ["default"] + [f"{prefix}{i}" for i in range(n)])
