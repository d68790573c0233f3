// Master is a small master of a cluster: it accepts jobs, decides with package cell (and
// the package scheduler that cell uses) where they run, and starts them on agents (execd
// agent). It is an example for builders of masters:
//
//   - main.go reads the commands
//   - master.go decides and acts
//   - agent.go speaks to agents
//   - ledger.go stores the ends of jobs
//
// README.md lists the missing parts.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"os/user"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/execd-project/execd/agent/api"
	"github.com/execd-project/execd/cell"
	"github.com/execd-project/execd/qconf"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "master:", err)
		os.Exit(1)
	}
}

func run() error {
	var (
		conf   = flag.String("conf", "", "configuration `directory`, as for execd simulate")
		jobs   = flag.String("jobs", "-", "`file` with command lines of qsub, qdel and qmod; - is standard input")
		owner  = flag.String("owner", "", "`user` whose jobs they are (default: who calls, and nobody for root, as whom no job runs)")
		ends   = flag.String("ledger", "ledger", "`file` for what became of jobs, a line of JSON each")
		tls    api.TLS
		agents []string
	)
	flag.Func("agent", "`HOST=PATH` of a Unix socket, or HOST=ADDRESS:PORT with certificates; may be repeated", func(s string) error {
		agents = append(agents, s)
		return nil
	})
	flag.StringVar(&tls.CA, "tls-ca", "", "`file`: who signs the certificates of agents, which have the names of their hosts")
	flag.StringVar(&tls.Certificate, "tls-cert", "", "`file`: certificate of this master")
	flag.StringVar(&tls.Key, "tls-key", "", "`file`: and its key")
	flag.Parse()
	switch {
	case flag.NArg() > 0:
		return fmt.Errorf("unexpected argument %q", flag.Arg(0))
	case *conf == "" || len(agents) == 0:
		return fmt.Errorf("--conf and --agent are needed")
	}

	cluster, err := qconf.Load(os.DirFS(*conf), qconf.Builtin(runtime.NumCPU()))
	if err != nil {
		return err
	}
	by, err := caller(*owner)
	if err != nil {
		return err
	}
	ledger, err := openLedger(*ends)
	if err != nil {
		return err
	}
	defer ledger.close()
	commands, err := open(*jobs)
	if err != nil {
		return err
	}
	defer commands.Close()

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	now := time.Now()
	m := &master{
		cell: cell.New(now.Unix(), cluster, cell.Options{Zone: time.Local}), by: by, ledger: ledger, ctx: ctx,
		// Each master has a larger epoch than the previous one: agents then refuse the calls
		// of the previous master, and its jobs can be distinguished from ours.
		epoch:  uint64(now.UnixMilli()), //nolint:gosec // not before 1970
		agents: map[string]*agent{}, jobs: map[uint32]*submission{}, running: map[string]*attempt{}, parts: map[part]bool{},
		events: make(chan func()),
	}
	for _, text := range agents {
		if err := m.addAgent(text, &tls); err != nil {
			return err
		}
	}
	go m.read(commands)
	return m.run(cluster.Scheduler().ScheduleInterval)
}

// caller returns the submitting user with the name of the group: access lists name both.
func caller(name string) (cell.Caller, error) {
	if name == "" && os.Getuid() == 0 {
		name = "nobody"
	}
	u, err := user.Current()
	if name != "" {
		u, err = user.Lookup(name)
	}
	if err != nil {
		return cell.Caller{}, err
	}
	host, err := os.Hostname()
	if err != nil {
		return cell.Caller{}, err
	}
	group := u.Gid
	if g, err := user.LookupGroupId(u.Gid); err == nil {
		group = g.Name
	}
	return cell.Caller{User: u.Username, Group: group, Host: host}, nil
}

// open opens the source of commands. It opens a FIFO for writing, too, so that the input does not end
// when the first writer closes the FIFO.
func open(name string) (io.ReadCloser, error) {
	if name == "-" {
		return os.Stdin, nil
	}
	how := os.O_RDONLY
	if info, err := os.Stat(name); err == nil && info.Mode()&os.ModeNamedPipe != 0 {
		how = os.O_RDWR
	}
	return os.OpenFile(name, how, 0)
}

// read sends the lines to the master, one after the other.
func (m *master) read(r io.Reader) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		if line := strings.TrimSpace(lines.Text()); line != "" && line[0] != '#' {
			m.do(func() { m.command(line) })
		}
	}
	m.do(func() { m.complete = true })
}
