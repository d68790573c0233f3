// Package loadsensor is what a host reports: the load values that are built in
// (package builtin), and those of external load sensors (package external), together,
// at the times of load_report_time (sge_conf(5)).
//
// Other projects should not import this package: it may change at any time.
//
//	c, err := loadsensor.New(loadsensor.Options{Host: "n1", Settings: loadsensor.Settings{
//		Interval: 40 * time.Second, Sensors: []string{"/opt/site/licenses"}, User: "sgeadmin",
//	}})
//	go c.Run(ctx)
//	for report := range c.Reports() {
//		if send(report) == nil {
//			c.Ack(report.Number)
//		}
//	}
//
// The first report has all values, and so has each until one is acknowledged. Then a
// report has what is other than in the one that was acknowledged last, and names
// what is not there any more, together with all that reports since then were about, since
// those may have arrived. So nothing is lost when a report or its acknowledgement is,
// and no report needs to be kept to be sent again. A report without any value says that the host lives.
//
// Values are reported as they were measured. Scaling, thresholds and the complex that a
// value belongs to are the master's business.
//
// Values of a sensor come after those that are built in, and those of a sensor after
// those of sensors before it in the list: the last one counts, as in the original. A
// sensor that does not answer costs a report at most Options.Patience; its last values
// are used until they are Options.MaxAge old, and then they are gone.
//
// All methods may be called from several goroutines. None waits, but Run.
package loadsensor
