#!/usr/bin/env python3
"""Bases and restores of a PostgreSQL cluster's files: Seawall beside pg_basebackup and, if it is installed, pgBackRest.

    cluster.py --seawall target/release/seawall --rows 600000 --rounds 3

Starts its own server (initdb in a temporary folder, as user postgres when run by root) with the table of
postgres.py, archives its log with `seawall wal push`, and then, one at a time and --rounds times in turn:
a first base of each tool into an empty place, a second base of Seawall (and an incremental backup of
pgBackRest) after the rows of 1 % of the table's pages were updated in place, and a restore of each. A restored folder of
Seawall is checked with pg_verifybackup, started, and its table compared with the source. Prints one JSON
object a tool and step: median wall and CPU seconds of the tool and its children, MB/s of the cluster's files,
MB that were written.
"""
import argparse, json, os, resource, shutil, statistics, subprocess, sys, time

from postgres import BIN, Server, rows, sql

JOBS = "2"

def size(path):
    if os.path.isfile(path): return os.path.getsize(path)
    return sum(os.path.getsize(os.path.join(d, f)) for d, _, fs in os.walk(path) for f in fs if not os.path.islink(os.path.join(d, f)))

def bases(vault):
    """Bytes of all bases of a vault, without its log: pgBackRest's are counted so too."""
    return sum(os.path.getsize(os.path.join(d, f)) for d, _, fs in os.walk(vault) for f in fs if "/bases/" in d + "/")

def timed(server, command):
    as_user = ["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(as_user + ["bash", "-c", "set -o pipefail; " + command], capture_output=True, text=True, cwd=server.dir)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode: sys.exit(f"{command}: exit {done.returncode}: {done.stdout[-800:]} {done.stderr[-800:]}")
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--seawall", required=True); a.add_argument("--rows", type=int, default=600_000); a.add_argument("--rounds", type=int, default=3)
    a = a.parse_args(); seawall = os.path.abspath(a.seawall); server = Server(); d = server.dir; found = {}
    def note(tool, step, wall, cpu, written, files): found.setdefault((tool, step), []).append((wall, cpu, written, files))
    try:
        sql("postgres", "CREATE DATABASE src")
        sql("src", "CREATE TABLE wide(id bigint, at timestamptz, u uuid, email text, state text, amount numeric(12,2), doc jsonb, note text, b bytea) WITH (fillfactor = 90)")
        load = subprocess.Popen(["psql", "-Xq", "-c", "COPY wide FROM STDIN", "src"], stdin=subprocess.PIPE, text=True)
        for line in rows(a.rows): load.stdin.write(line)
        load.stdin.close()
        if load.wait(): sys.exit("load failed")
        sql("src", "ALTER TABLE wide ADD PRIMARY KEY(id)"); sql("src", "CREATE INDEX wide_email ON wide(email)"); sql("src", "VACUUM (FREEZE, ANALYZE) wide"); sql("src", "CHECKPOINT")
        rest = shutil.which("pgbackrest"); conf = f"{d}/pgbackrest.conf"
        open(conf, "w").write(f"[global]\nrepo1-path={d}/rest\nlog-level-file=off\nlog-level-console=error\nlock-path={d}/lock\nspool-path={d}\ncompress-type=zst\ncompress-level=1\nprocess-max={JOBS}\nstart-fast=y\narchive-check=n\narchive-copy=n\n[main]\npg1-path={d}/data\npg1-port={server.port}\npg1-socket-path={d}\npg1-user=postgres\n")
        if os.getuid() == 0: shutil.chown(conf, "postgres")
        both = f"{seawall} wal push %p --vault {d}/vault" + (f" && pgbackrest --config={conf} --stanza=main archive-push %p" if rest else "")
        with open(f"{d}/data/postgresql.auto.conf", "a") as auto: auto.write(f"archive_mode=on\nwal_level=replica\narchive_command='{both}'\n")
        as_user = ["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []
        subprocess.run(as_user + [f"{BIN}/pg_ctl", "-D", f"{d}/data", "-w", "-m", "fast", "stop"], check=True, stdout=subprocess.DEVNULL)
        subprocess.run(as_user + [f"{BIN}/pg_ctl", "-D", f"{d}/data", "-w", "-l", f"{d}/log2", "start"], check=True, stdout=subprocess.DEVNULL)
        files, at = size(f"{d}/data/base"), 0
        url = f"postgresql://postgres@{d.replace('/', '%2F')}:{server.port}/postgres"
        for nth in range(a.rounds):
            for place in ("vault", "rest", "tar", "back-seawall", "back-tar", "back-rest"): shutil.rmtree(f"{d}/{place}", ignore_errors=True)
            # Each tool waits for the log of its base, and the archive command for pgBackRest's stanza.
            if rest: timed(server, f"pgbackrest --config={conf} --stanza=main stanza-create")
            wall, cpu = timed(server, f"mkdir tar && {BIN}/pg_basebackup -h {d} -p {server.port} -U postgres -Ft -X none -c fast -D - 2>/dev/null | zstd -q -1 -T1 > tar/base.tar.zst"); note("pg_basebackup -Ft | zstd -1", "base", wall, cpu, size(f"{d}/tar"), files)
            wall, cpu = timed(server, f"{seawall} backup '{url}' {d}/vault --physical --jobs {JOBS} --json"); first = bases(f"{d}/vault"); note("seawall", "base", wall, cpu, first, files)
            if rest:
                wall, cpu = timed(server, f"pgbackrest --config={conf} --stanza=main --type=full backup"); one = size(f"{d}/rest/backup"); note("pgbackrest", "base", wall, cpu, one, files)
            at += 1; share = a.rows // 100
            sql("src", f"UPDATE wide SET state = 'again{at}' WHERE id BETWEEN {at * share} AND {(at + 1) * share}"); sql("src", "CHECKPOINT")
            before = bases(f"{d}/vault"); wall, cpu = timed(server, f"{seawall} backup '{url}' {d}/vault --physical --jobs {JOBS} --json")
            note("seawall", "second base, 1 % of pages updated", wall, cpu, bases(f"{d}/vault") - before, files)
            if rest:
                wall, cpu = timed(server, f"pgbackrest --config={conf} --stanza=main --type=incr backup"); note("pgbackrest", "second base, 1 % of pages updated", wall, cpu, size(f"{d}/rest/backup") - one, files)
            content = sql("src", "SELECT count(*), sum(hashtextextended(t::text, 0)) FROM wide t"); segment = sql("postgres", "SELECT pg_walfile_name(pg_switch_wal())")
            while sql("postgres", f"SELECT coalesce(last_archived_wal >= '{segment}', false) FROM pg_stat_archiver") != "t": time.sleep(0.1)
            wall, cpu = timed(server, f"mkdir back-tar && zstd -q -dc tar/base.tar.zst | tar -x -C back-tar && sync -f back-tar"); note("pg_basebackup -Ft | zstd -1", "restore", wall, cpu, size(f"{d}/back-tar"), files)
            wall, cpu = timed(server, f"{seawall} restore {d}/vault -o {d}/back-seawall --jobs {JOBS} --json"); note("seawall", "restore", wall, cpu, size(f"{d}/back-seawall"), files)
            timed(server, f"{BIN}/pg_verifybackup --no-parse-wal back-seawall")
            if rest: wall, cpu = timed(server, f"mkdir back-rest && chmod 700 back-rest && pgbackrest --config={conf} --stanza=main --pg1-path={d}/back-rest restore"); note("pgbackrest", "restore", wall, cpu, size(f"{d}/back-rest"), files)
            timed(server, f"echo \"port={server.port + 1}\" >> back-seawall/postgresql.auto.conf && {BIN}/pg_ctl -D back-seawall -w -t 600 -l back.log start >/dev/null 2>&1")
            again = lambda q: subprocess.run(["psql", "-XqAt", "-p", str(server.port + 1), "-c", q, "src"], check=True, capture_output=True, text=True).stdout.strip()
            while again("SELECT pg_is_in_recovery()") == "t": time.sleep(0.1)
            back = again("SELECT count(*), sum(hashtextextended(t::text, 0)) FROM wide t"); timed(server, f"{BIN}/pg_ctl -D back-seawall -m immediate stop >/dev/null")
            if back != content: sys.exit("the restored rows differ")
    finally:
        server.stop()
    for (tool, step), all in found.items():
        wall, cpu, written, files = (statistics.median(column) for column in zip(*all))
        print(json.dumps({"tool": tool, "step": step, "seconds": round(wall, 2), "cpu_seconds": round(cpu, 2), "mb_per_s": round(files / wall / 1e6), "mb_written": round(written / 1e6, 1)}))

if __name__ == "__main__": main()
