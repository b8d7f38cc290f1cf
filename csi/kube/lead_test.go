package kube

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const leasePath = "/apis/coordination.k8s.io/v1/namespaces/datamove/leases/csi"

// candidates are processes that would lead, in a bubble; what they do is noted with the second of it.
type candidates struct {
	t     *testing.T
	began time.Time
	all   sync.WaitGroup
	mu    sync.Mutex
	notes []string
}

func (c *candidates) note(format string, a ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.notes = append(c.notes, fmt.Sprintf(format, a...))
}

// way leads to a server as long as it is not cut.
type way struct {
	*server
	cut atomic.Bool
}

func (w *way) RoundTrip(r *http.Request) (*http.Response, error) {
	if w.cut.Load() {
		return nil, net.ErrClosed
	}
	return w.server.RoundTrip(r)
}

// lead has one lead when it can, and end its work some time after it has to.
func (c *candidates) lead(s *server, who string, lasts time.Duration) (stop func(), to *way) {
	ctx, cancel := context.WithCancel(c.t.Context())
	to = &way{server: s}
	cluster := s.through(c.t, to)
	c.all.Go(func() {
		cluster.Lead(ctx, "csi", who, func(ctx context.Context) {
			c.note("%s leads", who)
			<-ctx.Done()
			time.Sleep(lasts)
			c.note("%s ends", who)
		})
	})
	return cancel, to
}

func (c *candidates) want(notes ...string) {
	c.t.Helper()
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Equal(c.notes, notes) {
		c.t.Fatalf("after %v: %q, and not %q", time.Since(c.began), c.notes, notes)
	}
}

func bubble(t *testing.T, do func(t *testing.T, c *candidates)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &candidates{t: t, began: time.Now()}
		do(t, c)
		c.all.Wait()
	})
}

// TestLead: of two one leads, however long, and the other one soon after the work of the first is over, and not before.
func TestLead(t *testing.T) {
	bubble(t, func(t *testing.T, c *candidates) {
		s := newServer(t)
		stopA, _ := c.lead(s, "a", 3*time.Second)
		c.want("a leads")
		stopB, _ := c.lead(s, "b", 0)
		time.Sleep(time.Hour)
		c.want("a leads")
		stopA()
		time.Sleep(3*time.Second - 1)
		c.want("a leads")
		time.Sleep(2 * retryEvery)
		c.want("a leads", "a ends", "b leads")
		stopB()
		c.want("a leads", "a ends", "b leads", "b ends")
		c.all.Wait()
		var l coordinationv1.Lease
		if !s.get(leasePath, &l) || *l.Spec.HolderIdentity != "" || *l.Spec.LeaseTransitions != 2 || *l.Spec.LeaseDurationSeconds != 1 {
			t.Errorf("%+v", l.Spec)
		}
	})
}

// TestLeadIsLost: who can not renew the lease stops before another one leads, whatever both clocks say.
func TestLeadIsLost(t *testing.T) {
	bubble(t, func(t *testing.T, c *candidates) {
		s := newServer(t)
		stopA, way := c.lead(s, "a", 0)
		c.want("a leads")
		stopB, _ := c.lead(s, "b", 0)
		time.Sleep(time.Minute)
		c.want("a leads")
		way.cut.Store(true)
		time.Sleep(renewWithin)
		c.want("a leads", "a ends")
		time.Sleep(leaseTime + 2*retryEvery)
		c.want("a leads", "a ends", "b leads")
		way.cut.Store(false)
		time.Sleep(time.Minute)
		c.want("a leads", "a ends", "b leads")
		stopA()
		stopB()
	})
}

// TestLeadAfter: a lease whose holder is gone is waited for from when it was seen, and not by the clock of the holder; one that has failed once is renewed again.
func TestLeadAfter(t *testing.T) {
	bubble(t, func(t *testing.T, c *candidates) {
		holder, lasts, turns, ahead := "gone", int32(15), int32(7), metav1.NewMicroTime(time.Now().Add(time.Hour))
		s := newServer(t, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "datamove", Name: "csi"}, Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &holder, LeaseDurationSeconds: &lasts, LeaseTransitions: &turns, AcquireTime: &ahead, RenewTime: &ahead}})
		stop, _ := c.lead(s, "a", 0)
		time.Sleep(leaseTime - 1)
		c.want()
		time.Sleep(2 * retryEvery)
		c.want("a leads")
		var l coordinationv1.Lease
		if s.get(leasePath, &l); *l.Spec.HolderIdentity != "a" || *l.Spec.LeaseTransitions != 8 || *l.Spec.LeaseDurationSeconds != 15 || !l.Spec.AcquireTime.Time.Before(ahead.Time) {
			t.Errorf("%+v", l.Spec)
		}
		n := 0
		s.mu.Lock()
		s.refuse = func(request string) bool { // every second write
			if !strings.HasPrefix(request, "PUT ") {
				return false
			}
			n++
			return n%2 == 1
		}
		s.mu.Unlock()
		time.Sleep(10 * time.Minute)
		c.want("a leads")
		taken := l.Spec.AcquireTime
		if s.get(leasePath, &l); !l.Spec.AcquireTime.Equal(taken) || time.Since(l.Spec.RenewTime.Time) > renewWithin {
			t.Errorf("after ten minutes: %+v", l.Spec)
		}
		stop()
		c.want("a leads", "a ends")
	})
}
