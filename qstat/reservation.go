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
	moment := func(title string, at int64) {
		dst = append(appendTime(arTitle(dst, title), at, zone), '\n')
	}
	dst = append(strconv.AppendInt(arTitle(dst, "id"), int64(r.ID), 10), '\n')
	dst = arText(dst, "name", r.Name)
	dst = arText(dst, "owner", r.Owner)
	dst = arText(dst, "state", r.State)
	moment("start_time", r.Start)
	moment("end_time", r.End)
	dst = append(appendDuration(arTitle(dst, "duration"), r.Duration), '\n')
	for _, m := range r.Messages {
		dst = arText(dst, "message", m)
	}
	moment("submission_time", r.Submitted)
	dst = arText(dst, "group", r.Group)
	dst = arText(dst, "account", r.Account)
	dst = arList(dst, "resource_list", len(r.Requests), func(dst []byte, i int) []byte {
		q := &r.Requests[i]
		return append(append(append(dst, q.Name...), '='), q.Value...)
	})
	if r.ErrorHandling {
		dst = arText(dst, "error_handling", "true")
	}
	dst = r.appendGranted(dst)
	if r.Checkpoint != "" {
		dst = arText(dst, "checkpoint_name", r.Checkpoint)
	}
	if r.MailOptions != "" {
		dst = arText(dst, "mail_options", r.MailOptions)
	}
	dst = arList(dst, "mail_list", len(r.MailList), func(dst []byte, i int) []byte { return r.MailList[i].append(dst) })
	dst = arNames(dst, "acl_list", r.Users)
	return arNames(dst, "xacl_list", r.ExcludedUsers)
}

// appendGranted appends what was granted, and the queues for the master task.
func (r *Reservation) appendGranted(dst []byte) []byte {
	dst = arList(dst, "granted_slots_list", len(r.Grants), func(dst []byte, i int) []byte {
		g := &r.Grants[i]
		return strconv.AppendInt(append(append(dst, g.Queue...), '='), int64(g.Slots), 10)
	})
	if r.PE != "" {
		dst = append(append(arTitle(dst, "granted_parallel_environment"), r.PE...), " slots "...)
		dst = append(strconv.AppendInt(dst, int64(r.slots()), 10), '\n')
	}
	return arNames(dst, "master hard queue_list", r.MasterQueues)
}

func arText(dst []byte, title, value string) []byte {
	return append(append(arTitle(dst, title), value...), '\n')
}

// arList appends a line with n items, none without any.
func arList(dst []byte, title string, n int, item func(dst []byte, i int) []byte) []byte {
	if n == 0 {
		return dst
	}
	dst = arTitle(dst, title)
	for i := range n {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = item(dst, i)
	}
	return append(dst, '\n')
}

func arNames(dst []byte, title string, names []string) []byte {
	return arList(dst, title, len(names), func(dst []byte, i int) []byte { return append(dst, names[i]...) })
}

// arTitle begins a line of qrstat -ar.
func arTitle(dst []byte, title string) []byte { return append(appendLeft(dst, title, 30), ' ') }

// AppendUnknownReservationsXML appends what qrstat -ar -xml prints for numbers that no advance
// reservation has.
func AppendUnknownReservationsXML(dst []byte, ids []string) []byte {
	dst = append(append(dst, xmlHeader...), qrstatDocument...)
	for _, id := range ids {
		dst = append(appendEscaped(append(dst, "   <ar_unknown>\n      <id>"...), id), "</id>\n   </ar_unknown>\n"...)
	}
	return append(dst, "</qrstat>\n"...)
}
