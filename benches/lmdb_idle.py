#!/usr/bin/env python3
"""What LMDB sync costs while nothing happens, and how long a change takes from server to server.

    lmdb_idle.py --seconds 60 --objects 3000 --changes 30 -- lightningstream -c {config} -i {instance} sync
    lmdb_idle.py --seconds 60 --objects 3000 --changes 30 -- seawall lmdb sync --config {config} --instance {instance}

Two instances share a folder and have two small environments each. After they came to rest, CPU time and context switches of both
are read from /proc at both ends of a window. Then records are put into an environment of the first, a random time apart, and
each is waited for in that of the second. --objects puts so many objects of another instance's past into the folder. With --server
versitygw they share a bucket of that S3 server instead. Needs: pip install lmdb. Prints one JSON object.
"""
import argparse, json, os, random, shutil, signal, statistics, subprocess, sys, tempfile, time
import lmdb
import cost

HZ = os.sysconf("SC_CLK_TCK")

def cpu(pid):
    tasks = os.listdir(f"/proc/{pid}/task")
    try:
        return sum(int(open(f"/proc/{pid}/task/{t}/schedstat").read().split()[0]) for t in tasks) / 1e9
    except OSError:
        s = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
        return (int(s[11]) + int(s[12])) / HZ

def switches(pid):
    total = 0
    for t in os.listdir(f"/proc/{pid}/task"):
        for line in open(f"/proc/{pid}/task/{t}/status"):
            if "ctxt_switches" in line:
                total += int(line.split()[1])
    return total

def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--seconds", type=float, default=60); p.add_argument("--settle", type=float, default=8)
    p.add_argument("--objects", type=int, default=0); p.add_argument("--changes", type=int, default=30)
    p.add_argument("--server", help="the versitygw program: its bucket is the vault, and not a folder")
    p.add_argument("command", nargs=argparse.REMAINDER); a = p.parse_args()
    cmd = a.command[1:] if a.command[:1] == ["--"] else a.command
    root, procs, servers = tempfile.mkdtemp(prefix="lmdb-idle-"), [], []
    try:
        store = f"{root}/objects/{cost.BUCKET}" if a.server else f"{root}/store"
        storage = f"  type: fs\n  options:\n    root_path: {store}\n"
        if a.server:
            server, endpoint, _ = cost.start_server(a.server, root)
            servers.append(server)
            storage = (f"  type: s3\n  options:\n    access_key: {cost.KEY}\n    secret_key: {cost.SECRET}\n    region: us-east-1\n"
                       f"    bucket: {cost.BUCKET}\n    endpoint_url: {endpoint}\n")
        else:
            os.mkdir(store)
        for instance in "ab":
            text = f"storage:\n{storage}lmdbs:\n"
            for name in ("main", "shard"):
                path = f"{root}/{instance}-{name}"
                text += f"  {name}:\n    path: {path}\n    options:\n      create: true\n      map_size: 64MB\n"
                if instance == "a":
                    os.mkdir(path); env = lmdb.open(path, max_dbs=8, map_size=64 << 20); db = env.open_db(b"d")
                    with env.begin(write=True, db=db) as t:
                        for n in range(100): t.put(b"key-%d" % n, b"value")
                    env.close()
            open(f"{root}/{instance}.yaml", "w").write(text)
        def start(instance):
            argv = [w.replace("{config}", f"{root}/{instance}.yaml").replace("{instance}", instance) for w in cmd]
            procs.append(subprocess.Popen(argv, stdout=open(f"{root}/{instance}.log", "wb"), stderr=subprocess.STDOUT))
        start("a"); deadline = time.monotonic() + 60
        while sum("__a__" in n for n in os.listdir(store)) < 2:
            if procs[0].poll() is not None or time.monotonic() > deadline: sys.exit(open(f"{root}/a.log").read())
            time.sleep(0.05)
        first = sorted(n for n in os.listdir(store) if n.startswith("shard__a__"))[0]
        for n in range(a.objects):
            shutil.copy(f"{store}/{first}", f"{store}/shard__old__20200101-000000-{n:09}__GX.pb.gz")
        start("b"); time.sleep(a.settle)
        c, s, t0 = [cpu(p.pid) for p in procs], [switches(p.pid) for p in procs], time.monotonic()
        time.sleep(a.seconds); span = time.monotonic() - t0
        idle = {"cpu_ms_a_minute": [round((cpu(p.pid) - b) * 60000 / span, 1) for p, b in zip(procs, c)],
                "switches_a_second": [round((switches(p.pid) - b) / span, 2) for p, b in zip(procs, s)]}
        env, other = (lmdb.open(f"{root}/{i}-shard", max_dbs=8, map_size=64 << 20) for i in "ab")
        db, odb = env.open_db(b"d"), other.open_db(b"d", create=False)
        took, rnd = [], random.Random(7)
        for n in range(a.changes):
            time.sleep(1.2 + rnd.random()); key = b"change-%d" % n
            with env.begin(write=True, db=db) as t: t.put(key, b"v")
            t0 = time.monotonic()
            while time.monotonic() - t0 < 30:
                with other.begin(db=odb) as t:
                    if t.get(key): break
                time.sleep(0.0005)
            took.append((time.monotonic() - t0) * 1000)
        took.sort()
        latency = {"median_ms": round(statistics.median(took), 1), "p90_ms": round(took[int(len(took) * 0.9)], 1), "worst_ms": round(took[-1], 1)} if took else {}
        print(json.dumps({"objects": a.objects, **idle, **latency}))
    finally:
        for x in procs: x.send_signal(signal.SIGTERM)
        for x in procs:
            try: x.wait(20)
            except subprocess.TimeoutExpired: x.kill()
        for x in servers: x.kill()
        shutil.rmtree(root, ignore_errors=True)

main()
