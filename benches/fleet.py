#!/usr/bin/env python3
"""What it costs to find every database of a bucket: N small vaults of SQLite in a local versitygw.

    fleet.py --n 10000 --objects 20 --proved 2000 --rounds 3 -- seawall fleet {url} --json

The vaults are written into the server's own folder: --objects LTX files each, on the levels 0, 1 and 9, and in --proved of them the
record of a proof. The server is reached through far.rs, which rustc compiles, with --delay-ms more for each request; it counts requests
by their kind. The command is started --rounds times with {url} replaced. Its wall and CPU time and its peak memory are the process's own.
Prints one JSON object.
"""
import argparse, json, os, resource, shutil, statistics, subprocess, tempfile, time

import places

RECORD = {
    "format": 1,
    "proof": {
        "database": "app", "engine": "sqlite", "at": "2026-11-21T10:00:00.123Z",
        "point": {"position": "0000000000000001", "moment": "2026-11-21T09:00:00.000Z"},
        "level": "engine", "restore_ms": 5, "duration_ms": 9, "objects": 2, "read_bytes": 2048, "fresh_bytes": 0,
        "restored_bytes": 4096, "faults": [], "doubts": [], "host": "db1",
    },
}


def fill(folder, n, objects, proved):
    """Writes the vaults. Names are sound, and contents are of no matter to a listing."""
    for number in range(n):
        root = f"{folder}/team-{number % 50:02}/app-{number:05}"
        for level, count in (("0000", objects * 7 // 10), ("0001", objects * 2 // 10), ("0009", objects - objects * 9 // 10)):
            os.makedirs(f"{root}/{level}")
            for txid in range(1, count + 1):
                first = 1 if level == "0009" else txid
                with open(f"{root}/{level}/{first:016x}-{txid:016x}.ltx", "wb") as f:
                    f.write(b"x" * 400)
        if number < proved:
            os.makedirs(f"{root}/seawall/proofs")
            with open(f"{root}/seawall/proofs/20261121T100000123Z-0000000a.json", "w") as f:
                json.dump(RECORD, f)


def run(command):
    begun, before = time.time(), resource.getrusage(resource.RUSAGE_CHILDREN)
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    out, _ = process.communicate()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert process.returncode == 0, out[-500:]
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.time() - begun, cpu, out


def peak(command):
    """Peak resident memory in MB, by a shell of its own, so that it isn't that of an earlier child."""
    script = "import resource,subprocess,sys;subprocess.run(sys.argv[1:],stdout=subprocess.DEVNULL,check=True);" \
             "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    out = subprocess.run(["python3", "-c", script, *command], capture_output=True, text=True, check=True).stdout
    return int(out.split()[-1]) / 1000


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--n", type=int, default=10000)
    p.add_argument("--objects", type=int, default=20)
    p.add_argument("--proved", type=int, default=2000)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--delay-ms", type=int, default=0)
    p.add_argument("--server", default="versitygw")
    p.add_argument("command", nargs="+")
    a = p.parse_args()
    root = tempfile.mkdtemp(prefix="fleet-")
    server = proxy = None
    try:
        server, port = places.start_server(a.server, root)
        fill(f"{root}/objects/{places.BUCKET}", a.n, a.objects, a.proved)
        proxy = places.Proxy(port, a.delay_ms, root)
        url = f"s3://{places.BUCKET}?endpoint={proxy.url}&region=us-east-1&access-key-id={places.KEY}" \
              f"&secret-access-key={places.SECRET}"
        command = [word.replace("{url}", url) for word in a.command]
        proxy.take()
        rounds, requests = [], []
        for _ in range(a.rounds):
            wall, cpu, out = run(command)
            requests.append(proxy.take())
            rounds.append((wall, cpu))
            try:
                found = json.loads(out)["found"]
            except (ValueError, KeyError):
                found = None
        print(json.dumps({
            "databases": a.n, "found": found, "objects": a.n * a.objects + a.proved, "proved": a.proved,
            "delay_ms": a.delay_ms, "wall_s": round(statistics.median(wall for wall, _ in rounds), 2),
            "cpu_s": round(statistics.median(cpu for _, cpu in rounds), 2), "peak_mb": round(peak(command), 1),
            "requests": requests[0]}))
    finally:
        if proxy:
            proxy.stop()
        if server:
            server.kill()
            server.wait()
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
