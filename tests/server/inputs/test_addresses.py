"""Which addresses may be reached, by the registries and by what clouds hide behind."""

from ipaddress import ip_address

import pytest

from server.inputs.addresses import is_public

PUBLIC = (
    "1.1.1.1", "8.8.8.8", "93.184.216.34", "172.15.0.1", "172.32.0.1", "192.167.1.1", "100.63.0.1",
    "100.128.0.1", "223.255.255.1", "2606:4700:4700::1111", "2a00:1450:4001:82b::200e",
    "::ffff:8.8.8.8", "64:ff9b::808:808",
)  # fmt: skip
OTHERS = (
    "0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.100.100.200",
    "127.0.0.1", "127.255.255.254", "168.63.129.16", "169.254.169.254", "169.254.170.2",
    "172.16.0.1", "172.31.255.255", "192.0.0.192", "192.0.2.1", "192.88.99.1", "192.168.0.1",
    "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1",
    "255.255.255.255",
    "::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:a9fe:a9fe", "::ffff:10.0.0.1",
    "::ffff:0:127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::808:808", "100::1",
    "2001::1", "2001:0:7f00:1::", "2001:db8::1", "2002:7f00:1::", "2002:a9fe:a9fe::1",
    "2002:808:808::1", "3fff::1", "5f00::1", "fc00::1", "fd00:ec2::254", "fe80::1", "fe80::1%eth0",
    "fec0::1", "ff02::1", "4000::1",
)  # fmt: skip


@pytest.mark.parametrize("text", PUBLIC)
def test_public(text: str) -> None:
    assert is_public(ip_address(text))


@pytest.mark.parametrize("text", OTHERS)
def test_not_public(text: str) -> None:
    assert not is_public(ip_address(text))
