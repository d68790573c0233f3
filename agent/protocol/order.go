package protocol

// Order is an order to a job.
type Order string

// The orders, with the command of Grid Engine. A job can be suspended for several reasons at once. It
// continues when the last reason ends.
const (
	Terminate        Order = "terminate"         // qdel: with notification and terminate method
	Kill             Order = "kill"              // at once
	Suspend          Order = "suspend"           // qmod -sj
	Resume           Order = "resume"            // qmod -usj
	SuspendThreshold Order = "suspend_threshold" // suspend_thresholds of queue_conf(5)
	ResumeThreshold  Order = "resume_threshold"  //
	SuspendQueue     Order = "suspend_queue"     // qmod -sq, subordination, calendar
	ResumeQueue      Order = "resume_queue"      // qmod -usq
	Migrate          Order = "migrate"           // checkpoint and end the job, which then runs again
	Reschedule       Order = "reschedule"        // qmod -rj: end the job, which then runs again
	Usr1             Order = "usr1"              // the notification before a suspension
	Usr2             Order = "usr2"              // the notification before the end
)
