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
// Every cell lives in mount, UTS, network and process namespaces of its own,
// with its own /tmp, /home, /etc/passwd, /etc/group and /etc/hosts, so any
// number of cells run side by side, under the same host name, with the same
// job numbers and the same paths, and nothing of the machine is changed. When
// the test ends, or its process dies in whatever way, the kernel ends all
// processes of the cell with the first one.
//
// Config.Simulated gives a cell execution hosts that do not exist, for tests of the
// scheduler; see simulated.go.
//
// What the cell's processes see below /home, /tmp and the spool folder the test
// sees in the folders that Path, ActiveDir and the like return.
//
// The package is for tests. A Cell's methods may be called from several
// goroutines, except that Start must be called on the test's own.
package gridengine
