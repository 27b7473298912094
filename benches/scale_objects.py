#!/usr/bin/env python3
"""A bucket of very many objects: one database that had many commits and no merge, and many databases with few objects each.

    scale.py objects --n 1000000 --make target/release/examples/many_objects \\
        --run 'seawall restore=seawall restore {url} -o {out}' --run 'seawall timeline=seawall timeline {url}' \\
        --run 'litestream restore=litestream restore -config {config} -o {out} {db}' --run 'seawall fleet=seawall fleet {all} --json'

The objects are written by --make (`cargo build --release -p seawall-benches --example many_objects`) into a folder below --dir. With
--where bucket (the default) bucket.rs serves them, which rustc compiles: a page of a listing takes it as long in a bucket of any size. With
--where folder the vault is the folder itself. Commands run in the order in which they are given, one at a time; a name may come again.

  {url}     the vault of the one database, {all} the whole bucket or folder, {config} a litestream-style file with that database
  {out} {db}  files: what is restored, and the path of the database

With --spread K the bucket has K databases with --n / K objects each instead, as fleet.py makes them: {url} is the first of them. With
--until, a command runs until the bucket has a new object, and is then stopped: a start of `replicate` on a vault of this size.
Prints one JSON object a command.
"""
import argparse, json, os, shlex, shutil, signal, sqlite3, subprocess, sys, tempfile, time

import fleet, places, proc


class Bucket:
    def __init__(self, folder, root):
        program = f"{root}/bucket"
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bucket.rs")
        subprocess.run(["rustc", "--edition", "2024", "-O", "-o", program, source], check=True)
        self.process = subprocess.Popen([program, folder, places.BUCKET], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.url = "http://127.0.0.1:" + self.process.stdout.readline().strip()

    take, stop = places.Proxy.take, places.Proxy.stop


def digest(path):
    return places.page_numbers_aside(path) if os.path.exists(path) else None


def started(words, log, new, seconds):
    """A command that goes on, until `new` is true."""
    begun = time.monotonic()
    process = subprocess.Popen(words, stdout=log, stderr=log, env=places.environment())
    most = proc.Most(process.pid)
    while not new() and process.poll() is None and time.monotonic() - begun < seconds:
        time.sleep(0.05)
    found = {"wall_s": round(time.monotonic() - begun, 2), "exit": process.poll()}
    if process.poll() is None:
        found.update(cpu_s=round(proc.cpu(process.pid), 2), **proc.memory(process.pid))
    found.update(anon_mb=most.end()["anon_mb"], ready=new())
    places.stop(process)
    return found


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--n", type=int, default=1_000_000)
    p.add_argument("--spread", type=int, default=0)
    p.add_argument("--where", choices=["bucket", "folder"], default="bucket")
    p.add_argument("--make")
    p.add_argument("--run", action="append", default=[])
    p.add_argument("--until", action="append", default=[])
    p.add_argument("--dir")
    a = p.parse_args()
    root, bucket = tempfile.mkdtemp(prefix="scale-objects-", dir=a.dir), None
    say = lambda **found: print(json.dumps(found), flush=True)
    folder = f"{root}/objects"
    try:
        begun = time.monotonic()
        if a.spread:
            fleet.fill(folder, a.spread, a.n // a.spread, 0)
            first = "team-00/app-00000"
        else:
            os.makedirs(folder)
            subprocess.run([a.make, f"{folder}/app", str(a.n)], check=True, stdout=subprocess.DEVNULL)
            first = "app"
            if a.where == "bucket":
                # Litestream and Seawall have other names for levels in a bucket than in a folder.
                for level in ("0", "9"):
                    os.rename(f"{folder}/app/ltx/{level}", f"{folder}/app/000{level}")
                os.rmdir(f"{folder}/app/ltx")
        count = sum(len(files) for _, _, files in os.walk(folder))
        made = time.monotonic() - begun
        begun = time.monotonic()
        if a.where == "bucket":
            bucket = Bucket(folder, root)
            query = f"endpoint={bucket.url}&region=us-east-1&access-key-id={places.KEY}&secret-access-key={places.SECRET}"
            url, whole = f"s3://{places.BUCKET}/{first}?{query}", f"s3://{places.BUCKET}?{query}"
        else:
            url, whole = f"file://{folder}/{first}", f"file://{folder}"
        say(step="made", objects=count, made_s=round(made), server_ready_s=round(time.monotonic() - begun, 1))
        db, out, config = f"{root}/db/app.db", f"{root}/out.db", f"{root}/config.yml"
        os.mkdir(f"{root}/db")
        if bucket:
            places.config(config, db, first, bucket.url)
        else:
            with open(config, "w") as f:
                f.write(f"dbs:\n  - path: {db}\n    replica:\n      type: file\n      path: {folder}/{first}\n")
        digests = {}
        for text in a.run + a.until:
            name, _, command = text.partition("=")
            words = [word.replace("{url}", url).replace("{all}", whole).replace("{config}", config).replace("{out}", out).replace("{db}", db)
                     for word in shlex.split(command)]
            if os.path.exists(out):
                os.remove(out)
            if bucket:
                bucket.take()
            with open(f"{root}/log", "wb") as log:
                if text in a.until:
                    before = set(os.listdir(f"{folder}/{first}/" + ("0000" if bucket else "ltx/0")))
                    new = lambda: len(os.listdir(f"{folder}/{first}/" + ("0000" if bucket else "ltx/0"))) > len(before)
                    found = started(words, log, new, 900)
                else:
                    found = proc.timed(words, log, places.environment())
            if "{out}" in command:
                digests[name] = digest(out)
                if digests[name] and text in a.run:
                    shutil.copyfile(out, db)
                found["equal"] = digests[name] is not None and len({one for one in digests.values() if one}) == 1
            with open(f"{root}/log", errors="replace") as log:
                said = log.read()
            say(step=name, **found, **({"requests": bucket.take()} if bucket else {}), said=said[:160] + (" … " + said[-160:] if len(said) > 320 else ""))
    finally:
        if bucket:
            bucket.stop()
        subprocess.run(["rm", "-rf", root])


if __name__ == "__main__":
    main()
