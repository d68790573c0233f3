package launcher

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/execd-project/execd/agent/launch"
	"github.com/execd-project/execd/internal/host/gpu"
)

// groups returns the control groups of jobs, which deny GPUs if the host has any. The first call opens them.
func (s *Server) groups() (*launch.Groups, error) { return s.groupsFor(s.inventory()) }

// groupsFor returns the control groups of jobs on a host with some GPUs.
func (s *Server) groupsFor(v *gpu.Inventory) (*launch.Groups, error) {
	if s.OpenGroups == nil {
		return nil, nil //nolint:nilnil // none
	}
	gpus := v.Numbered()
	s.opening.Lock()
	defer s.opening.Unlock()
	if g, ok := s.opened[gpus]; ok {
		return g, nil
	}
	g, err := s.OpenGroups(gpus)
	if err != nil {
		return nil, err
	}
	if s.opened == nil {
		s.opened = map[bool]*launch.Groups{}
	}
	s.opened[gpus] = g
	return g, nil
}

// Close closes the control groups. No front may be served any more.
func (s *Server) Close() {
	s.opening.Lock()
	defer s.opening.Unlock()
	for _, g := range s.opened {
		g.Close()
	}
	s.opened, s.OpenGroups = nil, nil
}

// inventory returns the GPUs that jobs get; nil if the site manages them itself.
func (s *Server) inventory() *gpu.Inventory {
	v := s.GPUs.Inventory()
	if slices.ContainsFunc(s.SiteGPUs, func(id string) bool { return !v.Known(id) }) {
		return nil
	}
	return v
}

// mostGPUs is the maximum number of GPUs of a job.
const mostGPUs = 4096

// grantGPUs plans which GPUs a job can open, and its variables for them. The front chooses among the GPUs of this host, or, if
// the master counts them, how many the job gets.
func (s *Server) grantGPUs(p *launch.Plan, v *gpu.Inventory) error {
	switch {
	case len(p.GPUs) > mostGPUs || p.GPUCount > mostGPUs:
		return fmt.Errorf("the job has %d GPUs, at most %d are possible", max(len(p.GPUs), p.GPUCount), mostGPUs)
	case p.GPUCount == 0 && p.GPUComplex == "":
	case s.GPUComplex == "" || p.GPUComplex != s.GPUComplex:
		return fmt.Errorf("GPUs of the complex %.200q are not counted on this host (--gpu-complex)", p.GPUComplex)
	case p.GPUCount < 1 || len(p.GPUs) > 0:
		return fmt.Errorf("the job has %d GPUs by number and %d by name", p.GPUCount, len(p.GPUs))
	}
	for _, id := range p.GPUs {
		if strings.ContainsFunc(id, isSpecial) {
			return fmt.Errorf("GPU %.200q contains a character that is not allowed in names", id)
		}
	}
	if !v.Numbered() {
		return nil
	}
	if lacking := v.Lacking(p.GPUs); len(lacking) > 0 {
		return fmt.Errorf("this host does not offer GPU %s", strings.Join(lacking, ", "))
	}
	p.SetGPUs(v, p.GPUs)
	p.ChooseGPUs(v)
	return nil
}

// lookForGPUs looks for the GPUs of this host again.
func (s *Server) lookForGPUs(ctx context.Context, ask bool) *gpusAnswer {
	if s.GPUs == nil {
		return &gpusAnswer{}
	}
	s.GPUs.Refresh()
	if ask && s.GPUs.Wants() {
		s.GPUs.Ask(ctx)
	}
	return &gpusAnswer{s.GPUs.Inventory(), s.GPUs.Numbers()}
}

// GPUs holds the GPUs of this host as a front knows them. The launcher gives them their numbers: see gpu.Register.
type GPUs struct {
	client *Client

	mu  sync.Mutex
	now gpusAnswer
	was string // now in JSON
}

// GPUs returns the GPUs that the launcher has found.
func (c *Client) GPUs() (*GPUs, error) {
	g := &GPUs{client: c}
	_, err := g.look(context.Background(), false)
	return g, err
}

func (g *GPUs) look(ctx context.Context, ask bool) (changed bool, err error) {
	var a gpusAnswer
	if _, err := g.client.call(ctx, kindGPUs, &gpusBody{ask}, -1, &a); err != nil {
		return false, err
	}
	if a.Inventory == nil {
		a.Inventory = &gpu.Inventory{}
	}
	text, err := json.Marshal(&a)
	if err != nil {
		return false, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	changed = g.was != string(text)
	g.now, g.was = a, string(text)
	return changed, nil
}

// Inventory returns the GPUs that the launcher has found last: see gpu.Register.Inventory.
func (g *GPUs) Inventory() *gpu.Inventory {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.now.Inventory
}

// Numbers returns the numbers of all GPUs that the host has or has had.
func (g *GPUs) Numbers() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.now.Numbers
}

// Wants reports false: Refresh has the launcher ask nvidia-smi for missing data.
func (g *GPUs) Wants() bool { return false }

// Refresh orders the launcher to look again, and reports whether anything has changed. If the launcher does not answer,
// nothing has changed.
func (g *GPUs) Refresh() (changed bool) { return g.Ask(context.Background()) }

// Ask does what Refresh does, until the context ends.
func (g *GPUs) Ask(ctx context.Context) (changed bool) {
	changed, _ = g.look(ctx, true)
	return changed
}

// Close has no effect: the launcher keeps the lock of the GPUs.
func (g *GPUs) Close() {}
