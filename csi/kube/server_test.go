package kube

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

// server is an API server in memory, which a bubble of testing/synctest can ask: it holds objects by their paths, and
// has one writer of each version win.
type server struct {
	t        *testing.T
	mu       sync.Mutex // guards all below
	version  int
	objects  map[string]map[string]any
	requests []string          // "POST /api/v1/…"
	refuse   func(string) bool // of such a request, whether it fails
}

// resources are the kinds that it knows, by what paths call them.
var resources = map[string]string{"pods": "Pod", "nodes": "Node", "persistentvolumes": "PersistentVolume", "persistentvolumeclaims": "PersistentVolumeClaim", "events": "Event", "leases": "Lease"}

func newServer(t *testing.T, objects ...runtime.Object) *server {
	s := &server{t: t, objects: map[string]map[string]any{}}
	for _, o := range objects {
		m, err := meta.Accessor(o)
		if err != nil {
			t.Fatal(err)
		}
		in := "/api/v1/"
		if _, is := o.(*coordinationv1.Lease); is {
			in = "/apis/coordination.k8s.io/v1/"
		}
		if m.GetNamespace() != "" {
			in += "namespaces/" + m.GetNamespace() + "/"
		}
		for resource, kind := range resources {
			if gvks, _, err := kinds.ObjectKinds(o); err == nil && gvks[0].Kind == kind {
				s.keep(in+resource+"/"+m.GetName(), plain(t, o))
			}
		}
	}
	return s
}

// open is a Cluster of its driver on n1, whose pods are in the namespace datamove.
func (s *server) open(t *testing.T) *Cluster {
	t.Helper()
	return s.through(t, s)
}

// through is the same over another way to the server.
func (s *server) through(t *testing.T, way http.RoundTripper) *Cluster {
	t.Helper()
	c, err := open(&rest.Config{Host: "http://kubernetes.test", Transport: way}, Options{Driver: "csi.datamove.dev", Node: "n1", Namespace: "datamove"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// plain is an object as JSON has it.
func plain(t *testing.T, o any) (m map[string]any) {
	t.Helper()
	text, err := json.Marshal(o)
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// get reads the object at a path; false is that there is none.
func (s *server) get(path string, into any) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	text, err := json.Marshal(s.objects[path])
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		s.t.Error(err)
	}
	return s.objects[path] != nil
}

// events are all that it has.
func (s *server) events() (all []corev1.Event) {
	s.mu.Lock()
	paths := slices.Sorted(maps.Keys(s.objects))
	s.mu.Unlock()
	for _, p := range paths {
		if path.Base(path.Dir(p)) == "events" {
			var e corev1.Event
			s.get(p, &e)
			all = append(all, e)
		}
	}
	return all
}

// keep writes an object, with a new version; mu is held, or nobody asks yet.
func (s *server) keep(p string, o map[string]any) map[string]any {
	s.version++
	o["metadata"].(map[string]any)["resourceVersion"] = strconv.Itoa(s.version)
	o["kind"], o["apiVersion"] = resources[path.Base(path.Dir(p))], "v1"
	if strings.HasPrefix(p, "/apis/") {
		o["apiVersion"] = "coordination.k8s.io/v1"
	}
	s.objects[p] = o
	return o
}

// RoundTrip implements http.RoundTripper.
func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	answer := w.Result()
	answer.Request = r
	return answer, nil
}

// ServeHTTP implements http.Handler.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	request := r.Method + " " + r.URL.Path
	s.requests = append(s.requests, request)
	status, answer := http.StatusInternalServerError, failure("InternalError")
	if s.refuse == nil || !s.refuse(request) {
		status, answer = s.answer(r)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer)
}

func failure(reason string) map[string]any {
	return map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": reason}
}

func (s *server) answer(r *http.Request) (int, map[string]any) {
	p := r.URL.Path
	kind, whole := resources[path.Base(p)]
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
	}
	if whole && r.Method == http.MethodGet {
		return http.StatusOK, s.list(p, kind, r.URL.Query().Get("labelSelector"))
	}
	var sent map[string]any
	switch r.Method {
	case http.MethodPost, http.MethodPut:
		o, _, err := codecs.UniversalDeserializer().Decode(body, nil, nil)
		if err != nil || r.Header.Get("Content-Type") != protobuf {
			s.t.Errorf("%s %s, %s: %v", r.Method, p, r.Header.Get("Content-Type"), err)
			return http.StatusBadRequest, failure("BadRequest")
		}
		sent = plain(s.t, o)
	case http.MethodPatch:
		if err := json.Unmarshal(body, &sent); err != nil {
			return http.StatusBadRequest, failure("BadRequest")
		}
	}
	if r.Method == http.MethodPost {
		p += "/" + sent["metadata"].(map[string]any)["name"].(string)
	}
	had := s.objects[p]
	switch {
	case r.Method == http.MethodPost && had != nil:
		return http.StatusConflict, failure("AlreadyExists")
	case r.Method == http.MethodPost:
		return http.StatusCreated, s.keep(p, sent)
	case had == nil:
		return http.StatusNotFound, failure("NotFound")
	case r.Method == http.MethodPut && sent["metadata"].(map[string]any)["resourceVersion"] != had["metadata"].(map[string]any)["resourceVersion"]:
		return http.StatusConflict, failure("Conflict")
	case r.Method == http.MethodPut:
		return http.StatusOK, s.keep(p, sent)
	case r.Method == http.MethodPatch:
		return http.StatusOK, s.keep(p, merge(had, sent))
	}
	return http.StatusOK, had
}

// list is what is in a collection; a path without a namespace is of all of them.
func (s *server) list(p, kind, selector string) map[string]any {
	wants, err := labels.Parse(selector)
	if err != nil {
		s.t.Error(err)
	}
	items := []any{}
	for _, at := range slices.Sorted(maps.Keys(s.objects)) {
		has := labels.Set{}
		of, _ := s.objects[at]["metadata"].(map[string]any)["labels"].(map[string]any)
		for name, value := range of {
			has[name] = value.(string)
		}
		if path.Dir(at) == p && wants.Matches(has) {
			items = append(items, s.objects[at])
		}
	}
	return map[string]any{"kind": kind + "List", "apiVersion": "v1", "metadata": map[string]any{"resourceVersion": strconv.Itoa(s.version)}, "items": items}
}

// merge is RFC 7386.
func merge(into, patch map[string]any) map[string]any {
	into = maps.Clone(into)
	for name, value := range patch {
		below, is := value.(map[string]any)
		had, _ := into[name].(map[string]any)
		switch {
		case value == nil:
			delete(into, name)
		case is:
			into[name] = merge(had, below)
		default:
			into[name] = value
		}
	}
	if into == nil {
		into = patch
	}
	return into
}
