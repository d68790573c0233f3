package scheduler_test

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// naiveValue is a value of an attribute at a place. Places are "global", hosts, and
// instances, as queue@host.
type naiveValue struct {
	number float64
	text   string
}

func isInstance(place string) bool { return strings.Contains(place, "@") }

// configured returns the value in complex_values of a place, or the slots of an instance.
func (r *naiveRun) configured(place, attribute string) (string, bool) {
	values := r.site.host(place).values
	if isInstance(place) {
		i := r.site.instance(place)
		if attribute == "slots" {
			return strconv.Itoa(i.slots), true
		}
		values = i.values
	}
	v, ok := values[attribute]
	return v, ok
}

// request returns the amount of an attribute that a job takes for each slot; asked reports whether
// the job requests it.
func (r *naiveRun) request(j *naiveJob, attribute string) (amount float64, asked bool) {
	if attribute == "slots" {
		return 1, true
	}
	if text, ok := j.hard[attribute]; ok {
		return number(text), true
	}
	return r.site.attribute(attribute).standard, false
}

// used adds up what tasks take of a consumable at a place where it is configured.
func (r *naiveRun) used(place, attribute string) float64 {
	sum := 0.0
	for _, t := range r.tasks {
		each, _ := r.request(t.job, attribute)
		for k, g := range t.grants {
			if !r.isAt(g, place) {
				continue
			}
			if r.site.attribute(attribute).consumable == "JOB" {
				if k == 0 {
					sum += each
				}
				continue
			}
			sum += each * float64(g.slots)
		}
	}
	return sum
}

func (r *naiveRun) isAt(g naiveGrant, place string) bool {
	return place == "global" || g.instance == place || r.site.instance(g.instance).host == place
}

// occupied counts the slots at a place of jobs that want it for themselves, and of
// others.
func (r *naiveRun) occupied(place, attribute string) (exclusive, others int) {
	for _, t := range r.tasks {
		for _, g := range t.grants {
			if !r.isAt(g, place) {
				continue
			}
			if amount, asked := r.request(t.job, attribute); asked && amount > 0 {
				exclusive += g.slots
			} else {
				others += g.slots
			}
		}
	}
	return exclusive, others
}

// correction returns the load correction of a host, or of the cluster, in hundredths.
func (r *naiveRun) correction(host string) float64 {
	decay := float64(r.site.scheduler.decay)
	if decay <= 0 || len(r.site.scheduler.adjustments) == 0 {
		return 0
	}
	sum := 0.0
	for _, t := range r.tasks {
		age := float64(r.now - t.started)
		if age >= decay {
			continue
		}
		for _, g := range t.grants {
			switch {
			case host == "global":
				sum += math.Trunc(100 * (1 - age/decay))
			case r.site.instance(g.instance).host == host:
				sum += math.Trunc(100 * (1 - age/decay) * float64(g.slots))
			}
		}
	}
	return sum
}

// reportedValue returns the load value that a host reports, scaled.
func (r *naiveRun) reportedValue(host, attribute string) (naiveValue, bool) {
	text, ok := r.load[host][attribute]
	if !ok {
		return naiveValue{}, false
	}
	a := r.site.attribute(attribute)
	if a.isText() {
		return naiveValue{text: text}, true
	}
	v := number(text)
	if f, ok := r.site.host(host).scaling[attribute]; ok {
		v *= f
	}
	return naiveValue{number: v}, true
}

// loadValue returns the result of reportedValue, corrected by the load adjustments.
func (r *naiveRun) loadValue(host, attribute string) (naiveValue, bool) {
	reported, ok := r.reportedValue(host, attribute)
	a := r.site.attribute(attribute)
	if !ok || a.isText() {
		return reported, ok
	}
	v := reported.number
	for _, adjustment := range r.site.scheduler.adjustments {
		if adjustment[0] != attribute {
			continue
		}
		lc := r.correction(host) / 100
		if strings.HasPrefix(attribute, "np_") {
			if n, ok := r.load[host]["num_proc"]; ok && number(n) > 1 {
				lc /= number(n)
			}
		}
		if a.relop == ">=" {
			v += number(adjustment[1]) * lc
		} else {
			v -= number(adjustment[1]) * lc
		}
	}
	return naiveValue{number: v}, true
}

// reduce notes for each host of which consumables the load report says that others than
// jobs use them.
func (r *naiveRun) reduce() {
	for _, h := range r.site.hosts {
		for attribute, text := range h.values {
			if !r.site.attribute(attribute).isConsumable() {
				continue
			}
			if l, ok := r.loadValue(h.name, attribute); ok {
				r.reduced[h.name+"/"+attribute] = max(0, number(text)-r.used(h.name, attribute)-l.number)
			}
		}
	}
}

// at returns the value of an attribute at a place.
func (r *naiveRun) at(place, attribute string) (v naiveValue, ok bool) {
	return r.value(place, attribute, true)
}

// value does what at does; without bookings it leaves out the amounts that tasks use.
func (r *naiveRun) value(place, attribute string, bookings bool) (v naiveValue, ok bool) {
	a := r.site.attribute(attribute)
	text, configured := r.configured(place, attribute)
	switch {
	case configured && a.isText():
		v = naiveValue{text: text}
	case configured && a.isExclusive():
		v.number = number(text)
		if exclusive, _ := r.occupied(place, attribute); exclusive > 0 && bookings {
			v.number = 0
		}
	case configured && a.isConsumable():
		v.number = number(text) - r.reduced[place+"/"+attribute]
		if bookings {
			v.number -= r.used(place, attribute)
		}
	case configured:
		v.number = number(text)
	}
	if isInstance(place) {
		if attribute == "h_rt" {
			return naiveValue{number: number(r.site.instance(place).runtime)}, true
		}
		return v, configured
	}
	l, reported := r.loadValue(place, attribute)
	switch {
	case !reported || configured && (a.relop == "==" || a.relop == "!="):
		return v, configured
	case !configured, a.relop == ">=" && l.number > v.number, a.relop != ">=" && l.number < v.number:
		return l, true
	}
	return v, true
}

// strictest returns the value of an attribute over several layers, for all but requests. Where
// the future is planned, what is in use now is not looked at.
func (r *naiveRun) strictest(attribute string, places ...string) (best naiveValue, ok bool) {
	a := r.site.attribute(attribute)
	for _, p := range places {
		v, has := r.value(p, attribute, r.site.scheduler.maxReservation == 0)
		if !has {
			continue
		}
		if !ok || a.relop == ">=" && v.number > best.number || (a.relop == "<=" || a.isExclusive()) && v.number < best.number {
			best, ok = v, true
		}
	}
	return best, ok
}

func (r *naiveRun) satisfied(attribute, request string, v naiveValue) bool {
	a := r.site.attribute(attribute)
	switch {
	case a.isText():
		return matches(request, v.text) == (a.relop == "==")
	case a.relop == "<=":
		return number(request) <= v.number
	case a.relop == ">=":
		return number(request) >= v.number
	case a.relop == "==":
		return number(request) == v.number
	}
	return number(request) == 0 || number(request) <= v.number // EXCL
}

// alarm applies load_thresholds.
func (r *naiveRun) alarm(instance string) bool {
	i := r.site.instance(instance)
	for _, threshold := range i.load {
		a := r.site.attribute(threshold[0])
		if a == nil {
			return true
		}
		v, ok := r.thresholdValue(i, a)
		switch {
		case !ok:
			return true
		case a.isText():
			if !matches(threshold[1], v.text) {
				return true
			}
		case a.typ == "BOOL" || a.relop == "==":
			if v.number == number(threshold[1]) {
				return true
			}
		case a.relop == ">=" && v.number >= number(threshold[1]), a.relop == "<=" && v.number <= number(threshold[1]):
			return true
		}
	}
	return false
}

func (r *naiveRun) thresholdValue(i *siteInstance, a *siteAttribute) (naiveValue, bool) {
	if a.isConsumable() {
		return r.strictest(a.name, "global", i.host, i.name())
	}
	for _, h := range []string{i.host, "global"} {
		if v, ok := r.loadValue(h, a.name); ok {
			return v, true
		}
	}
	if _, ok := i.values[a.name]; ok {
		return r.at(i.name(), a.name)
	}
	return naiveValue{}, false
}

// memberOf reports whether a job's owner is in a user set.
func (r *naiveRun) memberOf(j *naiveJob, set string) bool {
	return slices.Contains(r.site.users[set], j.user) || slices.Contains(r.site.users[set], "@"+j.group)
}

func (r *naiveRun) allows(j *naiveJob, a *siteAccess) bool {
	in := func(set string) bool { return r.memberOf(j, set) }
	if slices.ContainsFunc(a.xusers, in) || len(a.users) > 0 && !slices.ContainsFunc(a.users, in) {
		return false
	}
	if len(a.projects) > 0 && !slices.Contains(a.projects, j.project) {
		return false
	}
	return !slices.Contains(a.xprojects, j.project)
}

// forced reports whether a place insists on something that a job does not ask for.
func (r *naiveRun) forced(j *naiveJob, values map[string]string) bool {
	for attribute := range values {
		if _, asked := j.hard[attribute]; !asked && r.site.attribute(attribute).isForced() {
			return true
		}
	}
	return false
}

// listed reports whether any of a list of queue references means an instance.
func (r *naiveRun) listed(list []string, i *siteInstance) bool {
	return slices.ContainsFunc(list, func(ref string) bool { return r.refersTo(ref, i) })
}

func (r *naiveRun) refersTo(ref string, i *siteInstance) bool {
	queue, host, qualified := strings.Cut(ref, "@")
	if !matches(queue, i.queue) {
		return false
	}
	group, isGroup := strings.CutPrefix(host, "@")
	switch {
	case !qualified:
		return true
	case isGroup:
		return slices.Contains(r.site.groups["@"+group], i.host)
	}
	return matches(host, i.host)
}

// static compares a job with what is fixed about an instance and its host.
func (r *naiveRun) static(j *naiveJob, i *siteInstance, pe string) bool {
	h := r.site.host(i.host)
	inList := len(j.queues) == 0 || r.listed(j.queues, i)
	master := len(j.masterQueues) == 0 || r.listed(j.masterQueues, i)
	switch {
	case !r.allows(j, &h.access), !r.allows(j, &i.access), r.forced(j, h.values), r.forced(j, i.values),
		slices.Contains(j.excluded, i.host),
		j.checkpoint != "" && !slices.Contains(i.checkpoints, j.checkpoint),
		j.immediate && !i.interactive:
		return false
	case pe == "":
		return inList && master && (i.batch || j.immediate || j.checkpoint != "")
	}
	return slices.Contains(i.pes, pe) && !r.shunned[i.host] && (inList || len(j.masterQueues) > 0 && master)
}

// offers compares what a job takes for one slot with what a place has.
func (r *naiveRun) offers(j *naiveJob, place string) bool {
	for _, a := range r.site.attributes {
		_, configured := r.configured(place, a.name)
		text, asked := j.hard[a.name]
		switch {
		case configured && a.isExclusive():
			exclusive, others := r.occupied(place, a.name)
			if exclusive > 0 || asked && number(text) > 0 && others > 0 {
				return false
			}
			if v, _ := r.at(place, a.name); asked && !r.satisfied(a.name, text, v) {
				return false
			}
		case configured && a.isConsumable():
			amount, asked := r.request(j, a.name)
			if v, _ := r.at(place, a.name); amount > v.number && (asked || amount != 0) {
				return false
			}
		case asked:
			if v, ok := r.at(place, a.name); ok && !r.satisfied(a.name, text, v) {
				return false
			}
		}
	}
	return true
}

// unknown reports whether a task asks for something that no layer has: the master task of a
// job, or the only one, for what a job takes once, too.
func (r *naiveRun) unknown(j *naiveJob, i *siteInstance, master bool) bool {
	for attribute := range j.hard {
		if !master && r.site.attribute(attribute).consumable == "JOB" {
			continue
		}
		if _, ok := r.strictest(attribute, "global", i.host, i.name()); !ok {
			return true
		}
	}
	return false
}

// fits checks everything for one slot of a serial job.
func (r *naiveRun) fits(j *naiveJob, i *siteInstance) bool {
	return r.withinQuotas(j, i) && r.static(j, i, "") && !r.unknown(j, i, true) && r.offers(j, i.host) && r.offers(j, i.name())
}

// placeSerial finds the first instance, or that with the fewest violations of soft
// requests.
func (r *naiveRun) placeSerial(j *naiveJob) string {
	if g := r.site.global; !r.allows(j, &g.access) || r.forced(j, g.values) || !r.offers(j, "global") {
		return ""
	}
	best, fewest := "", math.MaxInt
	out := map[string]bool{} // queues, and hosts with a "@", that a quota rules out
	for _, name := range r.usable {
		i := r.site.instance(name)
		if out[i.queue] || out["@"+i.host] {
			continue
		}
		r.ruleOut(j, i, out)
		if r.fits(j, i) {
			if n := r.violations(j, i); n < fewest {
				best, fewest = name, n
			}
		}
	}
	return best
}

// violations counts the soft requests that an instance does not meet.
func (r *naiveRun) violations(j *naiveJob, i *siteInstance) int {
	n := 0
	for attribute, request := range j.soft {
		inQueue, above := false, false
		for _, place := range []string{"global", i.host, i.name()} {
			v, ok := r.at(place, attribute)
			if ok && !r.satisfied(attribute, request, v) {
				n++
			}
			inQueue = inQueue || ok && place == i.name()
			above = above || ok && place != i.name() && r.satisfied(attribute, request, v)
		}
		if !inQueue && !above {
			n++
		}
	}
	for _, ref := range j.softQueues {
		if !r.refersTo(ref, i) {
			n++
		}
	}
	return n
}
