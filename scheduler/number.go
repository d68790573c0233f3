package scheduler

// numbers are the numbers that sge_schedd gives its messages, as qstat -j -xml prints them
// (MES_message_number). The numbers of notParallel, notInteractive, uncleanHost, peTotal, fewSlots
// and droppedSuspended have not been observed: they are free numbers next to similar messages.
// Reasons that Grid Engine does not have, such as for core binding, have the number for requests.
var numbers = map[reasonKind]int{
	queueRequest: 17, elementsGiven: 17, notBookable: 17, noCores: 17, notReserved: 52, queueNotReserved: 51, badReservation: 31,
	queueNotListed: 6, hostNotListed: 6, instanceNotListed: 6,
	queueNoAccess: 1, hostNoAccess: 1, instanceNoAccess: 1, globalNoAccess: 1,
	hostExcludedProject: 4, instanceExcludedProject: 4, globalExcludedProject: 4,
	notParallel: 7, notInPEList: 8, instanceNotInPEList: 8,
	notCheckpointing: 9, noSuchCheckpoint: 10, notInCheckpointList: 10, notInteractive: 11, notBatch: 12,
	forcedByQueue: 14, forcedByHost: 21, forcedByGlobal: 21, uncleanHost: 22,
	peTotal: 23, peSlots: 24, peRule: 24, fewSlots: 41, noPEAccess: 25, noMatchingPE: 43,
	suspendAlarm: 26, droppedOverload: 27, allDropped: 28, droppedFull: 37, droppedSuspended: 38, droppedDisabled: 39, droppedUnavailable: 40,
	userLimit: 34, arrayLimit: 45, quotaExceeded: 50,
}

// Number returns the number that sge_schedd gives a message of this kind: qstat -j -xml shows
// it, and qstat -j without a list of jobs groups by it.
func (r *Reason) Number() int {
	switch r.kind {
	case atPlace:
		switch {
		case r.layer == 'q' || r.category.Parallel():
			return 17
		case r.layer == 'g':
			return 20
		}
		return 0
	case queueWrongProject, hostWrongProject, instanceWrongProject, globalWrongProject:
		if r.category.requests.Project == "" || r.kind == queueWrongProject {
			return 3
		}
		return 2
	}
	return numbers[r.kind]
}
