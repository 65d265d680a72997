"""Tables of what was measured: as text while it is measured, and as two sections of docs/performance.md.

The table has targets; the survey, groups named `others.FAMILY`, has none.

    report.py FILE.json...     the rows of all files, later ones before earlier ones, into docs/performance.md
"""
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
DOCUMENT = os.path.join(HERE, "..", "..", "docs", "performance.md")
SURVEY = "others"
CLOSE = 1.03  # a target is met within 3%
EVEN = 0.95  # from this ratio on, a row of the survey counts as no slower


def span(ms, us="u"):
    t = ms * 1e3
    v, unit = (t, us) if t < 1000 else (ms, "m") if ms < 1000 else (ms / 1e3, "s")
    return f"{v:.3g}{unit}" if v < 999.5 else f"{v:.0f}{unit}"


def key(r):
    return r["group"], r["work"], r["size"], r["dtype"]


def surveyed(group):
    return group.partition(".")[0] == SURVEY


# ------------------------------------------------------------------------------------------------- figures
def ceilings(records):
    """Bytes a second of the best kernel that only copies, reads or writes."""
    c = {}
    for r in records:
        if r["group"] == "ceil" and "ms" in r and not r.get("wrong"):
            c[r["work"]] = max(c.get(r["work"], 0), r["bytes"] / r["ms"] * 1e3)
    return c


def figures(r, c):
    """Adds the achieved rates and the share of the floor that the ceilings set."""
    if "ms" in r:
        s = r["ms"] / 1e3
        if r.get("flops"):
            r["tflops"] = r["flops"] / s / 1e12
        if r.get("bytes"):
            r["gbs"] = r["bytes"] / s / 1e9
            if r.get("bceil") in c and not r.get("flops"):
                r["pct"] = 100 * r["bytes"] / c[r["bceil"]] / s
    return r


def line(r):
    head = f"{r['group']:9} {r['work']:16} {r['size']:15} {r['dtype']:5} {r['peer']:14}"
    if "ms" not in r:
        return f"{head} {'SKIPPED ' + r['skipped'] if 'skipped' in r else 'ERROR ' + r.get('error', '')[:200]}"
    t = f"{head} {span(r['ms']):>8}"
    t += f" {r['tflops']:8.1f} TF/s" if r.get("flops") else f" {r['gbs']:8.1f} GB/s" if r.get("bytes") else " " * 14
    t += f" {r['pct']:5.1f}%" if "pct" in r else " " * 7
    t += f" {r.get('method', ''):5} {r.get('cache', '')} x{r.get('nbuf', '')}"
    t += f" [{r['config']}]" if r.get("config") else ""
    t += f" {r['wall_s']}s" if "wall_s" in r else ""
    return t + (f" WRONG err={r['err']}" if r.get("wrong") else "")


def merged(files, survey):
    """Rows by their keys, those of later files in place of earlier ones: a row and its peers are of one run."""
    rows, metas, rates = {}, [], {}
    for data in files:
        fresh = {}
        for r in data["records"]:
            r["ceilings"] = data["ceilings"]
            if r["group"] != "ceil" and surveyed(r["group"]) == survey:
                fresh.setdefault(key(r), []).append(r)
        if fresh:
            metas.append(data["meta"])
            rates.update(data["ceilings"])
        rows.update({k: v for k, v in fresh.items()
                     if any(r["peer"] == "gpukc" and "skipped" not in r for r in v) or k not in rows})
    return rows, metas, rates


def verdict(records):
    """What a row of the table says."""
    ours = next((r for r in records if r["peer"] == "gpukc"), None)
    peers = [r for r in records if r["peer"] != "gpukc" and "ms" in r and not r.get("wrong")]
    best = min(peers, key=lambda r: r["ms"], default=None)
    row = dict(ours=ours, best=best, ratio=None, met=None, targets=[])
    if not ours or "ms" not in ours:
        return row
    if best:
        row["ratio"] = best["ms"] / ours["ms"]
    verdicts = []
    for what, factor in ours.get("target") or ():
        if what in ours["ceilings"]:
            text, wanted = f"{factor:.0%} of {what}", ours["bytes"] / ours["ceilings"][what] * 1e3 / factor
        else:
            against = best if what == "peers" else next((r for r in peers if r["peer"] == what), None)
            text = f"{factor:g} of {'the best' if what == 'peers' else what}"
            wanted = against["ms"] / factor if against else None
        row["targets"].append(text)
        verdicts.append(None if wanted is None else ours["ms"] <= wanted * CLOSE and not ours.get("wrong"))
    row["met"] = None if not verdicts or None in verdicts else all(verdicts)
    return row


# ------------------------------------------------------------------------------------------------- tables
def table(records):
    """One row a workload, one column a peer: time and percent of the ceiling."""
    out, groups = [], {}
    for r in records:
        groups.setdefault(r["group"], []).append(r)
    for g, rs in groups.items():
        rows, peers = {}, []
        for r in rs:
            name = " ".join(filter(None, key(r)[1:]))
            if "ms" in r:
                cell = span(r["ms"]) + (f" {r['pct']:.0f}" if "pct" in r else "") + ("!" if r.get("wrong") else "")
            else:
                cell = "skip" if "skipped" in r else "ERR"
            rows.setdefault(name, {})[r["peer"]] = cell
            if r["peer"] not in peers:
                peers.append(r["peer"])
        peers.sort(key=lambda p: p != "gpukc")
        kw = max(len(k) for k in rows)
        w = [max(len(p), *(len(v.get(p, "")) for v in rows.values())) for p in peers]
        out.append(f"{'-- ' + g:{kw}} " + " ".join(f"{p:>{n}}" for p, n in zip(peers, w)))
        out += [f"{k:{kw}} " + " ".join(f"{v.get(p, ''):>{n}}" for p, n in zip(peers, w)) for k, v in rows.items()]
    return "\n".join(x.rstrip() for x in out)


def microseconds(ms):
    us = ms * 1e3
    return f"{us:.2f} µs" if us < 10 else f"{us:.1f} µs" if us < 1000 else f"{us:,.0f} µs"


def cells(label, records):
    """A row of a section, and what there is to count of it."""
    v = verdict(records)
    best = f"{microseconds(v['best']['ms'])} {v['best']['peer']}" if v["best"] else ""
    if "ms" not in v["ours"]:
        return [label, "skipped" if "skipped" in v["ours"] else "failed", best, "", "", "", ""], v
    share = v["ours"]["bytes"] / v["ours"]["ms"] * 1e3 / v["ours"]["ceilings"].get("copy", float("inf"))
    ours = microseconds(v["ours"]["ms"]) + (", wrong result" if v["ours"].get("wrong") else "")
    return [label, ours, best, f"{v['ratio']:.2f}" if v["ratio"] else "", "" if v["ours"].get("flops") else f"{share:.0%}",
            ", ".join(v["targets"]), {None: "", True: "yes", False: "no"}[v["met"]]], v


def measured_on(metas):
    head = []
    for meta in metas:
        ran = f"{meta['began'][:10]}, {meta['gpu']}; {meta['versions']}; by `{meta['command']}`"
        if meta.get("kept"):
            ran += f", the peers measured on {meta['kept'][:10]}"
        head.append(f"- {ran}")
    return ["Measured on", "", *dict.fromkeys(head), ""]


def section(files, survey):
    """The lines of the table or of the survey; none if nothing of it was measured."""
    rows, metas, rates = merged(files, survey)
    rows = [cells(" ".join(key[1:]), records) for key, records in rows.items() if any(r["peer"] == "gpukc" for r in records)]
    if not rows:
        return []
    found = [v for _, v in rows]
    if survey:
        head, width = ["work", "gpukc", "best peer", "ratio", "of copy"], 5
        fast = sum(v["ratio"] >= EVEN and not v["ours"].get("wrong") for v in found if v["ratio"])
        told = [f"*Ratio* and *of copy* are those of the table above; {fast} of {len(rows)} rows are at {EVEN} or more.", ""]
    else:
        head, width = ["work", "gpukc", "best peer", "ratio", "of copy", "target", "met"], 7
        ceiling = ", ".join(f"{k} {v / 1e9:,.0f} GB/s" for k, v in rates.items())
        met, asked = sum(v["met"] is True for v in found), sum(v["met"] is not None for v in found)
        told = [f"At most at 1 GiB: {ceiling}, counting bytes read and bytes written. *Ratio* is how many times as fast as the best peer,",
                "*of copy* the rate by each input and result once; a target is met within 3%. "
                f"{met} of {asked} rows meet theirs.", ""]
    lines = ["| " + " | ".join(row[:width]) + " |" for row in (head, *(row for row, _ in rows))]
    return ["", *measured_on(metas), *told, lines[0], "|" + "---|" * width, *lines[1:], ""]


def markdown(files):
    """Both sections, without their marks."""
    return "\n".join(section(files, False) + section(files, True))


def write(files, sections=(False, True)):
    """Puts sections that have rows in their places in docs/performance.md."""
    with open(DOCUMENT, encoding="utf-8") as f:
        text = f.read()
    for survey in sections:
        name = f"benches/peers {SURVEY}" if survey else "benches/peers"
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        if text.count(begin) != 1 or text.count(end) != 1:
            raise SystemExit(f"docs/performance.md has no place for the table: {begin} … {end}")
        if lines := section(files, survey):
            text = text[:text.index(begin)] + "\n".join([begin, *lines, end]) + text[text.index(end) + len(end):]
    with open(DOCUMENT + ".new", "w", encoding="utf-8") as f:
        f.write(text)
    os.replace(DOCUMENT + ".new", DOCUMENT)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    write([json.load(open(path, encoding="utf-8")) for path in sys.argv[1:]])
