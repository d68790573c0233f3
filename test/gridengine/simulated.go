package gridengine

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// Simulated hosts are execution hosts that do not exist: the master simulates them (qmaster_params
// SIMULATE_EXECDS of sge_conf(5)), so that the scheduler plans for any number of hosts. It starts
// no job there: a job is in state t for three seconds, then it "runs" for the number of seconds in
// the first argument of its command, then it leaves.
//
// The cell's own sge_execd runs a load sensor (sge_conf(5), load_sensor) that reports the values of
// SetLoad for them. A simulated host has no other load values.

const (
	loadSensor = BinDir + "/load_sensor"
	loadFile   = "/home/cell/load"
)

// loadSensorScript answers each line from sge_execd with the content of the load file.
const loadSensorScript = `#!/bin/sh
while read -r line; do
	[ "$line" != quit ] || exit 0
	echo begin
	cat ` + loadFile + `
	echo end
done
`

// simulation holds the parameters of the global configuration for simulated hosts. Finished jobs
// are not kept, since no test needs them. A second is the minimum that 8.1.9 accepts for
// load_report_time.
var simulation = map[string]string{
	"qmaster_params":   "SIMULATE_EXECDS=TRUE",
	"load_sensor":      loadSensor,
	"load_report_time": "00:00:01",
	"finished_jobs":    "0",
}

// prepareSimulation writes the load sensor.
func (c *Cell) prepareSimulation() error {
	return errors.Join(c.SetLoad(nil), c.AddFile(loadSensor, loadSensorScript, 0o755))
}

// simulatedAddresses returns the lines of /etc/hosts for the simulated hosts. Nothing uses these
// addresses.
func simulatedAddresses(hosts []string) string {
	var b strings.Builder
	for i, name := range hosts {
		n := i + 2
		fmt.Fprintf(&b, "10.78.%d.%d %s\n", n/250, n%250, name)
	}
	return b.String()
}

// A LoadValue is a load value that an execution host reports: sge_execd(8), load_sensor. The value
// is unscaled.
type LoadValue struct{ Host, Attribute, Value string }

// SetLoad sets the load values of the simulated hosts. They reach the master with the second load
// report, two seconds later. An omitted value stays unchanged.
func (c *Cell) SetLoad(values []LoadValue) error {
	var b strings.Builder
	for _, v := range values {
		fmt.Fprintf(&b, "%s:%s:%s\n", v.Host, v.Attribute, v.Value)
	}
	// The sensor must never read a partial file.
	path := loadFile + ".new"
	if err := c.AddFile(path, b.String(), 0o644); err != nil {
		return err
	}
	return os.Rename(c.Path(path), c.Path(loadFile))
}
