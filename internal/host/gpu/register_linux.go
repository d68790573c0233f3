package gpu

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/outfile"
	"github.com/execd-project/execd/internal/textfile"
)

// Register gives the GPUs of a host their numbers, and remembers them in a file.
//
// A GPU is identified by its UUID, or by its address on the PCI bus. It keeps its number when other
// GPUs disappear or are added, and the number of a GPU that has disappeared is not reused.
//
// Only one register at a time manages the GPUs below a root, and holds a lock: two daemons would
// give the same GPU to two jobs. The lock says whose register held it last, because the jobs of a
// daemon that was killed go on: until the last of them has finished, no other register takes the
// lock. A register without the lock, or with an unreadable file, offers no GPU, denies all of them to
// jobs, and tries again with each Refresh.
type Register struct {
	root, file string
	inUse      InUse

	reading sync.Mutex // serialises Refresh; guards lock and read
	lock    *os.File   // nil without
	read    bool       // known contains the data of the file

	mu    sync.Mutex
	known []known
	now   *Inventory
	asked error // the reason why nvidia-smi did not answer

	askedAt time.Time       // zero if nothing was asked since the last change
	empty   map[string]bool // addresses of GPUs in MIG mode without instances, as nvidia-smi has told
	changes map[string]bool // numbers of GPUs that are withheld since the last Refresh, because they were divided or united
	clock   func() time.Time
}

// known is a line of the file.
type known struct {
	id, address, uuid string
	memory            uint64
	divided           bool // jobs were last given its MIG instances, not the GPU
	instances         []knownInstance
}

// knownInstance is a MIG instance that a GPU has or has had.
type knownInstance struct {
	name          string // "1.0"
	uuid, profile string // empty if they are not known
	memory        uint64
	stamp         int64
}

// askInterval is the time between two questions to nvidia-smi while data is missing and nothing changes.
const askInterval = 10 * time.Minute

// maxRegister bounds the file and the numbers: no host has that many GPUs.
const (
	maxRegister = 1 << 20
	maxID       = 4095
)

// lockFile is the path of the lock, below the root. It is not in /run/execd, which belongs to the front of a daemon of
// two processes: the front could hold the lock, or replace it.
const lockFile = "run/execd-gpus.lock"

// InUse returns the GPUs that the jobs of another daemon still have, by the file of its register.
type InUse func(file string) (ids []string, err error)

// OpenRegister finds the GPUs below a root (see Detect) and gives them their numbers, from the file
// if it exists, whose path must be absolute. inUse tells which GPUs the jobs of a daemon have: of the
// one that had the GPUs before, and of this one when a GPU was divided into MIG instances or united; nil means that no job has any. Errors are among the problems of the
// inventory.
func OpenRegister(root, file string, inUse InUse) *Register {
	r := &Register{root: root, file: filepath.Clean(file), inUse: inUse, clock: time.Now, empty: map[string]bool{}, changes: map[string]bool{}}
	r.refresh(nil, nil, true)
	return r
}

// Close gives up the lock.
func (r *Register) Close() {
	if r == nil {
		return
	}
	r.reading.Lock()
	defer r.reading.Unlock()
	if r.lock != nil {
		r.lock.Close()
		r.lock = nil
	}
}

// open takes the lock and reads the file, unless it has done so.
func (r *Register) open() error {
	if r.lock == nil {
		lock, err := lockGPUs(filepath.Join(r.root, lockFile))
		if err == nil && lock != nil {
			if err = r.takeOver(lock); err != nil {
				lock.Close()
			}
		}
		if err != nil {
			return err
		}
		r.lock = lock
	}
	if r.read {
		return nil
	}
	text, err := readFile(r.file)
	var list []known
	if err == nil {
		list, err = parseRegister(text)
	}
	if err != nil {
		return fmt.Errorf("no GPUs are offered: cannot read their numbers in %s: %w", r.file, err)
	}
	r.mu.Lock()
	r.known, r.read = list, true
	r.mu.Unlock()
	return nil
}

// lockGPUs takes the lock for all GPUs, which lasts while the returned file is open. For a user who
// may not create the file, both results are nil. Only root can access the file, because every user
// who can open a file can lock it.
func lockGPUs(path string) (*os.File, error) {
	const directoryMode, fileMode = 0o755, 0o600
	err := os.MkdirAll(filepath.Dir(path), directoryMode)
	var f *os.File
	if err == nil {
		f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, fileMode)
	}
	switch {
	case (errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS)) && os.Geteuid() != 0:
		return nil, nil //nolint:nilnil // see above
	case err != nil:
		return nil, fmt.Errorf("no GPUs are offered: cannot make the lock of all GPUs of this host: %w", err)
	}
	if err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("no GPUs are offered: another daemon of this host has them (it holds the lock %s)", path)
		}
		return nil, fmt.Errorf("no GPUs are offered: cannot take the lock %s: %w", path, err)
	}
	return f, nil
}

// OthersOffer reports whether a daemon of another user offers the GPUs below a root, or has offered them since the start
// of the host. A register of this user cannot see which GPUs the jobs of that daemon have.
func OthersOffer(root string) bool {
	var st unix.Stat_t
	return unix.Stat(filepath.Join(root, lockFile), &st) == nil && int(st.Uid) != os.Geteuid()
}

// takeOver checks that no job has GPUs from the register that held the lock last, and writes whose
// lock it is. The file does not outlive a restart of the host, and neither do jobs.
func (r *Register) takeOver(lock *os.File) error {
	const longest = 1 << 12
	text, err := io.ReadAll(io.LimitReader(lock, longest))
	if err != nil {
		return fmt.Errorf("no GPUs are offered: cannot read the lock %s: %w", lock.Name(), err)
	}
	switch earlier := strings.TrimSuffix(string(text), "\n"); {
	case earlier == r.file:
		return nil
	case earlier != "" && r.inUse != nil:
		ids, err := r.inUse(earlier)
		if err != nil {
			return fmt.Errorf("no GPUs are offered: cannot determine which GPUs jobs of the daemon with the spool directory %s have: %w", filepath.Dir(earlier), err)
		}
		if len(ids) > 0 {
			return fmt.Errorf("no GPUs are offered: jobs of the daemon with the spool directory %s still have GPU %s", filepath.Dir(earlier), strings.Join(ids, ", "))
		}
	}
	err = lock.Truncate(0)
	if err == nil {
		_, err = lock.WriteAt([]byte(r.file+"\n"), 0)
	}
	if err != nil {
		return fmt.Errorf("no GPUs are offered: cannot write the lock %s: %w", lock.Name(), err)
	}
	return nil
}

func readFile(file string) (string, error) {
	dir, name := filepath.Split(file)
	text, err := textfile.ReadFS(os.DirFS(dir), name, maxRegister)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return string(text), err
}

// parseRegister reads lines such as "0 address=0000:65:00.0 uuid=GPU-... memory=85899345920".
func parseRegister(text string) ([]known, error) {
	var list []known
	number := 0
	for line := range strings.Lines(text) {
		number++
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		k := known{id: words[0]}
		n, err := strconv.Atoi(k.id)
		if err != nil || n < 0 || n > maxID || strconv.Itoa(n) != k.id {
			return nil, fmt.Errorf("line %d: %q, expected the number of a GPU", number, k.id)
		}
		if slices.ContainsFunc(list, func(other known) bool { return other.id == k.id }) {
			return nil, fmt.Errorf("line %d: the number %s is there twice", number, k.id)
		}
		for _, w := range words[1:] {
			name, value, _ := strings.Cut(w, "=")
			ok := true
			switch name {
			case "address":
				k.address, ok = ParseAddress(value)
			case "uuid":
				k.uuid, ok = value, validUUID(value)
			case "memory":
				k.memory, err = strconv.ParseUint(value, 10, 64)
				ok = err == nil
			case "divided":
				k.divided, ok = true, value == "yes"
			case "mig":
				var i knownInstance
				i, ok = parseInstance(value)
				ok = ok && k.find(i.name) == nil
				k.instances = append(k.instances, i)
			}
			if !ok {
				return nil, fmt.Errorf("line %d: %q is no %s", number, value, name)
			}
		}
		if k.address == "" {
			return nil, fmt.Errorf("line %d: GPU %s has no address", number, k.id)
		}
		list = append(list, k)
	}
	return list, nil
}

// parseInstance reads "1.0,MIG-...,10468982784,1g.10gb,1764331200000000000": the name, UUID, memory, profile and stamp.
func parseInstance(text string) (i knownInstance, ok bool) {
	fields := strings.Split(text, ",")
	if len(fields) != 5 {
		return i, false
	}
	i.name, i.uuid, i.profile = fields[0], fields[1], fields[3]
	memory, err1 := strconv.ParseUint(fields[2], 10, 64)
	stamp, err2 := strconv.ParseInt(fields[4], 10, 64)
	i.memory, i.stamp = memory, stamp
	return i, err1 == nil && err2 == nil && validInstance(i.name) && (i.uuid == "") == (i.profile == "") &&
		(i.uuid == "" || validInstanceUUID(i.uuid) && validProfile(i.profile))
}

// find returns a MIG instance of a GPU; nil if it never had it.
func (k *known) find(name string) *knownInstance {
	i := slices.IndexFunc(k.instances, func(i knownInstance) bool { return i.name == name })
	if i < 0 {
		return nil
	}
	return &k.instances[i]
}

func formatRegister(list []known) string {
	var b strings.Builder
	b.WriteString("# Numbers of the GPUs of this host. Remove the line of a GPU that was taken out for good.\n")
	for _, k := range list {
		b.WriteString(k.id + " address=" + k.address)
		if k.uuid != "" {
			b.WriteString(" uuid=" + k.uuid)
		}
		if k.memory != 0 {
			b.WriteString(" memory=" + strconv.FormatUint(k.memory, 10))
		}
		if k.divided {
			b.WriteString(" divided=yes")
		}
		for _, i := range k.instances {
			b.WriteString(" mig=" + strings.Join([]string{
				i.name, i.uuid, strconv.FormatUint(i.memory, 10), i.profile, strconv.FormatInt(i.stamp, 10),
			}, ","))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// Inventory returns the devices that the last search found.
func (r *Register) Inventory() *Inventory {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now
}

// Numbers returns the numbers of all GPUs that the host has or has had, and of their MIG instances.
func (r *Register) Numbers() []string {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return numbersOf(r.known)
}

func numbersOf(list []known) []string {
	var ids []string
	for _, k := range list {
		ids = append(ids, k.id)
		for _, i := range k.instances {
			ids = append(ids, k.id+"."+i.name)
		}
	}
	return ids
}

// Wants reports whether nvidia-smi could provide missing data: then call Ask. It does not report so for some minutes
// after a question that has not brought the data, unless the GPUs change.
func (r *Register) Wants() bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.askedAt.IsZero() && r.clock().Sub(r.askedAt) < askInterval {
		return false
	}
	return slices.ContainsFunc(r.now.GPUs, func(g GPU) bool {
		missing := g.offerable() && !g.Divided && (g.UUID == "" || g.Memory == 0)
		return g.Vendor == NVIDIA && (missing || g.outdated || r.empty[g.Address] && !g.Divided)
	})
}

// Refresh finds the GPUs again, and reports whether anything is different from what was found
// before. It runs no program.
func (r *Register) Refresh() (changed bool) {
	r.reading.Lock()
	defer r.reading.Unlock()
	if changed = r.refresh(nil, nil, true); changed {
		r.mu.Lock()
		r.askedAt = time.Time{}
		r.mu.Unlock()
	}
	return changed
}

// Ask does the same and asks nvidia-smi (see Query and QueryInstances).
func (r *Register) Ask(ctx context.Context) (changed bool) {
	before := Detect(r.root).instances()
	told, err := Query(ctx, r.root)
	var instances []ToldInstance
	if err == nil && len(before) > 0 {
		instances, err = QueryInstances(ctx, r.root)
	}
	if ctx.Err() != nil {
		return false
	}
	if !maps.Equal(before, Detect(r.root).instances()) {
		instances = nil // they were made and destroyed meanwhile: the next question gets an answer about one state
	}
	r.reading.Lock()
	defer r.reading.Unlock()
	r.mu.Lock()
	r.asked, r.askedAt = err, r.clock()
	for _, t := range told {
		r.empty[t.Address] = t.MIG
	}
	r.mu.Unlock()
	return r.refresh(told, instances, false)
}

// instances returns the stamps of the MIG instances of all GPUs.
func (v *Inventory) instances() map[string]int64 {
	list := map[string]int64{}
	for _, g := range v.GPUs {
		if g.Instance != "" {
			list[g.Address+" "+g.Instance] = g.stamp
		}
	}
	return list
}

// refresh finds the GPUs, gives numbers to new ones, and writes these to the disk before they
// become visible. pass says that all jobs that were started with what was offered before the last refresh are
// visible to inUse.
func (r *Register) refresh(told []Told, instances []ToldInstance, pass bool) (changed bool) {
	v := Detect(r.root)
	r.believe(v, told)
	for _, t := range instances {
		i := slices.IndexFunc(v.GPUs, func(g GPU) bool { return g.Address == t.Address && g.Instance == t.Instance })
		if i >= 0 && t.UUID != "" {
			v.GPUs[i].UUID, v.GPUs[i].profile, v.GPUs[i].Memory = t.UUID, t.Profile, t.Memory
		}
	}
	for i := range v.GPUs {
		if g := &v.GPUs[i]; r.empty[g.Address] && g.Vendor == NVIDIA && !g.Divided && g.Instance == "" {
			g.broken("it is in MIG mode and has no MIG instances: make some with nvidia-smi mig, or disable MIG mode")
		}
	}
	if len(v.GPUs) > 0 || r.wasUsed() {
		if err := r.number(v, pass); err != nil {
			v.closed = true // jobs cannot open GPUs that are not offered
			v.Problems = append(v.Problems, err.Error())
			for i := range v.GPUs {
				v.GPUs[i].ID, v.GPUs[i].Number = "", ""
			}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.now
	r.now = v
	return before == nil || !same(before, v)
}

// believe adds the answer of nvidia-smi to an inventory. It ignores a UUID that contradicts the
// driver, or that the register knows as the UUID of another GPU that is still present: the two would
// swap their numbers while jobs run with them.
func (r *Register) believe(v *Inventory, told []Told) {
	r.mu.Lock()
	list := r.known
	r.mu.Unlock()
	for _, t := range told {
		i := slices.IndexFunc(v.GPUs, func(g GPU) bool { return g.Address == t.Address })
		if i < 0 || v.GPUs[i].Vendor != NVIDIA || t.UUID != "" && v.GPUs[i].UUID != "" && v.GPUs[i].UUID != t.UUID {
			continue
		}
		v.GPUs[i].Memory = t.Memory
		other := slices.ContainsFunc(list, func(k known) bool {
			return k.uuid == t.UUID && k.address != t.Address &&
				slices.ContainsFunc(v.GPUs, func(g GPU) bool { return g.Address == k.address })
		})
		if v.GPUs[i].UUID == "" && !other {
			v.GPUs[i].UUID = t.UUID
		}
	}
}

// wasUsed reports whether the register has a file: the host has had GPUs.
func (r *Register) wasUsed() bool {
	_, err := os.Lstat(r.file)
	return err == nil
}

func (r *Register) number(v *Inventory, pass bool) error {
	if err := r.open(); err != nil {
		return err
	}
	r.mu.Lock()
	list, asked, first := slices.Clone(r.known), r.asked, r.now == nil || r.now.closed
	r.mu.Unlock()
	for i := range list {
		list[i].instances = slices.Clone(list[i].instances)
	}
	before := formatRegister(list)
	list = number(v, list)
	r.settle(v, list, first, pass)
	v.numbers = numbersOf(list)
	complete(v, asked)
	if text := formatRegister(list); text != before {
		if err := writeFile(r.file, text); err != nil {
			return fmt.Errorf("no GPUs are offered: cannot write their numbers to %s: %w", r.file, err)
		}
	}
	r.mu.Lock()
	r.known = list
	r.mu.Unlock()
	return nil
}

// number gives the GPUs of an inventory the numbers that they had, and others to new ones. It
// returns the lines for the file.
func number(v *Inventory, list []known) []known {
	taken := make([]bool, len(list))
	find := func(match func(known) bool) int {
		for i, k := range list {
			if !taken[i] && match(k) {
				taken[i] = true
				return i
			}
		}
		return -1
	}
	at := make([]int, len(v.GPUs))
	for i := range v.GPUs {
		g := &v.GPUs[i]
		at[i] = -1
		if g.Instance == "" {
			at[i] = find(func(k known) bool { return g.UUID != "" && k.uuid == g.UUID })
		}
	}
	for i := range v.GPUs {
		g := &v.GPUs[i]
		if at[i] < 0 && g.Instance == "" {
			// Another GPU, with another UUID, is at its address.
			at[i] = find(func(k known) bool { return k.address == g.Address })
		}
	}
	next := 0
	for _, k := range list {
		n, _ := strconv.Atoi(k.id) // checked by parseRegister
		next = max(next, n+1)
	}
	for i := range v.GPUs {
		g := &v.GPUs[i]
		if g.Instance != "" {
			continue
		}
		if at[i] < 0 {
			if !g.offerable() || next > maxID {
				continue
			}
			at[i] = len(list)
			list = append(list, known{id: strconv.Itoa(next), divided: g.Divided})
			next++
		}
		k := &list[at[i]]
		if g.UUID != "" && k.uuid != "" && g.UUID != k.uuid {
			k.memory, k.instances = 0, nil // another GPU
		}
		k.address = g.Address
		if g.UUID != "" {
			k.uuid = g.UUID
		} else if g.Vendor == NVIDIA {
			g.UUID = k.uuid
		}
		if g.Memory != 0 {
			k.memory = g.Memory
		} else {
			g.Memory = k.memory
		}
		g.Number = k.id
		if g.offerable() && !g.Divided {
			g.ID = k.id
		}
	}
	for _, k := range list {
		switch i := slices.IndexFunc(v.GPUs, func(g GPU) bool { return g.Address == k.address }); {
		case i < 0:
			v.Problems = append(v.Problems, fmt.Sprintf("GPU %s, which was at %s, has disappeared: it is no longer offered", k.id, k.address))
		case !v.GPUs[i].offerable():
			v.Problems = append(v.Problems, fmt.Sprintf("GPU %s at %s is no longer offered: %s", k.id, k.address, v.GPUs[i].Problem))
		}
	}
	return list
}

// complete records for each GPU which data is missing.
func complete(v *Inventory, asked error) {
	unknown := false
	for i := range v.GPUs {
		g := &v.GPUs[i]
		if g.Vendor != NVIDIA || g.Problem != "" {
			continue
		}
		switch {
		case g.Divided:
			g.Problem = "it is in MIG mode: its instances are offered instead"
			continue
		case g.Instance != "" && g.UUID == "" && errors.Is(asked, ErrNoProgram):
			g.Problem = "its UUID is not known, so that it cannot be offered: " + asked.Error()
		case g.Instance != "" && g.UUID == "":
			g.Problem = "its UUID is not known, so that it cannot be offered"
		case g.ID == "":
			continue
		case g.UUID == "" && g.Memory == 0:
			g.Problem = "its UUID and its memory are not known"
		case g.UUID == "":
			g.Problem = "its UUID is not known: jobs find it by its number"
		case g.Memory == 0:
			g.Problem = "its memory is not known: no job that requests gpu_mem gets it"
		}
		unknown = unknown || g.Problem != ""
	}
	// A host without nvidia-smi is not a problem: only execd doctor reports it.
	if asked != nil && unknown && !errors.Is(asked, ErrNoProgram) {
		v.Problems = append(v.Problems, asked.Error())
	}
}

// same reports whether two inventories say the same.
func same(a, b *Inventory) bool {
	if a.closed != b.closed || !slices.Equal(a.numbers, b.numbers) || !slices.Equal(a.Problems, b.Problems) ||
		!slices.Equal(a.Forbidden, b.Forbidden) || len(a.Shared) != len(b.Shared) {
		return false
	}
	for vendor, nodes := range a.Shared {
		if !slices.Equal(nodes, b.Shared[vendor]) {
			return false
		}
	}
	return slices.EqualFunc(a.GPUs, b.GPUs, func(x, y GPU) bool {
		nodes := slices.Equal(x.Nodes, y.Nodes)
		x.Nodes, y.Nodes = nil, nil
		return nodes && x.ID == y.ID && x.Number == y.Number && x.Instance == y.Instance && x.Vendor == y.Vendor && x.Address == y.Address && x.NUMA == y.NUMA && x.Root == y.Root && x.Model == y.Model &&
			x.UUID == y.UUID && x.Memory == y.Memory && x.Integrated == y.Integrated && x.Divided == y.Divided && x.Problem == y.Problem && x.Broken == y.Broken
	})
}

// writeFile replaces a file, which is then on the disk.
func writeFile(file, text string) error {
	dir, name, err := outfile.Parent(file)
	if err != nil {
		return err
	}
	defer dir.Close()
	return outfile.Write(dir, name, []byte(text), 0o644)
}
