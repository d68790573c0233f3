package launcher

import (
	"errors"
	"fmt"

	"github.com/execd-project/execd/job"
)

// received is an order with its content and descriptors.
type received struct {
	envelope *envelope
	body     any
	fds      []int // that are left: the script's
	launched bool  // the job has a supervisor now, and the front waits for its end
}

// launchedJob returns the job of an order to launch.
func (o *received) launchedJob() job.ID {
	b, _ := o.body.(*ofJob)
	return b.ID
}

// unpack reads a message, and returns the size of all its contents in bytes, which o.read takes up. Its descriptors
// are the caller's to close; o has the number in any case.
func unpack(text []byte, fds []int) (o *received, size int64, err error) {
	o = &received{fds: fds}
	if o.envelope, err = decodeEnvelope(text); err != nil {
		return o, 0, err
	}
	for _, fd := range fds {
		n, err := sizeOf(fd, mostScript)
		if err != nil {
			return o, 0, err
		}
		size += n
	}
	return o, size, nil
}

// read reads the content of an order.
func (o *received) read() (err error) {
	body, order := []byte(o.envelope.Body), o.envelope.Order
	rest := o.fds
	if o.envelope.Memory {
		if len(rest) == 0 {
			return errors.New("the descriptor of its body is missing")
		}
		if body, err = contentOf(rest[0], mostOf(order)); err != nil {
			return err
		}
		rest = rest[1:]
	}
	switch {
	case o.envelope.compact:
	case compactKinds[order] != 0:
		return fmt.Errorf("%s is JSON, expected the compact form", order)
	case len(body) == 0:
		body = []byte("{}")
	default:
		if err := checkSize(body); err != nil {
			return err
		}
	}
	if o.body, err = decodeBody(order, body); err != nil {
		return err
	}
	expected := 0
	if p, ok := o.body.(*prepareBody); ok && p.Script {
		expected = 1
	}
	if len(rest) != expected {
		return fmt.Errorf("%s has %d descriptors too many", order, len(rest)-expected)
	}
	return nil
}
