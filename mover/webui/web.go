// Package webui is the page that shows an operator what a service does: tasks with
// their progress and rates, agents, tiers, datasets.
//
// It owns the files below page, which are in the binary, and [Handler], which serves
// them. The page is HTML, CSS and JavaScript modules as they are written: no build
// step, no library, nothing from elsewhere. In the browser it asks the JSON side of
// the API, which the same listener has to serve below /v1. It has the permissions of the user
// of the browser, and connects to no other server.
//
// Promises:
//
//   - The figures are those of the API, printed as the command line prints them; a
//     figure that is old says how old.
//   - Text from outside is shown as text, and what can not be printed is escaped. The
//     browser is told to run nothing but our own files, whatever gets into the page.
//   - Lists have a bound, in memory and, much lower, in rows that the browser lays out.
//   - A page is of one version: its files are named by a digest of them all. They may be
//     kept for ever, and the entry is asked for anew each time.
//
// A Handler keeps nothing and may serve many requests at once. The listener decides which clients may connect,
// and the gateway beside it which host names are accepted.
//
// TestFiles looks at the files, TestHeaders at what is served. test/system/browser looks
// at the page in Chromium: TestModules calls its functions, TestViews compares what it
// shows with the API, TestHostileNames is what its name says, TestProgram is in front of
// the real program, TestManyTasks is a list of 100,000.
package webui

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"
)

//go:embed page
var files embed.FS

// types are the files that a page may consist of.
var types = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// file is one answer.
type file struct {
	kind  string
	body  []byte
	tag   string
	cache string
}

const (
	entry   = "index.html"
	version = "{version}" // in the entry, where the digest of the files belongs
	prefix  = "/page/"    // of the paths of the files, which go on with the digest

	anew    = "no-cache" // a copy may be kept, and is asked about before each use
	forever = "public, max-age=31536000, immutable"
)

// Handler serves the page at / and its files below /page/. It belongs beside the
// gateway, which has all other paths:
//
//	mux.Handle("/{$}", web.Handler())
//	mux.Handle("/page/", web.Handler())
//	mux.Handle("/", gateway)
func Handler() http.Handler {
	served, err := load(files)
	if err != nil {
		panic(err) // what is in the binary does not change: TestFiles has loaded it
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		protect(w.Header())
		f, found := served[r.URL.Path]
		switch {
		case !found:
			http.Error(w, "there is no such page", http.StatusNotFound)
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "this is a page: it can only be read", http.StatusMethodNotAllowed)
		default:
			f.serve(w, r)
		}
	})
}

// load makes the answers, by path.
func load(from fs.FS) (map[string]file, error) {
	names, err := fs.Glob(from, "page/*")
	if err != nil {
		return nil, err
	}
	bodies, all := map[string][]byte{}, sha256.New()
	for _, name := range names { // in order
		body, err := fs.ReadFile(from, name)
		if err != nil {
			return nil, err
		}
		bodies[path.Base(name)] = body
		fmt.Fprintf(all, "%s %d\n%s", path.Base(name), len(body), body)
	}
	digest := hex.EncodeToString(all.Sum(nil))[:16]
	served := map[string]file{}
	for name, body := range bodies {
		kind, known := types[path.Ext(name)]
		if !known {
			return nil, fmt.Errorf("page/%s: no type is known for it", name)
		}
		if name == entry {
			body = bytes.ReplaceAll(body, []byte(version), []byte(digest))
			served["/"] = file{kind, body, tag(body), anew}
			continue
		}
		served[prefix+digest+"/"+name] = file{kind, body, tag(body), forever}
	}
	return served, nil
}

func tag(body []byte) string {
	sum := sha256.Sum256(body)
	return `"` + hex.EncodeToString(sum[:12]) + `"`
}

func (f file) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", f.kind)
	h.Set("Cache-Control", f.cache)
	h.Set("ETag", f.tag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.body))
}

// policy lets a browser run and show nothing but our own files, not even what stands
// in the page itself, and makes it refuse to read a text as HTML.
var policy = strings.Join([]string{
	"default-src 'self'",
	"object-src 'none'",
	"base-uri 'none'",
	"form-action 'none'",
	"frame-ancestors 'none'",
	"require-trusted-types-for 'script'",
	"trusted-types 'none'",
}, "; ")

func protect(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}
