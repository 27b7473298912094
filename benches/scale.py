#!/usr/bin/env python3
"""What a process, a vault or a tool takes when there is much of something, and what breaks first. One sub-command for each of four.

    scale.py sqlite --n 10000 --busy 100 -- seawall replicate --config {config}
    scale.py sqlite --n 10000 --busy 100 -- litestream replicate -config {config}
    scale.py lmdb --objects 1000 --records 1000 -- seawall lmdb sync --config {config} --instance {instance}
    scale.py objects --n 1000000 --make target/release/examples/many_objects --tool 'seawall=seawall restore {url} -o {out}' ...
    scale.py postgres --gb 20 --dir /var/tmp/scale ...

Each says with --help what it does. Figures are read from /proc: CPU is the process's own, memory is resident, and of it anonymous, at its
most. Requests are counted by far.rs between the tool and a server.
"""
import argparse, importlib, sys

PARTS = {"sqlite": "scale_sqlite", "lmdb": "scale_lmdb", "objects": "scale_objects", "postgres": "scale_postgres"}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("what", choices=PARTS)
    a = p.parse_args(sys.argv[1:2])
    sys.argv = [f"{sys.argv[0]} {a.what}"] + sys.argv[2:]
    importlib.import_module(PARTS[a.what]).main()


if __name__ == "__main__":
    main()
