package doctor

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/execd-project/execd/agent/launch"
	"github.com/execd-project/execd/agent/paths"
	"github.com/execd-project/execd/internal/configdir"
	"github.com/execd-project/execd/internal/host/procedures"
	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/internal/options"
	"github.com/execd-project/execd/internal/trust"
	"github.com/execd-project/execd/qconf"
)

// Usage is the output of execd doctor --help.
const Usage = `Usage: execd doctor [--json] [--conf DIR] [--gpu-root DIR]

Shows which limits of jobs this host can enforce, by which means, and how to improve it.

  --json      write the report as JSON
  --conf DIR  configuration: see execd run --help (default: built-in)
  --gpu-root DIR
              find GPUs in DIR/proc and DIR/sys, for tests without GPUs (default: /)
  --help      print this text

Exit status: 0 if every limit is enforced by the best means; 3 if every limit is enforced,
some with a gap; 1 if a limit cannot be enforced; 2 for wrong usage; 125 if the
configuration or the host could not be read.
`

// Run runs execd doctor with the arguments after "doctor", and returns the exit status: StatusBest,
// StatusMissing or StatusWorks.
func Run(args []string, stdout io.Writer) (int, error) {
	asJSON, conf, gpuRoot := false, "", "/"
	line, err := options.Parse(Usage, args, options.Values{"json": &asJSON, "conf": &conf, "gpu-root": &gpuRoot})
	if err != nil {
		return options.Exit(stdout, Usage, err)
	}
	if len(line.Operands) > 0 {
		return options.ExitUsage, options.Usagef("unexpected argument %q", line.Operands[0])
	}
	cluster := qconf.Builtin(runtime.NumCPU())
	if conf != "" {
		if _, err := os.ReadDir(conf); err != nil {
			return 0, fmt.Errorf("cannot read the configuration: %w", err)
		}
		if cluster, err = qconf.Load(os.DirFS(conf), cluster); err != nil {
			return 0, fmt.Errorf("cannot read the configuration in %q: %w", conf, err)
		}
	}
	untrusted, err := untrustedFiles(conf)
	if err != nil {
		return 0, err
	}
	host, err := os.Hostname()
	if err != nil {
		return 0, err
	}
	h := Probe(cluster.Config(host), gpuRoot)
	for _, p := range configdir.UntrustedPrograms(cluster) {
		untrusted = append(untrusted, p.String())
	}
	h.Untrusted = untrusted
	h.Processes = findProcesses(paths.Sockets(os.Geteuid() == 0), userdb.System())
	h.readProcedures(paths.Procedures)
	r := New(h)
	text := []byte(r.Text())
	if asJSON {
		if text, err = r.JSON(); err != nil {
			return 0, err
		}
	}
	_, err = stdout.Write(text)
	return r.Status(), err
}

// untrustedFiles returns the files of a daemon that other users can change. conf is the
// configuration directory; if it is empty and the caller is root, it is the host's default.
func untrustedFiles(conf string) ([]string, error) {
	if _, err := os.Stat(paths.Conf); conf == "" && err == nil && os.Geteuid() == 0 {
		conf = paths.Conf
	}
	var list []string
	if conf != "" {
		for _, e := range configdir.Untrusted(conf) {
			list = append(list, fmt.Sprintf("%q is not trusted: %s", e.At, e.Reason()))
		}
	}
	execd, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if _, err := launch.FindShepherd(execd); err != nil {
		if e, ok := errors.AsType[*trust.Error](err); ok {
			list = append(list, e.Error())
		}
	}
	return list, nil
}

// readProcedures checks the file that limits the programs that a master may run on this host.
// Daemons of ordinary users do not use this file.
func (h *Host) readProcedures(file string) {
	if !h.root() {
		return
	}
	if list, err := procedures.Read(file); err != nil {
		h.Untrusted = append(h.Untrusted, err.Error())
	} else if list == nil {
		return
	}
	h.Procedures = file
}
