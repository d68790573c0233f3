package qstat

import (
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
	// PE is the granted parallel environment, if any; Grants holds its slots.
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

// mail adds USER@HOST.
func (p *page) mail(m Mail) {
	p.value(m.User)
	p.put("@")
	p.value(m.hostName())
}

func (m Mail) hostName() string {
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

// AppendReservations appends the output of qrstat, with or without -explain. It is empty without
// reservations.
func AppendReservations(dst []byte, all []Reservation, explain bool, zone *time.Location) []byte {
	if zone == nil {
		zone = time.UTC
	}
	p := page{dst}
	if len(all) > 0 {
		p.put("ar-id   name       owner        state start at             end at               duration\n")
		p.rule('-', 90)
		p.end()
	}
	for i := range all {
		r := &all[i]
		p.int(r.ID, 7)
		p.space()
		p.column(r.Name, 10)
		p.column(r.Owner, 12)
		p.left(r.State, 5)
		p.space()
		p.time(r.Start, zone)
		p.put("  ")
		p.time(r.End, zone)
		p.put("  ")
		p.duration(r.Duration)
		p.end()
		if explain {
			for _, m := range r.Messages {
				p.put("       ")
				p.line(m)
			}
		}
	}
	return p.text
}

// duration adds seconds as hours:minutes:seconds, two digits each at least.
func (p *page) duration(seconds int64) {
	if seconds < 0 {
		p.put("-")
		seconds = -seconds
	}
	if seconds < 10*60*60 {
		p.put("0")
	}
	p.number(seconds / 3600)
	for _, part := range []int64{seconds / 60 % 60, seconds % 60} {
		p.put(":")
		p.twoDigits(part)
	}
}

// twoDigits adds a number below 100.
func (p *page) twoDigits(n int64) { p.text = append(p.text, byte('0'+n/10), byte('0'+n%10)) }

// AppendReservationDetails appends the output of qrstat -ar, on which -explain has no effect.
func AppendReservationDetails(dst []byte, all []Reservation, zone *time.Location) []byte {
	if zone == nil {
		zone = time.UTC
	}
	p := reservationPage{page{dst}, zone}
	for i := range all {
		p.rule('-', 80)
		p.end()
		p.details(&all[i])
	}
	return p.text
}

// reservationPage is the output of qrstat -ar, one line for each field.
type reservationPage struct {
	page
	zone *time.Location
}

func (p *reservationPage) details(r *Reservation) {
	p.title("id")
	p.number(int64(r.ID))
	p.end()
	p.field("name", r.Name)
	p.field("owner", r.Owner)
	p.field("state", r.State)
	p.moment("start_time", r.Start)
	p.moment("end_time", r.End)
	p.title("duration")
	p.duration(r.Duration)
	p.end()
	for _, m := range r.Messages {
		p.field("message", m)
	}
	p.moment("submission_time", r.Submitted)
	p.field("group", r.Group)
	p.field("account", r.Account)
	p.items("resource_list", len(r.Requests), func(i int) { p.request(r.Requests[i]) })
	if r.ErrorHandling {
		p.field("error_handling", "true")
	}
	p.granted(r)
	if r.Checkpoint != "" {
		p.field("checkpoint_name", r.Checkpoint)
	}
	if r.MailOptions != "" {
		p.field("mail_options", r.MailOptions)
	}
	p.items("mail_list", len(r.MailList), func(i int) { p.mail(r.MailList[i]) })
	p.names("acl_list", r.Users)
	p.names("xacl_list", r.ExcludedUsers)
}

// granted adds the granted slots and the queues for the master task.
func (p *reservationPage) granted(r *Reservation) {
	p.items("granted_slots_list", len(r.Grants), func(i int) {
		p.value(r.Grants[i].Queue)
		p.put("=")
		p.number(int64(r.Grants[i].Slots))
	})
	if r.PE != "" {
		p.title("granted_parallel_environment")
		p.value(r.PE)
		p.put(" slots ")
		p.number(int64(r.slots()))
		p.end()
	}
	p.names("master hard queue_list", r.MasterQueues)
}

// title begins a line of qrstat -ar.
func (p *reservationPage) title(name string) {
	p.left(name, 30)
	p.space()
}

func (p *reservationPage) field(name, value string) {
	p.title(name)
	p.line(value)
}

func (p *reservationPage) moment(name string, at int64) {
	p.title(name)
	p.time(at, p.zone)
	p.end()
}

// items writes a line with n items, or nothing if n is 0.
func (p *reservationPage) items(name string, n int, item func(i int)) {
	if n == 0 {
		return
	}
	p.title(name)
	for i := range n {
		if i > 0 {
			p.put(",")
		}
		item(i)
	}
	p.end()
}

func (p *reservationPage) names(name string, list []string) {
	p.items(name, len(list), func(i int) { p.value(list[i]) })
}

// AppendUnknownReservationsXML appends the output of qrstat -ar -xml for numbers that no advance
// reservation has.
func AppendUnknownReservationsXML(dst []byte, ids []string) []byte {
	dst = append(append(dst, xmlHeader...), qrstatDocument...)
	for _, id := range ids {
		dst = append(appendEscaped(append(dst, "   <ar_unknown>\n      <id>"...), id), "</id>\n   </ar_unknown>\n"...)
	}
	return append(dst, "</qrstat>\n"...)
}
