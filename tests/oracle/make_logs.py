#!/usr/bin/env python3
"""Writes the logs that the oracle's records were made on: elm.csv, adult.csv, bank.csv.

    make_logs.py DIR

640 rows each: 20 steps of 32. They hold what readers and models stumble over: empty fields, empty lists, empty
list elements, spaces, quotes, repeated values. Only `random.random` is used, whose stream Python keeps.
"""
import os
import random
import sys

ROWS = 640
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


ADULT = ("age, workclass, fnlwgt, education, education_num, marital_status, occupation, relationship, race, sex, "
         "capital_gain, capital_loss, hours_per_week, native_country, wage_class")
BANK = ";".join(f'"{c}"' for c in "age job marital education default balance housing loan contact day month "
                "duration campaign pdays previous poutcome y".split())

out = sys.argv[1]
for name, header, row in ("elm", None, elm_row), ("adult", ADULT, adult_row), ("bank", BANK, bank_row):
    with open(os.path.join(out, name + ".csv"), "w", newline="\n") as f:
        if header:
            f.write(header + "\n")
        for _ in range(ROWS):
            f.write(row() + "\n")
