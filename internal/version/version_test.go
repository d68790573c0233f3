package version

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// semver is the part of semantic versioning that dpkg and rpm order in the same way.
var semver = regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+(\+[0-9A-Za-z.]+)?$`)

func TestVersionIsOneThatPackagesOrder(t *testing.T) {
	if v := String(); !semver.MatchString(v) || strings.Contains(v, "+") {
		t.Errorf("the version of a test is %q, want three numbers", v)
	}
}

// TestChangelogNamesTheVersion compares VERSION with the newest release in CHANGELOG.md.
func TestChangelogNamesTheVersion(t *testing.T) {
	text, err := os.ReadFile("../../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^## \[?([0-9]+\.[0-9]+\.[0-9]+)`).FindSubmatch(text)
	if m == nil || string(m[1]) != String() {
		t.Errorf("the newest release in CHANGELOG.md is %q, and VERSION says %s", m, String())
	}
}

// TestMakefileBuildsTheVersion runs make build for a program that prints the version: in a
// repository at a release, after it, with changed files, and in a directory that is no repository.
func TestMakefileBuildsTheVersion(t *testing.T) {
	dir := t.TempDir()
	run := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
			"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b", "MAKEFLAGS=")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
		}
		return strings.TrimSpace(string(out))
	}
	makefile, err := filepath.Abs("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "internal/version"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "internal/version/VERSION"), []byte("1.2.3\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	check := func(what, pattern string) {
		t.Helper()
		got := run("make", "-s", "-f", makefile, "version")
		if !regexp.MustCompile(`^`+pattern+`$`).MatchString(got) || !semver.MatchString(got) {
			t.Errorf("%s: the version is %q, want %s", what, got, pattern)
		}
	}
	check("no repository", `1\.2\.3`)
	if _, err := exec.LookPath("git"); err != nil {
		return // a machine without git builds the release
	}
	run("git", "init", "-q")
	run("git", "add", ".")
	run("git", "commit", "-qm", "a")
	check("no tag", `1\.2\.3\+1\.g[0-9a-f]{7,}`)
	run("git", "tag", "v1.2.3")
	check("the release", `1\.2\.3`)
	if err := os.WriteFile(filepath.Join(dir, "internal/version/VERSION"), []byte("1.2.3"), 0o644); err != nil {
		t.Fatal(err)
	}
	check("changed files", `1\.2\.3\+1\.g[0-9a-f]{7,}\.dirty`)
}
