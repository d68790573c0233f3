// Package loadsensor makes the load reports of a host at the interval load_report_time
// (sge_conf(5)). A report combines the built-in load values (package builtin) with those of
// external load sensors (package external).
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
// The first report contains all values, and so does each report until one is acknowledged. After
// that a report contains only the differences from the last acknowledged report, including the
// names of values that no longer exist. Reports sent in the meantime may have arrived or not, so a
// report also repeats every value that they contained. So nothing is lost if a report or an
// acknowledgement is lost, and no report needs to be stored and sent again. A report without values
// shows that the host is alive.
//
// Values are reported as they were measured. The master applies scaling, thresholds and the type of
// the complex.
//
// Sensors override built-in values, and each sensor overrides those before it in the list, as in
// the original. A sensor that does not answer delays a report by at most Options.Patience. Its last
// values are used until they are older than Options.MaxAge, and then removed.
//
// All methods may be called from several goroutines. Only Run blocks.
package loadsensor
