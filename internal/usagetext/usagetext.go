// Package usagetext describes what finished jobs used, for people: in mails, on a terminal after qsub
// -sync y, and in execd seff. It is pure, and not for import by other projects.
package usagetext

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/execd-project/execd/accounting"
	"github.com/execd-project/execd/internal/printer"
	"github.com/execd-project/execd/job"
)

// Line returns the usage of a job in one line, such as "1:00:05 of CPU time, 25 % of 4 slots, and
// 1.2G of memory". Text that users chose is escaped.
func Line(e *accounting.Efficiency) string {
	text := Clock(e.CPU) + " of CPU time"
	if e.Granted > 0 {
		text += fmt.Sprintf(", %s of %s", Percent(e.CPUPart()), Slots(e.Slots))
	}
	switch {
	case e.Memory > 0 && e.Requested > 0:
		text += printer.Sprintf(", and %s of memory, %s of the request (%s)", Memory(e.Memory), Percent(e.MemoryPart()), e.Request)
	case e.Memory > 0:
		text += ", and " + Memory(e.Memory) + " of memory"
	}
	if e.GPU.Count > 0 {
		text += "; " + GPUs(&e.GPU)
	}
	if advice := e.Advice(); len(advice) > 0 {
		text += printer.Sprintf("; next time request %s", strings.Join(advice, " "))
	}
	return text
}

// GPUs returns the usage of GPUs, such as "2:00:10 on 2 GPUs, 25 % used, 12.5G of their memory at most".
func GPUs(u *job.GPUUsage) string {
	text := Clock(u.Seconds) + " on " + strconv.Itoa(u.Count) + " GPUs"
	if u.Count == 1 {
		text = Clock(u.Seconds) + " on 1 GPU"
	}
	if part := u.Utilisation(); part >= 0 {
		text += ", " + Percent(part) + " used"
	} else {
		text += ", use not measured"
	}
	if u.MaxMemory > 0 {
		text += ", " + Memory(uint64(u.MaxMemory)) + " of their memory at most"
	}
	return text
}

// Clock formats seconds as hours, minutes and seconds, and less than ten seconds with a decimal.
func Clock(seconds float64) string {
	d := time.Duration(math.Round(seconds)) * time.Second
	if seconds < 10 {
		return strconv.FormatFloat(seconds, 'f', 1, 64) + " s"
	}
	h, m, s := int(d.Hours()), int(d.Minutes())%60, int(d.Seconds())%60
	return fmt.Sprintf("%d:%02d:%02d", h, m, s)
}

// Memory formats bytes with one decimal and a unit of Grid Engine (sge_types(1), memory_specifier).
func Memory(bytes uint64) string {
	units, i, v := "KMGTPE", 0, float64(bytes)/1024
	for v >= 1024 && i < len(units)-1 {
		v, i = v/1024, i+1
	}
	return strconv.FormatFloat(v, 'f', 1, 64) + units[i:i+1]
}

// Percent formats a fraction of 1 as a percentage.
func Percent(part float64) string { return strconv.FormatFloat(part*100, 'f', 0, 64) + " %" }

// Slots formats a number of slots.
func Slots(n int) string {
	if n == 1 {
		return "1 slot"
	}
	return fmt.Sprintf("%d slots", n)
}
