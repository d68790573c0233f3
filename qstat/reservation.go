package qstat

import (
	"strconv"
	"time"
)

// Reservation is an advance reservation. Times are seconds since the epoch.
type Reservation struct {
	ID        int    `json:"id"`
	Name      string `json:"name,omitempty"`
	Owner     string `json:"owner"`
	Group     string `json:"group"`
	Account   string `json:"account"`
	State     string `json:"state"` // w W r E d, see qrstat(1)
	Submitted int64  `json:"submitted"`
	Start     int64  `json:"start"`
	End       int64  `json:"end"`
	Duration  int64  `json:"duration"` // seconds
	// Messages are the reasons of the states E and W.
	Messages      []string  `json:"messages,omitempty"`
	ErrorHandling bool      `json:"errorHandling,omitempty"` // -he
	Requests      []Request `json:"requests,omitempty"`
	Grants        []Grant   `json:"grants,omitempty"`
	// PE is the granted parallel environment, if any; its slots are those of Grants.
	PE           string   `json:"pe,omitempty"`
	MasterQueues []string `json:"masterQueues,omitempty"` // -masterq
	Checkpoint   string   `json:"checkpoint,omitempty"`
	// MailOptions are letters of -m.
	MailOptions string `json:"mailOptions,omitempty"`
	MailList    []Mail `json:"mailList,omitempty"`
	// Users may use the reservation, ExcludedUsers not; names, and of user sets after
	// an @.
	Users         []string `json:"users,omitempty"`
	ExcludedUsers []string `json:"excludedUsers,omitempty"`
}

// Mail is an address. The host may be empty.
type Mail struct {
	User string `json:"user"`
	Host string `json:"host,omitempty"`
}

func (m Mail) append(dst []byte) []byte {
	return append(append(append(dst, m.User...), '@'), m.host()...)
}

func (m Mail) host() string {
	if m.Host == "" {
		return "NONE"
	}
	return m.Host
}

func (r *Reservation) slots() int {
	sum := 0
	for _, g := range r.Grants {
		sum += g.Slots
	}
	return sum
}

// AppendReservations appends what qrstat prints, with or without -explain: nothing
// without reservations.
func AppendReservations(dst []byte, all []Reservation, explain bool, zone *time.Location) []byte {
	if zone == nil {
		zone = time.UTC
	}
	if len(all) > 0 {
		dst = append(dst, "ar-id   name       owner        state start at             end at               duration\n"...)
		dst = append(appendRepeated(dst, '-', 90), '\n')
	}
	for i := range all {
		r := &all[i]
		dst = append(appendInt(dst, r.ID, 7), ' ')
		dst = append(appendClipped(dst, r.Name, 10), ' ')
		dst = append(appendClipped(dst, r.Owner, 12), ' ')
		dst = append(appendLeft(dst, r.State, 5), ' ')
		dst = append(appendTime(dst, r.Start, zone), "  "...)
		dst = append(appendTime(dst, r.End, zone), "  "...)
		dst = append(appendDuration(dst, r.Duration), '\n')
		if explain {
			for _, m := range r.Messages {
				dst = append(append(append(dst, "       "...), m...), '\n')
			}
		}
	}
	return dst
}

// appendDuration prints seconds as hours:minutes:seconds, two digits each at least.
func appendDuration(dst []byte, seconds int64) []byte {
	if seconds < 0 {
		dst, seconds = append(dst, '-'), -seconds
	}
	if seconds < 10*60*60 {
		dst = append(dst, '0')
	}
	dst = strconv.AppendInt(dst, seconds/3600, 10)
	for _, part := range []int64{seconds / 60 % 60, seconds % 60} {
		dst = append(dst, ':', byte('0'+part/10), byte('0'+part%10))
	}
	return dst
}

// AppendReservationDetails appends what qrstat -ar prints. -explain changes nothing.
func AppendReservationDetails(dst []byte, all []Reservation, zone *time.Location) []byte {
	if zone == nil {
		zone = time.UTC
	}
	for i := range all {
		dst = append(appendRepeated(dst, '-', 80), '\n')
		dst = all[i].appendDetails(dst, zone)
	}
	return dst
}

func (r *Reservation) appendDetails(dst []byte, zone *time.Location) []byte {
	text := func(title, value string) {
		dst = append(append(arTitle(dst, title), value...), '\n')
	}
	moment := func(title string, at int64) {
		dst = append(appendTime(arTitle(dst, title), at, zone), '\n')
	}
	list := func(title string, items []string) {
		if len(items) > 0 {
			dst = append(appendList(arTitle(dst, title), items, ","), '\n')
		}
	}
	dst = append(strconv.AppendInt(arTitle(dst, "id"), int64(r.ID), 10), '\n')
	text("name", r.Name)
	text("owner", r.Owner)
	text("state", r.State)
	moment("start_time", r.Start)
	moment("end_time", r.End)
	dst = append(appendDuration(arTitle(dst, "duration"), r.Duration), '\n')
	for _, m := range r.Messages {
		text("message", m)
	}
	moment("submission_time", r.Submitted)
	text("group", r.Group)
	text("account", r.Account)
	if len(r.Requests) > 0 {
		dst = arTitle(dst, "resource_list")
		for i, q := range r.Requests {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(append(append(dst, q.Name...), '='), q.Value...)
		}
		dst = append(dst, '\n')
	}
	if r.ErrorHandling {
		text("error_handling", "true")
	}
	if len(r.Grants) > 0 {
		dst = arTitle(dst, "granted_slots_list")
		for i, g := range r.Grants {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = strconv.AppendInt(append(append(dst, g.Queue...), '='), int64(g.Slots), 10)
		}
		dst = append(dst, '\n')
	}
	if r.PE != "" {
		dst = append(append(arTitle(dst, "granted_parallel_environment"), r.PE...), " slots "...)
		dst = append(strconv.AppendInt(dst, int64(r.slots()), 10), '\n')
	}
	list("master hard queue_list", r.MasterQueues)
	if r.Checkpoint != "" {
		text("checkpoint_name", r.Checkpoint)
	}
	if r.MailOptions != "" {
		text("mail_options", r.MailOptions)
	}
	if len(r.MailList) > 0 {
		dst = arTitle(dst, "mail_list")
		for i, m := range r.MailList {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = m.append(dst)
		}
		dst = append(dst, '\n')
	}
	list("acl_list", r.Users)
	list("xacl_list", r.ExcludedUsers)
	return dst
}

// arTitle begins a line of qrstat -ar.
func arTitle(dst []byte, title string) []byte { return append(appendLeft(dst, title, 30), ' ') }
