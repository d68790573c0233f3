// Package gridengine runs a real Grid Engine, Debian's 8.1.9, for tests: one
// private cell with a sge_qmaster, a sge_execd on the same host, and the users
// alice and bob.
//
//	cell := gridengine.Start(t, gridengine.Config{Shepherd: path})
//	cell.AddQueue("all.q", nil)
//	job, err := cell.Submit("alice", "-b", "y", "/bin/true")
//	err = cell.Wait(map[int]int{job: 1}, time.Minute)
//	records, err := cell.Accounting(job, 0)
//
// Every cell has its own mount, UTS, network and process namespaces, with its own /tmp, /home,
// /etc/passwd, /etc/group and /etc/hosts. So any number of cells can run at the same time, with the
// same host name, job numbers and paths, and the machine is not changed. When the test ends, or its
// process dies, the kernel kills all processes of the cell together with the first one.
//
// Config.Simulated gives a cell execution hosts that do not exist, for tests of the scheduler; see
// simulated.go.
//
// The cell's files below /home, /tmp and the spool directory are accessible to the test in the
// directories that Path, ActiveDir and similar methods return.
//
// The package is for tests. A Cell's methods may be called from several goroutines; Start must be
// called from the test's own goroutine.
package gridengine
