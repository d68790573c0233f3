package loadsensor

import (
	"fmt"
	"strconv"
	"time"

	"github.com/execd-project/execd/loadsensor/builtin"
	"github.com/execd-project/execd/loadsensor/protocol"
)

// Override describes a value that several sources report.
type Override struct {
	Key
	By   string `json:"by"`             // the sensor whose value is used
	Over string `json:"over,omitempty"` // the sensor whose value is ignored; empty for a built-in value
}

// collection holds the values of one report.
type collection struct {
	host       string
	sameHost   func(a, b string) bool
	values     map[Key]Value
	missing    []builtin.Missing
	overridden []Override
}

func (c *collection) addBuiltin(values []builtin.Value, missing []builtin.Missing, at time.Time) {
	for _, v := range values {
		k := Key{c.host, v.Name}
		c.values[k] = Value{Key: k, Text: v.Text, Static: v.Static, At: at}
	}
	c.missing = missing
}

func (c *collection) addSensor(path string, values []protocol.Value, at time.Time) {
	for _, v := range values {
		k := Key{v.Host, v.Name}
		if v.Host != protocol.GlobalHost && c.sameHost(v.Host, c.host) {
			k.Host = c.host // as the master spells it
		}
		old, ok := c.values[k]
		if ok && old.Source != path {
			c.overridden = append(c.overridden, Override{k, path, old.Source})
		}
		c.values[k] = Value{Key: k, Text: v.Text, Static: ok && old.Static, At: at, Source: path}
	}
}

// derive computes the load per processor from the sensors' values for the load or the number of
// processors, as the original does, unless they also report the load per processor.
func (c *collection) derive() {
	processors, ok := c.values[Key{c.host, builtin.NumProc}]
	if !ok {
		return
	}
	for _, names := range [][2]string{
		{builtin.LoadAvg, builtin.NPLoadAvg},
		{builtin.LoadShort, builtin.NPLoadShort},
		{builtin.LoadMedium, builtin.NPLoadMedium},
		{builtin.LoadLong, builtin.NPLoadLong},
	} {
		load, ok := c.values[Key{c.host, names[0]}]
		k := Key{c.host, names[1]}
		if !ok || c.values[k].Source != "" || load.Source == "" && processors.Source == "" {
			continue
		}
		l, err := strconv.ParseFloat(load.Text, 64)
		n, err2 := strconv.ParseFloat(processors.Text, 64)
		if err != nil || err2 != nil || !(n > 0) {
			delete(c.values, k)
			c.missing = append(c.missing, builtin.Missing{
				Name:   k.Name,
				Reason: fmt.Sprintf("load sensors report %s %q and %s %q, expected numbers", names[0], load.Text, builtin.NumProc, processors.Text),
			})
			continue
		}
		v := Value{Key: k, Text: builtin.FormatNumber(l / n), At: load.At, Source: load.Source}
		if v.Source == "" {
			v.Source = processors.Source
		}
		c.values[k] = v
	}
}
