package kube

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// Times of a lease, as the sidecars of Kubernetes have them.
const (
	leaseTime   = 15 * time.Second
	renewWithin = 10 * time.Second
	retryEvery  = 5 * time.Second
)

// Lead runs do while this process is the one of several that leads, by the Lease called name in the namespace of the driver's pods,
// until ctx is over. The context of do ends when another one may lead; it may lead again later. The Lease is given back when do has
// returned, and not before: client-go gives it back as soon as its context ends.
func (c *Cluster) Lead(ctx context.Context, name, identity string, do func(context.Context)) {
	lock := &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: name}, Client: c.leases, LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
	}
	for ctx.Err() == nil {
		election, giveBack := context.WithCancel(context.WithoutCancel(ctx))
		t := &term{ctx: ctx, do: do, giveBack: giveBack}
		stop := context.AfterFunc(ctx, t.end)
		leaderelection.RunOrDie(election, leaderelection.LeaderElectionConfig{
			Lock: lock, LeaseDuration: leaseTime, RenewDeadline: renewWithin, RetryPeriod: retryEvery, ReleaseOnCancel: true, Name: name,
			Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: t.lead, OnStoppedLeading: func() {}},
		})
		stop()
		t.over()
		giveBack()
	}
}

// term is one time of leading.
type term struct {
	ctx      context.Context // of the candidate
	do       func(context.Context)
	giveBack func() // ends the election, which gives the lease back

	mu      sync.Mutex
	leading bool // guarded by mu, as ended
	ended   bool // the election has ended: nothing begins any more
	work    sync.WaitGroup
}

// lead does the work until the lease or the candidate ends. client-go calls it in a goroutine for which it does not wait.
func (t *term) lead(leased context.Context) {
	t.mu.Lock()
	if t.ended {
		t.mu.Unlock()
		return
	}
	t.leading = true
	t.work.Add(1)
	t.mu.Unlock()
	defer t.work.Done()
	defer t.giveBack()
	working, stop := context.WithCancel(leased)
	defer stop()
	defer context.AfterFunc(t.ctx, stop)()
	t.do(working)
}

// end gives up the candidacy, or leaves that to the work.
func (t *term) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.leading {
		t.giveBack()
	}
}

// over waits for the work, when the election has ended.
func (t *term) over() {
	t.mu.Lock()
	t.ended = true
	t.mu.Unlock()
	t.work.Wait()
}
