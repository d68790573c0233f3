package qacct

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/execd-project/execd/accounting"
	"github.com/execd-project/execd/internal/printer"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/quantity"
)

// entry is a record with the wall-clock time in whole seconds, which the original uses.
type entry struct {
	*accounting.Record
	wallclock int64
}

const rule = "=============================================================="

// printRecord prints a record like -j, with times in the given zone. Fields that the original lacks
// follow at the end if they have a value.
func printRecord(w *bufio.Writer, r entry, zone *time.Location) {
	word := func(name, value string) { printer.Fprintf(w, "%-12s %-20s\n", name, value) }
	bare := func(name, value string) { printer.Fprintf(w, "%-12s %s\n", name, value) }
	count := func(name string, n int64) { word(name, strconv.FormatInt(n, 10)) }
	seconds := func(name string, s float64) { bare(name, fmt.Sprintf("%.3fs", s)) }
	u := &r.Usage

	printer.Fprintf(w, "%s\n", rule)
	word("qname", r.Queue)
	word("hostname", r.Host)
	word("group", r.Group)
	word("owner", r.Owner)
	word("project", orNone(r.Project))
	word("department", r.Department)
	word("jobname", r.JobName)
	count("jobnumber", int64(r.Job))
	if r.Task == 0 {
		bare("taskid", "undefined")
	} else {
		count("taskid", int64(r.Task))
	}
	word("account", r.Account)
	count("priority", int64(r.Priority))
	bare("qsub_time", clock(r.Submitted, zone))
	bare("start_time", clock(r.Start, zone))
	bare("end_time", clock(r.End, zone))
	word("granted_pe", orNone(r.PE))
	count("slots", int64(r.Slots))
	bare("failed", failed(r.Failed))
	bare("exit_status", exitStatus(r.ExitStatus))
	bare("ru_wallclock", fmt.Sprintf("%ds", r.wallclock))
	seconds("ru_utime", u.UserTime)
	seconds("ru_stime", u.SystemTime)
	// The number is in KiB, although the original labels it as bytes (tested).
	bare("ru_maxrss", amount(math.Floor(float64(u.MaxRSS)/1024), ""))
	bare("ru_ixrss", amount(float64(u.IxRSS), ""))
	bare("ru_ismrss", amount(float64(r.IsmRSS), ""))
	bare("ru_idrss", amount(float64(u.IdRSS), ""))
	bare("ru_isrss", amount(float64(u.IsRSS), ""))
	count("ru_minflt", u.MinorFaults)
	count("ru_majflt", u.MajorFaults)
	count("ru_nswap", u.Swaps)
	count("ru_inblock", u.BlocksIn)
	count("ru_oublock", u.BlocksOut)
	count("ru_msgsnd", u.MessagesSent)
	count("ru_msgrcv", u.MessagesRecvd)
	count("ru_nsignals", u.Signals)
	count("ru_nvcsw", u.VoluntaryCS)
	count("ru_nivcsw", u.InvoluntaryCS)
	seconds("cpu", u.CPU)
	bare("mem", amount(u.Mem*(1<<30), "s"))
	bare("io", amount(u.IO*(1<<30), ""))
	seconds("iow", u.IOWait)
	bare("maxvmem", amount(float64(u.MaxVmem), ""))
	if r.Reservation == 0 {
		bare("arid", "undefined")
	} else {
		count("arid", int64(r.Reservation))
	}
	if r.ReservationSubmitted.IsZero() {
		bare("ar_sub_time", "undefined")
	} else {
		bare("ar_sub_time", clock(r.ReservationSubmitted, zone))
	}
	bare("category", orNone(r.Category))
	printMore(w, r.Record)
}

// printMore prints the fields that only this project's records have, under names of their own, one
// per line.
func printMore(w io.Writer, r *accounting.Record) {
	more := func(name, value string) {
		if value != "" {
			printer.Fprintf(w, "%-12s %s\n", name, strings.Join(strings.Fields(value), " "))
		}
	}
	more("submit_cmd_line", r.CommandLine)
	more("deleted_by", r.DeletedBy)
	more("failed_text", r.FailedText)
	if r.Reason != r.FailedText {
		more("reason", r.Reason)
	}
	more("notice", r.Notice)
	if g := &r.Usage.GPU; g.Count > 0 {
		used, memory := "N/A", "N/A"
		if part := g.Utilisation(); part >= 0 {
			const hundred = 100
			used = strconv.FormatFloat(hundred*part, 'f', 0, 64) + "%"
		}
		if g.MaxMemory > 0 {
			memory = amount(float64(g.MaxMemory), "")
		}
		more("gpu", fmt.Sprintf("gpus=%d, time=%s, utilisation=%s, maxmem=%s", g.Count, quantity.FormatTime(uint64(g.Seconds)), used, memory))
	}
	if l := r.Limit; l != nil {
		more("limit", fmt.Sprintf("%s %s, measured %s", l.Name, trimmed(l.Value), trimmed(l.Measured)))
	}
}

func trimmed(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

func orNone(s string) string {
	if s == "" {
		return "NONE"
	}
	return s
}

// clock formats a time like ctime(3).
func clock(t time.Time, zone *time.Location) string {
	if t.IsZero() {
		return "-/-"
	}
	return t.In(zone).Format("Mon Jan _2 15:04:05 2006")
}

// failedTexts holds the texts of failure codes for which the original's text differs from the
// manual page (tested).
var failedTexts = map[job.Failed]string{
	job.FailedAFS:             "AFS setup",
	job.FailedNoPassword:      "entry is missing in sgepasswd file",
	job.FailedHelperService:   "communicating with Grid Engine Helper Service",
	job.FailedBeforeJobHelper: "before job in Grid Engine Helper Service",
	job.FailedLimit:           "qmaster enforced h_rt, h_cpu, or h_vmem limit",
}

func failed(code job.Failed) string {
	colon, text := "", ""
	if code != job.FailedNone {
		colon, text = ":", job.FailureOf(code).Text
		if other := failedTexts[code]; other != "" {
			text = other
		} else if strings.HasPrefix(text, "invalid execution state") {
			text = "invalid execution state" // the number precedes the text
		}
	}
	return fmt.Sprintf("%-3d %s %s", code, colon, text)
}

func exitStatus(status int) string {
	text := fmt.Sprintf("%-20d", status)
	if uint32(status) >= 128 {
		text += " (" + signalText(int(int32(status))-128) + ")"
	}
	return text
}

// signals holds the texts of strsignal(3).
var signals = [...]string{
	1: "Hangup", "Interrupt", "Quit", "Illegal instruction", "Trace/breakpoint trap", "Aborted", "Bus error",
	"Floating point exception", "Killed", "User defined signal 1", "Segmentation fault", "User defined signal 2",
	"Broken pipe", "Alarm clock", "Terminated", "Stack fault", "Child exited", "Continued", "Stopped (signal)",
	"Stopped", "Stopped (tty input)", "Stopped (tty output)", "Urgent I/O condition", "CPU time limit exceeded",
	"File size limit exceeded", "Virtual timer expired", "Profiling timer expired", "Window changed", "I/O possible",
	"Power failure", "Bad system call",
}

// The real-time signals available to programs; the C library uses 32 and 33.
const firstRealTime, lastRealTime = 34, 64

func signalText(n int) string {
	switch {
	case 0 < n && n < len(signals):
		return signals[n]
	case firstRealTime <= n && n <= lastRealTime:
		return fmt.Sprintf("Real-time signal %d", n-firstRealTime)
	}
	return fmt.Sprintf("Unknown signal %d", n)
}

// amount formats a number of bytes in the largest unit that is not larger than the number, followed
// by times.
func amount(bytes float64, times string) string {
	units := []string{"B", "KB", "MB", "GB", "TB"}
	i := 0
	for i < len(units)-1 && math.Abs(bytes) >= 1024 {
		bytes /= 1024
		i++
	}
	return fmt.Sprintf("%.3f%s%s", bytes, units[i], times)
}
