"""Which addresses are planned, and which ports a process is connected to by the kernel's own tables."""

import os
import socket

import pytest

from chaos.cluster import addresses
from chaos.cluster.addresses import remote_ports
from chaos.common.errors import RuntimeUnavailableError


def test_connections_that_are_open_are_found():
    """By their remote ports; a socket that only listens has none."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        port = server.getsockname()[1]

        assert port in remote_ports(os.getpid())
        client.close()
        assert port not in remote_ports(os.getpid())


def test_the_connections_of_others_are_not_its_own(tmp_path):
    """The table is that of the whole network namespace: only inodes that the process holds count."""
    line = "0: 0100007F:0001 0100007F:{:04X} {} 0:0 0:0 0 0 0 {}\n"
    (tmp_path / "7" / "net").mkdir(parents=True)
    (tmp_path / "7" / "net" / "tcp").write_text(
        "head\n" + line.format(19100, "01", 11) + line.format(19101, "01", 12) + line.format(19102, "06", 13)
    )
    (tmp_path / "7" / "fd").mkdir()
    for number, inode in enumerate((11, 13)):
        (tmp_path / "7" / "fd" / str(number)).symlink_to(f"socket:[{inode}]")

    assert remote_ports(7, tmp_path) == {19100}


def test_a_process_that_is_gone_has_none(tmp_path):
    """It may end while it is examined."""
    assert remote_ports(7, tmp_path) == set()


@pytest.mark.parametrize("net", ["10.0", "127.300", "127.77.0.1", ""])
def test_only_loopback_addresses_are_ever_used(net, monkeypatch):
    """CHAOS_NET cannot put a listener where others can reach it."""
    monkeypatch.setenv("CHAOS_NET", net)

    with pytest.raises(RuntimeUnavailableError, match=r"CHAOS_NET=.*set it to 127\.N"):
        addresses.from_environment()
