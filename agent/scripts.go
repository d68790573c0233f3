package agent

import "sync"

// scriptLocks keeps the script of a job on the disk while a task of the job is prepared: the tasks of
// an array have one file for it, and the last of them removes it. A lock may be held for as long as
// the disk takes, so the lock of the table is not held meanwhile.
type scriptLocks [64]sync.RWMutex

// forJob returns the lock of a job. Jobs may share one.
func (l *scriptLocks) forJob(number int) *sync.RWMutex { return &l[uint(number)%uint(len(l))] }
