package qstat

import (
	"strconv"
	"strings"
	"testing"
	"time"
)

// atoi and atof read numbers that tests print back: a mistake shows there.
func atoi(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}

func atof(s string) float64 {
	f, _ := strconv.ParseFloat(s, 64)
	return f
}

func date(s string) int64 {
	at, _ := time.Parse("01/02/2006 15:04:05", strings.TrimSpace(s))
	return at.Unix()
}

func ansi(s string) int64 {
	at, _ := time.Parse(time.ANSIC, s)
	return at.Unix()
}

func seconds(clock string) int64 {
	f := strings.Split(clock, ":")
	return int64(atoi(f[0])*3600 + atoi(f[1])*60 + atoi(f[2]))
}

func parseQuotas(text string) []QuotaRow {
	var rows []QuotaRow
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		f := strings.Fields(line)
		if i < 2 || len(f) < 2 {
			continue
		}
		r := QuotaRow{Rule: f[0], Filter: strings.Join(f[2:], " ")}
		name, amounts, _ := strings.Cut(f[1], "=")
		r.Resource, r.Limit = name, amounts
		if used, limit, ok := strings.Cut(amounts, "/"); ok {
			r.Used, r.Limit = used, limit
		}
		rows = append(rows, r)
	}
	return rows
}

func TestGoldenQuotas(t *testing.T) {
	goldenFiles(t, "qquota*.txt", func(t *testing.T, _, text string) {
		// One file has several commands, each below a line that names it.
		for part := range strings.SplitSeq(text, "### ") {
			if _, table, ok := strings.Cut(part, "\n"); ok && strings.HasPrefix(part, "qquota ") {
				part = table
			}
			same(t, part, string(AppendQuotas(nil, parseQuotas(part))))
		}
	})
}

func TestGoldenReservations(t *testing.T) {
	goldenFiles(t, "qrstat.txt", func(t *testing.T, _, text string) {
		var all []Reservation
		for line := range strings.Lines(text) {
			if len(line) < 60 || line[0] != ' ' {
				continue
			}
			all = append(all, Reservation{
				ID: atoi(strings.TrimSpace(line[:7])), Name: strings.TrimSpace(line[8:18]), Owner: strings.TrimSpace(line[19:31]),
				State: strings.TrimSpace(line[32:37]), Start: date(line[38:58]), End: date(line[59:79]),
				Duration: seconds(strings.TrimSpace(line[79:])),
			})
		}
		same(t, text, string(AppendReservations(nil, all, false, nil)))
	})
}

func TestGoldenReservationDetails(t *testing.T) {
	goldenFiles(t, "qrstat-ar.txt", func(t *testing.T, _, text string) {
		same(t, text, string(AppendReservationDetails(nil, parseDetails(text), nil)))
	})
}

func parseDetails(text string) []Reservation {
	var all []Reservation
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "-----") {
			all = append(all, Reservation{})
			continue
		}
		r, value := &all[len(all)-1], line[31:]
		switch strings.TrimSpace(line[:31]) {
		case "id":
			r.ID = atoi(value)
		case "name":
			r.Name = value
		case "owner":
			r.Owner = value
		case "state":
			r.State = value
		case "start_time":
			r.Start = date(value)
		case "end_time":
			r.End = date(value)
		case "duration":
			r.Duration = seconds(value)
		case "message":
			r.Messages = append(r.Messages, value)
		case "submission_time":
			r.Submitted = date(value)
		case "group":
			r.Group = value
		case "account":
			r.Account = value
		case "error_handling":
			r.ErrorHandling = true
		case "resource_list":
			for item := range strings.SplitSeq(value, ",") {
				name, v, _ := strings.Cut(item, "=")
				r.Requests = append(r.Requests, Request{Name: name, Value: v})
			}
		case "granted_slots_list":
			for item := range strings.SplitSeq(value, ",") {
				queue, n, _ := strings.Cut(item, "=")
				r.Grants = append(r.Grants, Grant{Queue: queue, Slots: atoi(n)})
			}
		case "granted_parallel_environment":
			r.PE, _, _ = strings.Cut(value, " ")
		case "master hard queue_list":
			r.MasterQueues = strings.Split(value, ",")
		case "checkpoint_name":
			r.Checkpoint = value
		case "mail_options":
			r.MailOptions = value
		case "mail_list":
			for item := range strings.SplitSeq(value, ",") {
				user, host, _ := strings.Cut(item, "@")
				r.MailList = append(r.MailList, Mail{user, strings.TrimPrefix(host, "NONE")})
			}
		case "acl_list":
			r.Users = strings.Split(value, ",")
		case "xacl_list":
			r.ExcludedUsers = strings.Split(value, ",")
		}
	}
	return all
}

func TestGoldenShares(t *testing.T) {
	goldenFiles(t, "sge_share_mon.txt", func(t *testing.T, _, text string) {
		for part := range strings.SplitSeq(text, "curr_time") {
			if part == "" {
				continue
			}
			part = "curr_time" + part
			same(t, part, string(AppendShares(nil, [][]ShareRow{parseShares(part)}, ShareOptions{Header: true})))
		}
	})
}

func parseShares(text string) []ShareRow {
	var rows []ShareRow
	for line := range strings.Lines(text) {
		f := strings.Split(line, "\t")
		if len(f) < 20 || f[0] == "curr_time" {
			continue
		}
		n := make([]float64, len(f))
		for i := range f {
			n[i] = atof(f[i])
			// sge_share_mon -t
			if at, err := time.Parse(time.ANSIC, f[i]); err == nil {
				n[i] = float64(at.Unix())
			}
		}
		rows = append(rows, ShareRow{
			Now: int64(n[0]), UsageTime: int64(n[1]), Node: f[2], User: f[3], Project: f[4], Shares: int(n[5]), Jobs: int(n[6]),
			Level: n[7], Total: n[8], LongTarget: n[9], ShortTarget: n[10], Actual: n[11], Usage: n[12],
			Decayed: Usage{n[13], n[14], n[15]}, LongTerm: Usage{n[16], n[17], n[18]},
		})
	}
	return rows
}

func TestGoldenSchedule(t *testing.T) {
	goldenFiles(t, "schedule-*.txt", func(t *testing.T, _, text string) {
		for run := range strings.SplitSeq(text, "::::::::\n") {
			if run == "" {
				continue
			}
			var entries []ScheduleEntry
			for line := range strings.Lines(run) {
				f := strings.Split(strings.TrimSuffix(line, "\n"), ":")
				entries = append(entries, ScheduleEntry{
					Job: atoi(f[0]), Task: atoi(f[1]), Reason: f[2], Start: int64(atoi(f[3])), Duration: int64(atoi(f[4])),
					Level: f[5], Object: f[6], Resource: f[7], Amount: atof(f[8]),
				})
			}
			same(t, "::::::::\n"+run, string(AppendSchedule(nil, entries)))
		}
	})
}

func TestGoldenSchedulingInfo(t *testing.T) {
	goldenFiles(t, "schedinfo.txt", func(t *testing.T, _, text string) {
		for part := range strings.SplitSeq(text, "== job ") {
			_, info, _ := strings.Cut(part, "\n")
			var reasons []Reason
			for line := range strings.Lines(info) {
				reasons = append(reasons, Reason{Text: strings.TrimSuffix(line[28:], "\n")})
			}
			same(t, info, string(AppendSchedulingInfo(nil, reasons)))
		}
	})
}

func TestGoldenHosts(t *testing.T) {
	goldenFiles(t, "qhost-F*.txt", func(t *testing.T, _, text string) {
		c := &Cell{Hosts: parseHosts(text)}
		same(t, text, string(c.AppendHosts(nil, HostOptions{Resources: true, Selected: true})))
	})
}

func parseHosts(text string) []Host {
	var hosts []Host
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		f := strings.Fields(strings.Replace(line, "Host Resource(s):", "", 1))
		switch {
		case i < 2:
		case line[0] != ' ':
			h := Host{Name: f[0], Arch: strings.Trim(f[1], "-"), Load: optional(f[6])}
			for n, to := range []**int{&h.Processors, &h.Sockets, &h.Cores, &h.Threads} {
				if f[n+2] != "-" {
					v := atoi(f[n+2])
					*to = &v
				}
			}
			for n, to := range []**float64{&h.MemoryTotal, &h.MemoryUsed, &h.SwapTotal, &h.SwapUsed} {
				*to = optional(f[n+7])
			}
			if f[1] == "lx-amd64" {
				h.Arch = f[1]
			}
			hosts = append(hosts, h)
		default:
			h := &hosts[len(hosts)-1]
			name, value, _ := strings.Cut(f[0][3:], "=")
			h.Resources = append(h.Resources, Resource{Dominance: f[0][:2], Name: name, Value: value})
		}
	}
	return hosts
}

// optional reads a number or a size of qhost; nil for a minus.
func optional(s string) *float64 {
	if s == "-" {
		return nil
	}
	unit := 1.0
	if i := strings.IndexByte("KMGT", s[len(s)-1]); i >= 0 {
		s = s[:len(s)-1]
		for range i + 1 {
			unit *= 1024
		}
	}
	v := atof(s) * unit
	return &v
}
