"""python-zeroconf as the other side of the link: `announce` a service of OpenStack's, or `browse` them.

announce ADDRESS[,ADDRESS] TYPE PORT [KEY=VALUE ...]
browse                                       prints a line for each service that comes or goes

Either lasts until it is terminated.
"""

import signal
import socket
import sys

from zeroconf import ServiceBrowser, ServiceInfo, Zeroconf

SERVICE = "_openstack._tcp.local."


class Listener:
    """Prints what comes and goes."""

    def add_service(self, zeroconf, service, name):
        info = zeroconf.get_service_info(service, name)
        if info is None:
            return
        text = " ".join(f"{key.decode()}={(value or b'').decode()}" for key, value in info.properties.items())
        print("add", name, ",".join(info.parsed_addresses()), info.port, text, flush=True)

    def update_service(self, zeroconf, service, name):
        pass

    def remove_service(self, zeroconf, service, name):
        print("remove", name, flush=True)


def main():
    zeroconf = Zeroconf()
    if sys.argv[1] == "browse":
        ServiceBrowser(zeroconf, SERVICE, Listener())
        print("ready", flush=True)
    else:
        addresses, kind, port, *strings = sys.argv[2:]
        info = ServiceInfo(
            SERVICE,
            f"{kind}.{SERVICE}",
            addresses=[
                socket.inet_pton(socket.AF_INET6 if ":" in address else socket.AF_INET, address)
                for address in addresses.split(",")
            ],
            port=int(port),
            properties=dict(string.split("=", 1) for string in strings),
            server=f"{kind}-host.local.",
        )
        zeroconf.register_service(info)
        print("ready", flush=True)
    signal.pause()


main()
