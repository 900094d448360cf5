"""Which network addresses belong to the public internet, and nothing else."""

from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
Allowed = Callable[[Address], bool]

# Public by the registries or by some versions of ipaddress, yet not for us.
_NOT_FOR_US = (
    ip_network("168.63.129.16/32"),  # Azure's host, which hands out credentials
    ip_network("192.0.0.0/24"),  # protocols' own, and the metadata of some clouds
    ip_network("192.88.99.0/24"),  # relays of 6to4
    ip_network("2001::/23"),  # Teredo and the protocols' own
    ip_network("2002::/16"),  # 6to4: an IPv4 address in disguise
    ip_network("3fff::/20"),  # documentation
)
_UNICAST = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")  # an IPv4 address, reached through a translator


def is_public(address: Address) -> bool:
    """Whether an address is one of the public internet.

    IPv6 that stands for an IPv4 address (mapped, NAT64) is judged as that one.
    """
    if isinstance(address, IPv6Address):
        inner = address.ipv4_mapped
        if address in _NAT64:
            inner = IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(inner)
        if address not in _UNICAST:
            return False
    return (
        address.is_global
        and not address.is_multicast
        and not address.is_reserved
        and not any(address in network for network in _NOT_FOR_US)
    )


def is_any(_address: Address) -> bool:
    """Allow every address: for an installation whose webhooks stay in its own network."""
    return True


def parse_address(text: str) -> Address:
    """Read an address as the system's resolver writes it, perhaps with a scope (fe80::1%eth0)."""
    return ip_address(text)
