package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/agent/sandbox"
	"datamove.dev/mover/server/osaccount"
	"datamove.dev/mover/task/convert"
)

// The manifest of a replica says for all users that the replica is the dataset. The worker that staged it is a process of one user, so a
// sealed replica is read by another worker, of the account of the agent (a describer), and the worker of the user sends no manifest.
// Where nothing can be sealed, the user can change the replica later anyway: there his worker describes it, and the replica is unguarded.

// describer is what a process has that reads for the lead of another one.
type describer struct {
	of    *session                     // the lead
	ended chan *agentv1.EndLeadRequest // what it told; at most one
}

// mayDescribe reports whether a manifest of this process is passed on.
func (p *process) mayDescribe() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.describer != nil || p.lead != nil && !p.described
}

// describesItself reports whether the agent describes what a worker of an account stages as a replica.
func describesItself(who osaccount.Account) bool { return who.UID != uint32(os.Geteuid()) }

// unread is why a replica that is sealed is not described by the agent.
const unread = "root may not read it, so what it contains is what the worker of its owner says"

// describes has what was sealed described by the agent, where that may read it.
func (p *process) describes(ctx context.Context) (described bool, err error) {
	if err = p.describe(ctx); !errors.Is(err, mover.ErrPermission) {
		return true, err
	}
	p.mu.Lock()
	p.described = false
	p.mu.Unlock()
	p.expose(unread)
	return false, nil
}

// describe has what was sealed described by a describer. Its end is that of ctx, at the latest.
func (p *process) describe(ctx context.Context) error {
	d, err := p.startDescriber(ctx)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = d.acting.Stop(0) })
	<-d.ended
	stop()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	d.mu.Lock()
	digest, buried := d.digest, d.buried
	d.mu.Unlock()
	select {
	case r := <-d.describer.ended:
		if r.GetError() != "" {
			return &mover.Error{Op: "describe", Location: p.job.GetSpec().GetTarget(), Err: saidError{r.GetError(), mover.KindNamed(r.GetErrorKind())}}
		}
	default:
		if errors.Is(buried, mover.ErrTransient) { // as if the worker itself had been killed: the task is put back
			_ = p.acting.Stop(0)
		}
		return cmp.Or(buried, mover.ErrTransient)
	}
	p.mu.Lock()
	p.digest = digest
	p.mu.Unlock()
	return nil
}

// saidError is an error in the words of a process.
type saidError struct {
	text string
	kind error // nil is none
}

func (e saidError) Error() string { return mover.Printable(e.text) }
func (e saidError) Unwrap() error { return e.kind }

// startDescriber starts a worker of the account of the agent, which can read what the process has staged, and nothing else.
func (p *process) startDescriber(ctx context.Context) (*process, error) {
	a := p.agent
	at := p.job.GetSpec().GetTarget()
	job := a.job(p.task.GetId(), convert.Describe(at), p.job.GetRoots())
	job.Lead, job.Epoch, job.Closed = true, p.epoch, true
	d := newProcess(a, p.task, job)
	d.describer, d.epoch, d.span = &describer{p.lead, make(chan *agentv1.EndLeadRequest, 1)}, p.epoch, p.span
	d.relay(p.span)
	who := osaccount.Account{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
	var err error
	if d.job.StateDir, d.back, err = a.stateDir(who); err != nil {
		return nil, err
	}
	l, err := convert.Locate(at)
	if err != nil {
		return nil, err
	}
	roots := sandbox.Confinement{Write: []string{d.job.GetStateDir()}}
	if err := a.admit(d, l, false, &roots); err != nil {
		return nil, err
	}
	return d, a.run(ctx, d, who, roots)
}

// Describe implements agentv1.WorkerServiceServer: it passes the manifest on.
func (p *process) Describe(in agentv1.WorkerService_DescribeServer) error {
	if !p.mayDescribe() {
		return fmt.Errorf("%w: task %s takes no manifest from this worker", mover.ErrPermission, p.task.GetId())
	}
	out, err := p.agent.link.PutManifest(p.traced(in.Context(), ""))
	if err != nil {
		return err
	}
	first := true
	for {
		chunk, err := in.Recv()
		if errors.Is(err, io.EOF) && !first {
			break
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		m := &agentv1.PutManifestRequest{Data: chunk.GetData()}
		if first {
			m.Task, m.Epoch, first = p.task.GetId(), p.epoch, false
		}
		if sendErr := out.Send(m); sendErr != nil {
			break // CloseAndRecv says why
		}
		if errors.Is(err, io.EOF) {
			break
		}
	}
	answer, err := out.CloseAndRecv()
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.digest = answer.GetDigest()
	p.mu.Unlock()
	return in.SendAndClose(&agentv1.DescribeResponse{Digest: answer.GetDigest()})
}
