#!/usr/bin/env python3
"""Would a folder as vault gain from direct I/O (O_DIRECT)? Writes objects of 6 MiB, as a backup does, in both ways by turns.

Each object is written whole into a new file, synced, renamed, and its folder synced, as the store of folders does it; with --lanes
objects at once. The direct way writes from aligned memory past the page cache. For each round it prints the rate of both, and how
much of what was written is in the page cache behind it (by mincore, through fincore of util-linux where there).

    python3 benches/direct_io.py /mnt/backup --objects 60 --rounds 5
"""

import argparse
import concurrent.futures
import mmap
import os
import shutil
import statistics
import subprocess
import tempfile
import time

SIZE = 6 << 20


def buffer():
    memory = mmap.mmap(-1, SIZE)
    memory.write(os.urandom(SIZE))
    return memory


def put(folder, name, memory, direct, piece):
    new = os.path.join(folder, name + ".new")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | (os.O_DIRECT if direct else 0)
    file = os.open(new, flags, 0o600)
    try:
        view = memoryview(memory)
        while view:
            view = view[os.write(file, view[: piece or SIZE] if direct else view) :]
        os.fsync(file)
    finally:
        os.close(file)
    os.rename(new, os.path.join(folder, name))
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(handle)
    os.close(handle)


def cached(folder):
    """The share of the files' bytes that is in the page cache, in percent; None where it isn't known."""
    files = [os.path.join(folder, name) for name in os.listdir(folder)]
    try:
        found = subprocess.run(["fincore", "--raw", "--noheadings", "--bytes", "--output", "RES", *files], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return 100 * sum(map(int, found.stdout.split())) // max(1, sum(map(os.path.getsize, files)))


def run(place, objects, lanes, direct, piece):
    folder = tempfile.mkdtemp(dir=place)
    try:
        memories = [buffer() for _ in range(lanes)]

        def lane(number):
            for count in range(number, objects, lanes):
                put(folder, f"{count:08}", memories[number], direct, piece)

        began, cpu = time.monotonic(), time.process_time()
        with concurrent.futures.ThreadPoolExecutor(lanes) as pool:
            list(pool.map(lane, range(lanes)))
        took, cpu = time.monotonic() - began, time.process_time() - cpu
        return objects * SIZE / took / 1e6, cpu / (objects * SIZE / 1e9), cached(folder)
    finally:
        shutil.rmtree(folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("place")
    parser.add_argument("--objects", type=int, default=60)
    parser.add_argument("--lanes", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--piece", type=int, default=0, help="bytes of one direct write; without it, the whole object")
    asked = parser.parse_args()
    rates = {False: [], True: []}
    for number in range(asked.rounds):
        for direct in (number % 2 == 0, number % 2 != 0):
            rate, cpu, share = run(asked.place, asked.objects, asked.lanes, direct, asked.piece)
            rates[direct].append(rate)
            way = "direct  " if direct else "buffered"
            held = "unknown" if share is None else f"{share} %"
            print(f"{way}  {rate:7.0f} MB/s  {cpu:.2f} s of CPU a GB  in the page cache: {held}", flush=True)
    ratio = [direct / buffered for direct, buffered in zip(rates[True], rates[False])]
    print(f"direct/buffered: median {statistics.median(ratio):.2f}, from {min(ratio):.2f} to {max(ratio):.2f}")


if __name__ == "__main__":
    main()
