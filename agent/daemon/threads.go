package daemon

import (
	"runtime"
	"sync"
)

// spareThreads is the number of threads that the agent creates at its start. The Go runtime needs
// an additional thread for each long system call, such as one that waits for the disk, and it ends
// the program if the host allows no further process; but that is when the agent has to report the
// problem. The runtime keeps unused threads, which cost 5 KB each.
const spareThreads = 24

// reserveThreads makes the Go runtime create n threads.
func reserveThreads(n int) {
	there, done := make(chan struct{}), make(chan struct{})
	var end sync.WaitGroup
	for range n {
		end.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			there <- struct{}{}
			<-done
		})
	}
	for range n {
		<-there
	}
	close(done)
	end.Wait()
}
