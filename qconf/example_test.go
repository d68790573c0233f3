package qconf_test

import (
	"fmt"
	"testing/fstest"

	"github.com/execd-project/execd/qconf"
)

// ExampleLoad reads a directory with one queue; all other objects are built in.
func ExampleLoad() {
	dir := fstest.MapFS{"queues/long.q": {Data: []byte("qname long.q\nslots 4,[big=64]\nshell /bin/sh\nh_rt 24:0:0\n")}}
	cluster, err := qconf.Load(dir, qconf.Builtin(4))
	if err != nil {
		fmt.Println(err)
		return
	}
	q, err := cluster.Instance("long.q", "big.example.org")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(q.Slots, q.Shell, cluster.Config("big").LoadReportTime)
	// Output: 64 /bin/sh 40s
}

// ExampleErrors shows that all errors of all files are found at once.
func ExampleErrors() {
	dir := fstest.MapFS{
		"queues/all.q": {Data: []byte("qname all.q\nslots many\n\nh_rt 1:2:3:4\n")},
		"pes/mpi":      {Data: []byte("pe_name smp\n")},
	}
	_, err := qconf.Load(dir, nil)
	for _, e := range qconf.Errors(err) {
		fmt.Println(e)
	}
	// Output:
	// pes/mpi: holds "smp", expected the file to be named like its object
	// queues/all.q:2: slots: "many" is not a number, expected one from 0 to 9999999
	// queues/all.q:4: h_rt: "1:2:3:4" has 4 parts, expected hours:minutes:seconds
}
