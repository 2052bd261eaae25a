"""Which file systems are of this machine."""

from pathlib import Path

import pytest

from clew.disk.mounts import FileSystem, file_system, kind, mount_of, mount_options, mounted

TABLE = """\
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 27 0:27 / /home rw shared:1 - nfs4 server:/home rw
31 30 0:28 / /home/ann/my\\040disk rw - fuse.sshfs host: rw
32 27 0:29 / /srv rw - xfs /dev/vdb rw
33 27 0:30 / /srv rw - tmpfs tmpfs rw
34 27 0:31 / /srv2 rw - 9p share rw
broken line
"""


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/data/.clew", "ext4"),
        ("/", "ext4"),
        ("/home/ann", "nfs4"),
        ("/home/ann/my disk/x", "fuse.sshfs"),
        ("/homely", "ext4"),
        ("/srv/x", "tmpfs"),
        ("/srv2", "9p"),
    ],
)
def test_the_longest_and_latest_mount_holds_a_path(path: str, name: str) -> None:
    """A home on a network folder must not pass for local because the disk above it is."""
    assert mounted(path, TABLE) == name


def test_an_empty_table_tells_nothing() -> None:
    """Unknown is an answer; local would be a guess."""
    assert mounted("/x", "") is None


@pytest.mark.parametrize(
    ("name", "local"),
    [
        ("ext4", True),
        ("overlay", True),
        ("NTFS", True),
        ("nfs4", False),
        ("fuse.sshfs", False),
        ("fuseblk", False),
        ("virtiofs", False),
        ("cifs", False),
        ("newfs", None),
    ],
)
def test_only_known_kinds_are_called_local(name: str, local: bool | None) -> None:
    """On any other the kernel's lock may not reach the other writer."""
    assert kind(name) == FileSystem(name, local)


def test_a_real_path_has_a_file_system(tmp_path: Path) -> None:
    """The proof is made of this."""
    assert file_system(tmp_path).name not in ("", "unknown")


def test_a_path_behind_a_link_is_judged_where_it_lies(tmp_path: Path) -> None:
    """The home may be a link to another disk."""
    (tmp_path / "link").symlink_to("/proc/self")

    assert file_system(tmp_path / "link") == FileSystem("proc", None)


@pytest.mark.parametrize(
    ("line", "options"),
    [
        ("27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,nobarrier", ("rw", "relatime", "nobarrier")),
        ("27 1 0:9 / / rw - overlay overlay rw,lowerdir=/a,volatile", ("rw", "lowerdir=/a", "volatile")),
        ("27 1 0:9 / / ro", None),
    ],
)
def test_a_mount_has_the_options_of_its_place_and_of_its_file_system(line: str, options: tuple[str, ...]) -> None:
    """What makes a sync mean nothing may stand in either."""
    found = mount_of("/x", line)

    assert options == (None if found is None else found[1])


def test_a_real_path_is_mounted_somehow(tmp_path: Path) -> None:
    """The doctor goes by this."""
    assert {"rw", "ro"} & set(mount_options(tmp_path))


def test_without_a_mount_table_nothing_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a file system that nobody names, the lock proves nothing."""
    monkeypatch.setattr("clew.disk.mounts._MOUNTS", tmp_path / "none")

    found = (file_system(tmp_path), mount_options(tmp_path))

    assert (FileSystem("unknown", None), ()) == found
