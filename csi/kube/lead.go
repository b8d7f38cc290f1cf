package kube

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

// Times of a lease, as the sidecars of Kubernetes have them.
const (
	leaseTime   = 15 * time.Second // after which another one may take it
	renewWithin = 10 * time.Second // after which its holder does not count on it any more
	retryEvery  = 5 * time.Second
)

// Lead runs do while this process is the one of several that leads, by the Lease called name in the namespace of the driver's pods,
// until ctx is over. The context of do ends when another one may lead; it may lead again later, after do has returned.
//
// The Lease is used as client-go does, so that processes with either take turns. client-go's own package has all
// types, clients, informers and listers of Kubernetes below it, which take a minute to compile.
func (c *Cluster) Lead(ctx context.Context, name, identity string, do func(context.Context)) {
	e := &election{leases: c.leases, namespace: c.namespace, name: name, identity: identity}
	for e.acquire(ctx) {
		klog.InfoS("This process leads", "lease", name, "identity", identity)
		leading, stop := context.WithCancel(ctx)
		var work sync.WaitGroup
		work.Go(func() { do(leading) })
		e.renew(ctx)
		stop()
		work.Wait() // before another one may begin
		klog.InfoS("This process does not lead any more", "lease", name, "identity", identity)
		e.release()
	}
}

// election is one candidate for a Lease. It is for one goroutine.
type election struct {
	leases                    rest.Interface
	namespace, name, identity string

	seen string    // version of the Lease when it was read last
	at   time.Time // when that version was seen first: what counts is how long it does not change, and not the clock of its holder
	held time.Time // when this process began to renew it for the last time that went well
}

// acquire tries until the lease is held; false is that ctx is over.
func (e *election) acquire(ctx context.Context) bool {
	for ctx.Err() == nil {
		if e.try(ctx) {
			return true
		}
		pause(ctx, retryEvery+rand.N(retryEvery)) // not all at the same time
	}
	return false
}

// renew returns when ctx is over, or the lease may be lost.
func (e *election) renew(ctx context.Context) {
	for ctx.Err() == nil {
		inTime, cancel := context.WithDeadline(ctx, e.held.Add(renewWithin))
		renewed := false
		for pause(inTime, retryEvery); !renewed && inTime.Err() == nil; {
			if renewed = e.try(inTime); !renewed {
				pause(inTime, retryEvery/5)
			}
		}
		cancel()
		if !renewed {
			return
		}
	}
}

// pause waits for a time, or until ctx is over.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// try takes the lease, or has it last longer. Of several that try at once the API server lets one through: each names the version that it has read.
func (e *election) try(ctx context.Context) (leads bool) {
	began := time.Now()
	lease := &coordinationv1.Lease{}
	err := e.leases.Get().Namespace(e.namespace).Resource("leases").Name(e.name).Do(ctx).Into(lease)
	missing := errors.IsNotFound(err)
	if err != nil && !missing {
		klog.ErrorS(err, "Reading a lease", "lease", e.name)
		return false
	}
	if missing {
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: e.namespace, Name: e.name}}
	}
	if lease.ResourceVersion != e.seen {
		e.seen, e.at = lease.ResourceVersion, began
	}
	if !e.take(&lease.Spec, began) {
		return false
	}
	write := e.leases.Put().Name(e.name)
	if missing {
		write = e.leases.Post()
	}
	written := &coordinationv1.Lease{}
	if err := write.Namespace(e.namespace).Resource("leases").Body(lease).Do(ctx).Into(written); err != nil {
		if !errors.IsConflict(err) && !errors.IsAlreadyExists(err) { // another one was faster
			klog.ErrorS(err, "Writing a lease", "lease", e.name)
		}
		return false
	}
	e.seen, e.at, e.held = written.ResourceVersion, began, began
	return true
}

// take changes a lease to one that this process holds from now on, unless another one does.
func (e *election) take(l *coordinationv1.LeaseSpec, now time.Time) bool {
	holder, lasts := deref(l.HolderIdentity), time.Duration(deref(l.LeaseDurationSeconds))*time.Second
	if holder != "" && holder != e.identity && now.Before(e.at.Add(lasts)) {
		return false
	}
	moment := metav1.NewMicroTime(now)
	if holder != e.identity {
		l.HolderIdentity, l.AcquireTime = &e.identity, &moment
		l.LeaseTransitions = new(deref(l.LeaseTransitions) + 1)
	}
	l.LeaseDurationSeconds, l.RenewTime = new(int32(leaseTime/time.Second)), &moment
	return true
}

// release gives the lease back, if it is held still, so that the next one need not wait for its end.
func (e *election) release() {
	ctx, cancel := context.WithDeadline(context.Background(), e.held.Add(leaseTime))
	defer cancel()
	lease := &coordinationv1.Lease{}
	err := e.leases.Get().Namespace(e.namespace).Resource("leases").Name(e.name).Do(ctx).Into(lease)
	if err == nil && deref(lease.Spec.HolderIdentity) == e.identity {
		moment := metav1.NewMicroTime(time.Now())
		lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds, lease.Spec.AcquireTime, lease.Spec.RenewTime = new(""), new(int32(1)), &moment, &moment
		err = e.leases.Put().Namespace(e.namespace).Resource("leases").Name(e.name).Body(lease).Do(ctx).Error()
	}
	if err != nil {
		klog.ErrorS(err, "Giving a lease back", "lease", e.name)
	}
}

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
