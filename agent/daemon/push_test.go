package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/execd-project/execd/qconf"
)

// numbered returns a configuration of so many queues, each of which has the number of slots.
func numbered(queues, slots int) map[string]string {
	files := map[string]string{}
	for i := range queues {
		name := fmt.Sprintf("q%d.q", i)
		files["queues/"+name] = fmt.Sprintf("qname %s\nhostlist node1\nslots %d\n", name, slots)
	}
	return files
}

// numberOf returns the number of slots that all queues have; -1 where they differ.
func numberOf(c *qconf.Cluster, queues int) int {
	number := 0
	for i, name := range c.QueueNames() {
		settings, err := c.Instance(name, "node1")
		if err != nil || i > 0 && settings.Slots != number {
			return -1
		}
		number = settings.Slots
	}
	if len(c.QueueNames()) != queues {
		return -1
	}
	return number
}

// readMeanwhile reads the configuration again and again until the returned function is called. All
// queues must have the same number of slots: a reader sees one configuration, and no mixture of two.
func readMeanwhile(t *testing.T, c *configuration, queues int) (end func()) {
	over := make(chan struct{})
	var wait sync.WaitGroup
	for range 3 {
		wait.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				cluster, _, err := c.read()
				if err != nil {
					t.Errorf("cannot read the configuration: %v", err)
					return
				}
				if numberOf(cluster, queues) < 1 {
					t.Errorf("read a mixture of two configurations: %d queues", len(cluster.QueueNames()))
					return
				}
			}
		})
	}
	return func() {
		close(over)
		wait.Wait()
	}
}

// TestReadersOfPushes reads the configuration while a master pushes others.
func TestReadersOfPushes(t *testing.T) {
	const queues, pushes = 10, 20
	dir := t.TempDir()
	c := &configuration{spool: dir}
	use := func() error { return nil }
	if err := c.install(numbered(queues, 1), use); err != nil {
		t.Fatal(err)
	}
	end := readMeanwhile(t, c, queues)
	for i := range pushes {
		files := numbered(queues, 1+i%7)
		if i%5 == 4 {
			files["queues/q3.q"] = "qname q3.q\nslots many\n" // refused
		}
		if err := c.install(files, use); (err == nil) != (i%5 != 4) {
			t.Errorf("push %d: %v", i, err)
		}
	}
	end()
	left, err := filepath.Glob(dir + "/" + pushedDir + ".*")
	if err != nil || len(left) > 0 {
		t.Errorf("there are %q, %v", left, err)
	}
}

// TestReadersOfChanges reads the configuration while changes of several files are made.
func TestReadersOfChanges(t *testing.T) {
	const queues, rounds = 6, 20
	dir := t.TempDir()
	c := &configuration{dir: filepath.Join(dir, "conf"), spool: dir, base: qconf.Builtin(1)}
	text := func(slots int) map[string][]byte {
		files := map[string][]byte{}
		for name, data := range numbered(queues, slots) {
			files[name] = []byte(data)
		}
		return files
	}
	if err := os.MkdirAll(c.dir+"/queues", 0o755); err != nil {
		t.Fatal(err)
	}
	for name, data := range text(1) {
		if err := os.WriteFile(filepath.Join(c.dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	end := readMeanwhile(t, c, queues)
	for i := range rounds {
		if err := c.change(text(1+i%7), func() error { return nil }); err != nil {
			t.Error(err)
		}
	}
	end()
}

// TestInterruptedPush interrupts the push of a configuration at every step, as a power failure
// would: what is left is either the old configuration or the new one.
func TestInterruptedPush(t *testing.T) {
	const queues, old, next = 3, 5, 7
	for name, test := range map[string]struct {
		dirs map[string]int // slots of the queues; 0 for a part of a configuration
		want int
	}{
		"while the next one is written":             {map[string]int{"": old, ".new": 0}, old},
		"before they change places":                 {map[string]int{"": old, ".new": next}, old},
		"after they have changed places":            {map[string]int{"": next, ".new": old}, next},
		"before it is used":                         {map[string]int{"": next, ".old": old}, next},
		"while one is aside":                        {map[string]int{".aside": old, ".new": next}, old},
		"while the one that was refused is aside":   {map[string]int{".aside": next, ".old": old}, old},
		"as none was to be used any more":           {map[string]int{".old": old}, old},
		"while the former one is removed":           {map[string]int{"": next, ".trash": 0}, next},
		"while the one that is not used is removed": {map[string]int{".trash": 0}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for suffix, slots := range test.dirs {
				files := numbered(queues, max(slots, 1))
				if slots == 0 {
					delete(files, "queues/q1.q")
				}
				for name, text := range files {
					path := filepath.Join(dir, pushedDir+suffix, name)
					if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
						t.Fatal(err)
					}
					if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
						t.Fatal(err)
					}
				}
			}
			c := &configuration{spool: dir}
			if err := c.restore(); err != nil {
				t.Fatal(err)
			}
			cluster, version, err := c.read()
			if err != nil {
				t.Fatal(err)
			}
			if got := numberOf(cluster, queues); test.want > 0 && got != test.want || test.want == 0 && version != "builtin" {
				t.Errorf("what is used has %d slots, expected %d; version %s", got, test.want, version)
			}
			entries, err := os.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				if strings.Contains(e.Name(), ".") {
					t.Errorf("%s is left", e.Name())
				}
			}
		})
	}
}

// TestPushThatIsRefused checks that the previous configuration stays in use if the agent refuses a
// readable one.
func TestPushThatIsRefused(t *testing.T) {
	const queues = 3
	c := &configuration{spool: t.TempDir()}
	if err := c.install(numbered(queues, 5), func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	for _, files := range []map[string]string{numbered(queues, 7), nil} {
		var seen []int
		err := c.install(files, func() error {
			cluster, _, err := c.read()
			if err != nil {
				return err
			}
			n := numberOf(cluster, queues)
			if seen = append(seen, n); n != 5 {
				return fmt.Errorf("%d slots are too many", n)
			}
			return nil
		})
		if err == nil || len(seen) != 2 || seen[1] != 5 {
			t.Errorf("it was used %v, %v", seen, err)
		}
	}
}
