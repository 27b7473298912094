#!/usr/bin/env python3
"""What a day costs in requests at a store with S3's prices, for one idle database and for one with a commit a second.

    cost.py --minutes 60 --server versitygw --tool 'seawall=seawall replicate --config {config}' \\
        --tool 'litestream=litestream replicate -config {config}'

All tools run at once, each with two databases of its own, against one S3 server (versitygw). After --settle seconds
what the server's access log tells is counted for --minutes, by database and by kind of request, and a day is that
count repeated; what happens less often than the window lasts (a daily snapshot) is not in it. Prices are those of S3 Standard in
us-east-1: $0.005 for 1,000 PUT, POST and LIST, $0.0004 for 1,000 GET and HEAD; deleting is free. Storage is not counted.
Prints one JSON object.
"""
import argparse, json, os, shlex, shutil, signal, socket, sqlite3, subprocess, sys, tempfile, time
from urllib.parse import parse_qs, urlsplit

KEY, SECRET, BUCKET = "seawall-bench", "not-a-secret-at-all", "harbour"
PRICES = {"PUT": 0.005e-3, "POST": 0.005e-3, "LIST": 0.005e-3, "GET": 0.0004e-3, "HEAD": 0.0004e-3, "DELETE": 0.0, "OTHER": 0.005e-3}
KINDS = [("Put", "PUT"), ("List", "LIST"), ("Get", "GET"), ("Head", "HEAD"), ("Delete", "DELETE"), ("Create", "POST"), ("Upload", "POST"),
         ("Complete", "POST"), ("Copy", "POST")]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def start_server(program, root):
    port, log = free_port(), f"{root}/access.log"
    for part in ("meta", f"objects/{BUCKET}"):
        os.makedirs(f"{root}/{part}")
    server = subprocess.Popen(
        [program, "--quiet", "--port", f"127.0.0.1:{port}", "--access-log", log, "posix", "--sidecar", f"{root}/meta", f"{root}/objects"],
        env={**os.environ, "ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(100):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return server, f"http://127.0.0.1:{port}", log
        except OSError:
            time.sleep(0.1)
    sys.exit("the S3 server did not start")


def database(path):
    db = sqlite3.connect(path, isolation_level=None, timeout=30)
    db.execute("PRAGMA journal_mode=wal")
    db.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT)")
    db.execute("INSERT INTO t(v) VALUES (hex(randomblob(50)))")
    return db


def start_tool(name, command, root, endpoint):
    folder = f"{root}/{name}"
    os.makedirs(folder)
    lines, dbs = ["dbs:"], {}
    for kind in ("idle", "active"):
        dbs[kind] = database(f"{folder}/{kind}.db")
        lines += [f"  - path: {folder}/{kind}.db", "    replica:", "      type: s3", f"      bucket: {BUCKET}",
                  f"      path: {name}/{kind}", f"      endpoint: {endpoint}", "      region: us-east-1",
                  "      force-path-style: true", f"      access-key-id: {KEY}", f"      secret-access-key: {SECRET}"]
    with open(f"{folder}/config.yml", "w") as f:
        f.write("\n".join(lines) + "\n")
    dbs["idle"].close()
    log = open(f"{folder}/log", "wb")
    argv = [word.replace("{config}", f"{folder}/config.yml") for word in shlex.split(command)]
    env = {name: value for name, value in os.environ.items() if name != "AWS_CA_BUNDLE"}
    return subprocess.Popen(argv, env=env, stdout=log, stderr=log), dbs["active"]


def request(line):
    """The database and the kind of a request, from a line of the access log (the format of S3's own)."""
    words = line.split()
    operation, url = words[7].removeprefix("s3_"), urlsplit(words[9])
    place = parse_qs(url.query).get("prefix", [url.path.strip("/").removeprefix(BUCKET)])[0]
    kind = next((kind for start, kind in KINDS if operation.startswith(start)), "OTHER")
    # The names of DeleteObjects are in its body: whose they are is not in the log.
    return "/".join(place.strip("/").split("/")[:2]) or "deletions", kind


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--minutes", type=float, default=60)
    p.add_argument("--settle", type=float, default=60)
    p.add_argument("--server", default="versitygw")
    p.add_argument("--tool", action="append", required=True, metavar="NAME=COMMAND")
    p.add_argument("--keep", action="store_true")
    a = p.parse_args()
    root, running = tempfile.mkdtemp(prefix="cost-"), []
    try:
        server, endpoint, log = start_server(a.server, root)
        running.append(server)
        names, writers = [], []
        for tool in a.tool:
            name, _, command = tool.partition("=")
            process, db = start_tool(name, command, root, endpoint)
            running.append(process)
            names.append(name)
            writers.append(db)
        began = next_commit = time.monotonic()
        start_line, commits = None, 0
        while time.monotonic() < began + a.settle + 60 * a.minutes:
            if start_line is None and time.monotonic() >= began + a.settle:
                start_line = sum(1 for _ in open(log))
            for db in writers:
                db.execute("INSERT INTO t(v) VALUES (hex(randomblob(50)))")
            commits += start_line is not None
            if any(process.poll() is not None for process in running):
                sys.exit(f"a process ended, see {root}")
            next_commit += 1
            time.sleep(max(0, next_commit - time.monotonic()))
        counted = {}
        with open(log) as f:
            for number, line in enumerate(f):
                if number >= start_line:
                    place, kind = request(line)
                    counted.setdefault(place, {}).setdefault(kind, 0)
                    counted[place][kind] += 1
        out = {"minutes": a.minutes, "commits": commits, "requests": counted, "dollars_a_day": {}}
        for name in names:
            for kind in ("idle", "active"):
                place = f"{name}/{kind}"
                price = sum(PRICES.get(method, 0) * count for method, count in counted.get(place, {}).items())
                out["dollars_a_day"][place] = round(price * 24 * 60 / a.minutes, 4)
        print(json.dumps(out))
    finally:
        for process in reversed(running):
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(40)
                except subprocess.TimeoutExpired:
                    process.kill()
        if a.keep:
            print(root, file=sys.stderr)
        else:
            shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
