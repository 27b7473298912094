#!/usr/bin/env python3
"""How long a recovery of many segments takes from a bucket far away, with and without segments that are got ahead.

    recovery.py --seawall target/release/seawall --segments 60 --delay-ms 20 --rounds 3

Starts its own server and an S3 server (versitygw). The server archives --segments segments with `seawall wal push`. Then
a base of pg_basebackup is recovered to the end of that log through far.rs, a proxy that holds each request up for
--delay-ms and counts it: once with `wal fetch --ahead 0`, once as `wal fetch` is by default, each with the timeline named
and without, in turn, --rounds times. Each recovered table is compared with the source. Prints one JSON object a case: the
median of the seconds from the start of the server to the end of its recovery, and the requests of the last round.
"""
import argparse, json, os, shutil, statistics, subprocess, sys, tempfile, time

from places import BUCKET, KEY, SECRET, Proxy, start_server
from postgres import BIN, Server, sql

CASES = {"one by one": "--ahead 0 --timeline 1", "ahead": "--timeline 1", "one by one, newest timeline": "--ahead 0", "ahead, newest timeline": ""}

def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--seawall", required=True); a.add_argument("--segments", type=int, default=60); a.add_argument("--delay-ms", type=float, default=20)
    a.add_argument("--rounds", type=int, default=3); a.add_argument("--server", default="versitygw")
    a = a.parse_args(); seawall = os.path.abspath(a.seawall)
    root = tempfile.mkdtemp(prefix="bucket-"); store, port = start_server(a.server, root); proxy = Proxy(port, a.delay_ms, root)
    as_user = ["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []
    # The servers get it from here, and their commands from them.
    os.environ.update(AWS_ACCESS_KEY_ID=KEY, AWS_SECRET_ACCESS_KEY=SECRET); os.environ.pop("AWS_CA_BUNDLE", None)
    vault = lambda url: f"s3://{BUCKET}/main?endpoint={url}&region=us-east-1"
    server = Server(); d = server.dir
    run = lambda *words: subprocess.run(as_user + list(words), check=True, stdout=subprocess.DEVNULL, cwd=d)
    try:
        with open(f"{d}/data/postgresql.auto.conf", "a") as auto:
            auto.write(f"wal_level=replica\narchive_mode=on\narchive_command='{seawall} wal push %p --vault \"{vault(f'http://127.0.0.1:{port}')}\"'\nshared_buffers=256MB\n")
        run(f"{BIN}/pg_ctl", "-D", f"{d}/data", "-w", "-m", "fast", "stop"); run(f"{BIN}/pg_ctl", "-D", f"{d}/data", "-w", "-l", f"{d}/log2", "start")
        sql("postgres", "CREATE TABLE t(tx int, n int, filler text)")
        run(f"{BIN}/pg_basebackup", "-h", d, "-p", str(server.port), "-U", "postgres", "-c", "fast", "-X", "none", "--no-sync", "-D", f"{d}/base")
        done = lambda: int(sql("postgres", "SELECT trunc((pg_current_wal_lsn() - '0/0') / 16777216)::bigint")); first, tx = done(), 0
        while done() - first < a.segments:
            tx += 1; sql("postgres", f"INSERT INTO t SELECT {tx}, n, md5(random()::text) || repeat(md5(n::text), 3) FROM generate_series(1, 20000) n")
        content = sql("postgres", "SELECT count(*), sum(hashtextextended(t::text, 0)) FROM t"); last = sql("postgres", "SELECT pg_walfile_name(pg_switch_wal())")
        while sql("postgres", f"SELECT coalesce(last_archived_wal >= '{last}', false) FROM pg_stat_archiver") != "t": time.sleep(0.1)
        subprocess.run(as_user + [f"{BIN}/pg_ctl", "-D", f"{d}/data", "-m", "immediate", "-w", "stop"], stdout=subprocess.DEVNULL)
        found, counts = {case: [] for case in CASES}, {}
        for _ in range(a.rounds):
            for case, flags in CASES.items():
                back = f"{d}/back"; shutil.rmtree(back, ignore_errors=True); run("cp", "-a", f"{d}/base", back); run("touch", f"{back}/recovery.signal")
                with open(f"{back}/postgresql.auto.conf", "a") as auto:
                    auto.write(f"archive_mode=off\nrestore_command='{seawall} wal fetch %f %p --vault \"{vault(proxy.url)}\" {flags}'\n")
                proxy.take(); begun = time.perf_counter()
                run(f"{BIN}/pg_ctl", "-D", back, "-w", "-t", "600", "-l", f"{d}/back.log", "start")
                while sql("postgres", "SELECT pg_is_in_recovery()") == "t": time.sleep(0.02)
                found[case].append(time.perf_counter() - begun); counts[case] = proxy.take()
                same = sql("postgres", "SELECT count(*), sum(hashtextextended(t::text, 0)) FROM t") == content
                run(f"{BIN}/pg_ctl", "-D", back, "-w", "-m", "immediate", "stop")
                if not same: sys.exit(f"{case}: the recovered rows differ")
    finally:
        server.stop(); proxy.stop(); store.kill(); store.wait(); shutil.rmtree(root, ignore_errors=True)
    for case, seconds in found.items():
        print(json.dumps({"case": case, "segments": a.segments, "delay_ms": a.delay_ms, "seconds": round(statistics.median(seconds), 2), "all": [round(one, 2) for one in seconds], "requests": counts[case]}))

if __name__ == "__main__": main()
