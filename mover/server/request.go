package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"sync/atomic"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"datamove.dev/api"
	"datamove.dev/mover"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/telemetry"
)

// request is one call.
type request struct {
	caller  authz.Caller
	person  *said // the person that it is for, until that is the caller; nil is itself
	peer    string
	method  string      // as it stands in records
	viewer  bool        // from the page on loopback: it may only read
	trouble error       // why the caller is unknown, where there is more to say
	forged  string      // what the caller said about itself, and must not; "" is nothing
	denied  atomic.Bool // a denial has been recorded
}

type requestKey struct{}

func requestOf(ctx context.Context) *request {
	v, _ := ctx.Value(requestKey{}).(*request)
	return v
}

// with is the context of a request.
func (v *request) with(ctx context.Context) context.Context {
	return authz.With(context.WithValue(ctx, requestKey{}, v), v.caller)
}

// key names the bucket that the request draws from.
func (v *request) key() string { return keyOf(v.caller, v.peer) }

func keyOf(c authz.Caller, peer string) string {
	if c.By != "" {
		return "an account, in a call of " + c.By
	}
	switch c.Via {
	case authz.Local:
		return fmt.Sprintf("uid %d", c.UID)
	case authz.Certificate:
		return "person " + c.Name
	case authz.Agent:
		return "agent " + c.Agent
	case authz.Forwarded:
		return fmt.Sprintf("uid %d of agent %s", c.UID, c.Agent)
	}
	if host, _, err := net.SplitHostPort(peer); err == nil {
		peer = host
	}
	return "address " + peer
}

// What travels in the metadata of a call.
const (
	behalfKey = "datamove-on-behalf-of-bin" // an agent names the user that it asks for
	callerKey = "datamove-caller-bin"       // our HTTP side names the caller

	maxSaid   = 256 << 10 // bytes of one of them
	maxGroups = 4096      // that are told
)

// said is a caller as it stands in metadata.
type said struct {
	Name   string    `json:"name,omitempty"`
	UID    uint32    `json:"uid"`
	Groups []string  `json:"groups,omitempty"`
	Via    authz.Via `json:"via,omitempty"` // the rest is told by our HTTP side only
	Agent  string    `json:"agent,omitempty"`
	Peer   string    `json:"peer,omitempty"`
	Viewer bool      `json:"viewer,omitempty"`
	Error  string    `json:"error,omitempty"`
	By     string    `json:"by,omitempty"`
	For    *said     `json:"for,omitempty"` // the person that the call is for: told by an agent, too; without a name it is to be found out
}

func (s said) encode() (string, error) {
	if len(s.Groups) > maxGroups || s.For != nil && len(s.For.Groups) > maxGroups {
		return "", fmt.Errorf("%w: the caller is in more than %d groups, which can not be told", mover.ErrUnsupported, maxGroups)
	}
	text, err := json.Marshal(s)
	return string(text), err
}

// hear reads what one key of the metadata says.
func hear(md metadata.MD, key string) (s said, there bool, err error) {
	values := md.Get(key)
	if len(values) == 0 {
		return said{}, false, nil
	}
	if len(values) > 1 || len(values[0]) > maxSaid {
		return said{}, true, fmt.Errorf("%w: %s is there %d times, or is too long", mover.ErrUsage, key, len(values))
	}
	if err := json.Unmarshal([]byte(values[0]), &s); err != nil || len(s.Groups) > maxGroups || s.For != nil && len(s.For.Groups) > maxGroups {
		return said{}, true, fmt.Errorf("%w: %s says nothing that can be understood", mover.ErrUsage, key)
	}
	return s, true, nil
}

// identify makes a request of a call.
func (d *Server) identify(o *peerIdentity, method string, md metadata.MD) (*request, error) {
	v := &request{caller: o.caller, peer: o.peer, method: method, trouble: o.trouble}
	if o.inside {
		return v, v.fromInside(md)
	}
	d.recheck(o, v)
	s, claims, err := hear(md, behalfKey)
	switch {
	case !claims:
	case v.caller.Via != authz.Agent: // also an agent that is none any more
		v.forged = "it says that it asks for somebody else; only an agent may say so: ignored"
	case err != nil:
		return nil, err
	default:
		v.caller = authz.Caller{Name: s.Name, UID: s.UID, Groups: s.Groups, Via: authz.Forwarded, Agent: v.caller.Agent}
		v.person = s.For
	}
	if err := v.asksFor(md); err != nil {
		return nil, err
	}
	if len(md.Get(callerKey)) > 0 {
		v.forged = "it says who it is; that is for us to find out: ignored"
	}
	return v, nil
}

// recheck looks at a certificate again: a connection lasts longer than a decision.
func (d *Server) recheck(o *peerIdentity, v *request) {
	if o.cert.Name == "" {
		return
	}
	if d.o.Admit != nil {
		v.trouble = d.o.Admit(o.cert)
	}
	if o.caller.Via == authz.Certificate && v.trouble == nil {
		if name, known := d.o.Rules().Person(o.cert.Name); !known || name != o.caller.Name {
			v.trouble = unmapped(o.cert.Name)
		}
	}
	if v.trouble != nil {
		v.caller = authz.Caller{}
	}
}

// fromInside takes the caller that our HTTP side tells.
func (v *request) fromInside(md metadata.MD) error {
	s, there, err := hear(md, callerKey)
	if err != nil || !there {
		return err
	}
	v.caller = authz.Caller{Name: s.Name, UID: s.UID, Groups: s.Groups, Via: s.Via, Agent: s.Agent, By: s.By}
	v.peer, v.viewer, v.person = s.Peer, s.Viewer, s.For
	if s.Error != "" {
		v.trouble = fmt.Errorf("%w: %s", mover.ErrPermission, s.Error)
	}
	return nil
}

// inside is the inverse of fromInside.
func (v *request) inside() (string, error) {
	c := v.caller
	s := said{Name: c.Name, UID: c.UID, Groups: c.Groups, Via: c.Via, Agent: c.Agent, Peer: v.peer, Viewer: v.viewer, By: c.By, For: v.person}
	if v.trouble != nil {
		s.Error = v.trouble.Error()
	}
	return s.encode()
}

// arrive is called for each call before its message is read. It must not wait.
func (d *Server) arrive(ctx context.Context, info *tap.Info) (context.Context, error) {
	v, err := d.identify(originOf(ctx), info.FullMethodName, info.Header)
	if err != nil {
		return nil, api.ToStatus(err)
	}
	end, err := d.begin(v)
	if err != nil {
		d.o.Metrics.Denied(info.FullMethodName, telemetry.DeniedRate)
		return nil, api.ToStatus(err)
	}
	context.AfterFunc(ctx, end) // gRPC ends the context of every call
	return v.with(d.bounded(ctx, info.FullMethodName)), nil
}

// errStopping is why a call was ended that would have gone on.
var errStopping = status.Error(codes.Unavailable, "the service stops; try again")

// bounded is the context of a call with an end: a deadline, or, where it may take as
// long as it takes, when we stop.
func (d *Server) bounded(ctx context.Context, method string) context.Context {
	if !waits(method) {
		timed, cancel := context.WithTimeout(ctx, d.limits.Longest)
		context.AfterFunc(ctx, cancel)
		return timed
	}
	lasting, cancel := context.WithCancelCause(ctx)
	forget := context.AfterFunc(d.ctx, func() { cancel(errStopping) })
	context.AfterFunc(ctx, func() {
		forget()
		cancel(nil)
	})
	return lasting
}

// stopped is the error of a call, or why we ended it.
func stopped(ctx context.Context, err error) error {
	if err != nil && context.Cause(ctx) == errStopping {
		return errStopping
	}
	return err
}

// begin counts a call as open. What is no stream has its request and its answer in memory: of those a person has fewer.
func (d *Server) begin(v *request) (end func(), err error) {
	if v.caller.Via == authz.Agent {
		return d.callers.begin(v.key(), agentStreams)
	}
	open, err := d.callers.begin(v.key(), d.limits.Calls)
	if err != nil || waits(v.method) || d.privileged(v.caller) {
		return open, err
	}
	short, err := d.callers.begin(v.key()+" beside streams", d.limits.Short)
	if err != nil {
		open()
		return nil, err
	}
	return func() { short(); open() }, nil
}
