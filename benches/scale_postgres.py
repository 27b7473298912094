#!/usr/bin/env python3
"""A PostgreSQL database of many gigabytes: backup and restore, side by side, with room on the disk for little more than one of them.

    scale_postgres.py --gb 20 --dir /var/tmp/scale \\
        --dump 'seawall=seawall backup {url} file://{out}' --restore 'seawall=seawall restore file://{out} --to {target_url}' \\
        --dump 'pg_dump=pg_dump -Fc -Z1 -f {out} {db}'     --restore 'pg_dump=pg_restore -j2 -d {target} {out}'

Starts a server of its own in --dir and fills a database there: one table with half of the bytes, eight tables with the other half, 500
small ones; each of them with a primary key, the large ones with a second index. Then, for each tool in turn: its dump of the database,
the database is dropped, the tool's restore into an empty one, the sums of the rows of every table are compared, and the dump is removed.
So the second tool reads what the first one restored. --keep leaves the cluster, and a run with the same --dir goes on from it.
Placeholders and figures are those of postgres.py; the memory is that of the largest process, and rss_anon_mb the most anonymous memory
of all processes of the tool together, looked at each half second. Prints one JSON object a step.
"""
import argparse, json, os, shutil, subprocess, sys, tempfile, threading, time

import postgres
from postgres import sql, timed

NARROW = 8
SMALL = 500
ROWS = """
INSERT INTO {table} SELECT i, timestamptz '2024-01-01' + i * interval '7 s', md5(i::text || '{table}')::uuid,
    'user' || (hashint8(i) & 65535) || '@example' || i % 50 || '.com', (array['new','paid','shipped','returned'])[1 + (i % 4)],
    (random() * 10000)::numeric(12, 2), jsonb_build_object('ip', '10.0.' || (i % 250) || '.' || (hashint8(i) & 255), 'ua',
    'Mozilla/5.0 (X11; Linux x86_64) v' || (i % 200), 'items', array[i % 7, hashint8(i) & 8191], 'ref', md5(i::text)),
    substr(w.text, 1 + (hashint8(i) & 4095), 200 + (hashint8(i + 1) & 255)) || ' ' || md5((i + 1)::text) || md5((i + 2)::text) || md5((i + 3)::text) || ' '
    || substr(w.text, 1 + (hashint8(i + 2) & 4095), 40 + (hashint8(i + 3) & 127))
    FROM generate_series({first}::bigint, {last}) i, words w"""
# Bytes of the database for each row with its share of the indexes.
ROW = 960


def shape(gb):
    """The tables with rows, and how many each has."""
    rows = int(gb * 1e9 / ROW)
    return [("large", rows // 2)] + [(f"part{n}", rows // 2 // NARROW) for n in range(NARROW)]


def fill(gb):
    sql("src", "CREATE TABLE words AS SELECT string_agg(md5(n::text)::text || ' ', '' ORDER BY n) || repeat('order paid failed ', 60) AS text "
               "FROM generate_series(1, 140) n")
    jobs = list(shape(gb))
    lock = threading.Lock()

    def work():
        while True:
            with lock:
                if not jobs:
                    return
                table, rows = jobs.pop(0)
            # In one transaction with its table, COPY and INSERT write no log where the server archives none.
            columns = "id bigint, at timestamptz, u uuid, email text, state text, amount numeric(12,2), doc jsonb, note text"
            sql("src", f"BEGIN; CREATE TABLE {table}({columns});" + ROWS.format(table=table, first=1, last=rows)
                + f"; ALTER TABLE {table} ADD PRIMARY KEY(id); CREATE INDEX {table}_email ON {table}(email); COMMIT")
    workers = [threading.Thread(target=work) for _ in range(2)]
    for one in workers:
        one.start()
    for one in workers:
        one.join()
    for n in range(SMALL):
        sql("src", f"CREATE TABLE small{n}(id serial PRIMARY KEY, large_id bigint REFERENCES large(id), name text); "
                   f"INSERT INTO small{n}(large_id, name) SELECT i, 'name ' || i FROM generate_series(1, 50) i")
    sql("src", "DROP TABLE words; ANALYZE")
    sql("src", "CHECKPOINT")


def content(db):
    """What all rows of each table sum up to, and the definitions of indexes and constraints."""
    tables = sql(db, "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace ORDER BY 1").split()
    sums = {t: sql(db, f"SELECT count(*), sum(hashtextextended(t::text, 0)) FROM {t} t") for t in tables}
    sums["indexes"] = sql(db, "SELECT md5(string_agg(indexdef, ';' ORDER BY indexname)) FROM pg_indexes WHERE schemaname='public'")
    sums["constraints"] = sql(db, "SELECT md5(string_agg(conname || pg_get_constraintdef(oid), ';' ORDER BY conname)) FROM pg_constraint "
                                  "WHERE connamespace='public'::regnamespace")
    return sums


class Anonymous(threading.Thread):
    """The most anonymous memory that all descendants of this process had together, and the names of the largest."""

    def __init__(self, beside):
        super().__init__(daemon=True)
        self.most, self.over, self.beside = 0, False, beside

    def run(self):
        while not self.over:
            parents, anonymous = {}, {}
            for pid in filter(str.isdigit, os.listdir("/proc")):
                try:
                    for line in open(f"/proc/{pid}/status"):
                        key, _, value = line.partition(":")
                        if key == "PPid":
                            parents[pid] = value.strip()
                        if key == "RssAnon":
                            anonymous[pid] = int(value.split()[0])
                except OSError:
                    continue

            def ours(pid):
                while pid in parents and pid not in self.beside:
                    pid = parents[pid]
                    if pid == str(os.getpid()):
                        return True
                return False
            self.most = max(self.most, sum(kb for pid, kb in anonymous.items() if ours(pid)))
            time.sleep(0.5)


def measured(command, server):
    look = Anonymous({str(server.pid), str(server.p.pid)})
    look.start()
    wall, cpu, server_cpu, peak = timed(command, server)
    look.over = True
    look.join()
    return {"wall_s": round(wall, 1), "cpu_s": round(cpu, 1), "server_cpu_s": round(server_cpu, 1), "max_rss_mb": peak,
            "rss_anon_mb": look.most >> 10}


def size(path):
    return int(subprocess.run(["du", "-sb", path], capture_output=True, text=True).stdout.split()[0])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--gb", type=float, default=20)
    p.add_argument("--dir", required=True)
    p.add_argument("--dump", action="append", default=[])
    p.add_argument("--restore", action="append", default=[])
    p.add_argument("--keep", action="store_true")
    a = p.parse_args()
    split = lambda items: dict(item.split("=", 1) for item in items)
    dumps, restores = split(a.dump), split(a.restore)
    os.makedirs(a.dir, exist_ok=True)
    os.chmod(a.dir, 0o1777)
    server = postgres.Server(f"{a.dir}/cluster", "wal_level=minimal\nmax_wal_senders=0\nshared_buffers=1GB\nmax_wal_size=1GB\n")
    out = f"{server.dir}/out"
    say = lambda **figures: print(json.dumps(figures), flush=True)
    try:
        os.makedirs(out, exist_ok=True)
        os.chmod(out, 0o777)
        begun = time.time()
        if sql("postgres", "SELECT count(*) FROM pg_database WHERE datname = 'src'") == "0":
            subprocess.run(["createdb", "src"], check=True)
            fill(a.gb)
        took, begun = time.time() - begun, time.time()
        bytes_ = int(sql("src", "SELECT pg_database_size('src')"))
        want = content("src")
        say(step="filled", gb=round(bytes_ / 1e9, 2), fill_s=round(took), sums_s=round(time.time() - begun), tables=len(want) - 2,
            server=sql("src", "SHOW server_version"))
        socket = f"postgresql://postgres@{server.dir.replace('/', '%2F')}:{server.port}"
        names = {"db": "src", "target": "src", "url": f"{socket}/src", "target_url": f"{socket}/src", "out": f"{out}/dump"}

        def filled(command):
            for name, value in names.items():
                command = command.replace("{" + name + "}", value)
            return command
        for tool, command in dumps.items():
            sql("src", "CHECKPOINT")
            figures = measured(filled(command), server)
            say(step="dump", tool=tool, **figures, mb_per_s=round(bytes_ / 1e6 / figures["wall_s"], 1), out_mb=size(names["out"]) >> 20)
            if tool in restores:
                subprocess.run(["dropdb", "src"], check=True)
                subprocess.run(["createdb", "src"], check=True)
                sql("postgres", "CHECKPOINT")
                figures = measured(filled(restores[tool]), server)
                begun = time.time()
                same = content("src") == want
                say(step="restore", tool=tool, **figures, mb_per_s=round(bytes_ / 1e6 / figures["wall_s"], 1), equal=same,
                    sums_s=round(time.time() - begun))
                if not same:
                    sys.exit(f"{tool} restored something else")
            subprocess.run(["rm", "-rf", names["out"]], check=True)
    finally:
        server.stop(keep=a.keep)


if __name__ == "__main__":
    main()
