package serve

import (
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/execd-project/execd/agent/api"
)

// TestLineIsJSON checks that the encoder for report lines writes what package encoding/json writes,
// for any job.
func TestLineIsJSON(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	check := func(r *api.Report) {
		t.Helper()
		want, err := encode(r)
		if err != nil {
			t.Fatal(err)
		}
		got, err := appendLine([]byte("before\n"), r)
		if err != nil || string(got) != "before\n"+string(want) {
			t.Fatalf("got  %swant %s%v", got, want, err)
		}
	}
	// Each field by itself, and one that is new here as well.
	fields := reflect.VisibleFields(reflect.TypeFor[api.Job]())
	for _, field := range fields {
		var j api.Job
		fill(t, random, reflect.ValueOf(&j).Elem().FieldByIndex(field.Index), 1)
		check(&api.Report{Number: 7, Job: &j})
	}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[api.JobUsage]()) {
		var u api.JobUsage
		fill(t, random, reflect.ValueOf(&u).Elem().FieldByIndex(field.Index), 1)
		check(&api.Report{Number: 7, Usage: &api.UsageReport{Time: began, Jobs: []api.JobUsage{u, {Job: 1}}}})
	}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[api.Value]()) {
		var v api.Value
		fill(t, random, reflect.ValueOf(&v).Elem().FieldByIndex(field.Index), 1)
		check(&api.Report{Number: 7, Load: &api.Load{Time: began, Values: []api.Value{v, {}}, Removed: []api.ValueID{v.ValueID, {}}}})
	}
	for range 1000 {
		u := api.UsageReport{}
		fill(t, random, reflect.ValueOf(&u).Elem(), 0.7)
		check(&api.Report{Number: random.Uint64(), Usage: &u})
	}
	for range 1000 {
		l := api.Load{}
		fill(t, random, reflect.ValueOf(&l).Elem(), 0.7)
		check(&api.Report{Number: random.Uint64(), Load: &l})
	}
	for range 5000 {
		var j api.Job
		fill(t, random, reflect.ValueOf(&j).Elem(), 0.6)
		check(&api.Report{Number: random.Uint64(), Job: &j})
	}
	for _, f := range []float64{
		0, math.Copysign(0, -1), 1e-6, math.Nextafter(1e-6, 0), 9.5e-7, -1e-7, 1e-10, 2.5e-100, math.SmallestNonzeroFloat64,
		1e20, 1e21, -1e21, 1e22, math.Nextafter(1e21, 0), math.MaxFloat64, 0.1, 1.0 / 3, 45.657470629,
	} {
		check(&api.Report{Job: &api.Job{Usage: &api.Online{CPU: f}}})
	}
	check(&api.Report{Number: 1, Load: &api.Load{Values: []api.Value{{Text: "1"}}}})
	check(&api.Report{Number: 1, Load: &api.Load{}})
	check(&api.Report{Number: 1, Job: &api.Job{}, Load: &api.Load{Values: []api.Value{{Text: "1"}}}})
	check(&api.Report{Number: 2, Heartbeat: &api.Heartbeat{Time: began}})
	check(&api.Report{Number: 3, Configuration: &api.Configuration{Version: "<1>"}})
	check(&api.Report{Number: 4, Service: &api.Service{Draining: "<1>"}})
	check(&api.Report{Number: 4, Job: &api.Job{}, Service: &api.Service{}})
	check(&api.Report{Number: 4, Error: &api.Error{Code: api.Internal, Message: "x"}})
	check(&api.Report{Number: 5, Job: &api.Job{}, Usage: &api.UsageReport{Jobs: []api.JobUsage{{Job: 1}}}})
	check(&api.Report{Number: 6, Usage: &api.UsageReport{Jobs: []api.JobUsage{{Job: 1}}}, Load: &api.Load{}})
	for _, bad := range []*api.Job{{Usage: &api.Online{CPU: math.NaN()}}, {Usage: &api.Online{Mem: math.Inf(1)}}, {Received: began.AddDate(10000, 0, 0)}} {
		if got, err := appendLine(nil, &api.Report{Job: bad}); err == nil {
			t.Errorf("got %s, expected an error", got)
		}
	}
}

// texts are some that have to be escaped, or must not be.
var texts = []string{
	"x", "a b", `"`, `\`, "\n\t\b\f\r\x00\x1f\x7f", "<&>", "äöü", "\u2028\u2029", "\xff", "a\xc3", "😀", "/var/spool/7.1",
}

// fill sets a value, or with a chance of less than 1 a part of its fields.
func fill(t *testing.T, random *rand.Rand, v reflect.Value, chance float64) {
	t.Helper()
	if random.Float64() > chance && v.Kind() != reflect.Struct {
		return
	}
	switch v.Interface().(type) {
	case time.Time:
		if random.Float64() <= chance {
			v.Set(reflect.ValueOf(began.Add(time.Duration(random.Int64N(1e18)) / 1000 * time.Duration(1+random.IntN(2)*999)).UTC()))
		}
		return
	case *api.Outcome:
		if random.IntN(10) == 0 {
			v.Set(reflect.ValueOf(&api.Outcome{Ran: true, ExitStatus: 3, Class: "none"}))
		}
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(texts[random.IntN(len(texts))])
	case reflect.Int, reflect.Int64:
		v.SetInt(random.Int64() >> random.IntN(63))
		if random.IntN(2) == 0 {
			v.SetInt(-v.Int())
		}
	case reflect.Uint64:
		v.SetUint(random.Uint64())
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(math.Ldexp(random.Float64()-0.5, random.IntN(160)-80))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), random.IntN(3), 3))
		for i := range v.Len() {
			fill(t, random, v.Index(i), 1)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, random, v.Elem(), chance)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range random.IntN(3) {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			fill(t, random, key, 1)
			fill(t, random, value, 1)
			v.SetMapIndex(key, value)
		}
	case reflect.Struct:
		for _, field := range v.Fields() {
			fill(t, random, field, chance)
		}
	default:
		t.Fatalf("a field has the kind %s, which this test does not know", v.Kind())
	}
}
