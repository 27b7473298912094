#!/usr/bin/env python3
"""Backup and restore of one MariaDB or MySQL database: any tools, side by side, one at a time.

    mysql.py --rows 300000 \
        --dump    'mariadb-dump, zstd=mariadb-dump --socket=$MYSQL_UNIX_PORT --single-transaction {db} | zstd -1 -T2 -o {out}' \
        --restore 'mariadb-dump, zstd=zstd -dc {out} | mariadb --socket=$MYSQL_UNIX_PORT {target}' \
        --dump    'seawall=seawall backup {url} file://{out}' \
        --restore 'seawall=seawall restore file://{out} --to {target_url}'

Starts its own mariadbd (a temporary folder, a unix socket, as user mysql when run by root), loads one wide table (text, JSON, decimal,
binary, timestamp; primary key and three indexes), warms the cache, then runs each dump in turn --rounds times, then each restore
into a database that doesn't exist ({target} is made before, {target_url} is not), and compares the content with the source.
A name without --restore is only dumped. Prints one JSON object a tool: median wall and its own CPU seconds, server CPU seconds, peak
memory, MB/s of the table with its indexes, output MB. {db} {target} names; {url} {target_url} mysql:// URLs of the socket, which
MYSQL_UNIX_PORT names for the server's own tools; {out} a path that doesn't exist yet. Needs mariadb-server.
"""
import argparse, glob, hashlib, json, os, pwd, random, resource, shutil, statistics, subprocess, sys, tempfile, threading, time
from urllib.parse import quote

HZ = os.sysconf("SC_CLK_TCK")

def rows(n):
    r = random.Random(7)
    base = "the of and invoice order customer payment failed retry shipping address street warehouse quantity pending approved manager account system network timeout database restore backup index column value price total discount".split()
    words = base + [hashlib.md5(str(i).encode()).hexdigest()[:r.randint(3, 9)] for i in range(4000)]
    for i in range(1, n + 1):
        note = " ".join(r.choices(words, k=r.randint(30, 130)))
        doc = json.dumps({"ip": f"10.{i % 256}.{r.randint(0, 255)}.{r.randint(0, 255)}", "items": [r.randint(1, 10000) for _ in range(r.randint(1, 6))], "ref": f"{r.getrandbits(128):032x}"})
        yield f"{i}\t2024-{r.randint(1, 12):02}-{r.randint(1, 28):02} {r.randint(4, 23):02}:{r.randint(0, 59):02}:00\tuser{r.randint(1, 100000)}@example{i % 50}.com\t{r.choice(['new', 'paid', 'shipped', 'returned'])}\t{r.random() * 10000:.2f}\t{doc}\t{note}\t{r.getrandbits(64):016x}\n"

class Server:
    def __init__(self):
        self.user = "mysql" if os.getuid() == 0 else pwd.getpwuid(os.getuid()).pw_name
        self.dir = tempfile.mkdtemp(prefix="mysqlbench-")
        if os.getuid() == 0: shutil.chown(self.dir, "mysql")
        os.chmod(self.dir, 0o755)
        common = ["--no-defaults", f"--datadir={self.dir}/data", f"--user={self.user}"]
        subprocess.run(["mariadb-install-db"] + common + ["--auth-root-authentication-method=normal", "--skip-test-db"], check=True, stdout=subprocess.DEVNULL)
        self.socket = f"{self.dir}/socket"
        self.p = subprocess.Popen([shutil.which("mariadbd") or "/usr/sbin/mariadbd"] + common + [f"--socket={self.socket}", "--skip-networking", f"--pid-file={self.dir}/pid", "--innodb-buffer-pool-size=1G", "--innodb-flush-log-at-trx-commit=2", "--innodb-log-file-size=1G", "--max-allowed-packet=64M", "--local-infile=1"], stdout=open(f"{self.dir}/log", "wb"), stderr=subprocess.STDOUT)
        os.environ["MYSQL_UNIX_PORT"] = self.socket
        until = time.time() + 60
        while subprocess.run(["mariadb-admin", "--no-defaults", "-uroot", "ping"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode:
            if time.time() > until: sys.exit("mariadbd doesn't start: " + open(f"{self.dir}/log").read()[-1500:])
            time.sleep(0.2)
    def cpu(self):
        f = open(f"/proc/{self.p.pid}/stat").read().rsplit(")", 1)[1].split(); return sum(map(int, f[11:13])) / HZ
    def stop(self): self.p.kill(); self.p.wait(); shutil.rmtree(self.dir, ignore_errors=True)

def sql(db, q): return subprocess.run(["mariadb", "--no-defaults", "--local-infile=1", "-uroot", "-NBe", q, db], check=True, capture_output=True, text=True).stdout.strip()

def content(db):
    return [sql(db, "SELECT count(*), sum(conv(left(md5(concat_ws('|', id, at, email, state, amount, doc, note, hex(b))), 15), 16, 10)) FROM wide"), sql(db, "SHOW CREATE TABLE wide")]

def timed(cmd, server):
    s0, t = server.cpu(), time.perf_counter()
    p = subprocess.Popen(["bash", "-c", "set -o pipefail; " + cmd], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True); err = []
    th = threading.Thread(target=lambda: err.append(p.stderr.read())); th.start(); _, st, ru = os.wait4(p.pid, 0); th.join(); w = time.perf_counter() - t
    if st: sys.exit(f"{cmd}: exit {os.waitstatus_to_exitcode(st)}: {err[0][-1500:]}")
    time.sleep(0.3); return w, ru.ru_utime + ru.ru_stime, server.cpu() - s0, ru.ru_maxrss >> 10

def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--rows", type=int, default=300_000); a.add_argument("--rounds", type=int, default=2)
    a.add_argument("--dump", action="append", default=[]); a.add_argument("--restore", action="append", default=[]); a = a.parse_args()
    split = lambda items: dict(x.split("=", 1) for x in items)  # the name may not hold a "="
    dumps, restores = split(a.dump), split(a.restore); s = Server(); out = f"{s.dir}/out"; os.makedirs(out)
    try:
        sql("mysql", "CREATE DATABASE src CHARACTER SET utf8mb4")
        sql("src", "CREATE TABLE wide(id bigint PRIMARY KEY, at timestamp NULL, email varchar(120), state varchar(12), amount decimal(12,2), doc json, note text, b varbinary(16))")
        text = f"{s.dir}/rows"
        with open(text, "w") as file: file.writelines(rows(a.rows))
        sql("src", f"LOAD DATA LOCAL INFILE '{text}' INTO TABLE wide"); os.remove(text)
        sql("src", "ALTER TABLE wide ADD INDEX email(email), ADD INDEX state_at(state, at), ADD INDEX amount(amount)"); sql("src", "ANALYZE TABLE wide"); want = content("src")
        mb = int(sql("src", "SELECT sum(data_length + index_length) FROM information_schema.tables WHERE table_schema = 'src'")) / 1e6
        print(json.dumps({"database_mb": round(mb), "server": sql("src", "SELECT version()")}), flush=True)
        url = f"mysql://root@localhost/{{}}?socket={quote(s.socket, safe='')}"
        def fill(c, k, t=""):
            for name, value in {"out": f"{out}/{k}", "db": "src", "target": t, "url": url.format("src"), "target_url": url.format(t)}.items(): c = c.replace("{" + name + "}", value)
            return c
        res, rest = {n: [] for n in dumps}, {n: [] for n in restores}
        for _ in range(a.rounds):
            for i, (n, c) in enumerate(dumps.items()):
                shutil.rmtree(f"{out}/{i}", ignore_errors=True); os.path.isfile(f"{out}/{i}") and os.remove(f"{out}/{i}"); res[n].append(timed(fill(c, i), s))
        for i, n in enumerate(dumps):
            m = [statistics.median(x[k] for x in res[n]) for k in range(4)]; du = int(subprocess.run(["du", "-sb", f"{out}/{i}"], capture_output=True, text=True).stdout.split()[0]) / 1e6
            print(json.dumps({"tool": n, "work": "dump", "wall_s": round(m[0], 2), "cpu_s": round(m[1], 2), "server_cpu_s": round(m[2], 2), "max_rss_mb": m[3], "db_mb_per_s": round(mb / m[0], 1), "out_mb": round(du, 1)}), flush=True)
        for n, c in restores.items():
            i = list(dumps).index(n); same = True
            for _ in range(a.rounds):
                sql("src", "DROP DATABASE IF EXISTS rt")
                if "{target}" in c: sql("src", "CREATE DATABASE rt CHARACTER SET utf8mb4")
                rest[n].append(timed(fill(c, i, "rt"), s)); same = same and content("rt") == want
            m = [statistics.median(x[k] for x in rest[n]) for k in range(4)]
            print(json.dumps({"tool": n, "work": "restore", "wall_s": round(m[0], 2), "cpu_s": round(m[1], 2), "server_cpu_s": round(m[2], 2), "max_rss_mb": m[3], "db_mb_per_s": round(mb / m[0], 1), "equal": same}), flush=True)
    finally: s.stop()

if __name__ == "__main__": main()
