"""A client on dnspython that asks for a name again and again, and prints a line for each answer.

`addresses NAME` prints the addresses. `services NAME` goes where the SRV records lead, the smallest priority first and
within it in any order (RFC 2782), until somebody takes the connection, and prints that address.
"""

import random
import socket
import sys
import time

import dns.exception
import dns.resolver

# Seconds between two questions, and for a connection.
PAUSE = 0.05
PATIENCE = 0.3


def addresses(name):
    return [record.address for record in dns.resolver.resolve(name, "A")]


def connect(name):
    """Return the address of the first service that takes a connection."""
    services = list(dns.resolver.resolve(name, "SRV"))
    services.sort(key=lambda service: (service.priority, random.random()))
    for service in services:
        for address in addresses(service.target):
            try:
                with socket.create_connection((address, service.port), timeout=PATIENCE):
                    return [address]
            except OSError:
                continue
    raise OSError(f"nobody of {len(services)} takes a connection")


def main():
    _, what, name = sys.argv
    ask = {"addresses": addresses, "services": connect}[what]
    while True:
        try:
            print(*ask(name), flush=True)
        except BrokenPipeError:
            return
        except (dns.exception.DNSException, OSError) as error:
            print(f"{type(error).__name__}: {error}", flush=True)
        time.sleep(PAUSE)


main()
