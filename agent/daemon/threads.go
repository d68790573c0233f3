package daemon

import (
	"runtime"
	"sync"
)

// spareThreads is how many threads the agent has from its beginning. The Go runtime needs one
// more for each system call that takes long, such as one that waits for the disk, and ends
// the program where the host has no room for another process: which is when it has to say so.
// Threads that are not in use are kept by the runtime, and cost 5 KB each.
const spareThreads = 24

// reserveThreads has the runtime make threads.
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
