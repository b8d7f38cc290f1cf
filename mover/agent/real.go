package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"

	"datamove.dev/api"
	agentv1 "datamove.dev/api/datamove/agent/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/agent/sandbox"
	"datamove.dev/mover/location"
	"datamove.dev/mover/task/convert"
)

// realPatience is how long a process may take to say where paths lead: a file system may hang.
const realPatience = 10 * time.Second

// resolve tells the coordinator where links lead in paths of tasks, as their owner sees them.
func (a *Agent) resolve(ctx context.Context, o *agentv1.Resolve) {
	answer := &agentv1.TellRealRequest{}
	for _, p := range o.GetPlaces() {
		if !slices.Contains(answer.Tasks, p.GetTask()) {
			answer.Tasks = append(answer.Tasks, p.GetTask())
		}
	}
	ctx, cancel := context.WithTimeout(ctx, realPatience)
	defer cancel()
	var err error
	if answer.Places, err = a.realPlaces(ctx, o); err != nil {
		a.log.Warn("where links lead in paths of tasks can not be seen; the paths are compared by their text", "owner", o.GetOwner().GetName(), "err", err)
	}
	if _, err := a.link.TellReal(ctx, answer); err != nil && ctx.Err() == nil {
		a.log.Warn("the coordinator does not hear where links lead", "err", err)
	}
}

// realPlaces are the places of an order to which links lead.
func (a *Agent) realPlaces(ctx context.Context, o *agentv1.Resolve) (real []*agentv1.RealPlace, err error) {
	job := &agentv1.Job{LogLevel: "info"}
	for _, p := range o.GetPlaces() {
		job.Resolve = append(job.Resolve, &agentv1.ResolvePath{Path: a.pathOf(p.GetLocation()), Itself: p.GetItself()})
	}
	paths := a.tierPaths()
	names := slices.Sorted(maps.Keys(paths))
	for _, name := range names {
		job.Resolve = append(job.Resolve, &agentv1.ResolvePath{Path: paths[name]})
	}
	found, err := a.realPathsOf(ctx, o, job)
	if err != nil {
		return nil, err
	}
	tiers := map[string]string{}
	for i, name := range names {
		tiers[name] = found[len(o.GetPlaces())+i]
	}
	for i, p := range o.GetPlaces() {
		if asked := job.GetResolve()[i].GetPath(); asked != "" {
			real = append(real, &agentv1.RealPlace{Task: p.GetTask(), Location: p.GetLocation(), Real: inTier(found[i], tiers)})
		}
	}
	return real, nil
}

// pathOf is the path of a location on this node; empty is none.
func (a *Agent) pathOf(text string) string {
	l, err := convert.Locate(text)
	if err != nil {
		return ""
	}
	return a.conf().PathOf(l)
}

// inTier is a path as a place in the outermost tier that it lies in, if there is one: tiers are where they are on this node, and may be elsewhere on others.
func inTier(real string, tiers map[string]string) string {
	best := ""
	for _, name := range slices.Sorted(maps.Keys(tiers)) {
		if mover.Within(strings.Trim(real, "/"), strings.Trim(tiers[name], "/")) && (best == "" || len(tiers[name]) < len(tiers[best])) {
			best = name
		}
	}
	if best == "" {
		return real
	}
	return location.OfTier(best, strings.Trim(strings.TrimPrefix(real, tiers[best]), "/")).String()
}

// realPathsOf has a process of the owner look.
func (a *Agent) realPathsOf(ctx context.Context, o *agentv1.Resolve, job *agentv1.Job) ([]string, error) {
	who, err := a.accountOf(ctx, o.GetOwner())
	if err != nil {
		return nil, err
	}
	as := sandbox.Options{
		Path: a.o.Program[0], Args: a.o.Program[1:], Account: sandbox.Account{UID: who.UID, GID: who.GID, Groups: who.Groups},
		Root: who.UID == 0, Env: a.environment(who), Stderr: os.Stderr,
	}
	a.mu.Lock()
	if a.leaving {
		a.mu.Unlock()
		return nil, errLeaving
	}
	a.running.Add(1)
	a.mu.Unlock()
	defer a.running.Done()
	w, err := a.prestarter.begin(ctx, as, nil)
	if err != nil {
		return nil, err
	}
	p := &pathfinder{job: job, found: make(chan []string, 1)}
	server := grpc.NewServer(api.ServerOptions()...)
	agentv1.RegisterWorkerServiceServer(server, p)
	go func() { _ = server.Serve(&oneConn{conn: w.Conn()}) }()
	defer a.prestarter.prepare(as)
	defer func() { _ = w.Stop(0) }() // it has nothing to lose
	defer server.Stop()
	select {
	case found := <-p.found:
		if len(found) != len(job.GetResolve()) {
			return nil, fmt.Errorf("%w: a process tells of %d paths, of %d", mover.ErrCorrupt, len(found), len(job.GetResolve()))
		}
		return found, nil
	case <-w.Done():
		return nil, errors.New("the process that looks has ended")
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// pathfinder talks with a process that looks where paths lead.
type pathfinder struct {
	agentv1.UnimplementedWorkerServiceServer
	job   *agentv1.Job
	found chan []string
}

// Serve implements agentv1.WorkerServiceServer.
func (p *pathfinder) Serve(stream agentv1.WorkerService_ServeServer) error {
	err := stream.Send(&agentv1.WorkerOrder{What: &agentv1.WorkerOrder_Job{Job: p.job}})
	if err == nil {
		<-stream.Context().Done()
	}
	return err
}

// Real implements agentv1.WorkerServiceServer.
func (p *pathfinder) Real(_ context.Context, r *agentv1.RealRequest) (*agentv1.RealResponse, error) {
	select {
	case p.found <- r.GetPaths():
	default: // it has said so
	}
	return &agentv1.RealResponse{}, nil
}
