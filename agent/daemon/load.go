package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/loadsensor"
	"github.com/execd-project/execd/loadsensor/builtin"
	"github.com/execd-project/execd/loadsensor/external"
	"github.com/execd-project/execd/qconf"
)

// newLoad makes the collector that reports the load of this host.
func (d *daemon) newLoad() (*loadsensor.Collector, error) {
	cluster, _, err := d.configuration.read()
	if err != nil {
		return nil, err
	}
	log := d.logOf("load")
	return loadsensor.New(loadsensor.Options{
		Settings: d.loadSettings(cluster), Host: d.host, SameHost: qconf.SameHost,
		Builtin: builtin.Options{Processors: d.processors},
		Sensor:  external.Config{Dir: d.place()},
		Notify:  newSensorLog(log).event,
	})
}

// loadSettings returns the settings of load reports for this host (sge_conf(5)).
func (d *daemon) loadSettings(cluster *qconf.Cluster) loadsensor.Settings {
	c := cluster.Config(d.host)
	s := loadsensor.Settings{Interval: c.LoadReportTime, Sensors: c.LoadSensors, User: d.sensorUser, Ahead: !c.ExecdParams.DemandLS}
	if s.User != "" { // without root's rights it is the user of the agent
		s.Sensors = d.permittedSensors(s)
	}
	if c.ExecdParams.UseQidle {
		if path, err := d.qidle(); err != nil {
			d.log.Warn("USE_QIDLE has no effect", "error", err)
		} else if !slices.Contains(s.Sensors, path) {
			s.Sensors = append(slices.Clone(s.Sensors), path)
		}
	}
	for _, name := range []string{"SGE_ROOT", "SGE_CELL"} {
		if v, ok := os.LookupEnv(name); ok {
			s.Env = append(s.Env, name+"="+v)
		}
	}
	return s
}

// qidle returns the load sensor that USE_QIDLE of sge_conf(5) adds, if its programs exist: in the
// directory of execd, or in the installation of Grid Engine.
func (d *daemon) qidle() (string, error) {
	places := []string{filepath.Dir(d.Executable)}
	if root := os.Getenv("SGE_ROOT"); filepath.IsAbs(root) {
		places = append(places, filepath.Join(root, "bin", job.Arch(runtime.GOARCH)))
	}
	for _, dir := range places {
		path, err := filepath.Abs(filepath.Join(dir, "qidle"))
		if err == nil && unix.Access(path, unix.X_OK) == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("there is no program qidle in %s", strings.Join(places, " or "))
}

// processors returns the processors of this host; in the topology string, the cores that jobs are
// bound to are in lower case.
func (d *daemon) processors() (builtin.Processors, error) {
	t, err := d.topology.Read()
	if err != nil {
		return builtin.Processors{}, err
	}
	inUse, err := d.topology.InUse(d.spool, d.host, d.agent.BoundVersion(), d.agent.Bound)
	if err != nil {
		return builtin.Processors{}, err
	}
	return builtin.Processors{
		Sockets: t.NumSockets(), Cores: t.NumCores(), Threads: t.NumThreads(),
		Topology: t.Shape().String(), InUse: inUse, GPUs: d.gpuPlaces(t),
	}, nil
}
