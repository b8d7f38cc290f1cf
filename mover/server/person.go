package server

import (
	"context"
	"fmt"
	"strconv"

	"google.golang.org/grpc/metadata"

	"datamove.dev/api"
	"datamove.dev/mover"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/server/osaccount"
	"datamove.dev/mover/telemetry"
)

// asksFor notes the person that a call is for (api.For). Whether the caller may ask for them is
// decided later: this step must not wait.
func (v *request) asksFor(md metadata.MD) error {
	values := md.Get(api.ForKey)
	if len(values) == 0 {
		return nil
	}
	if len(values) > 1 || v.person != nil {
		return fmt.Errorf("%w: a call is for one person, and %s is there more than once", mover.ErrUsage, api.ForKey)
	}
	uid, err := strconv.ParseUint(values[0], 10, 32)
	if err != nil || values[0] != strconv.FormatUint(uid, 10) {
		return fmt.Errorf("%w: %s is the number of an account, not %s", mover.ErrUsage, api.ForKey, mover.Printable(brief(values[0])))
	}
	v.person = &said{UID: uint32(uid)}
	return nil
}

func brief(s string) string { return s[:min(len(s), 64)] }

// stand replaces the caller by the person that the call is for. A caller may have no
// other one. A server that forwards tells of both, and the coordinator decides.
func (d *Server) stand(ctx context.Context, v *request, method string, what subject) error {
	if v.person == nil {
		return nil
	}
	if d.o.Forward != nil {
		return d.introduce(ctx, v)
	}
	decision := d.o.Rules().MayActFor(v.caller, v.person.UID)
	if v.viewer {
		decision = authz.Decision{Rule: "viewer", Reason: "the page calls for no account"}
	}
	r := v.record(what)
	if !decision.Allowed {
		r.Reason = decision.Rule + ": " + decision.Reason
		return d.deny(ctx, v, method, decision, r)
	}
	if v.person.Name == "" {
		a, err := d.o.Accounts.Numbered(ctx, v.person.UID)
		if err != nil {
			r.Code, r.Reason = codeOf(err), err.Error()
			return d.denial(ctx, v, telemetry.DeniedIdentity, r, err)
		}
		v.person = saidOf(a)
	}
	v.caller, v.person = authz.Caller{
		Name: v.person.Name, UID: v.person.UID, Groups: v.person.Groups, Via: v.caller.Via, Agent: v.caller.Agent, By: v.caller.String(),
	}, nil
	return nil
}

// introduce finds the account that root of this node calls for: root can become any user here, and
// the coordinator may have other accounts. For other callers the coordinator finds it, after it has
// decided whether they may.
func (d *Server) introduce(ctx context.Context, v *request) error {
	if v.caller.Via != authz.Local || v.caller.UID != 0 || v.person.Name != "" {
		return nil
	}
	a, err := d.o.Accounts.Numbered(ctx, v.person.UID)
	if err == nil {
		v.person = saidOf(a)
	}
	return err
}

func saidOf(a osaccount.Account) *said {
	return &said{Name: a.Name, UID: a.UID, Groups: a.GroupNames}
}
