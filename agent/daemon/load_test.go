package daemon

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/hashicorp/go-hclog"

	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/qconf"
)

func TestLoadSettings(t *testing.T) {
	dir, root := t.TempDir(), t.TempDir()
	t.Setenv("SGE_ROOT", root)
	var log bytes.Buffer
	d := &daemon{
		Command: &Command{Executable: filepath.Join(dir, "execd")}, settings: &settings{host: "n1"},
		log: hclog.New(&hclog.LoggerOptions{Output: &log}),
	}
	settings := func(params string) (sensors []string, ahead bool) {
		t.Helper()
		c, err := qconf.Load(fstest.MapFS{"conf/global": {Data: []byte("load_sensor /opt/lic\nexecd_params " + params + "\n")}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		s := d.loadSettings(c)
		return s.Sensors, s.Ahead
	}
	if got, ahead := settings("none"); !slices.Equal(got, []string{"/opt/lic"}) || ahead {
		t.Errorf("%q, %v", got, ahead)
	}
	if _, ahead := settings("DEMAND_LS=false"); !ahead {
		t.Error("DEMAND_LS has no effect")
	}
	if got, _ := settings("USE_QIDLE=true"); !slices.Equal(got, []string{"/opt/lic"}) || !strings.Contains(log.String(), "there is no program qidle in "+dir) {
		t.Errorf("%q, %s", got, &log)
	}
	for _, place := range []string{filepath.Join(root, "bin", job.Arch(runtime.GOARCH)), dir} {
		path := filepath.Join(place, "qidle")
		if err := os.MkdirAll(place, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o755); err != nil {
			t.Fatal(err)
		}
		if got, _ := settings("USE_QIDLE=true"); !slices.Equal(got, []string{"/opt/lic", path}) {
			t.Errorf("%q, expected %s", got, path)
		}
	}
	if got, _ := settings("USE_QIDLE=false"); !slices.Equal(got, []string{"/opt/lic"}) {
		t.Errorf("%q", got)
	}
}
