"""What a process takes, as /proc tells it: for benches that watch one from outside."""
import collections, os, re, subprocess, threading, time

HZ = os.sysconf("SC_CLK_TCK")


def cpu(pid):
    """User and system time in seconds."""
    with open(f"/proc/{pid}/stat") as f:
        words = f.read().rsplit(")", 1)[1].split()
    return (int(words[11]) + int(words[12])) / HZ


def memory(pid):
    """Megabytes: resident now, of it anonymous, and the most that was resident."""
    found = {}
    with open(f"/proc/{pid}/status") as f:
        for line in f:
            key, _, value = line.partition(":")
            if key in ("VmRSS", "RssAnon", "VmHWM"):
                found[key] = round(int(value.split()[0]) / 1000, 1)
    return found


def descriptors(pid):
    """How many descriptors lead to what: the kind of a file by the end of its name."""
    kinds = collections.Counter()
    for number in os.listdir(f"/proc/{pid}/fd"):
        try:
            target = os.readlink(f"/proc/{pid}/fd/{number}")
        except OSError:
            continue
        match = re.search(r"(\.db-shm|\.db-wal|\.db|lock|socket|pipe|inotify|event\w+)\b[^/]*$", target)
        kinds[match.group(1) if match else "other"] += 1
    return dict(sorted(kinds.items()))


def watches(pid):
    """How many watches of inotify the process has."""
    count = 0
    for number in os.listdir(f"/proc/{pid}/fdinfo"):
        try:
            with open(f"/proc/{pid}/fdinfo/{number}") as f:
                count += sum(line.startswith("inotify wd") for line in f)
        except OSError:
            continue
    return count


def threads(pid):
    return len(os.listdir(f"/proc/{pid}/task"))


def maps(pid):
    with open(f"/proc/{pid}/maps") as f:
        return sum(1 for _ in f)


class Most(threading.Thread):
    """The most anonymous memory, descriptors and threads of a process while it runs, looked at four times a second."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.over, self.most = pid, False, {"anon_mb": 0, "fds": 0, "threads": 0}
        self.start()

    def run(self):
        while not self.over:
            try:
                now = {"anon_mb": memory(self.pid)["RssAnon"], "fds": len(os.listdir(f"/proc/{self.pid}/fd")), "threads": threads(self.pid)}
            except (OSError, KeyError):
                return
            for key, value in now.items():
                self.most[key] = max(self.most[key], value)
            time.sleep(0.25)

    def end(self):
        self.over = True
        self.join()
        return self.most


def timed(command, log, env=None):
    """Runs a command to its end: wall and CPU seconds, megabytes resident and anonymous at the most, and its exit code."""
    begun = time.monotonic()
    process = subprocess.Popen(command, stdout=log, stderr=log, env=env)
    most = Most(process.pid)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.monotonic() - begun
    return {"wall_s": round(wall, 2), "cpu_s": round(usage.ru_utime + usage.ru_stime, 2), "rss_mb": round(usage.ru_maxrss / 1000, 1),
            "anon_mb": most.end()["anon_mb"], "exit": process.returncode}
