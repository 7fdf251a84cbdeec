"""What a recording of UBI's calls (`nandlab run --ubi-log FILE`) says of UBIFS's LEBs, as docs/design/near-full.md has it.

    lifetimes.py FILE --log LEBS --lpt LEBS [--skip SHARE]

Lives of LEBs of the main area are counted in requests for PEBs. The mixture is one of exponential lives with means
3.5 x 2^n, by expectation maximization; lives that had not ended count as such. Unmapped LEBs of an area are the mean over the
requests; the main area ends with the last LEB that was ever mapped. `--skip`: the share of the requests that fill the file
system.
"""

import argparse
import collections
import csv
import math

ORPHAN = 2


def read(path, main):
    """Lives (birth, end or None), the requests by area, the number of requests, and the LEBs that each of them found mapped."""
    mapped, lives, areas, requests = {}, [], collections.Counter(), 0
    held, found, last = collections.Counter(), [], 0
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            if row["volume"] != "0":
                continue
            call, leb = row["call"], int(row["leb"])
            if call in ("map", "write", "change"):
                if call == "change" or leb not in mapped:
                    requests += 1
                    area = next(name for name, end in main if leb < end)
                    areas[area] += 1
                    found.append([held[name] for name, _ in main])
                    held[area] += leb not in mapped
                    last = max(last, leb)
                    if leb in mapped and area == "main":
                        lives.append((mapped[leb], requests))
                    mapped[leb] = requests
            elif call == "unmap" and leb in mapped:
                born = mapped.pop(leb)
                held[next(name for name, end in main if leb < end)] -= 1
                if leb >= main[-2][1]:
                    lives.append((born, requests))
    left = [(born, None) for leb, born in mapped.items() if leb >= main[-2][1]]
    return lives + left, areas, requests, (found, last)


def mixture(ended, alive):
    """Weights of the means, from lengths of lives in bins of equal ratio."""
    means = [3.5 * 2**i for i in range(17)]
    bins = collections.Counter()
    for kind, lengths in ((True, ended), (False, alive)):
        for length in lengths:
            bins[kind, round(20 * math.log2(max(length, 1)))] += 1
    rows = []
    for (kind, at), number in bins.items():
        length = 2 ** (at / 20)
        rows.append((number, [math.exp(-length / mean) / (mean if kind else 1) for mean in means]))
    weights = [1 / len(means)] * len(means)
    for _ in range(1500):
        new = [0.0] * len(means)
        for number, densities in rows:
            parts = [weight * density for weight, density in zip(weights, densities)]
            whole = sum(parts) or 1e-300
            for i, part in enumerate(parts):
                new[i] += number * part / whole
        total = sum(new)
        weights = [weight / total for weight in new]
    return list(zip(means, weights))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("file")
    parser.add_argument("--log", type=int, required=True)
    parser.add_argument("--lpt", type=int, required=True)
    parser.add_argument("--skip", type=float, default=0.15)
    args = parser.parse_args()
    ends = [("super block", 1), ("master", 3), ("log", 3 + args.log), ("lpt", 3 + args.log + args.lpt),
            ("orphan", 3 + args.log + args.lpt + ORPHAN), ("main", 1 << 31)]
    lives, areas, requests, (found, last) = read(args.file, ends)
    start = int(args.skip * requests)
    print(requests, "requests;", ", ".join(f"{name} {number / requests:.3f}" for name, number in areas.items()))
    before = 0
    for at, (name, end) in enumerate(ends):
        lebs = min(end, last + 1) - before
        unmapped = lebs - sum(mapped[at] for mapped in found[start:]) / max(len(found) - start, 1)
        print(f"unmapped LEBs of {name}: {unmapped:.2f} of {lebs}")
        before = end
    lives = [(born, end) for born, end in lives if born >= start]
    ended = [end - born for born, end in lives if end is not None]
    parts = mixture(ended, [requests - born for born, end in lives if end is None])
    short = sum(weight for mean, weight in parts if mean < 20)
    print(f"short lives: {short:.3f} of the rewrites; of the others:")
    lebs = sum(mean * weight for mean, weight in parts if mean >= 20)
    for mean, weight in reversed(parts):
        if mean >= 20 and weight > 1e-4:
            print(f"mean life {mean:9.0f}: LEBs {mean * weight / lebs:.4f}, rewrites {weight / (1 - short):.4f}")


if __name__ == "__main__":
    main()
