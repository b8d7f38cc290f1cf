package aws

import (
	"context"
	"net/http"
)

// Fault is what a test may order for the next calls of an operation.
type Fault string

// What can go wrong.
const (
	Throttled         Fault = "throttled"          // ThrottlingException 400 before anything is looked at; RequestLimitExceeded 503 of EC2, Throttling 400 of the other queries
	InternalError     Fault = "internal error"     // InternalServerError 500 of FSx, InternalError of EC2, InternalFailure of the others, and nothing was done
	Denied            Fault = "denied"             // AccessDeniedException 400; AccessDenied or UnauthorizedOperation 403 of the queries
	AnswerLost        Fault = "answer lost"        // the work is done, and the connection is cut before its answer
	EndsFailed        Fault = "ends failed"        // what is created becomes FAILED where it should become AVAILABLE or SUCCEEDED
	EndsMisconfigured Fault = "ends misconfigured" // an association becomes MISCONFIGURED where it should become AVAILABLE
	EndsSucceeded     Fault = "ends succeeded"     // a task becomes SUCCEEDED though files of it failed
	Stalls            Fault = "stalls"             // a task stays PENDING until it is canceled
	NoReport          Fault = "no report"          // a task ends, and its completion report does not come
)

type order struct {
	operation string
	left      int
	faults    []Fault
	held      chan struct{} // instead of a fault: calls wait until it is closed
}

// Order has the next times calls of an operation meet faults, all of them at once; "*" is any operation. What was ordered first is met first.
func (s *Server) Order(operation string, times int, faults ...Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.orders = append(s.orders, &order{operation: operation, left: times, faults: faults})
}

// Hold has calls of an operation wait before they are looked at, until release is called: a slow answer, without a clock.
func (s *Server) Hold(operation string) (release func()) {
	o := &order{operation: operation, held: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.orders = append(s.orders, o)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		select {
		case <-o.held:
		default:
			close(o.held)
		}
	}
}

func (o *order) of(operation string) bool { return o.operation == "*" || o.operation == operation }

// wait says false when the client went away.
func (s *Server) wait(ctx context.Context, operation string) bool {
	for _, held := range s.holds(operation) {
		select {
		case <-held:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

func (s *Server) holds(operation string) (all []chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.orders {
		if o.held != nil && o.of(operation) {
			all = append(all, o.held)
		}
	}
	return all
}

// take uses up one call of the oldest order.
func (s *Server) take(operation string) map[Fault]bool {
	met := map[Fault]bool{}
	for _, o := range s.orders {
		if o.held != nil || o.left == 0 || !o.of(operation) {
			continue
		}
		o.left--
		for _, f := range o.faults {
			met[f] = true
		}
		break
	}
	return met
}

// ordered is the error that a test wants this call to have.
func (c *call) ordered() error {
	query := c.protocol != &json11
	switch {
	case c.faults[Throttled] && c.protocol == &ec2Query:
		return &refusal{code: "RequestLimitExceeded", status: http.StatusServiceUnavailable, message: "Request limit exceeded."}
	case c.faults[Throttled] && query:
		return &refusal{code: "Throttling", message: "Rate exceeded"}
	case c.faults[Throttled]:
		return &refusal{code: "ThrottlingException", message: "Rate exceeded"}
	case c.faults[InternalError]:
		return &refusal{code: c.broken(), status: http.StatusInternalServerError, message: "ordered by the test"}
	case c.faults[Denied]:
		return c.denied("ordered by the test")
	}
	return nil
}

// denied is how each protocol says that somebody may not.
func (c *call) denied(why string) error {
	switch c.protocol {
	case &ec2Query:
		return &refusal{code: "UnauthorizedOperation", status: http.StatusForbidden, message: "You are not authorized to perform this operation. " + why}
	case &awsQuery:
		return &refusal{code: "AccessDenied", status: http.StatusForbidden, message: why}
	}
	return &refusal{code: "AccessDeniedException", message: why}
}

// broken is how each service says that something is wrong with it.
func (c *call) broken() string {
	switch c.service {
	case &fsxService:
		return "InternalServerError"
	case &ec2Service:
		return "InternalError"
	}
	return "InternalFailure"
}
