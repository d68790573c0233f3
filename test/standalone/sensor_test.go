package standalone

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLoadSensorByQconf names a load sensor with qconf, and later none: the daemon starts and ends
// the sensor without a reload.
func TestLoadSensorByQconf(t *testing.T) {
	m := newMachine(t, 1)
	m.args = []string{"--conf", ""} // what is built in, and changed by qconf alone
	m.start()
	sensor := filepath.Join(m.dir, "bin", "licenses")
	m.write("bin/licenses", "#!/bin/sh\nwhile read x && [ \"$x\" != quit ]; do\necho begin; echo "+hostName+":licenses:7; echo end\ndone\n")
	if err := os.Chmod(sensor, 0o755); err != nil {
		t.Fatal(err)
	}
	change := func(option, file, text string) {
		t.Helper()
		m.write(file, text)
		if r := m.root("qconf", option, filepath.Join(m.dir, file)); r.status != 0 {
			t.Fatalf("qconf %s: %+v", option, r)
		}
	}
	change("-Mc", "complexes", m.root("qconf", "-sc").stdout+"licenses lic INT <= YES NO 0 0\n")
	former := m.root("qconf", "-sconf").stdout
	if !strings.Contains(former, "load_sensor ") {
		t.Fatalf("no load_sensor in\n%s", former)
	}
	with := func(sensors string) string {
		var text strings.Builder
		for l := range strings.Lines(former) {
			if name, _, _ := strings.Cut(l, " "); name != "load_sensor" && name != "load_report_time" {
				text.WriteString(l)
			}
		}
		return text.String() + "load_report_time 00:00:01\nload_sensor " + sensors + "\n"
	}
	change("-Mconf", "global", with(sensor))
	m.until("qhost shows what the sensor says", func() bool {
		return strings.Contains(m.root("qhost", "-F", "licenses").stdout, "hl:licenses=7.000000")
	})
	change("-Mconf", "global", with("none"))
	m.until("qhost no longer shows it", func() bool {
		return !strings.Contains(m.root("qhost", "-F", "licenses").stdout, "licenses=")
	})
}
