package builtin

import (
	"cmp"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/clock"
	"github.com/execd-project/execd/internal/oslite"
)

// Options select what a Reader reads.
type Options struct {
	// Proc is the mount point of proc(5); empty for /proc.
	Proc string
	// TmpDir is the directory in which jobs get their temporary directories; empty for none.
	TmpDir string
	// Processors returns the sockets, cores and threads, and which are in use; nil if they are
	// unknown. Every report calls it.
	Processors func() (Processors, error)
	// Patience is the timeout for a file system; 0 is DefaultPatience.
	Patience time.Duration
	// Clock measures Patience; nil is the clock of the machine.
	Clock clock.Clock
}

// DefaultPatience is the default timeout for a file system.
const DefaultPatience = time.Second

// Reader measures the load of the host. Make one with New.
type Reader struct {
	options Options
	host    host
	stalls  [3]oslite.Kept // open files of stallFiles (pressure stall information)
	statfs  func(path string, st *unix.Statfs_t) error

	mu      sync.Mutex
	last    *cpuTime
	lastCPU string     // the load between the last two different readings
	asking  chan space // a pending request to the file system
	asked   time.Time
	found   []Value
	missing []Missing
}

type space struct {
	free, total float64 // bytes
	err         error
}

// New returns a Reader, which takes its first reading of the processors now.
func New(options Options) *Reader {
	if options.Patience <= 0 {
		options.Patience = DefaultPatience
	}
	if options.Clock == nil {
		options.Clock = clock.System()
	}
	r := &Reader{options: options, host: newHost(options.Proc), statfs: unix.Statfs}
	for i, s := range stallFiles {
		r.stalls[i].Path = filepath.Join(cmp.Or(options.Proc, "/proc"), "pressure", s.file)
	}
	if t, err := r.host.cpuTime(); err == nil {
		r.last = &t
	}
	return r
}

// Read measures once. It returns values and missing values sorted by name. It waits for the file
// system of Options.TmpDir, at most for Options.Patience.
func (r *Reader) Read() ([]Value, []Missing) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.found, r.missing = nil, nil
	r.readLoad()
	r.readMemory()
	r.readCPU()
	r.readProcessors()
	r.readPressure()
	r.readTmpDir()
	slices.SortFunc(r.found, func(a, b Value) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(r.missing, func(a, b Missing) int { return strings.Compare(a.Name, b.Name) })
	return r.found, r.missing
}

// Close closes the files that stay open between calls of Read.
func (r *Reader) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.host.online.Close()
	for i := range r.stalls {
		r.stalls[i].Close()
	}
}

func (r *Reader) dynamic(name, text string) { r.found = append(r.found, Value{name, text, false}) }
func (r *Reader) static(name, text string)  { r.found = append(r.found, Value{name, text, true}) }

func (r *Reader) miss(reason string, names ...string) {
	for _, name := range names {
		r.missing = append(r.missing, Missing{name, reason})
	}
}

func (r *Reader) readLoad() {
	r.static(Arch, Architecture())
	n, countErr := r.host.processors()
	if countErr != nil {
		r.miss("cannot count the processors: "+countErr.Error(), NumProc)
	} else {
		r.static(NumProc, strconv.Itoa(n))
	}
	short, medium, long, err := r.host.load()
	if err != nil {
		reason := "cannot read the load averages: " + err.Error()
		r.miss(reason, LoadAvg, LoadShort, LoadMedium, LoadLong, NPLoadAvg, NPLoadShort, NPLoadMedium, NPLoadLong)
		return
	}
	for _, v := range []struct {
		name, np string
		load     float64
	}{
		{LoadAvg, NPLoadAvg, medium},
		{LoadShort, NPLoadShort, short},
		{LoadMedium, NPLoadMedium, medium},
		{LoadLong, NPLoadLong, long},
	} {
		r.dynamic(v.name, FormatNumber(v.load))
		if countErr != nil {
			r.miss("the number of processors is not known", v.np)
		} else {
			r.dynamic(v.np, FormatNumber(v.load/float64(n)))
		}
	}
}

func (r *Reader) readMemory() {
	m, err := r.host.memory()
	if err != nil {
		reason := "cannot read the memory of the host: " + err.Error()
		r.miss(reason, MemTotal, MemFree, MemUsed, SwapTotal, SwapFree, SwapUsed, VirtualTotal, VirtualFree, VirtualUsed, MemAvailable)
		return
	}
	for _, v := range []struct {
		totalName, freeName, usedName string
		total, free                   uint64
	}{
		{MemTotal, MemFree, MemUsed, m.total, m.free},
		{SwapTotal, SwapFree, SwapUsed, m.swapTotal, m.swapFree},
		{VirtualTotal, VirtualFree, VirtualUsed, m.total + m.swapTotal, m.free + m.swapFree},
	} {
		r.static(v.totalName, FormatMemory(float64(v.total)))
		r.dynamic(v.freeName, FormatMemory(float64(v.free)))
		r.dynamic(v.usedName, FormatMemory(float64(v.total-v.free)))
	}
	if m.available > 0 {
		r.dynamic(MemAvailable, FormatMemory(float64(m.available)))
	} else {
		r.miss("the kernel does not estimate it", MemAvailable)
	}
}

// readCPU compares with the last reading, as the original does.
func (r *Reader) readCPU() {
	now, err := r.host.cpuTime()
	if err != nil {
		r.miss("cannot read the times of the processors: "+err.Error(), CPU)
		return
	}
	last := r.last
	r.last = &now
	if last == nil {
		r.miss("needs a second reading", CPU)
		return
	}
	busy, idle := now.busy-last.busy, now.idle-last.idle
	switch {
	case busy == 0 && idle == 0: // too early
		r.last = last
	case busy < 0 || idle < 0: // a processor was taken offline
		r.lastCPU = ""
	default:
		r.lastCPU = FormatNumber(100 * busy / (busy + idle))
	}
	if r.lastCPU == "" {
		r.miss("the times of the processors have not gone forward", CPU)
		return
	}
	r.dynamic(CPU, r.lastCPU)
}

func (r *Reader) readProcessors() {
	names := []string{MSocket, MCore, MThread, MTopology, MTopologyInUse}
	if r.options.Processors == nil {
		r.miss("the topology of the processors is not known here", names...)
		return
	}
	p, err := r.options.Processors()
	if err != nil {
		r.miss("cannot read the topology of the processors: "+err.Error(), names...)
		return
	}
	r.static(MSocket, strconv.Itoa(p.Sockets))
	r.static(MCore, strconv.Itoa(p.Cores))
	r.static(MThread, strconv.Itoa(p.Threads))
	r.static(MTopology, orNone(p.Topology))
	r.dynamic(MTopologyInUse, orNone(p.InUse))
	if p.GPUs != "" {
		r.dynamic(MTopologyGPU, p.GPUs)
	}
}

func orNone(topology string) string {
	if topology == "" {
		return "NONE"
	}
	return topology
}

// stallFiles lists the files of pressure stall information, with the values in each.
var stallFiles = [...]struct{ file, some, full string }{
	// For processors of the whole host "full" is undefined, and always 0.
	{"cpu", PressureCPUSome, ""},
	{"memory", PressureMemorySome, PressureMemoryFull},
	{"io", PressureIOSome, PressureIOFull},
}

// readPressure uses the average of one minute, the one nearest to the time between two reports.
// gopsutil does not read these files.
func (r *Reader) readPressure() {
	for i, p := range stallFiles {
		b, err := r.stalls[i].Read()
		for _, v := range [][2]string{{"some", p.some}, {"full", p.full}} {
			if v[1] == "" {
				continue
			}
			if err != nil {
				r.miss("the kernel has no pressure stall information: "+err.Error(), v[1])
				continue
			}
			percent, err := pressure(string(b), v[0])
			if err != nil {
				r.miss(err.Error(), v[1])
				continue
			}
			r.dynamic(v[1], FormatNumber(percent))
		}
	}
}

// pressure reads the average of one minute from a line such as "some avg10=0.00 avg60=1.25
// avg300=0.98 total=12345".
func pressure(text, kind string) (float64, error) {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) == 0 || f[0] != kind {
			continue
		}
		for _, field := range f[1:] {
			if number, ok := strings.CutPrefix(field, "avg60="); ok {
				v, err := strconv.ParseFloat(number, 64)
				if err != nil || !(v >= 0 && v <= 100) { // excludes NaN
					return 0, fmt.Errorf("cannot read pressure stall information: %q is not a percentage", field)
				}
				return v, nil
			}
		}
	}
	return 0, fmt.Errorf("cannot read pressure stall information: no line %q with avg60", kind)
}

// readTmpDir makes its request in a separate goroutine: a file server that is down does not answer,
// and a system call that waits for it cannot be interrupted. While one request is pending,
// readTmpDir makes no second one.
func (r *Reader) readTmpDir() {
	dir := r.options.TmpDir
	if dir == "" {
		return
	}
	if r.asking == nil {
		answer := make(chan space, 1)
		r.asking, r.asked = answer, r.options.Clock.Now()
		statfs := r.statfs
		go func() {
			var st unix.Statfs_t
			err := statfs(dir, &st)
			size := float64(st.Frsize)
			if size == 0 {
				size = float64(st.Bsize)
			}
			answer <- space{float64(st.Bavail) * size, float64(st.Blocks) * size, err}
		}()
	}
	timer := r.options.Clock.NewTimer(r.options.Patience)
	defer timer.Stop()
	select {
	case s := <-r.asking:
		r.asking = nil
		if s.err != nil {
			r.miss(fmt.Sprintf("cannot ask the file system of %q: %v", dir, s.err), TmpDirFree, TmpDirTotal)
			return
		}
		r.dynamic(TmpDirFree, FormatMemory(s.free))
		r.static(TmpDirTotal, FormatMemory(s.total))
	case <-timer.C():
		waited := r.options.Clock.Now().Sub(r.asked).Round(time.Second)
		r.miss(fmt.Sprintf("the file system of %q has not answered for %v", dir, waited), TmpDirFree, TmpDirTotal)
	}
}

// Architecture returns Grid Engine's name for this platform, such as lx-amd64.
func Architecture() string {
	if runtime.GOARCH == "386" {
		return "lx-x86"
	}
	return "lx-" + runtime.GOARCH
}
