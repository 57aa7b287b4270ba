"""Runs a program with systemd's journal, in a mount namespace of its own (unshare -m): journald with a folder /run that
nobody else has, the program with standard error as a stream of it, as a service has. Prints all entries of the program as
JSON. Journald is started anew while the program runs; the program ends when it is told to.

journal.py FOLDER PROGRAM ARGUMENT..."""

import json
import os
import socket
import subprocess
import sys
import time

JOURNALD = "/lib/systemd/systemd-journald"
FOLDER = "/run/log/journal"


def wait_until(what, holds):
    deadline = time.monotonic() + 30
    while not holds():
        if time.monotonic() > deadline:
            sys.exit(f"not so: {what}\n{entries()}")
        time.sleep(0.05)


def start_journald():
    journald = subprocess.Popen([JOURNALD], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_until("journald listens", lambda: os.path.exists("/run/systemd/journal/stdout"))
    return journald


def end(process):
    process.terminate()
    process.wait()


def entries():
    command = ["journalctl", "-D", FOLDER, "-o", "json", "SYSLOG_IDENTIFIER=aggregator"]
    output = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return [json.loads(line) for line in output.splitlines()]


def has(text):
    return lambda: any(text in str(entry["MESSAGE"]) for entry in entries())


subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run"], check=True)
os.makedirs(FOLDER)
os.makedirs("/run/systemd/journal")
journald = start_journald()

stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
stream.connect("/run/systemd/journal/stdout")
# Name, unit, priority, priorities in lines, and three that are off.
stream.sendall(b"aggregator\n\n6\n1\n0\n0\n0\n")
about = os.fstat(stream.fileno())
environment = dict(os.environ, JOURNAL_STREAM=f"{about.st_dev}:{about.st_ino}")
program = subprocess.Popen(sys.argv[1:], stderr=stream.fileno(), env=environment)
wait_until("it has started", has(" started "))
wait_until("it has warned", has("WARN aggregator::transfer"))
end(journald)
os.unlink("/run/systemd/journal/stdout")
journald = start_journald()
end(program)
wait_until("it has stopped", has(" stopped"))
print(json.dumps(entries()))
end(journald)
