// Package apitest is an API server of Kubernetes for tests: two of its calls, over TLS, with the wire format of its documentation.
package apitest

import (
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"datamove.dev/test/must"
)

// Token is what the server would say of one that it issued.
type Token struct {
	Username  string
	Audiences []string // nil: the server knows no audiences
	Extra     map[string][]string
	Expired   bool
}

// NodeKey is where a token's node stands.
const NodeKey = "authentication.kubernetes.io/node-name"

// On is what a token of a pod on some nodes has; a real one has one of them.
func On(nodes ...string) map[string][]string {
	return map[string][]string{NodeKey: nodes, "authentication.kubernetes.io/pod-name": {"agent-x"}}
}

// Server is exact: what a real one refuses, it refuses. It has one ConfigMap, datamove/authority, which others write to as well.
//
// It has no versions of objects, no watches, lists, finalizers or deletions: the two calls use none. A merge patch without a version is
// never in conflict but with too many others at once, which is Down(409), as too many calls are Down(429).
type Server struct {
	*httptest.Server
	CA, Token string // files for its clients

	mu     sync.Mutex // guards all below
	tokens map[string]Token
	data   map[string]string // of the ConfigMap
	sealed bool              // the ConfigMap is immutable
	down   int               // an HTTP status that it answers with instead; 0 is none
	odd    string            // an answer that is none
	own    string            // the token that the caller has to have
	asked  int
}

// New starts one, until the test is over.
func New(t testing.TB) *Server {
	t.Helper()
	dir := t.TempDir()
	s := &Server{CA: filepath.Join(dir, "ca.crt"), Token: filepath.Join(dir, "token"), tokens: map[string]Token{}, data: map[string]string{"note": "of the operator"}, own: "a.b.coordinator"}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(s.answer))
	t.Cleanup(s.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	must.Do(t, errors.Join(os.WriteFile(s.CA, ca, 0o600), os.WriteFile(s.Token, []byte(s.own+"\n"), 0o600)))
	return s
}

// Issue has the server know a token; it may be one that it knew before.
func (s *Server) Issue(text string, t Token) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens[text] = t
}

// Revoke has it know it no more, as when the pod is gone.
func (s *Server) Revoke(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.tokens, text)
}

// Down has it answer with an HTTP status, and 0 as it should.
func (s *Server) Down(code int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = code
}

// Odd has it answer with a text.
func (s *Server) Odd(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.odd = text
}

// Seal has the ConfigMap be immutable.
func (s *Server) Seal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sealed = true
}

// Forget has it refuse the token of its client.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.own = "somebody else"
}

// Pin is what was written to the ConfigMap.
func (s *Server) Pin() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.data["note"] != "of the operator" {
		return "" // what others have written is gone
	}
	return s.data["pin"]
}

// Asked is how many calls there were.
func (s *Server) Asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// status is an error as the API server has it.
func status(w http.ResponseWriter, code int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":%q,"code":%d}`, message, code)
}

func (s *Server) answer(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	switch {
	case s.odd != "":
		fmt.Fprint(w, s.odd)
	case s.down != 0:
		status(w, s.down, "the server is unwell")
	case r.Header.Get("Authorization") != "Bearer "+s.own:
		status(w, http.StatusUnauthorized, "Unauthorized")
	case r.Method == http.MethodPost && r.URL.Path == "/apis/authentication.k8s.io/v1/tokenreviews":
		s.review(w, r)
	case r.Method == http.MethodPatch && r.URL.Path == "/api/v1/namespaces/datamove/configmaps/authority":
		s.patch(w, r)
	default:
		status(w, http.StatusForbidden, `configmaps "x" is forbidden`)
	}
}

func (s *Server) review(w http.ResponseWriter, r *http.Request) {
	var ask struct {
		APIVersion, Kind string
		Spec             struct {
			Token     string
			Audiences []string
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&ask); err != nil || ask.Kind != "TokenReview" || ask.APIVersion != "authentication.k8s.io/v1" || r.Header.Get("Content-Type") != "application/json" {
		status(w, http.StatusBadRequest, fmt.Sprint("not a TokenReview: ", err))
		return
	}
	says := map[string]any{"user": map[string]any{}}
	token, known := s.tokens[ask.Spec.Token]
	common := slices.DeleteFunc(slices.Clone(token.Audiences), func(a string) bool { return !slices.Contains(ask.Spec.Audiences, a) })
	switch {
	case !known:
		says["error"] = "[invalid bearer token, square/go-jose: error in cryptographic primitive]"
	case token.Expired:
		says["error"] = "[invalid bearer token, service account token has expired]"
	case token.Audiences != nil && len(common) == 0:
		says["error"] = fmt.Sprintf("[invalid bearer token, token audiences %q is invalid for the target audiences %q]", token.Audiences, ask.Spec.Audiences)
	default:
		says["authenticated"] = true
		says["user"] = map[string]any{"username": token.Username, "uid": "1", "groups": []string{"system:serviceaccounts"}, "extra": token.Extra}
		if token.Audiences != nil {
			says["audiences"] = common
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(map[string]any{"kind": ask.Kind, "apiVersion": ask.APIVersion, "metadata": map[string]any{}, "spec": ask.Spec, "status": says})
}

func (s *Server) patch(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Data     map[string]*string
		Metadata struct{ ResourceVersion string }
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || r.Header.Get("Content-Type") != "application/merge-patch+json" {
		status(w, http.StatusUnsupportedMediaType, "the body of the request was in an unknown format")
		return
	}
	switch {
	case body.Metadata.ResourceVersion != "": // of an object that this one has not given to anybody
		status(w, http.StatusConflict, `Operation cannot be fulfilled on configmaps "authority": the object has been modified`)
		return
	case s.sealed:
		status(w, http.StatusUnprocessableEntity, `ConfigMap "authority" is invalid: data: Forbidden: field is immutable when `+"`immutable`"+` is set`)
		return
	}
	for key, value := range body.Data { // RFC 7386
		if delete(s.data, key); value != nil {
			s.data[key] = *value
		}
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"kind": "ConfigMap", "apiVersion": "v1", "metadata": map[string]any{"name": "authority", "namespace": "datamove"}, "data": s.data})
}
