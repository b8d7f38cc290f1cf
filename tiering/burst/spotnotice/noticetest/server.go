// Package noticetest is a metadata service of EC2 for tests, as AWS documents it (IMDSv2, "Use the Instance Metadata Service to access instance metadata"): a
// token is got by PUT with a time to live of 1 second to 6 hours, is no longer good after that, and is demanded for each question; a request with an X-Forwarded-For
// gets no token. An item that was not set is not there (404). It can be slow, refuse, and say what it likes; all that it was asked it remembers.
package noticetest

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	tokenPath   = "/latest/api/token"        //nolint:gosec // where tokens are got, and none
	tokenHeader = "X-Aws-Ec2-Metadata-Token" //nolint:gosec // the name of a header
	ttlHeader   = "X-Aws-Ec2-Metadata-Token-Ttl-Seconds"
	ttlMost     = 21600
	below       = "/latest/meta-data/"
)

// Server is a metadata service. Its zero value has nothing but the id of an instance.
type Server struct {
	mu     sync.Mutex // guards all below
	tokens map[string]time.Time
	items  map[string]string
	status int // 0 answers
	asked  []string
	got    int
}

// Set gives an item a text.
func (s *Server) Set(path, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.items == nil {
		s.items = map[string]string{}
	}
	s.items[path] = text
}

// Interrupt gives a spot interruption notice.
func (s *Server) Interrupt(action string, when time.Time) {
	text, _ := json.Marshal(map[string]string{"action": action, "time": when.UTC().Format(time.RFC3339)}) // strings
	s.Set("spot/instance-action", string(text))
}

// Refuse answers everything with a status; 0 ends that.
func (s *Server) Refuse(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status = status
}

// Forget makes all tokens bad that were given.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.tokens)
}

// Asked are the items that were asked for with a good token, and how many tokens were got.
func (s *Server) Asked() (items []string, tokens int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.asked...), s.got
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	path, isItem := strings.CutPrefix(r.URL.Path, below)
	switch {
	case s.status != 0:
		http.Error(w, "refused", s.status)
	case r.URL.Path == tokenPath:
		s.token(w, r)
	case r.Method != http.MethodGet:
		http.Error(w, "only GET", http.StatusMethodNotAllowed)
	case !time.Now().Before(s.tokens[r.Header.Get(tokenHeader)]):
		http.Error(w, "no token that is good", http.StatusUnauthorized)
	case !isItem:
		http.NotFound(w, r)
	default:
		s.answer(w, r, path)
	}
}

// token gives one.
func (s *Server) token(w http.ResponseWriter, r *http.Request) {
	seconds, err := strconv.Atoi(r.Header.Get(ttlHeader))
	switch {
	case r.Method != http.MethodPut:
		http.Error(w, "only PUT", http.StatusMethodNotAllowed)
		return
	case err != nil || seconds < 1 || seconds > ttlMost:
		http.Error(w, "no time to live", http.StatusBadRequest)
		return
	case r.Header.Get("X-Forwarded-For") != "":
		http.Error(w, "through a proxy", http.StatusForbidden)
		return
	}
	token := rand.Text()
	if s.tokens == nil {
		s.tokens = map[string]time.Time{}
	}
	s.tokens[token] = time.Now().Add(time.Duration(seconds) * time.Second)
	s.got++
	w.Header().Set(ttlHeader, strconv.Itoa(seconds))
	fmt.Fprint(w, token)
}

func (s *Server) answer(w http.ResponseWriter, r *http.Request, path string) {
	s.asked = append(s.asked, path)
	text, is := s.items[path]
	if !is && path == "instance-id" {
		text, is = "i-1234567890abcdef0", true
	}
	if !is {
		http.NotFound(w, r)
		return
	}
	fmt.Fprint(w, text)
}
