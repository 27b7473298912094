#!/usr/bin/env python3
"""Reading a SQLite database in a bucket without a restore, by extensions for SQLite.

    view.py --mb 100 --delay-ms 20 --rounds 3 --server versitygw --seawall target/release/seawall \\
        --tool 'seawall=target/release/libseawall_vfs.so|seawall|vault' \\
        --tool 'litestream=litestream-vfs.so|litestream|replica_url'

A tool is NAME=LIBRARY|name of its file system|name of the parameter for the place. The database of --mb is put into the
bucket by `seawall replicate --once`, which both read. The server (versitygw) is reached through far.rs, which rustc
compiles; it counts each request by its kind and hands it on after --delay-ms. Needs a Python whose sqlite3 loads extensions.

  open      a new process: opens the database and reads one row by its key
  rows      the same process: 50 rows by random keys
  scan      a new process: opens it and reads every row
  idle      a new process: opens it, and asks for a count of one small table every 100 ms for 10 s

Each answer is compared with the database. Prints one JSON object: seconds (median), requests, and what differs.
"""
import argparse, json, os, random, sqlite3, statistics, subprocess, sys, tempfile, time

from places import BUCKET, KEY, SECRET, Proxy, build, start_server

CHILD = r"""
import json, random, sqlite3, sys, time
library, uri, what, seed, most = sys.argv[1:]
loader = sqlite3.connect(":memory:")
loader.enable_load_extension(True)
loader.load_extension(library)
begun = time.monotonic()
db = sqlite3.connect(uri, uri=True, isolation_level=None)
one = lambda key: db.execute("SELECT v FROM t WHERE id = ?", (key,)).fetchone()[0]
keys = random.Random(int(seed)).sample(range(1, int(most) + 1), 51)
told = {}
if what == "open":
    answer = [one(keys[0])]
    told["open"] = time.monotonic() - begun
    begun = time.monotonic()
elif what == "rows":
    answer = [one(keys[0])]
    begun = time.monotonic()
    answer += [one(key) for key in keys[1:]]
    told["rows"] = time.monotonic() - begun
elif what == "scan":
    answer = list(db.execute("SELECT count(*), sum(length(k)), sum(length(v)), max(v) FROM t NOT INDEXED").fetchone())
    told["scan"] = time.monotonic() - begun
else:
    end = begun + 10
    while time.monotonic() < end:
        answer = list(db.execute("SELECT count(*) FROM sqlite_schema").fetchone())
        time.sleep(0.1)
    told["idle"] = time.monotonic() - begun
print(json.dumps([told, answer]))
"""


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--mb", type=int, default=100)
    p.add_argument("--delay-ms", type=int, default=20)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--server", default="versitygw")
    p.add_argument("--seawall", default="seawall")
    p.add_argument("--python", default="python3")
    p.add_argument("--what", default="open,rows,scan,idle", help="which of them, with commas between")
    p.add_argument("--tool", action="append", required=True)
    a = p.parse_args()
    with tempfile.TemporaryDirectory(prefix="view-") as folder:
        print(json.dumps(measure(a, folder), indent=1))


def measure(a, folder):
    path = f"{folder}/app.db"
    build(path, a.mb)
    db = sqlite3.connect(path)
    most = db.execute("SELECT max(id) FROM t").fetchone()[0]
    server, port = start_server(a.server, f"{folder}/s3")
    os.environ |= {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "us-east-1",
                   "LITESTREAM_ACCESS_KEY_ID": KEY, "LITESTREAM_SECRET_ACCESS_KEY": SECRET, "LITESTREAM_LOG_LEVEL": "ERROR"}
    # The server speaks plain HTTP, and Go's client refuses the variable.
    os.environ.pop("AWS_CA_BUNDLE", None)
    proxy = None
    try:
        near = f"s3://{BUCKET}/app?endpoint=http://127.0.0.1:{port}"
        subprocess.run([a.seawall, "replicate", path, near, "--once"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for number in range(5):
            db.execute("UPDATE t SET k = ? WHERE id = ?", (f"changed {number}", number * 1000 + 1))
            db.commit()
            subprocess.run([a.seawall, "replicate", path, near, "--once"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        proxy = Proxy(port, a.delay_ms, folder)
        return {"mb": a.mb, "rows": most, "delay_ms": a.delay_ms, **{
            tool.split("=")[0]: of_tool(a, tool.split("=", 1)[1], proxy, db, most) for tool in a.tool}}
    finally:
        if proxy:
            proxy.stop()
        server.kill()


def of_tool(a, tool, proxy, db, most):
    library, vfs, parameter = tool.split("|")
    place = f"s3://{BUCKET}/app?endpoint={proxy.url}"
    if vfs == "litestream":
        # The environment takes what a URI would need escaped.
        os.environ["LITESTREAM_REPLICA_URL"] = place + "&force-path-style=true"
        uri = f"file:app.db?vfs={vfs}"
    else:
        uri = f"file:app.db?vfs={vfs}&{parameter}=" + place.replace("?", "%3F").replace("&", "%26")
    told = {}
    for what in a.what.split(","):
        times, requests = [], None
        for number in range(1 if what == "idle" else a.rounds):
            proxy.take()
            child = subprocess.run([a.python, "-c", CHILD, os.path.abspath(library), uri, what, str(number), str(most)],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=1800)
            if child.returncode < 0:
                return told | {"failed": f"{what}: signal {-child.returncode}"}
            if child.returncode:
                return told | {"failed": child.stderr.strip().splitlines()[-3:]}
            requests = {kind: count for kind, count in proxy.take().items() if count}
            seconds, answer = json.loads(child.stdout)
            times.append(seconds[what])
            keys = random.Random(number).sample(range(1, most + 1), 51)
            row = lambda key: db.execute("SELECT v FROM t WHERE id = ?", (key,)).fetchone()[0]
            expected = {
                "open": lambda: [row(keys[0])],
                "rows": lambda: [row(key) for key in keys],
                "scan": lambda: list(db.execute("SELECT count(*), sum(length(k)), sum(length(v)), max(v) FROM t NOT INDEXED").fetchone()),
                "idle": lambda: list(db.execute("SELECT count(*) FROM sqlite_schema").fetchone()),
            }[what]()
            if answer != expected:
                return told | {"failed": f"{what}: another answer than the database's"}
        told[what] = {"seconds": round(statistics.median(times), 3), "requests": requests}
    return told


if __name__ == "__main__":
    main()
