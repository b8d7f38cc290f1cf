package s3_test

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/backendtest"
	"datamove.dev/mover/backend/s3/s3api"
	"datamove.dev/mover/backend/s3/s3test"
	"datamove.dev/mover/engine"
	"datamove.dev/test/must"
)

// TestRequestsOfCopies: an object that the store copies by itself is asked for once, without its content, and copied.
func TestRequestsOfCopies(t *testing.T) {
	if os.Getenv("DATAMOVE_E2E_S3") != "" {
		t.Skip("other stores may not count tags, or not copy on a condition")
	}
	const objects = 200
	for _, client := range []string{s3api.ClientMinio, s3api.ClientAWS} {
		one := openShop(t, client)
		base := strings.Trim(one.o.Prefix, "/")
		for i := range objects {
			one.put(fmt.Sprintf("%s/from/f%03d", base, i), []byte("x"))
		}
		var mu sync.Mutex
		asked := map[string]int{} // guarded by mu
		one.o.Endpoint = s3test.Around(t, one.server, func(store http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.Contains(r.URL.Path, "/from/f") || strings.Contains(r.URL.Path, "/to/f") {
					what := r.Method
					if r.URL.Query().Has("tagging") {
						what += " tags"
					}
					if r.Header.Get("X-Amz-Copy-Source") != "" {
						what = "COPY"
					}
					mu.Lock()
					asked[what]++
					mu.Unlock()
				}
				store.ServeHTTP(w, r)
			})
		})
		report := must.Get(run(t, engine.Request{Work: engine.Copy, Jobs: 4}, "s3://shop/"+base+"/from/", "s3://shop/"+base+"/to", map[string]shop{"shop": one}))(t)
		if n := asked["GET"] + asked["HEAD"]; asked["GET"] > objects/10 || n > objects || asked["COPY"] != objects || asked["GET tags"] > objects {
			t.Errorf("%s: asked for %v", client, asked)
		}
		if report.Levels[mover.Cloned] != objects {
			t.Errorf("%s: %+v", client, report.Levels)
		}
	}
}

// TestChangedBeforeCopy: an object that changes between the look at it and its copy by the store is looked at and copied once more.
//
//safety:4 with mover/backend/mem TestChangesUnderneathAreNoticed
func TestChangedBeforeCopy(t *testing.T) {
	for _, client := range []string{s3api.ClientMinio, s3api.ClientAWS} {
		one := openShop(t, client)
		base := strings.Trim(one.o.Prefix, "/")
		one.put(base+"/from/f", []byte("before"))
		one.put(base+"/from/g", []byte("other"))
		var once sync.Once
		one.o.Endpoint = s3test.Around(t, one.server, func(store http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("X-Amz-Copy-Source") != "" && strings.HasSuffix(r.URL.Path, "/to/f") {
					once.Do(func() { one.put(base+"/from/f", []byte("afterwards")) })
				}
				store.ServeHTTP(w, r)
			})
		})
		report, err := run(t, engine.Request{Work: engine.Copy}, "s3://shop/"+base+"/from/", "s3://shop/"+base+"/to", map[string]shop{"shop": one})
		if err != nil || report.Files != 2 {
			t.Errorf("%s: %+v, %v", client, report, err)
		}
		one.o.Prefix = base + "/to"
		if got := string(backendtest.Read(t, s3test.Open(t, one.o), "f")); got != "afterwards" {
			t.Errorf("%s: it is %q", client, got)
		}
	}
}
