#!/usr/bin/env python3
"""How many threads a checksum is best read with: the sweep behind the default of `--jobs`.

    ltx_sweep.py --tool 'seawall ltx' --mb 512

Runs `checksum --jobs N` for each page size and number of threads, with a warm page cache and (after a sync, told to
forget the file) with a cold one, in turn, and prints GB/s of the median as tables in Markdown; behind the slash GB per
second of CPU. The last line says with how many threads each is at its best, and what the default comes to.
"""
import argparse, os, resource, shlex, sqlite3, statistics, subprocess, tempfile, time

THREADS = [1, 2, 4, 8, 16, 24, 32, 64, 128]
FILL = """WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
INSERT INTO t(k, v, b) SELECT 'key-' || hex(randomblob(5)), 'the quick brown fox ' || i || ' jumps over the lazy dog '
    || (i * 7919 % 1000) || ' and again', randomblob(60) FROM n"""


def build(path, mb, page_size):
    db = sqlite3.connect(path, isolation_level=None)
    db.executescript(f"""PRAGMA page_size={page_size}; PRAGMA journal_mode=off; PRAGMA synchronous=off;
        CREATE TABLE t(id INTEGER PRIMARY KEY, k TEXT, v TEXT, b BLOB);""")
    while db.execute("PRAGMA page_count").fetchone()[0] * page_size < mb << 20:
        db.execute(FILL)
    db.close()


def forget(path):
    """Drops a file from the page cache, as far as the system does what it is asked."""
    with open(path, "rb+") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def run(tool, path, jobs):
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([*tool, "checksum", *(["--jobs", str(jobs)] if jobs else []), path], check=True, stdout=subprocess.DEVNULL)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--tool", default="seawall ltx")
    arguments.add_argument("--mb", type=int, default=512)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--page-sizes", type=int, nargs="+", default=[512, 1024, 4096, 16384, 65536])
    arguments.add_argument("--dir")
    arguments = arguments.parse_args()
    tool, best = shlex.split(arguments.tool), {}
    print(f"{os.cpu_count()} processors, {arguments.mb} MB, median of {arguments.rounds}: GB/s / GB per CPU second\n")
    print("| pages, cache | default | " + " | ".join(map(str, THREADS)) + " |")
    print("|---" * (len(THREADS) + 2) + "|")
    with tempfile.TemporaryDirectory(dir=arguments.dir) as folder:
        for page_size in arguments.page_sizes:
            path = f"{folder}/{page_size}.db"
            build(path, arguments.mb, page_size)
            gigabytes = os.path.getsize(path) / 1e9
            for cache in ("warm", "cold"):
                run(tool, path, None)
                taken = {jobs: [] for jobs in [None, *THREADS]}
                for _ in range(arguments.rounds):
                    for jobs, times in taken.items():
                        if cache == "cold":
                            forget(path)
                        times.append(run(tool, path, jobs))
                cells = []
                for times in taken.values():
                    wall, cpu = (statistics.median(column) for column in zip(*times))
                    cells.append(f"{gigabytes / wall:.1f} / {gigabytes / max(cpu, 1e-3):.1f}")
                median = {jobs: statistics.median(wall for wall, _ in times) for jobs, times in taken.items()}
                fastest = min(THREADS, key=median.get)
                best[f"{page_size} {cache}"] = f"{fastest} ({median[None] / median[fastest]:.2f})"
                print(f"| {page_size}, {cache} | " + " | ".join(cells) + " |", flush=True)
            os.remove(path)
    print("\nfastest (and the default's time in multiples of it): " + ", ".join(f"{case}: {at}" for case, at in best.items()))


main()
