package agent

import "sync"

// scriptLocks keeps the script of a job on the disk while a task of the job is prepared: the tasks of
// an array job share one file, and the last of them removes it. A goroutine may hold one of these locks
// as long as the disk takes, so it does not hold the lock of the job table meanwhile.
type scriptLocks [64]sync.RWMutex

// forJob returns the lock of a job. Jobs may share one.
func (l *scriptLocks) forJob(number int) *sync.RWMutex { return &l[uint(number)%uint(len(l))] }
