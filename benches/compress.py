#!/usr/bin/env python3
"""The compress stage of a backup alone, for each core: ours, and pgzip (Go) beside it.

    compress.py [--mb 400]

The text is the rows of postgres.py, as COPY writes them; then bytes 0 to 255 repeating, 10 MiB, which compress to
nothing: a figure for how fast a codec can say "the same again", and for nothing else. Prints a JSON line for each codec:
megabytes of text for each second of CPU, compressing and decompressing, the best of three rounds, on one thread.
Needs cargo and go.
"""
import argparse, os, pathlib, subprocess, tempfile

from postgres import rows

HERE = pathlib.Path(__file__).resolve().parent

def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--mb", type=int, default=400); a = a.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        text, same, peer = (os.path.join(folder, name) for name in ("text", "same", "pgzip"))
        left = a.mb * 1_000_000
        with open(text, "w") as file:
            for line in rows(10**9):
                file.write(line); left -= len(line)
                if left <= 0: break
        with open(same, "wb") as file: file.write(bytes(range(256)) * 40960)
        subprocess.run(["go", "build", "-o", peer, "."], cwd=HERE / "pgzip", check=True, env={**os.environ, "CGO_ENABLED": "0"})
        ours = ["cargo", "bench", "--quiet", "-p", "seawall-benches", "--bench", "compress", "--"]
        subprocess.run(ours, cwd=HERE, check=True, stdout=subprocess.DEVNULL)
        for name, file in (("rows", text), ("bytes 0 to 255 repeating", same)):
            print(f"{name}: {os.path.getsize(file) / 1e6:.0f} MB", flush=True)
            subprocess.run(ours + [file], cwd=HERE, check=True)
            subprocess.run([peer, file], check=True)

main()
