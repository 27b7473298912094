#!/usr/bin/env python3
"""A vault with many LMDB objects: of as many environments of one process, and of as many instances of one environment.

    scale.py lmdb --objects 1000 --records 1000 -- seawall lmdb sync --config {config} --instance {instance}
    scale.py lmdb --objects 1000 --records 1000 -- lightningstream -c {config} --instance {instance} sync

{config} is a lightningstream.yaml. The vault is a folder, or with --server versitygw a bucket behind far.rs, which counts requests.

  write     one process begins with --objects environments of --records records each: until each has its snapshot in the vault
  idle      the same process for --seconds without a change
  change    a record in each of ten environments, one after the other: until its next snapshot is in the vault
  receive   another process begins with as many empty environments: until each has its records
  instances the objects are given the names of --objects instances of one environment, and a process with that environment begins,
            empty: until it has the records of all; then one change, until its snapshot is in the vault; then a second start
  restore   --restore of that environment from the vault, for a command that has one: {vault} is its URL or folder, {out} the file

Prints one JSON object a step. Needs: pip install lmdb.
"""
import argparse, gzip, json, os, shlex, signal, statistics, subprocess, sys, tempfile, time

import lmdb

import places, proc

MAP = 2 << 30
# As long as "env00000" and "i00000": an object with these names is made into one of another environment and instance.
MAIN, WRITER = "mainmain", "writer"


class Vault:
    """A folder, or a bucket behind a proxy that counts."""

    def __init__(self, root, server, name):
        self.server, self.proxy = None, None
        base = f"{root}/{name}"
        if server:
            self.server, port = places.start_server(server, base)
            self.folder = f"{base}/objects/{places.BUCKET}"
            self.proxy = places.Proxy(port, 0, base)
            self.url = (f"s3://{places.BUCKET}?endpoint={self.proxy.url}&region=us-east-1&access-key-id={places.KEY}"
                        f"&secret-access-key={places.SECRET}")
            self.storage = (f"  type: s3\n  options:\n    access_key: {places.KEY}\n    secret_key: {places.SECRET}\n    region: us-east-1\n"
                            f"    bucket: {places.BUCKET}\n    endpoint_url: {self.proxy.url}\n")
        else:
            self.folder = f"{base}/store"
            os.makedirs(self.folder)
            self.url = f"file://{self.folder}"
            self.storage = f"  type: fs\n  options:\n    root_path: {self.folder}\n"

    def names(self, of=""):
        return [name for name in os.listdir(self.folder) if of in name and name.endswith(".pb.gz")]

    def requests(self):
        return {"requests": self.proxy.take()} if self.proxy else {}

    def close(self):
        if self.proxy:
            self.proxy.stop()
            self.server.kill()
            self.server.wait()


def config(path, storage, environments):
    text = f"storage:\n{storage}lmdbs:\n"
    for name, file in environments.items():
        text += f"  {name}:\n    path: {file}\n    options:\n      no_subdir: true\n      create: true\n      map_size: {MAP >> 20}MB\n"
    with open(path, "w") as f:
        f.write(text)


def fill(path, first, count):
    env = lmdb.open(path, subdir=False, max_dbs=8, map_size=MAP, sync=False)
    with env.begin(write=True, db=env.open_db(b"records")) as t:
        for n in range(first, first + count):
            t.put(b"key-%09d" % n, b"value %d of a record, as long as a record of a name server is" % n)
    env.close()


def entries(path):
    try:
        env = lmdb.open(path, subdir=False, max_dbs=8, readonly=True, map_size=MAP)
    except lmdb.Error:
        return 0
    try:
        with env.begin() as t:
            return t.stat(env.open_db(b"records", txn=t, create=False))["entries"]
    except lmdb.Error:
        return 0
    finally:
        env.close()


class Running:
    def __init__(self, command, config, instance, log):
        words = [word.replace("{config}", config).replace("{instance}", instance) for word in command]
        self.log = log
        self.process = subprocess.Popen(words, stdout=open(log, "wb"), stderr=subprocess.STDOUT, env=places.environment())
        self.begun = time.monotonic()
        self.most = proc.Most(self.process.pid)

    def until(self, ready, seconds=900, step=0.1):
        """The seconds from the start until `ready`; None if the process ended, or it took too long."""
        while not ready():
            if self.process.poll() is not None or time.monotonic() - self.begun > seconds:
                return None
            time.sleep(step)
        return round(time.monotonic() - self.begun, 2)

    def figures(self):
        if self.process.poll() is not None:
            return {"ended_with": self.process.returncode, "log": open(self.log, errors="replace").read()[-800:]}
        pid = self.process.pid
        return {"cpu_s": round(proc.cpu(pid), 2), **proc.memory(pid), "most": self.most.most, "fds": len(os.listdir(f"/proc/{pid}/fd")),
                "threads": proc.threads(pid), "maps": proc.maps(pid), "watches": proc.watches(pid)}

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


def change(path, vault, of, key):
    before = len(set(vault.names(of)))
    newest = max(vault.names(of), default="")
    fill(path, key, 1)
    begun = time.monotonic()
    while time.monotonic() < begun + 60:
        now = vault.names(of)
        if len(now) > before or max(now, default="") > newest:
            return time.monotonic() - begun
        time.sleep(0.005)
    return None


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--objects", type=int, default=1000)
    p.add_argument("--records", type=int, default=1000)
    p.add_argument("--seconds", type=float, default=30)
    p.add_argument("--patience", type=float, default=300)
    p.add_argument("--server")
    p.add_argument("--restore")
    p.add_argument("--dir")
    p.add_argument("--maker", help="the command that writes the objects for the step `instances`, if it isn't the one that is measured")
    p.add_argument("--steps", default="write,idle,change,receive,instances,restore")
    p.add_argument("command", nargs=argparse.REMAINDER)
    a = p.parse_args()
    command = a.command[1:] if a.command[:1] == ["--"] else a.command
    steps, root = a.steps.split(","), tempfile.mkdtemp(prefix="scale-lmdb-", dir=a.dir)
    say = lambda **found: print(json.dumps(found), flush=True)
    one, all_, running, vaults = None, None, [], []
    try:
        vault = Vault(root, a.server, "one")
        vaults.append(vault)
        names = [f"env{n:05}" for n in range(a.objects)]
        for part in ("a", "b"):
            os.mkdir(f"{root}/{part}")
            config(f"{root}/{part}.yaml", vault.storage, {name: f"{root}/{part}/{name}.mdb" for name in names})
        for n, name in enumerate(names):
            fill(f"{root}/a/{name}.mdb", n * a.records, a.records)
        writer = Running(shlex.split(a.maker) if a.maker and "write" not in steps else command, f"{root}/a.yaml", WRITER, f"{root}/a.log")
        running.append(writer)
        took = writer.until(lambda: len({name.split("__")[0] for name in vault.names(f"__{WRITER}__")}) >= a.objects, a.patience)
        say(step="write", objects=a.objects, records=a.records, each_has_its_snapshot_s=took, megabytes=round(sum(
            os.path.getsize(f"{vault.folder}/{name}") for name in vault.names()) / 1e6, 1), **writer.figures(), **vault.requests())
        if writer.process.poll() is None and "idle" in steps:
            time.sleep(5)
            vault.requests()
            before = proc.cpu(writer.process.pid)
            time.sleep(a.seconds)
            say(step="idle", seconds=a.seconds, cpu_percent=round(100 * (proc.cpu(writer.process.pid) - before) / a.seconds, 2),
                **writer.figures(), **vault.requests())
        if writer.process.poll() is None and "change" in steps:
            found = [change(f"{root}/a/{name}.mdb", vault, f"{name}__{WRITER}__", 10 ** 8 + n) for n, name in
                     enumerate(names[:: max(1, a.objects // 10)][:10])]
            done = [one for one in found if one is not None]
            say(step="change", changes=len(found), seen=len(done), median_s=round(statistics.median(done), 3) if done else None,
                most_s=round(max(done), 3) if done else None)
        if "receive" in steps:
            vault.requests()
            reader = Running(command, f"{root}/b.yaml", "b", f"{root}/b.log")
            running.append(reader)
            missing = list(names)

            def complete():
                missing[:] = [name for name in missing if entries(f"{root}/b/{name}.mdb") < a.records]
                return not missing
            took = reader.until(complete, a.patience, step=0.3)
            say(step="receive", each_has_its_records_s=took, missing=len(missing), **reader.figures(), **vault.requests())
            reader.end()
        writer.end()
        if {"instances", "restore"} & set(steps):
            other = Vault(root, a.server, "two")
            vaults.append(other)
            seen = set()
            for name in sorted(vault.names(f"__{WRITER}__"), reverse=True):
                env = name.split("__")[0]
                if env not in seen:
                    seen.add(env)
                    with gzip.open(f"{vault.folder}/{name}") as f:
                        text = f.read().replace(env.encode(), MAIN.encode()).replace(WRITER.encode(), b"i" + env[3:].encode())
                    with gzip.open(f"{other.folder}/" + name.replace(f"{env}__{WRITER}__", f"{MAIN}__i{env[3:]}__"), "wb", 1) as f:
                        f.write(text)
            os.mkdir(f"{root}/c")
            config(f"{root}/c.yaml", other.storage, {MAIN: f"{root}/c/main.mdb"})
            for step in ("instances", "instances again"):
                if "instances" not in steps:
                    break
                reader = Running(command, f"{root}/c.yaml", "c", f"{root}/c.log")
                running.append(reader)
                took = reader.until(lambda: entries(f"{root}/c/main.mdb") >= a.records * a.objects, a.patience, step=0.3)
                if took is not None and step != "instances":
                    time.sleep(5)
                found = reader.figures()
                changed = change(f"{root}/c/main.mdb", other, "__c__", 2 * 10 ** 8 + len(step)) if took is not None else None
                say(step=step, objects=len(other.names()), has_all_records_s=took, entries=entries(f"{root}/c/main.mdb"), **found,
                    change_s=changed and round(changed, 2), **other.requests())
                reader.end()
            if a.restore:
                words = [word.replace("{vault}", other.url).replace("{out}", f"{root}/out.mdb").replace("{config}", f"{root}/c.yaml")
                         for word in shlex.split(a.restore)]
                with open(f"{root}/restore.log", "wb") as log:
                    found = proc.timed(words, log, places.environment())
                say(step="restore", **found, entries=entries(f"{root}/out.mdb"), log=open(f"{root}/restore.log", errors="replace").read()[-300:],
                    **other.requests())
    finally:
        for one in running:
            one.end()
        for one in vaults:
            one.close()
        subprocess.run(["rm", "-rf", root])


if __name__ == "__main__":
    main()
