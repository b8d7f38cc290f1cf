package kube

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	typed "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	ktesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"

	"datamove.dev/csi/nodeproxy"
	"datamove.dev/csi/volume"
	"datamove.dev/test/must"
)

// These look at what is asked and said; make e2e-k8s asks a real API server.

func cluster(t *testing.T, objects ...runtime.Object) *Cluster {
	t.Helper()
	client := fake.NewClientset(objects...)
	rules := rights(t)
	refuse := func(a ktesting.Action) error {
		r := a.GetResource()
		if slices.ContainsFunc(rules, func(p rbacv1.PolicyRule) bool {
			return slices.Contains(p.Verbs, a.GetVerb()) && slices.Contains(p.APIGroups, r.Group) && slices.Contains(p.Resources, r.Resource)
		}) {
			return nil
		}
		t.Errorf("%s of %s: no manifest gives the right to it", a.GetVerb(), r.GroupResource())
		return apierrors.NewForbidden(r.GroupResource(), "", nil)
	}
	client.PrependReactor("*", "*", func(a ktesting.Action) (bool, runtime.Object, error) { err := refuse(a); return err != nil, nil, err })
	client.PrependWatchReactor("*", func(a ktesting.Action) (bool, watch.Interface, error) { err := refuse(a); return err != nil, nil, err })
	versions := &versions{of: map[string]int{}}
	client.PrependReactor("*", "*", versions.react)
	core := client.CoreV1()
	c := &Cluster{core: core, leases: client.CoordinationV1(), namespace: "datamove", events: record.NewBroadcaster()}
	c.events.StartRecordingToSink(&typed.EventSinkImpl{Interface: core.Events("")})
	c.recorder = c.events.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "csi.datamove.dev", Host: "n1"})
	t.Cleanup(c.Close)
	return c
}

// versions has the client of tests refuse what an API server refuses and the client of client-go's tests does not: a change of what somebody
// else has changed meanwhile, a new object with a version, annotations that are none or too large. That client is more lenient still: it has
// no admission, knows no dry runs, takes away at once what has finalizers, and its lists have one page. We make and take away events and Leases
// only, and ask for no pages; a watch is client-go's own.
type versions struct {
	mu sync.Mutex
	of map[string]int // guarded by mu
}

func (v *versions) react(a ktesting.Action) (bool, runtime.Object, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	err := v.refuse(a)
	return err != nil, nil, err
}

func (v *versions) refuse(a ktesting.Action) error {
	r, key := a.GetResource().GroupResource(), func(name string) string {
		return a.GetResource().String() + " " + a.GetNamespace() + "/" + name
	}
	if p, ok := a.(ktesting.PatchAction); ok {
		v.of[key(p.GetName())]++ // a patch without a version comes to the object of now
		var changed struct{ Metadata metav1.ObjectMeta }
		if err := json.Unmarshal(p.GetPatch(), &changed); err != nil {
			return apierrors.NewBadRequest(err.Error())
		}
		if errs := validation.ValidateAnnotations(changed.Metadata.Annotations, field.NewPath("metadata", "annotations")); len(errs) > 0 {
			return apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind(r.Resource).GroupKind(), p.GetName(), errs)
		}
		return nil
	}
	u, ok := a.(interface{ GetObject() runtime.Object })
	if !ok {
		return nil
	}
	o, err := meta.Accessor(u.GetObject())
	switch {
	case err != nil:
		return err
	case a.GetVerb() == "create" && o.GetResourceVersion() != "":
		return apierrors.NewBadRequest("resourceVersion should not be set on objects to be created")
	case a.GetVerb() == "update" && o.GetResourceVersion() != strconv.Itoa(v.of[key(o.GetName())]):
		return apierrors.NewConflict(r, o.GetName(), errors.New("the object has been modified"))
	}
	v.of[key(o.GetName())]++
	o.SetResourceVersion(strconv.Itoa(v.of[key(o.GetName())]))
	return nil
}

// rights are what the manifests give to our components; the client of tests is asked for nothing else, as a real server would refuse it.
func rights(t *testing.T) []rbacv1.PolicyRule {
	t.Helper()
	rules := []rbacv1.PolicyRule{{Verbs: []string{"list"}, APIGroups: []string{""}, Resources: []string{"events"}}} // by which tests look at them
	for _, name := range []string{"controller-rbac.yaml", "node.yaml"} {
		text := must.Get(os.ReadFile("../../deploy/kubernetes/" + name))(t)
		for _, one := range strings.Split(string(text), "\n---\n") {
			o, _, err := scheme.Codecs.UniversalDeserializer().Decode([]byte(one), nil, nil)
			must.Do(t, err)
			switch role := o.(type) {
			case *rbacv1.ClusterRole:
				rules = append(rules, role.Rules...)
			case *rbacv1.Role:
				rules = append(rules, role.Rules...)
			}
		}
	}
	if len(rules) < 5 {
		t.Fatalf("the manifests have %d rules", len(rules))
	}
	return rules
}

// TestNodes: all nodes are known, and the drivers that can be asked.
func TestNodes(t *testing.T) {
	var objects []runtime.Object
	for _, name := range []string{"n1", "n2", "n3", "n4", "n5"} {
		objects = append(objects, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	pod := func(name, node, namespace, part, ip string, phase corev1.PodPhase, ending bool) {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: map[string]string{"part": part}},
			Spec:   corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "csi", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 9808}, {Name: "relay", ContainerPort: 9809}}}}},
			Status: corev1.PodStatus{Phase: phase, PodIP: ip}}
		if ending {
			now := metav1.Now()
			p.DeletionTimestamp, p.Finalizers = &now, []string{"x/y"}
		}
		objects = append(objects, p)
	}
	pod("a", "n1", "datamove", "node", "10.0.0.1", corev1.PodRunning, false)
	pod("b", "n2", "datamove", "node", "fd00::2", corev1.PodRunning, false)
	pod("c", "n3", "datamove", "node", "10.0.0.3", corev1.PodPending, false)
	pod("d", "n4", "datamove", "node", "10.0.0.4", corev1.PodRunning, true)
	pod("e", "n5", "datamove", "other", "10.0.0.5", corev1.PodRunning, false)
	pod("f", "n5", "tenant", "node", "10.0.0.66", corev1.PodRunning, false) // anybody can label a pod of his own
	got, err := cluster(t, objects...).Nodes(t.Context(), "part=node")
	want := []nodeproxy.Node{{Name: "n1", Address: "10.0.0.1:9809"}, {Name: "n2", Address: "[fd00::2]:9809"}, {Name: "n3"}, {Name: "n4"}, {Name: "n5"}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
}

func TestClaims(t *testing.T) {
	pv := func(name, driver, handle string, phase corev1.PersistentVolumePhase) *corev1.PersistentVolume {
		return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.PersistentVolumeStatus{Phase: phase},
			Spec: corev1.PersistentVolumeSpec{ClaimRef: &corev1.ObjectReference{Namespace: "vision", Name: name, UID: "u-1"},
				PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: handle, VolumeAttributes: map[string]string{"dataset": name}}}}}
	}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "vision", Name: "train", Annotations: map[string]string{"team": "vision", "old": "1"}}}
	c := cluster(t, pv("train", "d", "v1:dataset::1", corev1.VolumeBound), pv("home", "d", "v1:project:lab:1", corev1.VolumeBound),
		pv("other", "e", "v1:dataset::2", corev1.VolumeBound), pv("gone", "d", "v1:dataset::3", corev1.VolumeReleased), claim)
	all, err := c.Claims(t.Context(), "d", "v1:dataset::")
	if err != nil || len(all) != 1 || all[0].Claim != (volume.Claim{Namespace: "vision", Name: "train"}) || all[0].Volume != "v1:dataset::1" || all[0].About() != (About{"PersistentVolumeClaim", "vision", "train", "u-1"}) || all[0].Attributes["dataset"] != "train" {
		t.Fatalf("%v, %v", all, err)
	}
	for range 2 {
		must.Do(t, c.Annotate(t.Context(), all[0].Claim, map[string]string{"staging": `n1: 4% of "1 TiB"`, "old": "", "never": ""}))
	}
	got, err := c.core.PersistentVolumeClaims("vision").Get(t.Context(), "train", metav1.GetOptions{})
	if want := map[string]string{"team": "vision", "staging": `n1: 4% of "1 TiB"`}; err != nil || !maps.Equal(got.Annotations, want) {
		t.Errorf("%v, %v", got.Annotations, err)
	}
	long := strings.Repeat("node-0123456789, ", 1<<15) // of more nodes than an API server lets a claim tell of
	for range 2 {
		must.Do(t, c.Annotate(t.Context(), all[0].Claim, map[string]string{"staging": long, "problem": long}))
	}
	got, err = c.core.PersistentVolumeClaims("vision").Get(t.Context(), "train", metav1.GetOptions{})
	if text := got.Annotations["staging"]; err != nil || !strings.HasPrefix(text, long[:1000]) || !strings.HasSuffix(text, "…") || got.Annotations["team"] != "vision" {
		t.Errorf("%d bytes of %d, %v", len(text), len(long), err)
	}
	if err := c.Annotate(t.Context(), volume.Claim{Namespace: "vision", Name: "none"}, map[string]string{"a": "b"}); err != nil {
		t.Errorf("a claim that is gone: %v", err)
	}
}

// TestTell: an event is of the pod, in its namespace, and short.
func TestTell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := cluster(t)
		c.Tell(t.Context(), OfPod(volume.Pod{Namespace: "vision", Name: "train", UID: "u1"}), true, "StagingFailed", "no\nroom"+strings.Repeat("ü", 2000))
		c.Tell(t.Context(), OfPod(volume.Pod{}), true, "Nobody", "is told")
		synctest.Wait()
		got, err := c.core.Events("vision").List(t.Context(), metav1.ListOptions{})
		if err != nil || len(got.Items) != 1 {
			t.Fatalf("%v, %v", got, err)
		}
		e := got.Items[0]
		if e.InvolvedObject.Kind != "Pod" || e.InvolvedObject.Name != "train" || e.InvolvedObject.UID != "u1" || e.Type != corev1.EventTypeWarning || e.Reason != "StagingFailed" ||
			e.Source.Component != "csi.datamove.dev" || e.Source.Host != "n1" || len(e.Message) > 1024 || strings.Contains(e.Message, "\n") {
			t.Errorf("%+v", e)
		}
	})
}

// TestWire: what is sent can be read by an API server, and what it answers by us.
func TestWire(t *testing.T) {
	got := make(chan *corev1.Event, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.URL.Path != "/api/v1/namespaces/vision/events" || r.Header.Get("Content-Type") != protobuf || r.Header.Get("User-Agent") != "csi.datamove.dev" {
			t.Errorf("%s %s, %v", r.Method, r.URL, r.Header)
		}
		body, err := io.ReadAll(r.Body)
		must.Tell(t, err)
		e, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
		if err != nil {
			t.Error(err)
			return
		}
		w.Header().Set("Content-Type", protobuf)
		_, _ = w.Write(body)
		got <- e.(*corev1.Event)
	}))
	defer server.Close()
	c := must.Get(open(&rest.Config{Host: server.URL}, Options{Driver: "csi.datamove.dev", Node: "n1"}))(t)
	defer c.Close()
	c.Tell(t.Context(), OfPod(volume.Pod{Namespace: "vision", Name: "train", UID: "u1"}), false, "Staged", "it is here")
	if e := <-got; e.Reason != "Staged" || e.InvolvedObject.Name != "train" {
		t.Errorf("%+v", e)
	}
}

// TestLead: of two one leads, and the other one when the work of the first is over.
func TestLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := cluster(t)
		led := make(chan string, 10)
		var leaders sync.WaitGroup
		lead := func(who string, finishing time.Duration) (stop func()) {
			ctx, stop := context.WithCancel(t.Context())
			leaders.Go(func() {
				c.Lead(ctx, "csi", who, func(ctx context.Context) {
					led <- who
					<-ctx.Done()
					time.Sleep(finishing)
					led <- who + " has finished"
				})
			})
			return stop
		}
		next := func(within time.Duration) string {
			select {
			case who := <-led:
				return who
			case <-time.After(within):
				return ""
			}
		}
		first := lead("a", 20*time.Second) // longer than a lease
		if who := next(time.Minute); who != "a" {
			t.Fatalf("%q leads", who)
		}
		second := lead("b", 0)
		if who := next(time.Hour); who != "" {
			t.Fatalf("%q leads, too", who)
		}
		first()
		for _, want := range []string{"a has finished", "b"} {
			if got := next(time.Minute); got != want {
				t.Fatalf("%q, want %q", got, want)
			}
		}
		third := lead("c", 0)
		third() // it never leads
		second()
		if got := next(time.Minute); got != "b has finished" {
			t.Errorf("%q", got)
		}
		leaders.Wait()
		if got := next(time.Hour); got != "" {
			t.Errorf("%q after all have ended", got)
		}
	})
}
