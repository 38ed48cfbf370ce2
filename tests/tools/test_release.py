"""Releases: what is refused, and what is tagged."""

from __future__ import annotations

import shutil
import subprocess
from datetime import date

import pytest

from tools import release

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")

CHANGELOG = """# Changelog

## {version} ({day})
- Something is new.

### Fixed
- A bug.

## 0.1.0 (2025-01-01)
- The first version.
"""


def git(root, *arguments):
    return subprocess.run(
        ["git", *arguments], cwd=root, check=True, capture_output=True, text=True
    ).stdout.strip()


def commit(root, **files):
    for name, text in files.items():
        (root / name.replace("_", ".")).write_text(text)
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "Change")


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", "/dev/null")
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "Tester")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "tester@example.org")
    git(tmp_path, "init", "--quiet", "--initial-branch", "main")
    commit(
        tmp_path,
        CHANGELOG_md=CHANGELOG.format(version="0.2.0", day=date.today()),
        CITATION_cff="cff-version: 1.2.0\nversion: 0.2.0\n",
    )
    return tmp_path


def run(root, version="0.2.0", test="true", *options):
    return release.main([version, "--root", str(root), "--test-command", test, *options])


def is_refused(root, capsys, message, *arguments):
    tags = git(root, "tag")
    assert run(root, *arguments) == 1
    assert git(root, "tag") == tags
    assert message in capsys.readouterr().err
    return True


def test_a_release_is_a_tag_with_the_notes_and_pushes_nothing(root, capsys):
    assert run(root) == 0
    assert git(root, "rev-parse", "v0.2.0^{commit}") == git(root, "rev-parse", "main")
    message = git(root, "tag", "--list", "v0.2.0", "--format=%(contents)")
    assert message == "amforest 0.2.0\n\n- Something is new.\n\n### Fixed\n- A bug."
    assert "git push --atomic origin main v0.2.0" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["CHANGELOG.md", "new.txt"])
def test_a_dirty_tree_is_refused(root, capsys, name):
    with (root / name).open("a") as file:
        file.write("more\n")
    assert is_refused(root, capsys, name)


def test_tests_that_leave_files_make_the_tree_dirty(root, capsys):
    assert is_refused(root, capsys, "left.txt", "0.2.0", "touch left.txt")


def test_another_branch_is_refused(root, capsys):
    git(root, "switch", "--quiet", "--create", "topic")
    assert is_refused(root, capsys, "the branch is topic: switch to main")
    git(root, "switch", "--quiet", "--detach", "main")
    assert is_refused(root, capsys, "the branch is detached")


def test_a_version_without_a_section_of_today_is_refused(root, capsys):
    commit(root, CITATION_cff="version: 0.3.0\n")
    assert is_refused(root, capsys, "no section '## 0.3.0", "0.3.0")
    commit(root, CHANGELOG_md=CHANGELOG.format(version="0.3.0", day="2026-01-02"))
    assert is_refused(root, capsys, "dates 0.3.0 2026-01-02", "0.3.0")
    commit(root, CHANGELOG_md=f"# Changelog\n\n## 0.3.0 ({date.today()})\n\n## 0.2.0\n- Old.\n")
    assert is_refused(root, capsys, "is empty", "0.3.0")


def test_a_tag_that_exists_or_is_newer_is_refused(root, capsys):
    assert run(root) == 0
    assert is_refused(root, capsys, "the tag v0.2.0 exists")
    git(root, "tag", "v0.10.0")
    git(root, "tag", "--delete", "v0.2.0")
    assert is_refused(root, capsys, "version 0.10.0 is released already")


def test_another_version_in_the_citation_is_refused(root, capsys):
    commit(root, CITATION_cff="version: 0.1.0\n")
    assert is_refused(root, capsys, "CITATION.cff")


@pytest.mark.parametrize("version", ["v0.2.0", "0.2", "0.2.0rc1", "0.2.0\n"])
def test_a_version_is_three_numbers(root, capsys, version):
    assert is_refused(root, capsys, "give three numbers", version)


def test_failing_tests_refuse_a_release_unless_they_are_skipped(root, capsys):
    assert is_refused(root, capsys, "exit code 3", "0.2.0", "exit 3")
    assert run(root, "0.2.0", "exit 3", "--skip-tests") == 0
    assert git(root, "tag") == "v0.2.0"


def test_a_dry_run_prints_the_notes_and_sets_no_tag(root, capsys):
    assert run(root, "0.2.0", "true", "--dry-run") == 0
    assert "- A bug." in capsys.readouterr().out
    assert git(root, "tag") == ""


def test_a_folder_without_git_is_refused(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert run(tmp_path) == 1
    assert "git branch failed" in capsys.readouterr().err
