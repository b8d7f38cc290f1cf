package webui

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	datamovev1 "datamove.dev/api/datamove/v1"
	life "datamove.dev/mover/task"
	"datamove.dev/test/must"
)

// The page is small: this is what a browser gets before it asks for the first task.
const (
	fileMost = 16 << 10
	pageMost = 128 << 10
)

var (
	linked     = regexp.MustCompile(`(?:src|href)="([^"]*)"`)
	imported   = regexp.MustCompile(`(?m)^(?:import|export) .*from '([^']*)'`)
	inline     = regexp.MustCompile(`(?i)<style|\sstyle=|\son[a-z]+=|javascript:|<script[^>]*>[^<]`)
	elsewhere  = regexp.MustCompile(`(?i)(?:https?:)?//[a-z0-9]|@import|url\(`)
	makesHTML  = regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|setAttribute\('style|srcdoc|DOMParser`)
	namespaces = "http://www.w3.org/2000/svg"
)

// TestFiles: what is referred to is there, and is referred to; nothing comes from
// elsewhere; nothing is a program that is not a file; nothing is large.
func TestFiles(t *testing.T) {
	served := must.Get(load(files))(t)
	used, sum := map[string]bool{"/": true}, 0
	need := func(from, to string) {
		if used[to] = true; served[to].body == nil {
			t.Errorf("%s refers to %s, which is not there", from, to)
		}
	}
	for at, f := range served {
		text := string(f.body)
		for _, m := range linked.FindAllStringSubmatch(text, -1) {
			if !strings.HasPrefix(m[1], "#") {
				need(at, m[1])
			}
		}
		for _, m := range imported.FindAllStringSubmatch(text, -1) {
			need(at, path.Join(path.Dir(at), m[1]))
			if link := `<link rel="modulepreload" href="` + path.Join(path.Dir(at), m[1]); !strings.Contains(string(served["/"].body), link) {
				t.Errorf("%s is imported, and not loaded in advance", m[1])
			}
		}
		for name, bad := range map[string]*regexp.Regexp{"a program or style in the page": inline, "something from elsewhere": elsewhere, "HTML made of text": makesHTML} {
			comments := regexp.MustCompile(`(?m)^\s*//.*$| // .*$`).ReplaceAllString(strings.ReplaceAll(text, namespaces, ""), "")
			if found := bad.FindString(comments); found != "" && !(bad == inline && strings.HasSuffix(at, ".js")) {
				t.Errorf("%s has %s: %q", at, name, found)
			}
		}
		if sum += len(f.body); len(f.body) > fileMost {
			t.Errorf("%s has %d bytes, more than %d", at, len(f.body), fileMost)
		}
	}
	for at := range served {
		if !used[at] {
			t.Errorf("nothing refers to %s", at)
		}
	}
	if sum > pageMost {
		t.Errorf("the page has %d bytes, more than %d", sum, pageMost)
	}
	t.Logf("%d files, %d bytes", len(served), sum)
}

func get(t *testing.T, method, path string, headers ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequest(method, path, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	Handler().ServeHTTP(w, r)
	return w.Result()
}

// TestHeaders: what a browser is told about each answer, also about one that is none.
func TestHeaders(t *testing.T) {
	served := must.Get(load(files))(t)
	for _, at := range append(slices.Collect(maps.Keys(served)), "/none") {
		h := get(t, "GET", at).Header
		for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY",
			"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin"} {
			if h.Get(name) != want {
				t.Errorf("%s: %s: %q, want %q", at, name, h.Get(name), want)
			}
		}
		csp := strings.Split(h.Get("Content-Security-Policy"), "; ")
		for _, want := range []string{"default-src 'self'", "object-src 'none'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'", "require-trusted-types-for 'script'"} {
			if !slices.Contains(csp, want) {
				t.Errorf("%s: the policy has no %s", at, want)
			}
		}
		if strings.Contains(strings.Join(csp, ";"), "unsafe") {
			t.Errorf("%s: the policy is %q", at, csp)
		}
		if want := types[path.Ext(at)]; want != "" && h.Get("Content-Type") != want {
			t.Errorf("%s is %s, want %s", at, h.Get("Content-Type"), want)
		}
	}
}

func TestCaching(t *testing.T) {
	served := must.Get(load(files))(t)
	for at := range served {
		first := get(t, "GET", at)
		tag, cache := first.Header.Get("ETag"), first.Header.Get("Cache-Control")
		if want := map[bool]string{true: anew, false: forever}[at == "/"]; cache != want || tag == "" {
			t.Errorf("%s: Cache-Control %q, want %q; ETag %s", at, cache, want, tag)
		}
		if again := get(t, "GET", at, "If-None-Match", tag); again.StatusCode != http.StatusNotModified || again.ContentLength > 0 {
			t.Errorf("%s, which we have: HTTP %d, %d bytes", at, again.StatusCode, again.ContentLength)
		}
		if other := get(t, "GET", at, "If-None-Match", `"other"`); other.StatusCode != http.StatusOK {
			t.Errorf("%s, of which we have another one: HTTP %d", at, other.StatusCode)
		}
	}
}

// A file that changes has another name, and so has everything that may refer to it.
func TestVersions(t *testing.T) {
	page := fstest.MapFS{"page/index.html": {Data: []byte(`<script src="/page/{version}/a.js">`)}, "page/a.js": {Data: []byte("1")}, "page/b.js": {Data: []byte("2")}}
	before := must.Get(load(page))(t)
	page["page/b.js"] = &fstest.MapFile{Data: []byte("3")}
	after := must.Get(load(page))(t)
	for at := range before {
		if _, same := after[at]; same != (at == "/") {
			t.Errorf("%s is there after a change: %v", at, same)
		}
	}
	if before["/"].tag == after["/"].tag {
		t.Error("the entry is the same after a change")
	}
	page["page/c.wasm"] = &fstest.MapFile{Data: []byte("4")}
	if _, err := load(page); err == nil {
		t.Error("a file of an unknown type is served")
	}
}

func TestOnlyThePage(t *testing.T) {
	served := must.Get(load(files))(t)
	paths := slices.Sorted(maps.Keys(served))
	at := paths[slices.IndexFunc(paths, func(at string) bool { return strings.HasSuffix(at, ".js") })]
	for _, row := range []struct {
		method, path string
		code         int
	}{
		{"GET", "/", 200}, {"HEAD", "/", 200}, {"GET", at, 200}, {"HEAD", at, 200},
		{"POST", "/", 405}, {"PUT", at, 405}, {"DELETE", "/", 405},
		{"GET", "/index.html", 404}, {"GET", "/page/", 404}, {"GET", "/page", 404}, {"GET", "/page/0123456789abcdef/app.js", 404},
		{"GET", path.Dir(at), 404}, {"GET", path.Dir(at) + "/../../web.go", 404}, {"GET", at + "/", 404}, {"GET", "/v1/tasks", 404}, {"GET", "/web.go", 404},
	} {
		answer := get(t, row.method, row.path)
		if answer.StatusCode != row.code || (row.code == 405) != (answer.Header.Get("Allow") == "GET, HEAD") {
			t.Errorf("%s %s: HTTP %d, want %d; Allow %q", row.method, row.path, answer.StatusCode, row.code, answer.Header.Get("Allow"))
		}
	}
}

// inPage finds what a file of the page says.
func inPage(t *testing.T, name string, what *regexp.Regexp) [][]string {
	t.Helper()
	text := must.Get(files.ReadFile("page/" + name))(t)
	return what.FindAllStringSubmatch(string(text), -1)
}

// TestStates: the page has a filter for each state of a task.
func TestStates(t *testing.T) {
	list := inPage(t, "task.js", regexp.MustCompile(`(?m)^export const states = \[(.*)\]$`))
	if len(list) != 1 {
		t.Fatalf("%d lists of states", len(list))
	}
	for number, name := range datamovev1.TaskState_name {
		state := datamovev1.TaskState(number)
		if state == datamovev1.TaskState_TASK_STATE_UNSPECIFIED {
			continue
		}
		if !strings.Contains(list[0][1], "'"+life.Word(state)+"'") {
			t.Errorf("the page does not know %s, %s", name, life.Word(state))
		}
	}
}
