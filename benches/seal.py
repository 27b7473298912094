#!/usr/bin/env python3
"""What encryption costs: the same work on a plain vault and on an encrypted one, a folder each, in turn.

    seal.py --mb 1024 --rounds 5 --program target/release/seawall --age-keygen age-keygen

  copy      `replicate --once` of a database of --mb that no vault has yet
  restore   the newest state, from that vault
  commits   a running `replicate`, while a writer commits --commits transactions of some 40 pages each as fast as it can,
            until `sync` has answered: CPU of the replicator, and the writer's wall time
  idle      a running `replicate` of --idle databases, with nothing written for --seconds: CPU of the replicator

Wall and CPU (user and system) are the program's own. Each restored file is compared with the source, but for the numbers by
which SQLite counts changes. The order changes from round to round. `ratio` is encrypted divided by plain, of the medians.
Prints one JSON object.
"""
import argparse, json, os, shutil, signal, sqlite3, statistics, subprocess, sys, tempfile, time

from places import page_numbers_aside


def build(path, mb):
    """A database of which about half compresses."""
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode=wal")
    db.execute("PRAGMA synchronous=off")
    db.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, k TEXT, v TEXT)")
    while db.execute("PRAGMA page_count").fetchone()[0] * 4096 < mb << 20:
        db.execute("""WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < 40000)
                      INSERT INTO t(k,v) SELECT hex(randomblob(8)), hex(randomblob(90)) || printf('%0180d', i) FROM n""")
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()


def run(words, environment):
    """Wall and CPU of a program that must succeed."""
    began = time.monotonic()
    process = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    text = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(words)} failed:\n{text.decode(errors='replace')[-2000:]}")
    return {"wall_s": time.monotonic() - began, "cpu_s": usage.ru_utime + usage.ru_stime}


def cpu(pid):
    """CPU time of all threads in seconds, to the nanosecond."""
    tasks = f"/proc/{pid}/task"
    return sum(int(open(f"{tasks}/{t}/schedstat").read().split()[0]) for t in os.listdir(tasks)) / 1e9


class Side:
    def __init__(self, a, root, name, recipient):
        self.program, self.root, self.name = a.program, f"{root}/{name}", name
        self.recipient = ["--recipient", recipient] if recipient else []
        self.environment = {**os.environ, "XDG_STATE_HOME": f"{self.root}/state", "SEAWALL_IDENTITY_FILE": f"{root}/key"}
        if not recipient:
            del self.environment["SEAWALL_IDENTITY_FILE"]
        os.makedirs(self.root)

    def fresh(self):
        shutil.rmtree(self.root)
        os.makedirs(self.root)

    def start(self, source, *more):
        socket = f"{self.root}/socket"
        process = subprocess.Popen([self.program, "replicate", source, f"{self.root}/vault", "--socket", socket, *self.recipient, *more],
                                   env=self.environment, stdout=subprocess.DEVNULL, stderr=open(f"{self.root}/log", "wb"))
        end = time.monotonic() + 60
        while not os.path.exists(socket):
            if time.monotonic() > end or process.poll() is not None:
                sys.exit("replicate did not start:\n" + open(f"{self.root}/log").read()[-2000:])
            time.sleep(0.02)
        return process, socket

    def copy(self, source):
        self.fresh()
        own = shutil.copy(source, f"{self.root}/source.db")
        os.sync()
        return run([self.program, "replicate", "--once", own, f"{self.root}/vault", *self.recipient], self.environment)

    def restore(self, source):
        out = f"{self.root}/out.db"
        if os.path.exists(out):
            os.remove(out)
        seen = run([self.program, "restore", f"{self.root}/vault", "-o", out], self.environment)
        if page_numbers_aside(out) != page_numbers_aside(source):
            sys.exit(f"{self.name}: the restored file differs")
        return seen

    def commits(self, count):
        self.fresh()
        source = f"{self.root}/busy.db"
        build(source, 64)
        process, socket = self.start(source)
        run([self.program, "sync", source, "--wait", "--timeout", "600", "--socket", socket], self.environment)
        before, began = cpu(process.pid), time.monotonic()
        db = sqlite3.connect(source, isolation_level=None, timeout=60)
        for _ in range(count):
            db.execute("BEGIN IMMEDIATE")
            db.execute("""WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < 400)
                          INSERT INTO t(k,v) SELECT hex(randomblob(8)), hex(randomblob(90)) || printf('%0180d', i) FROM n""")
            db.execute("COMMIT")
        written = time.monotonic() - began
        run([self.program, "sync", source, "--wait", "--timeout", "600", "--socket", socket], self.environment)
        seen = {"wall_s": time.monotonic() - began, "cpu_s": cpu(process.pid) - before, "writer_s": written}
        db.close()
        stop(process)
        return seen

    def idle(self, count, seconds):
        self.fresh()
        folder = f"{self.root}/many"
        os.makedirs(folder)
        for i in range(count):
            db = sqlite3.connect(f"{folder}/{i:04}.db", isolation_level=None)
            db.execute("PRAGMA journal_mode=wal")
            db.execute("CREATE TABLE t(v)")
            db.close()
        process, _ = self.start(folder)
        time.sleep(20)
        before = cpu(process.pid)
        time.sleep(seconds)
        seen = {"cpu_s": cpu(process.pid) - before}
        seen["percent_of_a_core"] = 100 * seen["cpu_s"] / seconds
        stop(process)
        return seen


def stop(process):
    process.send_signal(signal.SIGTERM)
    if process.wait(60):
        sys.exit(f"replicate ended with {process.returncode}")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--mb", type=int, default=1024)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--commits", type=int, default=500)
    p.add_argument("--idle", type=int, default=400)
    p.add_argument("--seconds", type=float, default=60)
    p.add_argument("--program", default="seawall")
    p.add_argument("--age-keygen", default="age-keygen")
    p.add_argument("--dir")
    a = p.parse_args()
    root = tempfile.mkdtemp(prefix="seal-", dir=a.dir)
    try:
        subprocess.run([a.age_keygen, "-o", f"{root}/key"], check=True, capture_output=True)
        recipient = subprocess.run([a.age_keygen, "-y", f"{root}/key"], check=True, capture_output=True, text=True).stdout.strip()
        sides = [Side(a, root, "plain", None), Side(a, root, "encrypted", recipient)]
        source = f"{root}/source.db"
        build(source, a.mb)
        rounds = {"copy": {}, "restore": {}, "commits": {}, "idle": {}}
        for n in range(a.rounds):
            for side in sides if n % 2 == 0 else reversed(sides):
                rounds["copy"].setdefault(side.name, []).append(side.copy(source))
                rounds["restore"].setdefault(side.name, []).append(side.restore(source))
                rounds["commits"].setdefault(side.name, []).append(side.commits(a.commits))
                print(json.dumps({part: found[side.name][-1] for part, found in rounds.items() if side.name in found}), file=sys.stderr)
        if a.idle:
            for side in sides:
                rounds["idle"][side.name] = [side.idle(a.idle, a.seconds)]
        out = {"mb": os.path.getsize(source) >> 20, "rounds": a.rounds}
        for part, found in rounds.items():
            if not found:
                continue
            out[part] = {name: {key: round(statistics.median(one[key] for one in all), 4) for key in all[0]} for name, all in found.items()}
            out[part]["ratio"] = {key: round(out[part]["encrypted"][key] / out[part]["plain"][key], 3) for key in out[part]["plain"]
                                  if out[part]["plain"][key]}
        print(json.dumps(out, indent=1))
    finally:
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
