#!/usr/bin/env python3
"""A first copy, a restore and a restore of an earlier moment from a bucket far away, for any litestream-style replicator.

    places.py --mb 1024 --commits 2000 --delay-ms 20 --rounds 3 --server versitygw \\
        --tool 'seawall=seawall|replicate --config {config}|restore --config {config} -o {out} {db}|--at {moment}' \\
        --tool 'litestream=litestream|replicate -config {config}|restore -config {config} -o {out} {db}|-timestamp {moment}'

A tool is NAME=PROGRAM|how it replicates|how it restores|what a restore of a moment adds. The server (versitygw) is reached
through far.rs, which rustc compiles; it counts each request by its kind and hands it on after --delay-ms.

  copy      a database of --mb exists; from the start of a tool until its complete copy is in the bucket
  commits   the first tool goes on, without the proxy, until --commits files of level 0 are in its part of the bucket; no
            level above 0 is made. The database is compared with what is restored
  restore   each tool restores the newest state of that one vault, in turn, --rounds times
  moment    each tool restores the moment of the middle commit, in the same way

Wall and CPU (user and system) are the tool's own process. All that is restored must be equal, byte for byte, but for the
numbers by which SQLite counts changes of a file. Prints one JSON object.
"""
import argparse, datetime, glob, json, os, shlex, shutil, signal, socket, sqlite3, statistics, subprocess, sys, tempfile, time

KEY, SECRET, BUCKET = "seawall-bench", "not-a-secret-at-all", "harbour"


class Proxy:
    """Hands requests on to a server, each after a delay of so many milliseconds, and counts them: far.rs."""

    def __init__(self, port, delay, folder):
        program = f"{folder}/far"
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "far.rs")
        subprocess.run(["rustc", "--edition", "2024", "-O", "-o", program, source], check=True)
        self.process = subprocess.Popen([program, str(port), str(delay)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.url = "http://127.0.0.1:" + self.process.stdout.readline().strip()

    def take(self):
        """The counts since the last call."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        words = self.process.stdout.readline().split()
        return {kind: int(count) for kind, count in (word.split("=") for word in words)}

    def stop(self):
        self.process.stdin.close()
        self.process.wait()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def start_server(program, root):
    port = free_port()
    for part in ("meta", f"objects/{BUCKET}"):
        os.makedirs(f"{root}/{part}")
    server = subprocess.Popen(
        [program, "--quiet", "--port", f"127.0.0.1:{port}", "posix", "--sidecar", f"{root}/meta", f"{root}/objects"],
        env={**os.environ, "ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(100):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return server, port
        except OSError:
            time.sleep(0.1)
    sys.exit("the S3 server did not start")


def build(path, mb):
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode=wal")
    db.execute("PRAGMA synchronous=off")
    db.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, k TEXT, v TEXT)")
    db.execute("CREATE INDEX t_k ON t(k)")
    while db.execute("PRAGMA page_count").fetchone()[0] * 4096 < mb << 20:
        db.execute("""WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < 40000)
                      INSERT INTO t(k,v) SELECT hex(randomblob(8)), hex(randomblob(90)) || printf('%0180d', i) FROM n""")
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()


def config(path, db, part, endpoint):
    with open(path, "w") as f:
        f.write("\n".join([
            "snapshot:", "  interval: 24h", "levels:", "  - interval: 24h", "l0-retention: 0s", "dbs:", f"  - path: {db}", "    monitor-interval: 5ms",
            "    replica:", "      type: s3", f"      bucket: {BUCKET}", f"      path: {part}", f"      endpoint: {endpoint}",
            "      region: us-east-1", "      force-path-style: true", f"      access-key-id: {KEY}", f"      secret-access-key: {SECRET}",
            "      sync-interval: 5ms"]) + "\n")


def environment():
    return {name: value for name, value in os.environ.items() if name != "AWS_CA_BUNDLE"}


def cpu(pid):
    with open(f"/proc/{pid}/stat") as f:
        words = f.read().rsplit(")", 1)[1].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def objects(root, part, level):
    return glob.glob(f"{root}/objects/{BUCKET}/{part}/{level:04x}/*.ltx")


def stop(process):
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_for(condition, seconds, what):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            sys.exit(f"{what} did not happen within {seconds} s")
        time.sleep(0.01)


def page_numbers_aside(path):
    """The file's bytes, without the counters in its header that each checkpoint changes."""
    import hashlib
    digest = hashlib.sha256()
    with open(path, "rb") as f:
        head = bytearray(f.read(100))
        for start, end in ((24, 28), (92, 100)):
            head[start:end] = bytes(end - start)
        digest.update(head)
        while piece := f.read(4 << 20):
            digest.update(piece)
    return digest.hexdigest()


class Tool:
    def __init__(self, text):
        self.name, _, commands = text.partition("=")
        self.program, self.replicate, self.restore, self.at = commands.split("|")

    def run(self, root, command, log, **names):
        words = [self.program, *shlex.split(command)]
        for name, value in names.items():
            words = [word.replace("{%s}" % name, value) for word in words]
        return subprocess.Popen(words, env=environment(), stdout=log, stderr=log)


def copy(tool, root, proxy, db, log):
    """The complete copy of the database, and the process that goes on."""
    path = f"{root}/{tool.name}-far.yml"
    config(path, db, tool.name, proxy.url)
    proxy.take()
    began = time.monotonic()
    process = tool.run(root, tool.replicate, log, config=path)
    # A copy lies in level 0 (Litestream) or in both (Seawall): the last is there when the tool asks for nothing more.
    wait_for(lambda: objects(root, tool.name, 0), 600, f"the first copy of {tool.name}")
    size, since = -1, time.monotonic()
    while time.monotonic() - since < 1.5:
        found = sum(os.path.getsize(f) for level in (0, 9) for f in objects(root, tool.name, level))
        if found != size:
            size, since = found, time.monotonic()
        time.sleep(0.02)
    seen = {"wall_s": round(since - began, 2), "cpu_s": round(cpu(process.pid), 2), "requests": proxy.take(), "mb": size >> 20}
    stop(process)
    proxy.take()
    return seen


def commit_until(tool, root, port, db, count, log):
    """Commits, one object each, until there are so many files of level 0; gives the moment of the middle one."""
    path = f"{root}/{tool.name}-near.yml"
    config(path, db, tool.name, f"http://127.0.0.1:{port}")
    process = tool.run(root, tool.replicate, log, config=path)
    writer = sqlite3.connect(db, isolation_level=None, timeout=30)
    middle, seen = None, len(objects(root, tool.name, 0))
    while seen < count:
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("INSERT INTO t(k,v) VALUES (hex(randomblob(8)), hex(randomblob(200)))")
        writer.execute("UPDATE t SET v = v || 'x' WHERE id = 1 + abs(random()) % 1000000")
        writer.execute("COMMIT")
        if process.poll() is not None:
            sys.exit(f"{tool.name} ended while it replicated")
        before = seen
        wait_for(lambda: len(objects(root, tool.name, 0)) > before, 60, "the upload of a commit")
        seen = len(objects(root, tool.name, 0))
        if middle is None and seen >= count // 2:
            time.sleep(0.05)
            middle = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
            time.sleep(0.05)
    stop(process)
    writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    writer.close()
    return middle


def restore(tool, root, part, proxy, db, moment, log):
    path, out = f"{root}/{tool.name}-restore.yml", f"{root}/{tool.name}.out"
    config(path, db, part, proxy.url)
    for left in glob.glob(out + "*"):
        os.remove(left)
    command = tool.restore
    if moment:
        command = command.replace("{db}", tool.at + " {db}")
    proxy.take()
    began = time.monotonic()
    process = tool.run(root, command, log, config=path, db=db, out=out, moment=moment or "")
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.monotonic() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{tool.name} did not restore; see the log:\n" + open(log.name).read()[-2000:])
    counts = proxy.take()
    return {"wall_s": round(wall, 2), "cpu_s": round(usage.ru_utime + usage.ru_stime, 2),
            "requests": counts}, page_numbers_aside(out)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--mb", type=int, default=1024)
    p.add_argument("--commits", type=int, default=2000)
    p.add_argument("--delay-ms", type=float, default=20)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--server", default="versitygw")
    p.add_argument("--tool", action="append", required=True, metavar="NAME=PROGRAM|REPLICATE|RESTORE|AT")
    p.add_argument("--dir")
    p.add_argument("--keep", action="store_true")
    a = p.parse_args()
    root, server, proxy = tempfile.mkdtemp(prefix="places-", dir=a.dir), None, None
    tools = [Tool(text) for text in a.tool]
    log = open(f"{root}/log", "wb")
    try:
        server, port = start_server(a.server, root)
        proxy = Proxy(port, a.delay_ms, root)
        base = f"{root}/base.db"
        build(base, a.mb)
        out = {"mb": os.path.getsize(base) >> 20, "copy": {}, "restore": {}, "moment": {}}
        for tool in tools:
            db = f"{root}/{tool.name}.db"
            shutil.copy(base, db)
            out["copy"][tool.name] = copy(tool, root, proxy, db, log)
        maker = tools[0]
        db = f"{root}/{maker.name}.db"
        middle = commit_until(maker, root, port, db, a.commits, log)
        out["objects"] = {level: len(objects(root, maker.name, level)) for level in range(10) if objects(root, maker.name, level)}
        out["level_0_kb"] = sum(os.path.getsize(f) for f in objects(root, maker.name, 0)) >> 10
        results = {}
        for _ in range(a.rounds):
            for what, moment in (("restore", None), ("moment", middle)):
                for tool in tools:
                    seen, digest = restore(tool, root, maker.name, proxy, db, moment, log)
                    out[what].setdefault(tool.name, []).append(seen)
                    results.setdefault(what, set()).add(digest)
        out["equal"] = all(len(found) == 1 for found in results.values()) and page_numbers_aside(db) in results["restore"]
        if len(tools) == 2:
            one, other = (tool.name for tool in tools)
            for what in ("restore", "moment"):
                ratio = lambda key: round(statistics.median(o[key] / s[key] for s, o in zip(out[what][one], out[what][other])), 1)
                out[what]["ratio"] = {"wall": ratio("wall_s"), "cpu": ratio("cpu_s")}
        print(json.dumps(out, indent=1))
    finally:
        if proxy:
            proxy.stop()
        if server:
            stop(server)
        if a.keep:
            print(root, file=sys.stderr)
        else:
            shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
