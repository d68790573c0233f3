package main

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/agent/launcher"
	"github.com/execd-project/execd/internal/testenv"
)

// TestParse checks that the launcher describes jobs again with the bounds of user and group IDs with
// which it checks owners.
func TestParse(t *testing.T) {
	testenv.Require(t, testenv.Root)
	fd, err := launcher.PutObjects(&launcher.Objects{Tmpdirs: []string{"/scratch"}})
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"--objects", strconv.Itoa(fd), "--front-user", "backup", "--spool", "/nonexistent", "--execd", "/nonexistent/execd", "--host", "host"}
	if _, err := parse(append(args, "--set", "min_uid 3", "--", "standalone")); err == nil || !strings.Contains(err.Error(), "min_gid is missing") {
		t.Errorf("%v, expected that min_gid is missing", err)
	}
	o, err := parse(append(args, "--set", "min_uid 3", "--set", "min_gid 4", "--set", "gid_range 1000-1001", "--", "standalone"))
	if err != nil {
		t.Fatal(err)
	}
	if c := o.rules.Site.Config; c.MinUID != 3 || c.MinGID != 4 {
		t.Errorf("the configuration has min_uid %d and min_gid %d, expected 3 and 4", c.MinUID, c.MinGID)
	}
	if list := o.rules.Tmpdirs; len(list) != 1 || list[0] != "/scratch" {
		t.Errorf("the directories for TMPDIR are %q", list)
	}
}

// TestEnding checks that a launcher that is about to execute itself again ends if a signal has told it to end, and not for
// SIGHUP alone.
func TestEnding(t *testing.T) {
	for _, c := range []struct {
		signals []os.Signal
		want    bool
	}{
		{nil, false},
		{[]os.Signal{unix.SIGHUP, unix.SIGHUP}, false},
		{[]os.Signal{unix.SIGTERM}, true},
		{[]os.Signal{unix.SIGHUP, unix.SIGINT}, true},
	} {
		signals := make(chan os.Signal, 8)
		for _, s := range c.signals {
			signals <- s
		}
		if got := ending(signals); got != c.want {
			t.Errorf("after %v: %v, expected %v", c.signals, got, c.want)
		}
	}
}
