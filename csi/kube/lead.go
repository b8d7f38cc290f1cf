package kube

import (
	"context"
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
// until ctx is over. The context of do ends when another one may lead; it may lead again later.
func (c *Cluster) Lead(ctx context.Context, name, identity string, do func(context.Context)) {
	lock := &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: name}, Client: c.leases, LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
	}
	for ctx.Err() == nil {
		leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
			Lock: lock, LeaseDuration: leaseTime, RenewDeadline: renewWithin, RetryPeriod: retryEvery, ReleaseOnCancel: true, Name: name,
			Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: do, OnStoppedLeading: func() {}},
		})
	}
}
