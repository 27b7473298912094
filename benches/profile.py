#!/usr/bin/env python3
"""Profile of a replicator with N databases: what it uses every few seconds, and where its CPU and memory go.

    profile.py --n 400 --seconds 60 --out before -- seawall replicate --config {config}
    profile.py --n 400 --seconds 60 --out after  -- ./seawall-new replicate --config {config}
    profile.py --compare before after

{config} is a litestream-style YAML file with N databases and file replicas. After the first bases and --settle seconds
the databases are idle, but for --touch of them, which get a commit a second. The folder --out then holds

    samples.json   every 5 s: CPU in percent of one core since the last sample, RSS, anonymous memory, threads, open
                   files, context switches and wake-ups a second, bytes read and written
    summary.json   the same over the whole window, the number of system calls by name (with --strace), start-up time
    perf.txt       where the CPU time went, by function (with --perf; needs `perf`)
    memory.json    the resident memory at the end in kB by what is mapped: heap, program, libraries, wal-indexes
    heap.txt       where the heap comes from, by function, at its peak (with --heap; needs `heaptrack`, and a program that
                   was built with `CARGO_PROFILE_RELEASE_STRIP=none CARGO_PROFILE_RELEASE_DEBUG=line-tables-only`). It slows
                   the program down: take other figures from a run without it

--compare prints the two summaries side by side, with their ratios.
"""
import argparse, glob, json, os, shutil, signal, sqlite3, subprocess, sys, tempfile, time

SAMPLE = 5.0


def databases(root, n):
    lines = ["dbs:"]
    for i in range(n):
        path = f"{root}/db{i:05}.db"
        db = sqlite3.connect(path, isolation_level=None)
        db.execute("PRAGMA journal_mode=wal")
        db.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT)")
        db.execute("INSERT INTO t(v) VALUES (hex(randomblob(50)))")
        db.close()
        lines += [f"  - path: {path}", "    replica:", "      type: file", f"      path: {root}/replica/{i:05}"]
    config = f"{root}/config.yml"
    with open(config, "w") as f:
        f.write("\n".join(lines) + "\n")
    return config


def fields(path):
    out = {}
    with open(path) as f:
        for line in f:
            key, _, value = line.partition(":")
            parts = value.split()
            if parts and parts[0].lstrip("-").isdigit():
                out[key] = int(parts[0])
    return out


def look(pid):
    """What the process has used until now, and uses now."""
    with open(f"/proc/{pid}/stat") as f:
        stat = f.read().rsplit(")", 1)[1].split()
    switches = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        try:
            status = fields(f"/proc/{pid}/task/{task}/status")
        except FileNotFoundError:
            continue  # the thread ended
        switches += status.get("voluntary_ctxt_switches", 0) + status.get("nonvoluntary_ctxt_switches", 0)
    status, io = fields(f"/proc/{pid}/status"), fields(f"/proc/{pid}/io")
    return {
        "at": time.monotonic(),
        "cpu_s": (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK"),
        "switches": switches,
        "read_calls": io["syscr"], "write_calls": io["syscw"],
        "rss_kb": status["VmRSS"], "anon_kb": status["RssAnon"], "threads": status["Threads"],
        "open_files": len(os.listdir(f"/proc/{pid}/fd")),
    }


def between(a, b):
    dt = b["at"] - a["at"]
    return {
        "seconds": round(dt, 2),
        "cpu_percent": round(100 * (b["cpu_s"] - a["cpu_s"]) / dt, 4),
        "switches_per_s": round((b["switches"] - a["switches"]) / dt, 2),
        "read_calls_per_s": round((b["read_calls"] - a["read_calls"]) / dt, 2),
        "write_calls_per_s": round((b["write_calls"] - a["write_calls"]) / dt, 2),
        **{key: b[key] for key in ("rss_kb", "anon_kb", "threads", "open_files")},
    }


def without_replica(places):
    return [place for place in places if not glob.glob(f"{place}/**/*.ltx", recursive=True)]


def memory(pid):
    """The resident memory of the process in kB, by what is mapped."""
    program, sizes, name = os.readlink(f"/proc/{pid}/exe"), {}, "?"
    with open(f"/proc/{pid}/smaps") as f:
        for line in f:
            words = line.split()
            if "-" in words[0] and not words[0].endswith(":"):
                name = words[5] if len(words) > 5 else "[anonymous]"
                if name.endswith("-shm"):
                    name = "wal-indexes"
                elif name == program:
                    name = "program, changed" if "w" in words[1] else "program"
                elif ".so" in name:
                    name = "libraries"
            elif words[0] == "Rss:":
                sizes[name] = sizes.get(name, 0) + int(words[1])
    return dict(sorted(((name, size) for name, size in sizes.items() if size), key=lambda item: -item[1]))


def tracked(pid, program):
    """The process of `program` among `pid` and those below it."""
    waiting = [pid]
    while waiting:
        pid = waiting.pop()
        if os.path.basename(os.readlink(f"/proc/{pid}/exe")) == os.path.basename(program):
            return pid
        waiting += [int(child) for child in open(f"/proc/{pid}/task/{pid}/children").read().split()]
    sys.exit(f"{program} is not running")


def heap(recorded):
    """Where the heap came from at its peak."""
    report = subprocess.run(["heaptrack_print", "-p", "1", "-a", "0", "-l", "0", "-T", "0", recorded], capture_output=True, text=True)
    return report.stdout


def system_calls(pid, seconds):
    """How often each system call is made in some seconds; slows the process down, so it is a window of its own."""
    with tempfile.NamedTemporaryFile("r") as out:
        tracer = subprocess.Popen(["strace", "-f", "-c", "-U", "calls,name", "-o", out.name, "-p", str(pid)], stderr=subprocess.DEVNULL)
        time.sleep(seconds)
        tracer.send_signal(signal.SIGINT)
        tracer.wait(30)
        calls = {}
        for line in out.read().splitlines():
            words = line.split()
            if len(words) == 2 and words[0].isdigit() and words[1] != "total":
                calls[words[1]] = int(words[0])
        return calls


def measure(a):
    root = tempfile.mkdtemp(prefix="profile-")
    os.makedirs(a.out, exist_ok=True)
    process = None
    try:
        config = databases(root, a.n)
        touched = [sqlite3.connect(f"{root}/db{i:05}.db", isolation_level=None, timeout=10) for i in range(a.touch)]
        log = open(f"{a.out}/log.txt", "wb")
        began = time.monotonic()
        argv = [word.replace("{config}", config) for word in a.command]
        if a.heap:
            argv = ["heaptrack", "-o", f"{root}/heap"] + argv
        process = subprocess.Popen(argv, stdout=log, stderr=log)
        pid = process.pid
        pending = without_replica(f"{root}/replica/{i:05}" for i in range(a.n))
        while pending := without_replica(pending):
            if process.poll() is not None:
                sys.exit(f"the command ended with {process.returncode}, see {a.out}/log.txt")
            if time.monotonic() - began > 600:
                sys.exit(f"after ten minutes {len(pending)} of {a.n} databases have no base")
            time.sleep(0.1)
        started = time.monotonic() - began
        time.sleep(a.settle)
        if a.heap:
            # Heaptrack is a script; the program is below it.
            pid = tracked(process.pid, a.command[0])

        perf = None
        if a.perf:
            perf = subprocess.Popen(["perf", "record", "-q", "-F", "199", "-g", "-o", f"{root}/perf.data", "-p", str(pid)])
        first = last = look(pid)
        samples, end = [], first["at"] + a.seconds
        next_sample, next_touch = first["at"] + SAMPLE, first["at"]
        while time.monotonic() < end:
            if touched and time.monotonic() >= next_touch:
                for db in touched:
                    db.execute("INSERT INTO t(v) VALUES (hex(randomblob(50)))")
                next_touch += 1
            if time.monotonic() >= next_sample:
                now = look(pid)
                samples.append(between(last, now))
                last, next_sample = now, next_sample + SAMPLE
            time.sleep(0.05)
        summary = {"command": a.command, "databases": a.n, "touched": a.touch, "all_protected_after_s": round(started, 2),
                   **between(first, look(pid))}
        if perf:
            perf.send_signal(signal.SIGINT)
            perf.wait(60)
            report = subprocess.run(["perf", "report", "-i", f"{root}/perf.data", "--stdio", "--no-children", "-g", "none"],
                                    capture_output=True, text=True)
            with open(f"{a.out}/perf.txt", "w") as f:
                f.write(report.stdout)
        if a.strace:
            calls = system_calls(pid, a.strace)
            summary["system_calls_per_s"] = round(sum(calls.values()) / a.strace, 2)
            summary["system_calls"] = calls
        for name, content in (("samples", samples), ("summary", summary), ("memory", memory(pid))):
            with open(f"{a.out}/{name}.json", "w") as f:
                json.dump(content, f, indent=1)
        if a.heap:
            os.kill(pid, signal.SIGTERM)
            process.wait(120)
            with open(f"{a.out}/heap.txt", "w") as f:
                f.write(heap(glob.glob(f"{root}/heap*")[0]))
        print(json.dumps(summary))
    finally:
        if process and process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
        shutil.rmtree(root, ignore_errors=True)


def compare(before, after):
    one, two = (json.load(open(f"{folder}/summary.json")) for folder in (before, after))
    print(f"{'':24}{os.path.basename(before):>14}{os.path.basename(after):>14}{'ratio':>9}")
    for key, old in one.items():
        new = two.get(key)
        if isinstance(old, (int, float)) and isinstance(new, (int, float)):
            ratio = f"{old / new:9.2f}" if new else ""
            print(f"{key:24}{old:>14}{new:>14}{ratio}")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--n", type=int, default=400)
    p.add_argument("--seconds", type=float, default=60)
    p.add_argument("--settle", type=float, default=10)
    p.add_argument("--touch", type=int, default=0)
    p.add_argument("--perf", action="store_true")
    p.add_argument("--heap", action="store_true")
    p.add_argument("--strace", type=float, default=0, metavar="SECONDS")
    p.add_argument("--out", default="profile")
    p.add_argument("--compare", nargs=2, metavar=("BEFORE", "AFTER"))
    p.add_argument("command", nargs=argparse.REMAINDER)
    a = p.parse_args()
    a.command = a.command[1:] if a.command[:1] == ["--"] else a.command
    if a.compare:
        return compare(*a.compare)
    if not a.command:
        p.error("a command is needed after --")
    measure(a)


main()
