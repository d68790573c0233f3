package record

import (
	"os"
	"path/filepath"
	"regexp"

	"github.com/execd-project/execd/simulate/script"
	"github.com/execd-project/execd/test/gridengine"
)

var cpuArgument = regexp.MustCompile(` cpu=\d`)

func saysUsage(l script.Line) bool {
	return l.Kind == script.Command && cpuArgument.MatchString(l.Command)
}

// shepherdScript is called in the job's directory, as sge_shepherd(8) is.
const shepherdScript = `#!/bin/sh
echo $$ >pid
argument() { sed -n "s/^job_arg$1=//p" config; }
cpu=$(sed -n 's/^job_arg[0-9]*=cpu=//p' config)
start=$(date +%s)
sleep "$(argument 1)" &
echo $! >job_pid
trap 'kill %1' TERM TTIN
wait
end=$(date +%s)
cat >usage <<END
wait_status=0
exit_status=0
signal=0
start_time=$start
end_time=$end
ru_wallclock=$((end - start))
ru_utime=${cpu:-0}
ru_stime=0
ru_maxrss=0
ru_ixrss=0
ru_idrss=0
ru_isrss=0
ru_minflt=0
ru_majflt=0
ru_nswap=0
ru_inblock=0
ru_oublock=0
ru_msgsnd=0
ru_msgrcv=0
ru_nsignals=0
ru_nvcsw=0
ru_nivcsw=0
END
echo 0 >exit_status
`

// withShepherd makes the hosts of a cell use the shepherd script.
func withShepherd(config *gridengine.Config, dir string, hosts []string) error {
	config.Shepherd, config.Nodes, config.Bare = filepath.Join(dir, "shepherd"), hosts, true
	config.Conf["load_report_time"], config.Conf["finished_jobs"] = "00:00:01", "0"
	return os.WriteFile(config.Shepherd, []byte(shepherdScript), 0o755)
}
