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
test "$*" = "-n -X -P -j 11_1 -o AdminComment" && cat {folder}/comment
"""


def commands(folder: Path, keep: str) -> Commenter:
    for name, text in (("sacctmgr", _SACCTMGR), ("sacct", _SACCT)):
        (folder / name).write_text(text.format(folder=folder, keep=keep))
        (folder / name).chmod(0o755)
    return Commenter(str(folder / "sacctmgr"), str(folder / "sacct"))


@pytest.mark.parametrize(("keep", "kept"), [("cat", "JS1:Ab="), ("tr A-Z a-z", "in words")])
def test_comment_or_what_says_it_in_words(tmp_path: Path, keep: str, kept: str) -> None:
    commenter = commands(tmp_path, keep)
    for job in ("11_1", "11_2"):
        commenter.write(job, "JS1:Ab=", "In words")
        assert (tmp_path / "comment").read_text().strip() == kept

    written = (tmp_path / "jobs").read_text().split()
    assert written == (["jobid=11_1", "jobid=11_2"] if keep == "cat" else ["jobid=11_1", "jobid=11_1", "jobid=11_2"])


def test_failures_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "sacctmgr").write_text("#!/bin/sh\necho 'no slurmdbd' >&2; exit 1\n")
    (tmp_path / "sacctmgr").chmod(0o755)

    with pytest.raises(CommentError, match="no slurmdbd"):
        Commenter(str(tmp_path / "sacctmgr")).write("1", "a", "a")
    with pytest.raises(CommentError, match="No such file"):
        Commenter("/nowhere").write("1", "a", "a")
