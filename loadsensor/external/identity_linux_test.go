package external

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/execd-project/execd/internal/host/program"
	"github.com/execd-project/execd/internal/testenv"
)

// stranger is a user ID that test machines do not use.
const stranger = 54321

// reachable makes the directories of the test accessible to other users.
func reachable(t *testing.T, b *Config) {
	t.Helper()
	for _, dir := range []string{b.Dir, b.Dir + "/.."} {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

func TestSensorRunsAsItsUser(t *testing.T) {
	testenv.Require(t, testenv.Root)
	b := begin(t, fmt.Sprintf(good, `echo h:uid:$(id -u); echo h:gid:$(id -g); echo h:groups:$(id -G); echo h:home:$HOME`), func(c *Config) {
		reachable(t, c)
		c.As, c.AsRoot = &program.Identity{Name: "stranger", Home: "/home/x", UID: stranger, GID: stranger + 1, Groups: []uint32{stranger + 2}}, false
	})
	if got, want := b.ask(), "h:uid:54321 h:gid:54322 h:groups:54322 54323 h:home:/home/x"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for _, status := range []string{"Uid", "Gid"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", b.sensor.Status().PID))
		if err != nil {
			t.Fatal(err)
		}
		_, line, _ := strings.Cut(string(text), status+":")
		line, _, _ = strings.Cut(line, "\n")
		for id := range strings.FieldsSeq(line) {
			if !strings.HasPrefix(id, "5432") {
				t.Errorf("%s: %s", status, line)
			}
		}
	}
}

func TestRootIsNotTheDefault(t *testing.T) {
	testenv.Require(t, testenv.Root)
	for name, tt := range map[string]struct {
		prepare func(c *Config) error
		want    string // "" if it starts
	}{
		"nobody was configured":   {func(c *Config) error { c.AsRoot = false; return nil }, "would run as root, and no user is configured"},
		"asked for":               {func(*Config) error { return nil }, ""},
		"everybody may write":     {func(c *Config) error { return os.Chmod(c.Path, 0o777) }, "may be written by everybody"},
		"everybody may replace":   {func(c *Config) error { return os.Chmod(c.Dir, 0o777) }, "may be written by everybody"},
		"owned by somebody":       {func(c *Config) error { return os.Chown(c.Path, stranger, 0) }, "belongs to 54321"},
		"in a folder of somebody": {func(c *Config) error { return os.Chown(c.Dir, stranger, 0) }, "belongs to 54321"},
	} {
		t.Run(name, func(t *testing.T) {
			b := begin(t, fmt.Sprintf(good, "echo h:a:1"), func(c *Config) {
				if err := tt.prepare(c); err != nil {
					t.Fatal(err)
				}
			})
			if tt.want == "" {
				b.await(Reported)
				return
			}
			if e := b.await(CannotStart); !strings.Contains(e.Text, tt.want) {
				t.Errorf("%+v", e)
			}
		})
	}
}

// TestUntrustedSensorsAreNotStarted checks that a sensor that other users can change is not
// started, whether it would run as root or as another user.
func TestUntrustedSensorsAreNotStarted(t *testing.T) {
	testenv.Require(t, testenv.Root)
	for name, tt := range map[string]struct {
		change func(c *Config) error
		want   string
	}{
		"a group may write": {
			func(c *Config) error { return errors.Join(os.Chown(c.Path, -1, stranger), os.Chmod(c.Path, 0o775)) },
			"may be written by group 54321",
		},
		"it belongs to a third user":            {func(c *Config) error { return os.Chown(c.Path, stranger+1, -1) }, "belongs to 54322, expected root or 54321"},
		"its directory belongs to a third user": {func(c *Config) error { return os.Chown(c.Dir, stranger+1, -1) }, "belongs to 54322"},
		"it belongs to its user":                {func(c *Config) error { return os.Chown(c.Path, stranger, -1) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := begin(t, fmt.Sprintf(good, "echo h:a:1"), func(c *Config) {
				reachable(t, c)
				c.As = &program.Identity{Name: "stranger", UID: stranger, GID: stranger}
				if err := tt.change(c); err != nil {
					t.Fatal(err)
				}
			})
			if tt.want == "" {
				b.await(Reported)
			} else if e := b.await(CannotStart); !strings.Contains(e.Text, tt.want) {
				t.Errorf("%+v", e)
			}
		})
	}
}
