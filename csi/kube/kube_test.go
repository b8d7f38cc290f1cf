package kube

import (
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"datamove.dev/csi/relay"
	"datamove.dev/csi/volume"
)

// These look at what is asked and said; make e2e-k8s asks a real API server.

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
	got, err := newServer(t, objects...).open(t).Nodes(t.Context(), "part=node")
	want := []relay.Node{{Name: "n1", Address: "10.0.0.1:9809"}, {Name: "n2", Address: "[fd00::2]:9809"}, {Name: "n3"}, {Name: "n4"}, {Name: "n5"}}
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
	s := newServer(t, pv("train", "d", "v1:dataset::1", corev1.VolumeBound), pv("home", "d", "v1:project:lab:1", corev1.VolumeBound),
		pv("other", "e", "v1:dataset::2", corev1.VolumeBound), pv("gone", "d", "v1:dataset::3", corev1.VolumeReleased), claim)
	c := s.open(t)
	all, err := c.Claims(t.Context(), "d", "v1:dataset::")
	if err != nil || len(all) != 1 || all[0].Claim != (volume.Claim{Namespace: "vision", Name: "train"}) || all[0].Volume != "v1:dataset::1" || all[0].About() != (About{"PersistentVolumeClaim", "vision", "train", "u-1"}) || all[0].Attributes["dataset"] != "train" {
		t.Fatalf("%v, %v", all, err)
	}
	for range 2 {
		if err := c.Annotate(t.Context(), all[0].Claim, map[string]string{"staging": `n1: 4% of "1 TiB"`, "old": "", "never": ""}); err != nil {
			t.Fatal(err)
		}
	}
	const path = "/api/v1/namespaces/vision/persistentvolumeclaims/train"
	var got corev1.PersistentVolumeClaim
	if want := map[string]string{"team": "vision", "staging": `n1: 4% of "1 TiB"`}; !s.get(path, &got) || !maps.Equal(got.Annotations, want) {
		t.Errorf("%v", got.Annotations)
	}
	if n := strings.Count(strings.Join(s.requests, "\n"), "PATCH "+path); n != 1 {
		t.Errorf("what it has already was written: %q", s.requests)
	}
	if err := c.Annotate(t.Context(), volume.Claim{Namespace: "vision", Name: "none"}, map[string]string{"a": "b"}); err != nil {
		t.Errorf("a claim that is gone: %v", err)
	}
}

// TestTell: an event is of the pod, in its namespace, and short; the same one again is counted.
func TestTell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		c := s.open(t)
		c.Tell(t.Context(), OfPod(volume.Pod{Namespace: "vision", Name: "train", UID: "u1"}), true, "StagingFailed", "no\nroom"+strings.Repeat("ü", 2000))
		c.Tell(t.Context(), OfPod(volume.Pod{}), true, "Nobody", "is told")
		synctest.Wait()
		all := s.events()
		if len(all) != 1 {
			t.Fatalf("%+v", all)
		}
		e := all[0]
		if e.Namespace != "vision" || e.Count != 1 || e.InvolvedObject.Kind != "Pod" || e.InvolvedObject.Name != "train" || e.InvolvedObject.UID != "u1" || e.Type != corev1.EventTypeWarning || e.Reason != "StagingFailed" ||
			e.Source.Component != "csi.datamove.dev" || e.Source.Host != "n1" || len(e.Message) > 1024 || strings.Contains(e.Message, "\n") {
			t.Errorf("%+v", e)
		}
		c.Tell(t.Context(), OfPod(volume.Pod{Namespace: "vision", Name: "train", UID: "u1"}), true, "StagingFailed", "no\nroom"+strings.Repeat("ü", 2000))
		if synctest.Wait(); len(s.events()) != 1 || s.events()[0].Count != 2 {
			t.Errorf("told again: %+v", s.events())
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
		if err != nil {
			t.Error(err)
		}
		e, _, err := codecs.UniversalDeserializer().Decode(body, nil, nil)
		if err != nil {
			t.Error(err)
			return
		}
		w.Header().Set("Content-Type", protobuf)
		_, _ = w.Write(body)
		got <- e.(*corev1.Event)
	}))
	defer server.Close()
	c, err := open(&rest.Config{Host: server.URL}, Options{Driver: "csi.datamove.dev", Node: "n1"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.Tell(t.Context(), OfPod(volume.Pod{Namespace: "vision", Name: "train", UID: "u1"}), false, "Staged", "it is here")
	if e := <-got; e.Reason != "Staged" || e.InvolvedObject.Name != "train" {
		t.Errorf("%+v", e)
	}
}
