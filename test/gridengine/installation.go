package gridengine

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/execd-project/execd/internal/testenv"
)

// An installation is the Grid Engine that a cell runs: an Open Cluster Scheduler below root, or
// Debian's Grid Engine if root is empty.
type installation struct{ root string }

// arch is Grid Engine's name for the architecture of its programs.
const arch = "lx-amd64"

// need returns the requirement for the cell that the machine must meet.
func (c *Config) need() testenv.Need {
	if c.Installation != "" {
		return testenv.OCS
	}
	return testenv.GridEngine
}

// classic reports whether the master stores its objects in files, the only kind of spooling that
// every Open Cluster Scheduler supports.
func (c *Config) classic() bool { return c.Classic || c.Installation != "" }

// path returns the directories of its programs, for PATH.
func (i installation) path() string {
	if i.root == "" {
		return testenv.GridEngineDir
	}
	return filepath.Join(i.root, "bin", arch) + ":" + filepath.Join(i.root, "utilbin", arch)
}

// prepare creates a directory that is the cell's SGE_ROOT.
func (i installation) prepare(dir string) error {
	if i.root == "" {
		if out, err := exec.Command("cp", "-a", sgeRoot, dir).CombinedOutput(); err != nil {
			return fmt.Errorf("cannot copy %s: %w: %s", sgeRoot, err, out)
		}
		return nil
	}
	if err := os.MkdirAll(filepath.Join(dir, "default/common"), 0o755); err != nil {
		return err
	}
	for _, name := range []string{"bin", "utilbin", "lib", "util"} {
		if err := os.Symlink(filepath.Join(i.root, name), filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// bootstrap returns the file bootstrap(5) of a new cell.
func (i installation) bootstrap() (string, error) {
	if i.root == "" {
		text, err := os.ReadFile(filepath.Join(shareDir, "default-bootstrap"))
		return string(text), err
	}
	return `admin_user sgeadmin
default_domain none
ignore_fqdn false
spooling_method classic
spooling_lib libspoolc
spooling_params none
binary_path none
qmaster_spool_dir ` + spoolDir + `/qmaster
security_mode none
listener_threads 2
worker_threads 2
reader_threads 2
scheduler_threads 1
`, nil
}

// reportsLoad reports whether the master knows the load of a host. When a host first registers,
// Open Cluster Scheduler limits it to as many slots as it has processors; reportsLoad removes this
// limit, so that all slots belong to the queues.
func (c *Cell) reportsLoad(host string) (bool, error) {
	out, err := c.Root("qhost", "-h", host, "-F", "load_avg")
	if err != nil || !strings.Contains(out, "hl:load_avg") {
		return false, err
	}
	if c.install.root != "" {
		_, err = c.Root("qconf", "-mattr", "exechost", "complex_values", "slots=1000", host)
	}
	return err == nil, err
}

// configuration returns the global configuration of a new cell, sge_conf(5).
func (i installation) configuration() (string, error) {
	if i.root == "" {
		text, err := os.ReadFile(filepath.Join(shareDir, "default-configuration"))
		return string(text), err
	}
	return ocsConfiguration, nil
}

// ocsConfiguration is a global configuration of Open Cluster Scheduler.
const ocsConfiguration = `execd_spool_dir ` + spoolDir + `/execd
mailer /usr/bin/mail
xterm /usr/bin/xterm
load_sensor none
prolog none
epilog none
shell_start_mode posix_compliant
login_shells bash,sh,ksh,csh,tcsh
min_uid 1000
min_gid 1000
user_lists none
xuser_lists none
projects none
xprojects none
enforce_project false
enforce_user auto
load_report_time 00:00:40
max_unheard 00:05:00
reschedule_unknown 00:00:00
loglevel log_warning
administrator_mail root
mail_tag none
set_token_cmd none
pag_cmd none
token_extend_time none
shepherd_cmd none
qmaster_params none
execd_params none
finished_jobs 100
gid_range ` + GIDRange + `
qlogin_command builtin
qlogin_daemon builtin
rlogin_command builtin
rlogin_daemon builtin
rsh_command builtin
rsh_daemon builtin
max_aj_instances 2000
max_aj_tasks 75000
max_u_jobs 0
max_jobs 0
max_advance_reservations 0
auto_user_oticket 0
auto_user_fshare 0
auto_user_default_project none
auto_user_delete_time 86400
delegated_file_staging false
jsv_url none
gdi_request_limits none
binding_params enabled=true,implicit=false,mode=default,default_unit=C,on_any_host=false,filter=NONE
topology_file none
`
