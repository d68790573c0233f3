package launcher

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/submit"
)

// copyOf returns a copy of a description in which the launcher does not change anything: it changes fields, also behind
// pointers, and no elements of lists.
func copyOf(d *job.Description) *job.Description {
	c := *d
	v := reflect.ValueOf(&c).Elem()
	for _, field := range v.Fields() {
		if field.Kind() == reflect.Pointer && !field.IsNil() {
			to := reflect.New(field.Type().Elem())
			to.Elem().Set(field.Elem())
			field.Set(to)
		}
	}
	return &c
}

// asSentOrder returns the body of an order as it is sent: with the changes of the description in the place of the description.
func asSentOrder(body any) (any, error) {
	b, ok := body.(*prepareBody)
	if !ok {
		return body, nil
	}
	changes, err := rawChanges(usual(), b.Plan.Description)
	if err != nil {
		return nil, err
	}
	sent, plan := *b, *b.Plan
	plan.Description, sent.Plan, sent.Changes = nil, &plan, changes
	return &sent, nil
}

// restore completes the description of an order that has come as asSentOrder.
func (b *prepareBody) restore() error {
	if b.Plan == nil {
		return nil
	}
	if b.Changes != nil {
		if b.Plan.Description != nil {
			return errors.New("the order has a description and its changes")
		}
		b.Plan.Description = usual()
		if err := change(b.Plan.Description, b.Changes); err != nil {
			return err
		}
	}
	return b.Texts.restore(b.Plan.Description)
}

// changesOf returns the fields of a description that differ from those of another one, by their names. JSON of a whole
// description takes longer than all files of its job.
func changesOf(from, to *job.Description) map[string]any {
	changes := map[string]any{}
	a, b := reflect.ValueOf(from).Elem(), reflect.ValueOf(to).Elem()
	for i := range a.NumField() {
		if x, y := a.Field(i).Interface(), b.Field(i).Interface(); !reflect.DeepEqual(x, y) {
			changes[a.Type().Field(i).Name] = y
		}
	}
	return changes
}

// rawChanges returns changesOf as JSON.
func rawChanges(from, to *job.Description) (map[string]json.RawMessage, error) {
	raw := map[string]json.RawMessage{}
	for name, value := range changesOf(from, to) {
		if name == fieldLimits {
			value = limitsOf(&from.Limits, &to.Limits)
		}
		text, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		raw[name] = text
	}
	return raw, nil
}

// fieldLimits is the field of a description with its limits, of which most jobs have few.
const fieldLimits = "Limits"

// limitsOf returns the limits that differ, by their resources.
func limitsOf(from, to *job.Limits) map[job.Resource]job.Limit {
	changes := map[job.Resource]job.Limit{}
	for i := range to {
		if from[i] != to[i] {
			changes[job.Resource(i)] = to[i]
		}
	}
	return changes
}

// usual returns the description that the one in an order for a job is sent as changes of: its values are those of most jobs.
func usual() *job.Description {
	limits := job.Unlimited()
	return &job.Description{
		Limits: job.Unlimited(), ProcedureLimits: &limits, Account: submit.DefaultAccount, ScriptTimeout: 2 * time.Minute, HostSlots: 1,
		LimitGrace: time.Minute, AddGroupKill: true,
	}
}

// change sets fields of a description.
func change(d *job.Description, changes map[string]json.RawMessage) error {
	v := reflect.ValueOf(d).Elem()
	for name, text := range changes {
		field := v.FieldByName(name)
		if !field.IsValid() {
			return fmt.Errorf("a description has no field %.200q", name)
		}
		if name == fieldLimits {
			if err := changeLimits(&d.Limits, text); err != nil {
				return err
			}
			continue
		}
		value := reflect.New(field.Type())
		if err := decode(text, value.Interface()); err != nil {
			return fmt.Errorf("the field %s of a description: %w", name, err)
		}
		field.Set(value.Elem())
	}
	return nil
}

func changeLimits(limits *job.Limits, text []byte) error {
	var changes map[job.Resource]job.Limit
	if err := decode(text, &changes); err != nil {
		return fmt.Errorf("the limits of a description: %w", err)
	}
	for resource, l := range changes {
		if resource < 0 || int(resource) >= len(limits) {
			return fmt.Errorf("the limits of a description: there is no resource %d", resource)
		}
		limits[resource] = l
	}
	return nil
}
