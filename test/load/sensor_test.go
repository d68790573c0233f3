package load

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/loadsensor"
	"github.com/execd-project/execd/test/gridengine"
)

// untidy writes correct and incorrect lines. Names begin with t_.
const untidy = `#!/bin/sh
while read line; do
	test "$line" = quit && exit 0
	echo "begin"
	echo "$HOST:t_dropped:1"
	echo "start"
	echo "$HOST:t_int:7"
	echo "$HOST:t_colons:1:30:00"
	echo "$HOST:t_blank:a b"
	echo ""
	echo "no colon"
	echo "$HOST:t_half"
	echo "$HOST:t_twice:1"
	echo "$HOST:t_twice:2"
	echo "nowhere:t_other:1"
	echo "end"
done
`

// TestLoadSensors checks that execd reads the same values from a sensor's output as sge_execd.
func TestLoadSensors(t *testing.T) {
	testenv.Require(t, testenv.Root, testenv.GridEngine)
	cell := gridengine.Start(t, gridengine.Config{Conf: map[string]string{"load_report_time": "00:00:01"}})
	scripts := map[string]string{"untidy": untidy}
	text, err := os.ReadFile("../../examples/sensors/users.sh")
	if err != nil {
		t.Fatal(err)
	}
	scripts["users"] = string(text)
	dir := t.TempDir()
	var theirPaths, ourPaths []string
	// In the reverse order, sge_execd 8.1.9 was observed to loop forever: after a sensor has answered, it
	// does not wait for the next one.
	for _, name := range []string{"users", "untidy"} {
		script := scripts[name]
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := cell.AddProgram(name, path); err != nil {
			t.Fatal(err)
		}
		theirPaths, ourPaths = append(theirPaths, gridengine.BinDir+"/"+name), append(ourPaths, path)
	}
	if err := cell.SetConf(map[string]string{"load_sensor": strings.Join(theirPaths, ",")}); err != nil {
		t.Fatal(err)
	}
	theirs := map[string]string{}
	if err := cell.Poll(time.Minute, "the master has the values of both sensors", func() (bool, error) {
		text, err := cell.Root("qconf", "-se", cell.Host)
		theirs = loadValues(text)
		return theirs["t_int"] != "" && theirs["users_logged_in"] != "", err
	}); err != nil {
		t.Fatalf("%v\n%v\n%s", err, theirs, cell.Messages())
	}

	c, err := loadsensor.New(loadsensor.Options{
		Host: cell.Host, Settings: loadsensor.Settings{Interval: time.Hour, Sensors: ourPaths, User: "root"}, Patience: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	report := <-c.Reports()
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	ours := map[string]string{}
	for _, v := range report.Values {
		if v.Host == cell.Host && v.Source != "" {
			ours[v.Name] = v.Text
		}
	}
	for name := range theirs {
		if !strings.HasPrefix(name, "t_") && !slices.Contains([]string{"users_logged_in", "processes"}, name) {
			delete(theirs, name)
		}
	}
	// Both count processes, but in different namespaces.
	for _, values := range []map[string]string{theirs, ours} {
		if values["processes"] != "" {
			values["processes"] = "N"
		}
	}
	if diff := cmp.Diff(theirs, ours); diff != "" {
		t.Errorf("values (-sge_execd +execd)\n%s\n%s", diff, cell.Messages())
	}
}
