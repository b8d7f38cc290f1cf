"""A second calculator: reads a price book and stories.txt by itself, reckons with fractions, and prints what each line of a story costs.

    calculator.py BOOK STORIES

It shares nothing with the Go code but the files. Prints "story NUMBER" and then a line of dollars for each use, with six digits.
"""

import calendar
import re
import sys
from datetime import datetime, timedelta, timezone
from fractions import Fraction

SIZES = {"GB": 1, "TB": 1024, "PB": 1024**2}


def read_book(path):
    rates = {}
    for line in open(path, encoding="utf-8"):
        m = re.match(r"  ([a-z0-9._-]+): \{(.*)\}\s*$", line)
        if not m:
            continue
        name, body = m.groups()
        unit = re.search(r"unit: ([^,}]+)", body).group(1).strip()
        requests = re.match(r"(\d+) requests$", unit)
        per = int(requests.group(1)) if requests else 1
        tiers = []
        listed = re.search(r"tiers: \[(.*?)\]", body)
        for tier in re.findall(r"\{([^}]*)\}", listed.group(1)) if listed else [body]:
            price = Fraction(re.search(r"usd: ([0-9.]+)", tier).group(1))
            end = re.search(r"up_to: ([0-9.]+)([A-Z]*)", tier)
            tiers.append((Fraction(end.group(1)) * SIZES.get(end.group(2), 1) if end else None, price))
        rates[name] = (per, tiers)
    return rates


def hours_of_month(t):
    return 24 * calendar.monthrange(t.year, t.month)[1]


def amount(kind, args):
    if kind == "bytes":
        return Fraction(int(args[0]), 2**30)
    if kind == "requests":
        return Fraction(int(args[0]))
    if kind == "hours":
        return Fraction(int(args[0]) * int(args[1]))
    t, total = datetime.fromisoformat(args[1].replace("Z", "+00:00")).astimezone(timezone.utc), Fraction(0)
    for _ in range(int(args[2])):  # hour by hour, which is slow, and unlike what it checks
        total += Fraction(1, hours_of_month(t))
        t += timedelta(hours=1)
    return total * Fraction(int(args[0]), 2**30 if kind == "stored" else 1)


def month_costs(rate, n):
    per, tiers = rate
    cost, begin = Fraction(0), Fraction(0)
    for end, price in tiers:
        if n <= begin:
            break
        inside = n - begin if end is None else min(n, end) - begin
        cost += inside * price / per
        begin = end
    return cost


def main(book, stories):
    rates, used, number = read_book(book), {}, 0
    for line in open(stories, encoding="utf-8"):
        words = line.split("=")[0].split()
        if not words or words[0].startswith("#"):
            continue
        if words[0] == "story":
            number, used = number + 1, {}
            print("story", number)
        elif words[0] in ("before", "use"):
            was = used.get(words[1], Fraction(0))
            used[words[1]] = was + amount(words[2], words[3:])
            if words[0] == "use":
                cost = month_costs(rates[words[1]], used[words[1]]) - month_costs(rates[words[1]], was)
                print("%.6f" % (round(cost * 10**6) / 10**6))


main(*sys.argv[1:])
