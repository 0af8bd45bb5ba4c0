"""Comments in slurmdbd, over an sacctmgr that keeps letters as they are and one that makes them small."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.tools.report.summaries.jobstats import Commenter, CommentError

_SACCTMGR = """#!/bin/sh
for word; do last=$word; done
echo "$last" | cut -d= -f2- | {keep} > {folder}/comment
echo "$5" >> {folder}/jobs
"""
_SACCT = """#!/bin/sh
cat {folder}/comment 2>/dev/null || true
"""


def commands(folder: Path, keep: str) -> Commenter:
    for name, text in (("sacctmgr", _SACCTMGR), ("sacct", _SACCT)):
        (folder / name).write_text(text.format(folder=folder, keep=keep))
        (folder / name).chmod(0o755)
    return Commenter(str(folder / "sacctmgr"), str(folder / "sacct"))


@pytest.mark.parametrize(("keep", "kept"), [("cat", "JS1:Ab="), ("tr A-Z a-z", "gpu in words")])
def test_comment_or_what_says_it_in_words(tmp_path: Path, keep: str, kept: str) -> None:
    commenter = commands(tmp_path, keep)
    for job in ("11_1", "11_2"):
        commenter.write(job, "JS1:Ab=", "GPU in words")
        assert (tmp_path / "comment").read_text().strip() == kept

    written = (tmp_path / "jobs").read_text().split()
    assert written == (["jobid=11_1", "jobid=11_2"] if keep == "cat" else ["jobid=11_1", "jobid=11_1", "jobid=11_2"])


def test_failures_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "sacctmgr").write_text("#!/bin/sh\necho 'no slurmdbd' >&2; exit 1\n")
    (tmp_path / "sacctmgr").chmod(0o755)

    with pytest.raises(CommentError, match="no slurmdbd"):
        Commenter(str(tmp_path / "sacctmgr"), "true").write("1", "a", "a")
    with pytest.raises(CommentError, match="No such file"):
        Commenter("/nowhere", "true").write("1", "a", "a")


@pytest.mark.parametrize(
    ("before", "existing", "after"),
    [
        ("ticket 42", "append", "ticket 42; GPU 5 % used"),
        ("ticket 42; GPU 5 % used", "append", "ticket 42; GPU 5 % used"),
        ("ticket 42", "keep", "ticket 42"),
        ("JS1:None", "keep", "JS1:Ab="),
        ("gpu 4 % used", "append", "JS1:Ab="),
    ],
)
def test_comment_of_the_site_is_kept(tmp_path: Path, before: str, existing: str, after: str) -> None:
    commands(tmp_path, "cat")
    (tmp_path / "comment").write_text(f"{before}\n")
    commenter = Commenter(str(tmp_path / "sacctmgr"), str(tmp_path / "sacct"), existing=existing)
    commenter.write("11_1", "JS1:Ab=", "GPU 5 % used")

    assert (tmp_path / "comment").read_text().strip() == after
