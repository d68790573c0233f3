package generate

import (
	_ "embed"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/execd-project/execd/simulate/script"
)

// A Case is a case that nobody has run.
type Case struct {
	Files  map[string]string // below the folder of the case
	Script []script.Line
}

// New makes up the case of a seed.
func New(seed uint64) *Case {
	g := &generator{
		Rand:  rand.New(rand.NewPCG(seed, 0x5ca1ab1e)),
		files: map[string]string{},
	}
	g.cluster()
	g.scheduler()
	g.play()
	g.files["TITLE"] = fmt.Sprintf("Made up from seed %d: %s\n", seed, strings.Join(g.topics, ", "))
	return &Case{Files: g.files, Script: g.lines}
}

// Write writes the case to a folder.
func (c *Case) Write(dir string) error {
	files := maps.Clone(c.Files)
	files["jobs.txt"] = script.Format(c.Script)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(files[name]), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// A generator is a case in the making.
type generator struct {
	*rand.Rand
	files  map[string]string
	topics []string
	lines  []script.Line
	jobs   int // submitted so far, refused ones among them

	hosts    []string
	groups   map[string][]string // members, by name with @
	queues   []string
	pes      []string
	has      map[string]bool // complex attributes that some object has
	projects bool
	reserve  bool
	short    bool // some jobs end by themselves
}

// Names that occur in several places.
var (
	users = []string{"alice", "bob", "carol", "dave", "erin"}
	lists = []string{"staff", "guests"}
)

// chance returns true in percent of a hundred cases.
func (g *generator) chance(percent int) bool { return g.IntN(100) < percent }

// topic does what chance does, and adds the name to the title of the case if the result is true.
func (g *generator) topic(percent int, name string) bool {
	if !g.chance(percent) {
		return false
	}
	g.topics = append(g.topics, name)
	return true
}

// between returns a number from low to high.
func (g *generator) between(low, high int) int { return low + g.IntN(high-low+1) }

func pick[T any](g *generator, all ...T) T { return all[g.IntN(len(all))] }

// some picks from low to high of them, in their order.
func some[T any](g *generator, low, high int, all []T) []T {
	n := min(g.between(low, high), len(all))
	chosen := slices.Sorted(slices.Values(g.Perm(len(all))[:n]))
	var part []T
	for _, i := range chosen {
		part = append(part, all[i])
	}
	return part
}

// object adds an object of qconf: names and values in turns.
func (g *generator) object(path string, attributes ...string) {
	var b strings.Builder
	for i := 0; i < len(attributes); i += 2 {
		fmt.Fprintf(&b, "%-20s  %s\n", attributes[i], attributes[i+1])
	}
	g.files["input/"+path] = b.String()
}

// orNone joins a list; an empty one is NONE.
func orNone(list []string, separator string) string {
	if len(list) == 0 {
		return "NONE"
	}
	return strings.Join(list, separator)
}
