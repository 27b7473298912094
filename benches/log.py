#!/usr/bin/env python3
"""The log of a PostgreSQL cluster, received continuously: how far the vault is behind a commit, and what that costs.

    log.py --seawall target/release/seawall [--vault s3://bucket/log?endpoint=http://127.0.0.1:9000] [--seconds 15] [--rounds 3]

Starts its own server (see postgres.py) and `seawall replicate` with `continuous:`, waits for the first base, and measures one after another:
  after silence    from the return of a commit until `seawall wal list` or, for a folder, its names show the position (--commits times)
  under load       the same with one more commit now and then, while pgbench runs
  pgbench          transactions a second with the receiver and without it, --rounds times in turn
  cpu              CPU seconds for each GB of log, beside `pg_receivewal | zstd -1` over the same log
  synchronous      the return of a commit with synchronous_standby_names = 'seawall', beside one without it
  idle             new objects and CPU of a minute without writes
The vault is a folder unless --vault names another one; lags are then measured by the positions that the receiver confirms to the
server (pg_stat_replication.flush_lsn), which it does behind the store's answer. Prints one JSON object each.
"""
import argparse, json, os, re, shutil, signal, statistics, subprocess, sys, time

from postgres import BIN, HZ, Server, sql

AS = ["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []

class Session:
    """One psql that stays, so that no commit waits for a connection."""
    def __init__(self):
        self.p = subprocess.Popen(["psql", "-XqAt", "postgres"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    def ask(self, q):
        self.p.stdin.write(q + ";\n\\echo .\n"); self.p.stdin.flush(); lines = []
        while (line := self.p.stdout.readline().rstrip("\n")) != ".":
            if not line and self.p.poll() is not None: sys.exit("psql ended")
            lines.append(line)
        return "\n".join(lines)

def lsn(text): high, low = text.split("/"); return (int(high, 16) << 32) + int(low, 16)
def cpu(pid): f = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split(); return sum(map(int, f[11:15])) / HZ
def peak(pid): return int(re.search(r"VmHWM:\s+(\d+)", open(f"/proc/{pid}/status").read()).group(1)) >> 10
def told(what, **values): print(json.dumps({"what": what, **{k: round(v, 4) if isinstance(v, float) else v for k, v in values.items()}}), flush=True)
def quantiles(all): all = sorted(all); return {"p50_ms": round(statistics.median(all) * 1e3, 1), "max_ms": round(all[-1] * 1e3, 1), "commits": len(all)}

class Receiver:
    def __init__(self, seawall, server, vault, more=""):
        self.server, self.vault = server, vault; d = server.dir; conf = f"{d}/seawall.yml"
        url = f"postgresql://postgres@{d.replace('/', '%2F')}:{server.port}/postgres"
        open(conf, "w").write(f"socket: {{ path: {d}/seawall.sock }}\ndatabases:\n  - name: main\n    url: \"{url}\"\n    vault: \"{vault}\"\n    continuous: {{ base: \"0 2 1 1 *\"{more} }}\n")
        os.chmod(conf, 0o644); self.log = open(f"{d}/seawall.log", "ab")
        self.p = subprocess.Popen(AS + ["env", f"XDG_STATE_HOME={d}/state", seawall, "replicate", "--config", conf], stdout=self.log, stderr=subprocess.STDOUT, cwd=d)
        self.pid = None; end = time.time() + 120
        while sql("postgres", "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'") == "0":
            if time.time() > end or self.p.poll() is not None: sys.exit("the receiver does not stream: " + open(f"{d}/seawall.log").read()[-2000:])
            time.sleep(0.1)
        for process in filter(str.isdigit, os.listdir("/proc")):
            try: line = open(f"/proc/{process}/cmdline").read().split("\0")
            except OSError: continue
            if line[:2] == [seawall, "replicate"]: self.pid = int(process)
        while sql("postgres", "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'seawall%' AND backend_type = 'client backend'") != "0": time.sleep(0.2)
        # The first base has memory of its own (backup.memory): the peak is that of what comes after it.
        open(f"/proc/{self.pid}/clear_refs", "w").write("5")
    def ends(self):
        """The furthest position of the folder."""
        found = 0
        for above, _, names in os.walk(f"{self.vault}/physical"):
            if "/log/" not in above: continue
            for name in names:
                if (m := re.fullmatch(r"[0-9A-F]{16}-([0-9A-F]{16})\.zst", name)): found = max(found, int(m.group(1), 16))
                elif (m := re.fullmatch(r"[0-9A-F]{8}([0-9A-F]{8})([0-9A-F]{8})\.zst", name)): found = max(found, (int(m.group(1), 16) << 32) + (int(m.group(2), 16) + 1 << 24))
        return found
    def reaches(self, session, position):
        if "://" in self.vault:
            text = session.ask("SELECT max(flush_lsn) FROM pg_stat_replication"); return bool(text) and lsn(text) >= position
        return self.ends() >= position
    def stop(self):
        os.kill(self.pid, signal.SIGTERM); self.p.wait()

def lag(receiver, session, watch, pause):
    time.sleep(pause); position = lsn(session.ask("INSERT INTO lag VALUES (1); SELECT pg_current_wal_flush_lsn()")); start = time.perf_counter()
    while not receiver.reaches(watch, position):
        if time.perf_counter() - start > 30: sys.exit("30 s passed")
        time.sleep(0.001)
    return time.perf_counter() - start

def bench(seconds):
    out = subprocess.run(["pgbench", "-n", "-c", "4", "-j", "2", "-T", str(seconds), "postgres"], check=True, capture_output=True, text=True).stdout
    return float(re.search(r"tps = ([\d.]+)", out).group(1))

def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--seawall", required=True); a.add_argument("--vault"); a.add_argument("--seconds", type=int, default=15)
    a.add_argument("--rounds", type=int, default=3); a.add_argument("--commits", type=int, default=20)
    a = a.parse_args(); seawall = os.path.abspath(a.seawall); server = Server(); d = server.dir; receiver = None
    try:
        vault = a.vault or f"{d}/vault"
        sql("postgres", "ALTER SYSTEM SET fsync = on"); sql("postgres", "SELECT pg_reload_conf()"); sql("postgres", "CREATE TABLE lag (i int)"); subprocess.run(["pgbench", "-i", "-q", "-s", "20", "postgres"], check=True, stderr=subprocess.DEVNULL)
        session, watch = Session(), Session()
        receiver = Receiver(seawall, server, vault)
        told("after silence", **quantiles([lag(receiver, session, watch, 2) for _ in range(a.commits)]))
        load = subprocess.Popen(["pgbench", "-n", "-c", "2", "-T", "600", "postgres"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        told("under load", **quantiles([lag(receiver, session, watch, 0.3) for _ in range(a.commits)])); load.kill(); load.wait()
        receiver.stop(); receiver = None; with_it, without = [], []
        for _ in range(a.rounds):
            without.append(bench(a.seconds)); receiver = Receiver(seawall, server, vault); with_it.append(bench(a.seconds)); receiver.stop(); receiver = None
        told("pgbench", with_receiver=statistics.median(with_it), without=statistics.median(without), loss=1 - statistics.median(with_it) / statistics.median(without))
        # Each of the two gets the same log: it is written while neither runs, and their slots keep it.
        receiver = Receiver(seawall, server, vault); receiver.stop(); receiver = None
        sql("postgres", "SELECT pg_create_physical_replication_slot('stock', true)"); begin = lsn(sql("postgres", "SELECT pg_current_wal_flush_lsn()"))
        bench(a.seconds * 2); sql("postgres", "SELECT pg_switch_wal()"); bench(1)
        end = lsn(sql("postgres", "SELECT pg_current_wal_flush_lsn()")); gigabytes = (end - begin) / 1e9
        receiver = Receiver(seawall, server, vault)
        while lsn(watch.ask("SELECT max(flush_lsn) FROM pg_stat_replication")) < end: time.sleep(0.1)
        told("cpu of seawall", gb=gigabytes, cpu_s_per_gb=cpu(receiver.pid) / gigabytes, peak_mb=peak(receiver.pid)); receiver.stop(); receiver = None
        os.makedirs(f"{d}/stock"); os.chmod(f"{d}/stock", 0o777)
        import resource; before = resource.getrusage(resource.RUSAGE_CHILDREN)
        stop = f"{end >> 32:X}/{end & 0xFFFFFFFF:X}"
        subprocess.run(["bash", "-c", f"pg_receivewal -D {d}/stock -S stock --endpos {stop} --no-loop -n; zstd -q -1 -T1 --rm {d}/stock/*"], check=True, stderr=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        told("cpu of pg_receivewal, then zstd -1", gb=gigabytes, cpu_s_per_gb=(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / gigabytes)
        sql("postgres", "SELECT pg_drop_replication_slot('stock')")
        def commits():
            all = []
            for _ in range(a.commits):
                time.sleep(0.5); start = time.perf_counter(); session.ask("INSERT INTO lag VALUES (2)"); all.append(time.perf_counter() - start)
            return all
        receiver = Receiver(seawall, server, vault, ", synchronous: true"); alone = quantiles(commits())
        sql("postgres", "ALTER SYSTEM SET synchronous_standby_names = 'seawall'"); sql("postgres", "SELECT pg_reload_conf()"); time.sleep(1)
        told("synchronous", with_it=quantiles(commits()), without=alone)
        sql("postgres", "ALTER SYSTEM RESET synchronous_standby_names"); sql("postgres", "SELECT pg_reload_conf()"); receiver.stop(); receiver = None
        receiver = Receiver(seawall, server, vault)
        # Autovacuum and checkpoints still write about what was before.
        sql("postgres", "VACUUM (FREEZE, ANALYZE)"); sql("postgres", "CHECKPOINT"); time.sleep(45)
        names = lambda: {name for _, _, names in os.walk(vault) for name in names}
        before, used, position, at = names(), cpu(receiver.pid), sql("postgres", "SELECT pg_current_wal_insert_lsn()"), time.time(); time.sleep(60)
        told("idle", seconds=time.time() - at, log_bytes=lsn(sql("postgres", "SELECT pg_current_wal_insert_lsn()")) - lsn(position), new_objects=sorted(names() - before) if "://" not in vault else None, cpu_s=cpu(receiver.pid) - used)
    finally:
        if receiver: receiver.stop()
        server.stop()

if __name__ == "__main__": main()
