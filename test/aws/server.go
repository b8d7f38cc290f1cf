// Package aws is a stand-in for AWS in tests: one HTTP server that speaks the documented protocols of FSx for Lustre, STS, EC2, CloudWatch and Cost Explorer, and keeps their state.
//
// It is a fake. It proves what a client does with these protocols, states and errors; it proves nothing about AWS. What AWS documents is done as documented, and what it leaves open is
// decided here and said where it is decided. A member of a request that the fake does not know is refused, and never passed over.
//
// It owns its resources, the keys it has given out, and a clock that the test gives: nothing sleeps, and no goroutine is started but by Start. What is due by the clock happens when the next
// request comes, under one lock, so a test that moves the clock by hand sees every state, and one inside testing/synctest has only to sleep. Exports, imports and releases work on a Tree
// that the test writes "as clients did", and on a real S3 store. It is in memory: a client that is killed and started again finds all of it, as it would find AWS.
//
// It leaves to others to be right about the wire: Validator has every request and reply judged by the service models of Debian's botocore, and Debian's aws is a second client in its tests.
// The protocols are those of https://smithy.io/2.0/aws/protocols/index.html (awsJson1_1, awsQuery, ec2Query), the operations those of
// https://docs.aws.amazon.com/fsx/latest/APIReference/, .../STS/latest/APIReference/, .../AWSEC2/latest/APIReference/, .../AmazonCloudWatch/latest/APIReference/ and
// .../aws-cost-management/latest/APIReference/.
package aws

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// Account is whose account all resources are in.
const Account = "123456789012"

const maxBody = 1 << 20 // bytes of a request; what our client sends has a few kB

// Options are what a test may want otherwise; the zero value works.
type Options struct {
	Now      func() time.Time // the server's clock; nil means time.Now
	Regions  []string         // where FSx and EC2 exist; nil means us-east-1
	Store    *Store           // the S3 of data repositories; nil means that linking one is refused
	Lasts    Lasts            // how long states last
	Skew     time.Duration    // how old a signature may be by Now; 0 means any age, for clocks that are moved by hand
	CostPage int              // days in a page of GetCostAndUsage; 0 means all of them
	Record   func(Exchange)   // sees every request with its reply; nil means nobody. Calls come one at a time
}

// Lasts is how long states last by the server's clock. Zero of each means what its comment says.
type Lasts struct {
	Create     time.Duration // a file system is CREATING: 5 min
	Delete     time.Duration // a file system is DELETING: 2 min
	Link       time.Duration // an association is CREATING or DELETING: 1 min
	Pending    time.Duration // a task waits: 10 s
	Executing  time.Duration // a task works: 1 min
	AutoExport time.Duration // from a client's close to the object: 30 s
	Stop       time.Duration // an instance is stopping or shutting-down: 30 s
}

// Exchange is a request and its reply, for who validates them.
type Exchange struct {
	Service   string `json:"service"` // as in the scope of the signature
	Operation string `json:"operation"`
	Request   string `json:"request"` // the body
	Status    int    `json:"status"`  // of HTTP
	Type      string `json:"type"`    // Content-Type of the reply
	RequestID string `json:"id"`
	Reply     string `json:"reply"` // the body
	Lost      bool   `json:"lost"`  // it never left
}

// Request is what the log has of a call: nothing in it is secret.
type Request struct {
	Service, Operation string
	Region             string
	Token              string         // ClientRequestToken; "" is none
	Parameters         map[string]any // a policy, a token and the like are "[secret]"
	Code               string         // of the error it was answered with; "" is none
	Lost               bool           // its answer was cut off
	At                 time.Time      // by the server's clock
}

// Server is the fake. All methods may be called at any time by many.
type Server struct {
	now  func() time.Time
	opts Options

	mu           sync.Mutex // guards all below
	serial       uint64
	keys         map[string]*key
	roles        map[string]*Role
	systems      []*fileSystem
	associations []*association
	tasks        []*dataTask
	instances    []*Instance
	endpoints    []VPCEndpoint
	points       []Datum
	costs        []Cost
	orders       []*order
	log          []Request
	limits       map[string]int
}

// New makes one that knows the key of Config. It is an http.Handler.
func New(o Options) *Server {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Regions == nil {
		o.Regions = []string{"us-east-1"}
	}
	o.Lasts.defaults()
	s := &Server{now: o.Now, opts: o, keys: map[string]*key{}, roles: map[string]*Role{}, limits: map[string]int{}}
	s.keys[OwnerKey] = &key{access: OwnerKey, secret: OwnerSecret, arn: "arn:aws:iam::" + Account + ":user/owner", user: "AIDAOWNEROWNEROWNER00"}
	return s
}

func (l *Lasts) defaults() {
	for _, d := range []struct {
		at    *time.Duration
		usual time.Duration
	}{
		{&l.Create, 5 * time.Minute}, {&l.Delete, 2 * time.Minute}, {&l.Link, time.Minute}, {&l.Pending, 10 * time.Second},
		{&l.Executing, time.Minute}, {&l.AutoExport, 30 * time.Second}, {&l.Stop, 30 * time.Second},
	} {
		if *d.at == 0 {
			*d.at = d.usual
		}
	}
}

// Start has it listen on loopback until the test ends, and tells its URL.
func (s *Server) Start(t testing.TB) string {
	t.Helper()
	listening := httptest.NewServer(s)
	t.Cleanup(listening.Close)
	return listening.URL
}

// Log is all requests so far, oldest first.
func (s *Server) Log() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.log...)
}

// Calls counts the requests of an operation, also those that were refused.
func (s *Server) Calls(operation string) int {
	n := 0
	for _, r := range s.Log() {
		if r.Operation == operation {
			n++
		}
	}
	return n
}

// call is a request on its way to its operation.
type call struct {
	*service
	operation string
	region    string
	body      []byte
	form      map[string][]string // of a query
	key       *key
	at        time.Time
	id        string
	faults    map[Fault]bool // ordered for this one
}

// ServeHTTP answers a request of any of the services.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, "the body is too long or was cut off", http.StatusRequestEntityTooLarge)
		return
	}
	c, err := s.tell(r, body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	if !s.wait(r.Context(), c.operation) {
		panic(http.ErrAbortHandler)
	}
	status, reply, lost := s.serve(r, c)
	if lost {
		panic(http.ErrAbortHandler) // the connection is cut
	}
	w.Header().Set("Content-Type", c.protocol.contentType)
	w.Header().Set("X-Amzn-Requestid", c.id)
	w.WriteHeader(status)
	_, _ = w.Write(reply) //nolint:gosec // JSON or XML that says so, and no browser
}

// tell finds out what a request is, from its signature's scope, its target and its form.
func (s *Server) tell(r *http.Request, body []byte) (*call, error) {
	if r.Method != http.MethodPost || r.URL.Path != "/" {
		return nil, fmt.Errorf("this fake of AWS answers POST / only, and not %s %q: of CloudWatch it speaks the query protocol, and no CBOR", r.Method, r.URL.Path)
	}
	region, name := scope(r)
	svc, ok := services[name]
	if !ok {
		return nil, fmt.Errorf("this fake of AWS has no service %q (the name in the scope of the signature)", name)
	}
	c := &call{service: svc, region: region, body: body, at: s.now()}
	if err := svc.protocol.read(c, r); err != nil {
		return nil, err
	}
	return c, nil
}

// serve does the work, and the bookkeeping around it.
func (s *Server) serve(r *http.Request, c *call) (status int, reply []byte, lost bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.id = fmt.Sprintf("%08x-0000-4000-8000-%012x", len(s.log)+1, len(s.log)+1)
	c.faults = s.take(c.operation)
	s.settle(context.WithoutCancel(r.Context()), c.at) // a task goes on when who asks for it is gone
	result, err := s.answer(r, c)
	entry := Request{Service: c.name, Operation: c.operation, Region: c.region, At: c.at, Lost: c.faults[AnswerLost]}
	entry.Parameters, entry.Token = c.protocol.parameters(c)
	if err != nil {
		e := c.asRefusal(err)
		entry.Code = e.code
		status, reply = e.status, c.protocol.refuse(c, e)
	} else {
		status, reply = http.StatusOK, c.protocol.write(c, result)
	}
	s.log = append(s.log, entry)
	if s.opts.Record != nil {
		s.opts.Record(Exchange{Service: c.name, Operation: c.operation, Type: c.protocol.contentType, Request: string(c.body), Reply: string(reply),
			Status: status, RequestID: c.id, Lost: entry.Lost})
	}
	return status, reply, entry.Lost
}

// answer asks in the order of AWS: are you too fast, who are you, may you, and then the operation.
func (s *Server) answer(r *http.Request, c *call) (any, error) {
	if err := c.ordered(); err != nil {
		return nil, err
	}
	if err := s.authenticate(r, c); err != nil {
		return nil, err
	}
	do, ok := c.operations[c.operation]
	if !ok {
		return nil, &refusal{code: c.protocol.unknown, status: http.StatusBadRequest, message: "this fake of AWS has no operation " + printable(c.operation)}
	}
	if err := s.where(c); err != nil {
		return nil, err
	}
	return do(s, c)
}

// where refuses a region in which the service does not exist; STS and Cost Explorer are everywhere.
func (s *Server) where(c *call) error {
	if !c.regional {
		return nil
	}
	for _, region := range s.opts.Regions {
		if region == c.region {
			return nil
		}
	}
	return c.unknown("InvalidClientTokenId", "this fake of AWS has no region "+printable(c.region)) // as in a region that an account has not switched on
}

// settle does what is due by the clock.
func (s *Server) settle(ctx context.Context, now time.Time) {
	s.settleSystems(now)
	s.settleAssociations(ctx, now)
	s.settleTasks(ctx, now)
	s.settleInstances(now)
}

// name makes an id that no other resource has, of 17 hexadecimal digits as those of AWS.
func (s *Server) name(kind string) (id string, serial uint64) {
	s.serial++
	return fmt.Sprintf("%s-0%016x", kind, s.serial*0x9e3779b97f4a7c15), s.serial
}

// printable is text of a request as an error may have it.
func printable(text string) string {
	if len(text) > 200 {
		text = text[:200]
	}
	return fmt.Sprintf("%q", text)
}

// secrets are parameters that the log does not have.
var secrets = map[string]bool{"Policy": true, "WebIdentityToken": true, "ExternalId": true, "TokenCode": true}

func readable(body []byte) map[string]any {
	var all map[string]any
	if json.Unmarshal(body, &all) != nil {
		return nil
	}
	for name := range all {
		if secrets[name] {
			all[name] = "[secret]"
		}
	}
	return all
}
