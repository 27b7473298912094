#!/usr/bin/env python3
"""Thousands of SQLite databases in one process, some of them busy: its start, its work, its stop, its next start, and restores.

    scale.py sqlite --n 10000 --busy 100 --seconds 60 --restore 'seawall restore --config {config} -o {out} {db}' \\
        -- seawall replicate --config {config}
    scale.py sqlite --n 10000 --busy 100 --seconds 60 --restore 'litestream restore -config {config} -o {out} {db}' \\
        -- litestream replicate -config {config}

{config} is a litestream-style YAML file with --n databases in WAL mode, all in one folder, or with --spread each in its own. Vaults are
folders, or with --server versitygw parts of a bucket; then far.rs counts requests. --nofile limits the descriptors of the process.

  start     until each database has an object, or none came for --patience seconds: then `unprotected` tells how many have none, and
            `silent` how many of these no warning or error of the log names
  work      --busy databases get a commit each second, for --seconds; then one commit into each of ten others, one after the other:
            how long it took until each was in the vault
  storm     each protected database gets a commit, as fast as one writer can: until all are in the vault
  stop      by SIGTERM
  restart   each database got a commit while nothing ran: until each has one more object
  restore   --restore of ten databases, one after the other; the rows are compared

Prints one JSON object a step. Files are in --dir, or in the temporary folder.
"""
import argparse, json, os, resource, shlex, shutil, signal, sqlite3, statistics, subprocess, sys, tempfile, time

import places, proc


class Fleet:
    """The databases, their places in the vault, and the process."""

    def __init__(self, a, root):
        self.a, self.root, self.proxy, self.process = a, root, None, None
        self.replicas = f"{root}/objects/{places.BUCKET}" if a.server else f"{root}/replica"
        self.log = f"{root}/log"
        template = f"{root}/template.db"
        db = sqlite3.connect(template, isolation_level=None)
        db.execute("PRAGMA journal_mode=wal")
        db.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT)")
        db.execute("INSERT INTO t(v) VALUES (hex(randomblob(50)))")
        db.close()
        self.paths = [self.path(n) for n in range(a.n)]
        for path in self.paths:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            shutil.copyfile(template, path)

    def path(self, n):
        return f"{self.root}/dbs/{n:05}/db{n:05}.db" if self.a.spread else f"{self.root}/dbs/db{n:05}.db"

    def serve(self):
        self.server, port = places.start_server(self.a.server, self.root)
        self.proxy = places.Proxy(port, 0, self.root)

    def config(self):
        lines = ["dbs:"]
        for n, path in enumerate(self.paths):
            lines += [f"  - path: {path}", "    replica:"]
            if self.proxy:
                lines += ["      type: s3", f"      bucket: {places.BUCKET}", f"      path: {n:05}", f"      endpoint: {self.proxy.url}",
                          "      region: us-east-1", "      force-path-style: true", f"      access-key-id: {places.KEY}",
                          f"      secret-access-key: {places.SECRET}"]
            else:
                lines += ["      type: file", f"      path: {self.replicas}/{n:05}"]
        with open(f"{self.root}/config.yml", "w") as f:
            f.write("\n".join(lines) + "\n")

    def objects(self, n, least=1):
        """How many objects of level 0 a database has, or `least` if there are as many."""
        level = f"{self.replicas}/{n:05}/" + ("0000" if self.proxy else "ltx/0")
        try:
            with os.scandir(level) as found:
                count = 0
                for one in found:
                    count += one.name.endswith(".ltx")
                    if count >= least:
                        break
                return count
        except OSError:
            return 0

    def start(self, command):
        def limit():
            if self.a.nofile:
                resource.setrlimit(resource.RLIMIT_NOFILE, (min(1024, self.a.nofile), self.a.nofile))
        words = [word.replace("{config}", f"{self.root}/config.yml") for word in command]
        self.process = subprocess.Popen(words, stdout=open(self.log, "wb"), stderr=subprocess.STDOUT, preexec_fn=limit,
                                        env=places.environment())
        self.begun = time.monotonic()
        return proc.Most(self.process.pid)

    def until(self, wanted):
        """The databases that don't have `wanted[n]` objects when all have, or none came for some time, or the process has ended."""
        missing, last = list(range(self.a.n)), time.monotonic()
        while missing and self.process.poll() is None:
            before = len(missing)
            missing = [n for n in missing if self.objects(n, wanted[n]) < wanted[n]]
            if len(missing) < before:
                last = time.monotonic()
            elif time.monotonic() - last > self.a.patience:
                break
            time.sleep(0.25)
        self.took = last - self.begun
        return missing

    def figures(self, most):
        pid = self.process.pid
        if self.process.poll() is not None:
            tail = open(self.log, errors="replace").read()[-600:]
            return {"ended_with": self.process.returncode, "log": tail, "most": most.most}
        found = {"cpu_s": round(proc.cpu(pid), 2), **proc.memory(pid), "most": most.most, "fds": len(os.listdir(f"/proc/{pid}/fd")),
                 "of_them": proc.descriptors(pid), "watches": proc.watches(pid), "threads": proc.threads(pid), "maps": proc.maps(pid)}
        if self.proxy:
            found["requests"] = self.proxy.take()
        return found

    def silent(self, missing):
        """How many of these databases no line of the log with a warning or an error names."""
        named = set()
        with open(self.log, errors="replace") as f:
            for line in f:
                if any(word in line for word in ("ERROR", "WARN", "error", "rror:")):
                    named.update(word[:7] for word in line.replace("/", " ").replace("=", " ").replace('"', " ").split() if word[:2] == "db")
        return sum(f"db{n:05}" not in named for n in missing)

    def commit(self, numbers, sync=True):
        for n in numbers:
            db = sqlite3.connect(self.paths[n], isolation_level=None, timeout=30)
            if not sync:
                db.execute("PRAGMA synchronous=off")
            db.execute("INSERT INTO t(v) VALUES (hex(randomblob(50)))")
            db.close()

    def wake(self):
        """One commit into each of ten silent databases: how long it took until each was in the vault."""
        took = []
        some = [n for n in range(self.a.busy, self.a.n, max(1, self.a.n // 10)) if self.objects(n)][:10]
        for n in some:
            before = self.objects(n, 1 << 30)
            self.commit([n])
            begun = time.monotonic()
            while self.objects(n, 1 << 30) == before and time.monotonic() < begun + 15:
                time.sleep(0.001)
            took.append(time.monotonic() - begun)
        return {"wake_s_median": round(statistics.median(took), 3), "wake_s_most": round(max(took), 3)} if took else {}

    def end(self):
        if self.process.poll() is not None:
            return None
        begun = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(300)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        return round(time.monotonic() - begun, 2)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--n", type=int, default=10000)
    p.add_argument("--busy", type=int, default=100)
    p.add_argument("--seconds", type=float, default=60)
    p.add_argument("--patience", type=float, default=60)
    p.add_argument("--spread", action="store_true")
    p.add_argument("--server")
    p.add_argument("--nofile", type=int)
    p.add_argument("--restore")
    p.add_argument("--dir")
    p.add_argument("--keep", action="store_true")
    p.add_argument("command", nargs=argparse.REMAINDER)
    a = p.parse_args()
    command = a.command[1:] if a.command[:1] == ["--"] else a.command
    root = tempfile.mkdtemp(prefix="scale-", dir=a.dir)
    say = lambda **found: print(json.dumps(found), flush=True)
    fleet = Fleet(a, root)
    try:
        if a.server:
            fleet.serve()
        fleet.config()
        most = fleet.start(command)
        missing = fleet.until([1] * a.n)
        say(step="start", databases=a.n, protected_s=round(fleet.took, 1), unprotected=len(missing), silent=fleet.silent(missing),
            **fleet.figures(most))
        if fleet.process.poll() is None:
            writers = [sqlite3.connect(path, isolation_level=None, timeout=30) for path in fleet.paths[:a.busy]]
            pid, before, begun, second = fleet.process.pid, proc.cpu(fleet.process.pid), time.monotonic(), 0
            while time.monotonic() < begun + a.seconds:
                for db in writers:
                    db.execute("INSERT INTO t(v) VALUES (hex(randomblob(50)))")
                second += 1
                time.sleep(max(0, begun + second - time.monotonic()))
            used, span = proc.cpu(pid) - before, time.monotonic() - begun
            found = fleet.figures(most)
            say(step="work", busy=a.busy, commits=second * a.busy, cpu_percent=round(100 * used / span, 2), **found, **fleet.wake())
            for db in writers:
                db.close()
            protected = [n for n in range(a.n) if n not in set(missing)]
            wanted = [fleet.objects(n, 1 << 30) + (n not in set(missing)) for n in range(a.n)]
            before, fleet.begun = proc.cpu(pid), time.monotonic()
            most.most = {key: 0 for key in most.most}
            fleet.commit(protected, sync=False)
            committed = round(time.monotonic() - fleet.begun, 1)
            late = fleet.until(wanted)
            say(step="storm", committed_s=committed, all_in_the_vault_s=round(fleet.took, 1), late=len(late),
                cpu_in_it_s=round(proc.cpu(pid) - before, 2) if fleet.process.poll() is None else None, **fleet.figures(most))
            stopped = fleet.end()
            say(step="stop", stopped_s=stopped, exit=fleet.process.returncode, log=open(fleet.log, errors="replace").read()[-300:])
            fleet.commit(range(a.n), sync=False)
            wanted = [fleet.objects(n, 1 << 30) + 1 for n in range(a.n)]
            if fleet.proxy:
                fleet.proxy.take()
            most = fleet.start(command)
            missing = fleet.until(wanted)
            say(step="restart", protected_s=round(fleet.took, 1), unprotected=len(missing), silent=fleet.silent(missing),
                **fleet.figures(most))
            fleet.end()
            protected = [n for n in protected if n not in set(missing)]
            if a.restore and protected:
                took, log = [], open(f"{root}/restore.log", "wb")
                for n in protected[::max(1, len(protected) // 10)][:10]:
                    out = f"{root}/out-{n}.db"
                    words = [w.replace("{config}", f"{root}/config.yml").replace("{out}", out).replace("{db}", fleet.paths[n])
                             for w in shlex.split(a.restore)]
                    took.append(proc.timed(words, log, places.environment()))
                    rows = [sqlite3.connect(path).execute("SELECT * FROM t ORDER BY id").fetchall() if os.path.exists(path) else None
                            for path in (out, fleet.paths[n])]
                    took[-1]["equal"] = rows[0] == rows[1]
                middle = lambda key: round(statistics.median(one[key] for one in took), 2)
                say(step="restore", databases=len(took), wall_s=middle("wall_s"), cpu_s=middle("cpu_s"), rss_mb=middle("rss_mb"),
                    anon_mb=middle("anon_mb"), equal=sum(one["equal"] for one in took), exits=[one["exit"] for one in took])
    finally:
        fleet.process and fleet.end()
        if fleet.proxy:
            fleet.proxy.stop()
            fleet.server.kill()
            fleet.server.wait()
        if a.keep:
            print(root, file=sys.stderr)
        else:
            subprocess.run(["rm", "-rf", root])


if __name__ == "__main__":
    main()
