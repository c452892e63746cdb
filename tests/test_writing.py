"""Files are written whole or not at all, through links, and never in the place of a device."""

from __future__ import annotations

import errno
import os
import stat
import threading

import pytest
from benchmarks.injections import Disk

from fitonce.core import writing
from fitonce.core.writing import UnwrittenError, check_free, write_bytes


def test_a_link_is_written_through(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    target.chmod(0o600)
    link.symlink_to(target)
    with pytest.raises(ValueError, match=r"link exists; pass force=True \(--force\) to replace it"):
        write_bytes(link, b"new")
    write_bytes(link, b"new", force=True)
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert sorted(os.listdir(tmp_path)) == ["link", "target"]


def test_a_link_to_nothing_makes_what_it_names(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "target")
    write_bytes(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_bytes() == b"new"
    (tmp_path / "far").symlink_to(tmp_path / "no" / "target")
    with pytest.raises(ValueError, match=r"the folder .*no does not exist"):
        write_bytes(tmp_path / "far", b"new")


def test_a_device_stays_one():
    before = os.stat(os.devnull)
    write_bytes(os.devnull, b"gone", force=True)
    write_bytes(os.devnull, b"gone")
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)
    assert os.stat(os.devnull).st_ino == before.st_ino


def test_a_pipe_is_written_to(tmp_path):
    pipe, got = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    write_bytes(pipe, b"through", force=True)
    reader.join(10)
    assert got == [b"through"]
    assert pipe.is_fifo()


@pytest.mark.parametrize("call", ["open", "fsync", "replace"])
@pytest.mark.parametrize("before", [None, b"old"])
def test_a_full_disk_leaves_what_was_there_and_names_the_file(tmp_path, monkeypatch, call, before):
    path = tmp_path / "result.json"
    if before is not None:
        path.write_bytes(before)

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    place = writing if call == "open" else os
    monkeypatch.setattr(place, call, full, raising=False)
    with pytest.raises(UnwrittenError, match=r"result\.json could not be written: No space left"):
        write_bytes(path, b"new", force=True)
    monkeypatch.undo()
    assert os.listdir(tmp_path) == ([] if before is None else ["result.json"])
    assert before is None or path.read_bytes() == before


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("", "path must be the path of a file, got ''"),
        (None, "path must be the path of a file, got None"),
        (5, "path must be the path of a file, got 5"),
        (".", "expected a file to write, got the folder ."),
        ("a\0b", "the path of a file"),
        ("x" * 5000, "the path of a file"),
    ],
)
def test_what_is_not_a_path_is_refused(path, text):
    with pytest.raises(ValueError, match=text):
        check_free(path)


def test_links_in_a_circle_are_refused(tmp_path):
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(ValueError, match="the path of a file"):
        write_bytes(tmp_path / "a", b"new")


@pytest.mark.parametrize("room", [*range(9), 9, 10])
@pytest.mark.parametrize("before", [None, b"old"])
def test_a_disk_that_fills_at_any_byte_leaves_the_old_file_or_the_new(tmp_path, room, before):
    path = tmp_path / "result.json"
    if before is not None:
        path.write_bytes(before)
    with Disk(room) as disk:
        if room < 9:
            with pytest.raises(UnwrittenError, match="could not be written: No space left on device"):
                write_bytes(path, b"123456789", force=True)
        else:
            write_bytes(path, b"123456789", force=True)
    assert disk.used == min(room, 9)
    expected = b"123456789" if room >= 9 else before
    assert [file.read_bytes() for file in tmp_path.iterdir()] == ([] if expected is None else [expected])


def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path):
    name = "a[1].json"
    left, other = tmp_path / f".{name}.0123abcd.part", tmp_path / ".b.json.0123abcd.part"
    mine = tmp_path / f".{name}.backup.part"
    for file in (left, other, mine):
        file.write_bytes(b"half")
    write_bytes(tmp_path / name, b"new")
    assert sorted(tmp_path.iterdir()) == sorted([mine, other, tmp_path / name])


def test_a_draft_that_another_process_removes_is_written_again(tmp_path, monkeypatch):
    """Between its making and its lock it looks like one that was left."""
    real, calls = writing._lock, []

    def late(file, wait=True):
        if wait and not calls:
            calls.append(file.name)
            os.unlink(file.name)
        return real(file, wait)

    monkeypatch.setattr(writing, "_lock", late)
    write_bytes(tmp_path / "a", b"new")
    assert len(calls) == 1
    assert (tmp_path / "a").read_bytes() == b"new"


@pytest.mark.parametrize(("age", "kept"), [(3600.0, True), (-1e9, True), (25 * 3600.0, False)])
def test_without_locks_only_old_drafts_are_removed_whatever_the_clock(tmp_path, monkeypatch, age, kept):
    draft = tmp_path / ".a.0123abcd.part"
    draft.write_bytes(b"half")
    now = draft.stat().st_mtime + age
    monkeypatch.setattr(writing, "_lock", lambda *_, **__: False)
    monkeypatch.setattr(writing.time, "time", lambda: now)
    write_bytes(tmp_path / "a", b"new")
    assert draft.exists() == kept
