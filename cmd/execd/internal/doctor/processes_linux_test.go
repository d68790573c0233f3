package doctor

import (
	"net"
	"os"
	"strconv"
	"testing"

	"github.com/execd-project/execd/internal/host/userdb"
)

// TestProcesses checks that the process that serves the socket is found and described with the
// kernel's data.
func TestProcesses(t *testing.T) {
	dir := t.TempDir()
	if list := findProcesses([]string{dir + "/none"}, userdb.System()); len(list) > 0 {
		t.Errorf("without a daemon there are %+v", list)
	}
	l, err := net.Listen("unix", dir+"/s")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	list := findProcesses([]string{dir + "/none", dir + "/s"}, userdb.System())
	if len(list) != 1 {
		t.Fatalf("there are %+v, expected this process", list)
	}
	name := strconv.Itoa(os.Geteuid())
	if u, err := userdb.System().UserID(uint32(os.Geteuid())); err == nil {
		name = u.Name
	}
	p := list[0]
	if p.PID != os.Getpid() || p.Role != roleDaemon || p.User != name || p.Capabilities != (len(capabilities()) > 0) {
		t.Errorf("there is %+v, expected process %d of %s", p, os.Getpid(), name)
	}
}
