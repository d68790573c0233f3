package web

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/execd-project/execd/cmd/execd/internal/joblist"
	"github.com/execd-project/execd/cmd/execd/internal/qclient"
	"github.com/execd-project/execd/qstat"
)

// overview is the data of the first page.
type overview struct {
	Hosts            []host
	Queues           []qstat.QueueInstance
	Running, Pending int // number of tasks
	Held, Failed     int // number of pending tasks on hold or in error state
	Used, Slots      int
	UsedGPUs, GPUs   int
}

// host is an execution host.
type host struct {
	qstat.Host
	Used, Slots    int // of the instance with the largest usage, since instances share the host
	UsedGPUs, GPUs int
}

func (s *source) overview(ctx context.Context) (*overview, error) {
	all, err := s.ask(ctx, "qhost", "-F", "-q")
	if err != nil {
		return nil, err
	}
	list, err := s.ask(ctx, "qstat", "-u", "*")
	if err != nil {
		return nil, err
	}
	o := &overview{Queues: all.Queues}
	for _, h := range all.Hosts {
		if h.Name == "global" {
			continue
		}
		row := host{Host: h}
		for _, r := range h.Resources {
			if r.Name == gpuMap {
				row.UsedGPUs, row.GPUs = used(r)
			}
		}
		for _, q := range all.Queues {
			if q.Host == h.Name {
				row.Used += q.Used
				row.Slots += q.Total
			}
		}
		o.Used += row.Used
		o.Slots += row.Slots
		o.UsedGPUs += row.UsedGPUs
		o.GPUs += row.GPUs
		o.Hosts = append(o.Hosts, row)
	}
	for _, j := range list.Jobs {
		for _, t := range j.Tasks {
			n := joblist.Count(t.IDs)
			switch {
			case t.Phase == qstat.Running:
				o.Running += n
			case strings.Contains(t.State, "E"):
				o.Failed += n
				o.Pending += n
			case strings.Contains(t.State, "h"):
				o.Held += n
				o.Pending += n
			default:
				o.Pending += n
			}
		}
	}
	return o, nil
}

// used returns how much of a consumable is in use, and its configured amount.
func used(r qstat.Resource) (used, total int) {
	free, err := strconv.ParseFloat(r.Value, 64)
	if err != nil {
		return 0, 0
	}
	return int(max(r.Total-free, 0)), int(r.Total)
}

// jobs is the data of the list of jobs.
type jobs struct {
	Show           string // running, pending, finished, or empty for running and pending
	Mine           bool
	Rows           []joblist.Row
	Total          int
	First          int // number of the first row, from 1
	Previous, Next string
	All, OnlyMine  string // links
	Tabs           []tab
}

type tab struct {
	Name, Link string
	Here       bool
}

// gpuMap is the complex attribute of the GPUs of a host.
const gpuMap = "gpu"

// pageSize is the number of jobs per page.
const pageSize = 100

func (s *source) jobs(ctx context.Context, user string, query url.Values) (*jobs, error) {
	l := &jobs{Show: query.Get("show"), Mine: query.Get("mine") != ""}
	command := []string{"qstat", "-u", "*"}
	if l.Mine {
		command[2] = user
	}
	switch l.Show {
	case "running":
		command = append(command, "-s", "r")
	case "pending":
		command = append(command, "-s", "p")
	case "finished":
		command = append(command, "-s", "z")
	case "":
	default:
		return nil, &qclient.RefusedError{Message: "There is no such list of jobs."}
	}
	list, err := s.ask(ctx, command...)
	if err != nil {
		return nil, err
	}
	link := func(show string, mine bool, page int) string {
		q := url.Values{}
		if show != "" {
			q.Set("show", show)
		}
		if mine {
			q.Set("mine", "1")
		}
		if page > 1 {
			q.Set("page", strconv.Itoa(page))
		}
		if len(q) == 0 {
			return "/jobs"
		}
		return "/jobs?" + q.Encode()
	}
	for _, name := range []string{"", "running", "pending", "finished"} {
		l.Tabs = append(l.Tabs, tab{cmp.Or(name, "all"), link(name, l.Mine, 1), name == l.Show})
	}
	l.All, l.OnlyMine = link(l.Show, false, 1), link(l.Show, true, 1)
	l.Total = len(list.Jobs)
	n, _ := strconv.Atoi(query.Get("page"))
	n = min(max(n, 1), (l.Total+pageSize-1)/pageSize)
	n = max(n, 1)
	from := (n - 1) * pageSize
	l.First = from + 1
	if n > 1 {
		l.Previous = link(l.Show, l.Mine, n-1)
	}
	if from+pageSize < l.Total {
		l.Next = link(l.Show, l.Mine, n+1)
	}
	l.Rows, err = joblist.Rows(ctx, s.ask, list.Jobs[min(from, l.Total):min(from+pageSize, l.Total)])
	return l, err
}

// hostPage is the data of the page of a host.
type hostPage struct {
	Host   qstat.Host
	Values []sensor
	Day    []chart
}

// sensor is a value of a complex attribute of a host.
type sensor struct{ Name, Value, Kind string }

func (s *source) hostPage(ctx context.Context, name string, now time.Time) (*hostPage, error) {
	all, err := s.ask(ctx, "qhost", "-F", "-q")
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all.Hosts, func(h qstat.Host) bool { return h.Name == name })
	if i < 0 {
		return nil, &qclient.RefusedError{Message: "There is no such host."}
	}
	p := &hostPage{Host: all.Hosts[i]}
	// A host of the cell that runs no jobs, such as global, has no history; a daemon has only one host.
	if recent, err := s.session.Recent(ctx); err == nil && p.Host.Processors != nil {
		p.Day = charts(recent.Samples, now)
	}
	for _, r := range p.Host.Resources {
		kind := "load value"
		switch {
		case strings.HasSuffix(r.Dominance, "c"):
			kind = "free"
		case strings.HasSuffix(r.Dominance, "f"):
			kind = "configured"
		}
		if used, total := used(r); r.Name == gpuMap && total > 0 {
			p.Values = append(p.Values, sensor{r.Name, strconv.Itoa(total-used) + " of " + strconv.Itoa(total), kind})
			continue
		}
		p.Values = append(p.Values, sensor{r.Name, r.Value, kind})
	}
	return p, nil
}

// shares is the data of the share tree.
type shares struct {
	None     string // why there is no tree
	Nodes    []node
	Pictures []picture
}

// node is a node of the share tree.
type node struct {
	qstat.ShareRow
	Name  string
	Depth int
}

func (s *source) shares(ctx context.Context) (*shares, error) {
	d, err := s.ask(ctx, "sge_share_mon", "-c", "1")
	if err != nil {
		if qclient.Refused(err) {
			return &shares{None: err.Error()}, nil
		}
		return nil, err
	}
	p := &shares{}
	for _, row := range d.Shares {
		path := strings.Trim(row.Node, "/")
		n := node{ShareRow: row, Name: path[strings.LastIndexByte(path, '/')+1:]}
		if path == "" {
			n.Name = "(root)"
		} else {
			n.Depth = strings.Count(path, "/") + 1
		}
		p.Nodes = append(p.Nodes, n)
	}
	p.Pictures = pictures(p.Nodes)
	return p, nil
}

// quotas holds the resource quotas that apply to the caller.
type quotas struct{ Rows []quotaRow }

type quotaRow struct {
	qstat.QuotaRow
	Part float64 // usage divided by the limit; negative if the limit is not a number
}

func (s *source) quotas(ctx context.Context) (*quotas, error) {
	d, err := s.ask(ctx, "qquota")
	if err != nil {
		return nil, err
	}
	p := &quotas{}
	for _, row := range d.Quotas {
		part := -1.0
		used, err := strconv.ParseFloat(row.Used, 64)
		limit, err2 := strconv.ParseFloat(row.Limit, 64)
		if err == nil && err2 == nil && limit > 0 {
			part = used / limit
		}
		p.Rows = append(p.Rows, quotaRow{row, part})
	}
	return p, nil
}
