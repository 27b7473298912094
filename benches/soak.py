#!/usr/bin/env python3
"""Protects several SQLite databases under everything that may happen, and compares every restore with a record.

    soak.py --seconds 120 --seawall target/release/seawall                    a folder as vault
    soak.py --seconds 120 --seawall … --s3 versitygw                          a real S3 server, killed now and then

Writers commit at full speed. Meanwhile, drawn from --seed: checkpoints of every mode, VACUUM, growth and shrinking, writers and
Seawall killed with SIGKILL, Seawall stopped and continued, the vault gone and back. Each commit has a number and the digest of
the whole content, written to a record outside after the commit. A restore, of the newest state or of a point in the past, must
be a whole commit of that record; at the end each database must come back as it is. Prints one JSON object; exits 1 at the first
difference and keeps everything.
"""
import argparse, hashlib, json, os, random, shutil, signal, socket, sqlite3, subprocess, sys, tempfile, time

CONTENT = "SELECT id, v FROM t ORDER BY id"


def row_hash(row):
    return int.from_bytes(hashlib.blake2b(repr(row).encode(), digest_size=8).digest(), "big")


def state(path):
    """Number of the newest commit, and the digest of the content."""
    db = sqlite3.connect(path, timeout=60)
    try:
        db.execute("BEGIN")
        row = db.execute("SELECT n FROM state").fetchone()
        if row is None:
            # The writer has made the table, and commits its first row next.
            raise sqlite3.OperationalError("no such table yet")
        number, digest = row[0], 0
        for row in db.execute(CONTENT):
            digest ^= row_hash(row)
        return number, f"{digest:016x}"
    finally:
        db.close()


def writer(path, record, seed):
    """Commits for ever; each commit is recorded after it is durable."""
    rng = random.Random(seed)
    db = sqlite3.connect(path, isolation_level=None, timeout=60)
    db.execute("PRAGMA journal_mode=wal")
    db.execute(f"PRAGMA synchronous={rng.choice(['normal', 'full'])}")
    db.execute("CREATE TABLE IF NOT EXISTS t(id INTEGER PRIMARY KEY, v BLOB)")
    # Entries that don't belong to rows, or are missing, are what only a full check finds.
    db.execute("CREATE INDEX IF NOT EXISTS by_content ON t(length(v), substr(v, 1, 8))")
    db.execute("CREATE TABLE IF NOT EXISTS state(n INTEGER)")
    db.execute("INSERT INTO state SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM state)")
    log = open(record, "a", buffering=1)
    hashes = {row[0]: row_hash(row) for row in db.execute(CONTENT)}
    number, digest = db.execute("SELECT n FROM state").fetchone()[0], 0
    for value in hashes.values():
        digest ^= value
    log.write(f"{number} {digest:016x}\n")
    while True:
        kind = rng.random()
        if kind < 0.004:
            db.execute(f"PRAGMA wal_checkpoint({rng.choice(['PASSIVE', 'FULL', 'RESTART', 'TRUNCATE'])})").fetchall()
        elif kind < 0.005:
            try:
                db.execute("VACUUM")
            except sqlite3.OperationalError:
                pass
        elif kind < 0.006:
            db.execute(f"PRAGMA wal_autocheckpoint={rng.choice([0, 10, 1000])}").fetchall()
        elif kind < 0.01:
            time.sleep(rng.random())
        db.execute("BEGIN IMMEDIATE")
        changed = {}
        for _ in range(rng.choice([1, 1, 1, 10, 10, 300])):
            key = rng.randrange(1, 20000)
            if rng.random() < 0.35:
                db.execute("DELETE FROM t WHERE id = ?", (key,))
                changed[key] = 0
            else:
                value = rng.randbytes(rng.choice([20, 300, 3000, 30000 if rng.random() < 0.05 else 100]))
                db.execute("INSERT OR REPLACE INTO t VALUES (?, ?)", (key, value))
                changed[key] = row_hash((key, value))
        db.execute("UPDATE state SET n = n + 1")
        db.execute("COMMIT")
        number += 1
        for key, value in changed.items():
            digest ^= hashes.pop(key, 0) ^ value
            if value:
                hashes[key] = value
        log.write(f"{number} {digest:016x}\n")


class Difference(Exception):
    pass


class Soak:
    def __init__(self, options, root):
        self.options, self.root = options, root
        self.rng = random.Random(options.seed)
        self.count = {"commits": 0, "restores": 0, "restores_of_the_past": 0, "kills_of_seawall": 0, "kills_of_writers": 0,
                      "stops": 0, "vault_outages": 0, "databases": options.databases}
        self.databases = [f"{root}/app{i}.db" for i in range(options.databases)]
        self.writers, self.seawall, self.s3 = {}, None, None
        self.env = dict(os.environ)
        self.vault = f"{root}/vault"
        if options.s3:
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                self.port = free.getsockname()[1]
            self.env.update(AWS_ACCESS_KEY_ID="soak", AWS_SECRET_ACCESS_KEY="soaksoak", AWS_REGION="us-east-1")
            self.env.pop("AWS_CA_BUNDLE", None)
            os.makedirs(f"{root}/s3/soak")
            self.start_s3()
        lines = ["databases:"]
        for i, path in enumerate(self.databases):
            lines += [f"  - path: {path}", f"    vault: {self.url(i)}", "    sync-interval: 200ms"]
        self.config = f"{root}/seawall.yml"
        with open(self.config, "w") as file:
            file.write("\n".join(lines) + "\n")

    def url(self, i):
        if self.options.s3:
            return f"s3://soak/app{i}?endpoint=http://127.0.0.1:{self.port}&region=us-east-1"
        return f"file://{self.vault}/app{i}"

    def start_s3(self):
        command = [self.options.s3, "--access", "soak", "--secret", "soaksoak", "--port", f"127.0.0.1:{self.port}", "posix",
                   "--sidecar", f"{self.root}/sidecar", f"{self.root}/s3"]
        os.makedirs(f"{self.root}/sidecar", exist_ok=True)
        log = open(f"{self.root}/s3.log", "ab")
        self.s3 = subprocess.Popen(command, stdout=log, stderr=log, env=self.env)
        deadline = time.time() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                if time.time() > deadline:
                    raise
                time.sleep(0.05)

    def start_seawall(self):
        log = open(f"{self.root}/seawall.log", "ab")
        command = [self.options.seawall, "replicate", "--config", self.config]
        self.seawall = subprocess.Popen(command, stdout=log, stderr=log, env=self.env)

    def start_writer(self, i):
        command = [sys.executable, __file__, "--writer", self.databases[i], f"{self.root}/record{i}", str(self.rng.getrandbits(32))]
        self.writers[i] = subprocess.Popen(command, stderr=open(f"{self.root}/writer{i}.log", "ab"))

    def record(self, i):
        with open(f"{self.root}/record{i}") as file:
            lines = [line.split() for line in file if line.endswith("\n")]
        return {int(number): digest for number, digest in lines}

    def tool(self, *arguments):
        done = subprocess.run([self.options.seawall, *arguments], env=self.env, capture_output=True, text=True, timeout=300)
        return done.returncode, done.stdout, done.stderr

    def restore(self, i, at=None):
        """Restores and compares; answers the number of the commit, or `None` where there is nothing to restore yet."""
        out = f"{self.root}/restored.db"
        for suffix in ("", "-wal", "-shm"):
            if os.path.exists(out + suffix):
                os.remove(out + suffix)
        code, _, error = self.tool("restore", self.url(i), "-o", out, "--integrity", "full", *(["--at", at] if at else []))
        # Before the first object the folder of a vault isn't there.
        if code == 4 or ("error[vault.missing]" in error and not os.path.exists(f"{self.vault}/app{i}")):
            return None
        if code != 0:
            raise Difference(f"app{i}: the restore of {at or 'the newest state'} ended with {code}: {error}")
        try:
            number, digest = state(out)
        except sqlite3.OperationalError as error:
            if "no such table" in str(error):
                return None
            raise
        # The writer notes a commit after it; give it that moment.
        deadline = time.time() + 10
        while True:
            expected = self.record(i).get(number)
            if expected or number == 0 or time.time() > deadline or self.writers[i].poll() is not None:
                break
            time.sleep(0.01)
        if expected != digest and not (expected is None and self.killed_at(i, number)):
            raise Difference(f"app{i}: {at or 'newest'} is commit {number} with content {digest}, recorded was {expected}")
        self.count["restores_of_the_past" if at else "restores"] += 1
        return number

    def killed_at(self, i, number):
        """A writer that was killed between a commit and its note: its successor notes the newest commit only."""
        known = self.record(i)
        return number not in known and number - 1 in known

    def some_point(self, i):
        code, output, _ = self.tool("timeline", self.url(i), "--json")
        if code:
            return None
        spans = json.loads(output)["spans"]
        points = [(int(r["from"]["position"], 16), int(r["to"]["position"], 16)) for r in spans]
        if not points:
            return None
        low, high = self.rng.choice(points)
        return f"{self.rng.randint(low, high):016x}"

    def kill(self, process):
        process.send_signal(signal.SIGKILL)
        process.wait()

    def outage(self):
        self.count["vault_outages"] += 1
        pause = self.rng.random() * 3
        if self.options.s3:
            self.kill(self.s3)
            time.sleep(pause)
            self.start_s3()
        elif os.path.isdir(self.vault):
            # A file stands where the folder was, so that nobody makes a new one.
            os.rename(self.vault, self.vault + ".away")
            open(self.vault, "w").close()
            time.sleep(pause)
            os.remove(self.vault)
            os.rename(self.vault + ".away", self.vault)

    def step(self):
        i = self.rng.randrange(len(self.databases))
        kind = self.rng.random()
        if kind < 0.15:
            self.count["kills_of_seawall"] += 1
            self.kill(self.seawall)
            self.start_seawall()
        elif kind < 0.25:
            self.count["kills_of_writers"] += 1
            self.kill(self.writers[i])
            self.start_writer(i)
        elif kind < 0.32:
            self.outage()
        elif kind < 0.40:
            self.count["stops"] += 1
            self.seawall.send_signal(signal.SIGTERM)
            self.seawall.wait(120)
            self.start_seawall()
        elif kind < 0.55:
            self.restore(i)
        elif kind < 0.70:
            point = self.some_point(i)
            if point:
                self.restore(i, point)
        else:
            time.sleep(self.rng.random() * 2)

    def run(self):
        for i in range(len(self.databases)):
            self.start_writer(i)
        self.start_seawall()
        end = time.time() + self.options.seconds
        while time.time() < end:
            self.step()
            for i, process in self.writers.items():
                if process.poll() is not None:
                    raise Difference(f"the writer of app{i} ended with {process.returncode}, see its log")
            if self.seawall.poll() is not None:
                raise Difference(f"Seawall ended with {self.seawall.returncode}, see its log")
        for process in self.writers.values():
            self.kill(process)
        self.finish()

    def finish(self):
        """Everything that was committed must arrive, and come back."""
        for i, path in enumerate(self.databases):
            number, digest = state(path)
            self.count["commits"] += number
            deadline = time.time() + 120
            while True:
                restored = self.restore(i)
                if restored == number:
                    break
                if time.time() > deadline:
                    raise Difference(f"app{i}: commit {number} never arrived, the vault has {restored}")
                time.sleep(0.2)
            if state(f"{self.root}/restored.db") != (number, digest):
                raise Difference(f"app{i}: the last restore differs from the database")
            code, output, error = self.tool("verify", self.url(i))
            if code:
                raise Difference(f"app{i}: verify ended with {code}: {output}{error}")
        self.seawall.send_signal(signal.SIGTERM)
        if self.seawall.wait(120):
            raise Difference(f"Seawall ended with {self.seawall.returncode}")

    def close(self):
        for process in [*self.writers.values(), self.seawall, self.s3]:
            if process and process.poll() is None:
                self.kill(process)


def main():
    if sys.argv[1:2] == ["--writer"]:
        return writer(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seawall", default="target/release/seawall")
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--databases", type=int, default=3)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(32))
    parser.add_argument("--s3", help="the versitygw program: its server is the vault")
    parser.add_argument("--dir", help="where to work; a temporary folder by default")
    options = parser.parse_args()
    options.seawall = os.path.abspath(options.seawall)
    root = tempfile.mkdtemp(prefix="soak-", dir=options.dir)
    print(f"seed {options.seed}, {root}", file=sys.stderr)
    soak = Soak(options, root)
    try:
        soak.run()
    except Difference as difference:
        soak.close()
        print(f"{difference}\nkept: {root}", file=sys.stderr)
        sys.exit(1)
    finally:
        soak.close()
    shutil.rmtree(root)
    print(json.dumps({"seed": options.seed, "seconds": options.seconds, **soak.count}))


main()
