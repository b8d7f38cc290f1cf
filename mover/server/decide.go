package server

import (
	"context"
	"errors"
	"fmt"
	"os"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"datamove.dev/mover"
	"datamove.dev/mover/server/auditlog"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/telemetry"
)

// paceOf is how often a caller may call.
func (d *Server) paceOf(c authz.Caller) pace {
	switch {
	case c.Via == "":
		return paceAt(d.limits.StrangerRate)
	case c.Via == authz.Agent, d.privileged(c):
		return paceAt(d.limits.AgentRate)
	}
	return paceAt(d.limits.Rate)
}

// privileged reports whether a caller is root, or runs the service, on this machine.
func (d *Server) privileged(c authz.Caller) bool {
	return c.Via == authz.Local && (c.UID == 0 || c.UID == d.self)
}

func paceAt(perSecond int) pace { return pace{float64(perSecond), 2 * perSecond} }

// enter lets a request through or says why not. It asks whether the caller may call a
// method, about something.
func (d *Server) enter(ctx context.Context, v *request, method string, changes bool, what subject) error {
	if err := d.hold(v); err != nil {
		d.o.Metrics.Denied(v.method, telemetry.DeniedRate)
		return err
	}
	if err := d.stand(ctx, v, method, what); err != nil {
		return err
	}
	decision := d.o.Rules().MayCall(v.caller, method)
	if v.viewer && changes {
		decision = authz.Decision{Rule: "viewer", Reason: "the page without a certificate only shows; use the service's socket"}
	}
	r := v.record(what)
	r.Allowed, r.Reason = decision.Allowed, decision.Rule+": "+decision.Reason
	if !decision.Allowed {
		return d.deny(ctx, v, method, decision, r)
	}
	if err := d.tellLie(ctx, v, r); err != nil || !changes {
		return err
	}
	return d.note(ctx, r)
}

// tellLie records what a caller said about itself and must not.
func (d *Server) tellLie(ctx context.Context, v *request, r auditlog.Record) error {
	if v.forged == "" {
		return nil
	}
	d.log.WarnContext(ctx, "forged caller", "caller", v.caller.String(), "peer", v.peer, "method", v.method)
	r.Allowed, r.Code, r.Reason = false, mover.KindName(mover.ErrPermission), v.forged
	return d.note(ctx, r)
}

// hold takes a token for a call. A call through an agent takes one of the agent's, too.
func (d *Server) hold(v *request) error {
	if v.caller.Via == authz.Forwarded {
		if err := d.callers.take("callers of agent "+v.caller.Agent, d.paceOf(authz.Caller{Via: authz.Agent})); err != nil {
			return err
		}
	}
	return d.callers.take(v.key(), d.paceOf(v.caller))
}

// deny records a denial and returns it.
func (d *Server) deny(ctx context.Context, v *request, method string, decision authz.Decision, r auditlog.Record) error {
	reason := telemetry.DeniedRole
	err := decision.Err()
	switch {
	case v.trouble != nil:
		reason, r.Reason, err = telemetry.DeniedIdentity, v.trouble.Error(), v.trouble
	case v.caller.Via == "":
		reason = telemetry.DeniedIdentity
		err = status.Error(codes.Unauthenticated, decision.Reason)
	case authz.OfMethod(method).Action == "":
		reason = telemetry.DeniedRoute
	}
	if r.Code = codeOf(err); v.forged != "" {
		r.Reason += "; " + v.forged
	}
	return d.denial(ctx, v, reason, r, err)
}

// denial counts and records a denial, and returns it. It is one also when it can not be recorded. A caller that is denied again and
// again is held up, and that is counted only: records would fill the disk.
func (d *Server) denial(ctx context.Context, v *request, reason telemetry.Denial, r auditlog.Record, why error) error {
	if err := d.callers.take("denials of "+v.key(), pace{deniedRate, deniedBurst}); err != nil && !d.privileged(v.caller) {
		d.o.Metrics.Denied(v.method, telemetry.DeniedRate)
		return err
	}
	d.o.Metrics.Denied(v.method, reason)
	if err := d.note(ctx, r); err != nil {
		d.log.ErrorContext(ctx, "a denial is not in the audit log", "caller", v.caller.String(), "method", v.method, "err", err)
	}
	return why
}

// left is the end of a call. What the service denied is recorded, if it has not done so.
func (d *Server) left(ctx context.Context, v *request, what subject, err error) error {
	if !errors.Is(err, os.ErrPermission) || v.denied.Load() {
		return err
	}
	reason := telemetry.DeniedOwner
	var at *mover.Error
	if errors.As(err, &at) && at.Op == "use" {
		reason = telemetry.DeniedRoot
	}
	r := v.record(what)
	r.Code, r.Reason = codeOf(err), err.Error()
	return d.denial(ctx, v, reason, r, err)
}

// codeOf is the kind of an error as it stands in records.
func codeOf(err error) string {
	if code := status.Code(err); code == codes.Unauthenticated {
		return code.String()
	}
	return mover.KindName(err)
}

// record is what the server knows for a record of a request.
func (v *request) record(what subject) auditlog.Record {
	c := v.caller
	r := auditlog.Record{Actor: c.Name, By: c.By, Peer: v.peer, Method: v.method, Object: what.object, Locations: what.locations}
	switch c.Via {
	case authz.Local, authz.Certificate, authz.Forwarded:
		r.HasUID, r.UID, r.Agent = !v.viewer, c.UID, c.Agent
	case authz.Agent:
		r.Actor = "agent " + c.Agent
	}
	return r
}

// note writes a record down. Without it nothing is done.
func (d *Server) note(ctx context.Context, r auditlog.Record) error {
	// A decision that was taken is written, also when the caller does not wait for it.
	if err := d.o.Audit(context.WithoutCancel(ctx), r); err != nil {
		return fmt.Errorf("the decision can not be written down, so nothing is done: %w", err)
	}
	return nil
}

// Complete adds to a record of the service what the server knows of the call in ctx: the
// caller, its address, and the method. It is for the code that writes records; a denial that
// passes here is not recorded once more.
func Complete(ctx context.Context, r auditlog.Record) auditlog.Record {
	v := requestOf(ctx)
	if v == nil {
		return r
	}
	known := v.record(subject{})
	if r.Actor == "" && !r.HasUID {
		r.HasUID, r.UID, r.Actor, r.Agent, r.By = known.HasUID, known.UID, known.Actor, known.Agent, known.By
	}
	if r.Peer == "" {
		r.Peer = known.Peer
	}
	if r.Method == "" {
		r.Method = known.Method
	}
	if !r.Allowed {
		v.denied.Store(true)
	}
	return r
}
