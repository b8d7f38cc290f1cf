package main

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/s3"
	"datamove.dev/mover/backend/s3/s3api"
	"datamove.dev/mover/checksum"
	"datamove.dev/test/must"
	_ "datamove.dev/test/seed/property" // of rapid
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func content(t interface {
	Helper()
	Fatal(args ...any)
}, o object, off, n int64) []byte {
	var b bytes.Buffer
	must.Do(t, o.write(&b, off, n))
	if int64(b.Len()) != n {
		t.Fatal("it wrote ", b.Len(), " of ", n)
	}
	return b.Bytes()
}

// TestContent: an object is the same whichever way it is read, its checksum is
// that of its bytes, and no part of it is like another one.
func TestContent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := newObject(rapid.StringMatching(`[0-9]{3}`).Draw(t, "key"), rapid.Int64Range(0, 5*pageBytes).Draw(t, "size"))
		all := content(t, o, 0, o.size)
		if got := checksum.Update(0, all); got != o.crc() {
			t.Fatalf("the checksum is %x, and it says %x", got, o.crc())
		}
		off := rapid.Int64Range(0, o.size).Draw(t, "off")
		n := rapid.Int64Range(0, o.size-off).Draw(t, "n")
		if !bytes.Equal(content(t, o, off, n), all[off:off+n]) {
			t.Fatal("a range has other bytes than the whole")
		}
	})
	const part = 8 << 20
	o := newObject("000/00000.bin", 1<<40)
	first := content(t, o, 0, part)
	for i := range int64(64) {
		if i > 0 && bytes.Equal(content(t, o, i*part, 64), first[:64]) {
			t.Errorf("part %d begins as the first one", i)
		}
	}
	packer := must.Get(zstd.NewWriter(nil, zstd.WithWindowSize(1<<19), zstd.WithEncoderConcurrency(1)))(t)
	defer packer.Close()
	if packed := packer.EncodeAll(first[:1<<19], nil); len(packed) < 1<<19 {
		t.Errorf("half a megabyte is compressed to %d bytes", len(packed))
	}
	if other := newObject("000/00001.bin", 1<<40); bytes.Equal(content(t, other, 0, 64), first[:64]) {
		t.Error("two objects begin alike")
	}
}

// TestContentGolden: the bytes are the same in every version of this program.
func TestContentGolden(t *testing.T) {
	o := newObject("007/00042.bin", 100<<20)
	if got := fmt.Sprintf("%x %016x", content(t, o, 1<<20, 16), o.crc()); got != "d23361cd5c9fe04916fa4da7c1ac9bf1 54dcef58cc39fbda" {
		t.Errorf("it is %s now", got)
	}
}

func serve(t *testing.T, b bucket) string {
	t.Helper()
	must.Do(t, b.check())
	server := httptest.NewServer(newStore(b))
	t.Cleanup(server.Close)
	return server.URL
}

func get(t *testing.T, method, url string, header ...string) (*http.Response, []byte) {
	t.Helper()
	req := must.Get(http.NewRequestWithContext(t.Context(), method, url, nil))(t)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp := must.Get(http.DefaultTransport.RoundTrip(req))(t)
	defer resp.Body.Close()
	body := must.Get(io.ReadAll(resp.Body))(t)
	return resp, body
}

func TestAnswers(t *testing.T) {
	t.Cleanup(http.DefaultTransport.(*http.Transport).CloseIdleConnections)
	at := serve(t, bucket{"pages", 2, 3, 3_000_000})
	o := newObject("001/00002.bin", 3_000_000)
	for _, c := range []struct {
		method, path string
		header       []string
		status       int
		off, n       int64 // of the body that is wanted, if status is 200 or 206
	}{
		{"GET", "/pages/001/00002.bin", nil, 200, 0, 3_000_000},
		{"HEAD", "/pages/001/00002.bin", nil, 200, 0, 0},
		{"GET", "/pages/001/00002.bin", []string{"Range", "bytes=5-9"}, 206, 5, 5},
		{"GET", "/pages/001/00002.bin", []string{"Range", "bytes=2999990-"}, 206, 2_999_990, 10},
		{"GET", "/pages/001/00002.bin", []string{"Range", "bytes=2999990-9999999"}, 206, 2_999_990, 10},
		{"GET", "/pages/001/00002.bin", []string{"Range", "bytes=-7"}, 206, 2_999_993, 7},
		{"GET", "/pages/001/00002.bin", []string{"Range", "bytes=-9999999"}, 206, 0, 3_000_000},
		{"GET", "/pages/001/00002.bin", []string{"Range", "bytes=3000000-"}, 416, 0, 0},
		{"GET", "/pages/001/00002.bin", []string{"Range", "bytes=9-5"}, 416, 0, 0},
		{"GET", "/pages/001/00002.bin", []string{"Range", "bytes=-0"}, 416, 0, 0},
		{"GET", "/pages/001/00002.bin", []string{"Range", "bytes=0-1,5-6"}, 416, 0, 0},
		{"GET", "/pages/001/00002.bin", []string{"Range", "lines=0-1"}, 416, 0, 0},
		{"GET", "/pages/001/00002.bin", []string{"If-Match", `"` + o.etag + `"`}, 200, 0, 3_000_000},
		{"GET", "/pages/001/00002.bin", []string{"If-Match", `"0000"`}, 412, 0, 0},
		{"GET", "/pages/001/00003.bin", nil, 404, 0, 0},
		{"GET", "/pages/1/2.bin", nil, 404, 0, 0},
		{"GET", "/pages/-01/00002.bin", nil, 404, 0, 0},
		{"GET", "/pages/001/00002", nil, 404, 0, 0},
		{"GET", "/others/001/00002.bin", nil, 404, 0, 0},
		{"GET", "/", nil, 404, 0, 0},
		{"HEAD", "/pages", nil, 200, 0, 0},
		{"GET", "/pages?list-type=1", nil, 501, 0, 0},
		{"PUT", "/pages/001/00002.bin", nil, 405, 0, 0},
		{"POST", "/pages/001/00002.bin?uploads", nil, 405, 0, 0},
		{"DELETE", "/pages/001/00002.bin", nil, 405, 0, 0},
	} {
		what := fmt.Sprint(c.method, " ", c.path, " ", c.header)
		resp, body := get(t, c.method, at+c.path, c.header...)
		if resp.StatusCode != c.status {
			t.Errorf("%s: %d, want %d", what, resp.StatusCode, c.status)
			continue
		}
		if c.n > 0 && !bytes.Equal(body, content(t, o, c.off, c.n)) {
			t.Errorf("%s: other bytes", what)
		}
		if want := fmt.Sprintf("bytes %d-%d/3000000", c.off, c.off+c.n-1); c.status == 206 && resp.Header.Get("Content-Range") != want {
			t.Errorf("%s: Content-Range %q, want %q", what, resp.Header.Get("Content-Range"), want)
		}
	}
	resp, _ := get(t, "HEAD", at+"/pages/001/00002.bin", "X-Amz-Checksum-Mode", "ENABLED")
	want := base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint64(nil, checksum.Update(0, content(t, o, 0, o.size))))
	if h := resp.Header; h.Get("X-Amz-Checksum-Crc64nvme") != want || h.Get("X-Amz-Checksum-Type") != "FULL_OBJECT" || h.Get("Content-Length") != "3000000" {
		t.Errorf("HEAD tells %v", h)
	}
}

// TestList pages through the keys, in every way that a client may ask for them.
func TestList(t *testing.T) {
	t.Cleanup(http.DefaultTransport.(*http.Transport).CloseIdleConnections)
	at := serve(t, bucket{"pages", 12, 7, 10})
	for _, c := range []struct {
		query url.Values
		want  int // keys and prefixes
		first string
	}{
		{url.Values{}, 84, "000/00000.bin"},
		{url.Values{"prefix": {"01"}}, 14, "010/00000.bin"},
		{url.Values{"prefix": {"003/"}}, 7, "003/00000.bin"},
		{url.Values{"prefix": {"003/00004.bin"}}, 1, "003/00004.bin"},
		{url.Values{"prefix": {"x"}}, 0, ""},
		{url.Values{"start-after": {"011/00004.bin"}}, 2, "011/00005.bin"},
		{url.Values{"start-after": {"011/"}}, 7, "011/00000.bin"},
		{url.Values{"delimiter": {"/"}}, 12, "000/"},
		{url.Values{"delimiter": {"/"}, "prefix": {"00"}}, 10, "000/"},
		{url.Values{"delimiter": {"/"}, "prefix": {"003/"}}, 7, "003/00000.bin"},
	} {
		for _, keys := range []string{"1", "5", "1000"} {
			c.query.Set("list-type", "2")
			c.query.Set("max-keys", keys)
			c.query.Del("continuation-token")
			var got []string
			for more := true; more; {
				_, body := get(t, "GET", at+"/pages?"+c.query.Encode())
				var l listing
				must.Do(t, xml.Unmarshal(body, &l))
				for _, o := range l.Contents {
					got = append(got, o.Key)
				}
				for _, p := range l.CommonPrefixes {
					got = append(got, p.Prefix)
				}
				more = l.IsTruncated && len(got) < 100
				c.query.Set("continuation-token", l.NextContinuationToken)
			}
			if len(got) != c.want || !slices.IsSorted(got) || c.want > 0 && got[0] != c.first || len(slices.Compact(got)) != c.want {
				t.Errorf("%v: %d names, %q", c.query, len(got), got)
			}
		}
	}
	_, body := get(t, "GET", at+"/pages?list-type=2&max-keys=0")
	if strings.Contains(string(body), "<IsTruncated>true") {
		t.Error("no keys were asked for, and there are said to be more")
	}
}

// TestOurMoverReads opens the bucket as a place, with both clients.
func TestOurMoverReads(t *testing.T) {
	at := serve(t, bucket{"pages", 3, 4, 300_000})
	for _, client := range []string{s3api.ClientMinio, s3api.ClientAWS} {
		place, err := s3.Open(t.Context(), s3.Options{Endpoint: at, Bucket: "pages", Prefix: "001", Region: "us-east-1", Credentials: "anonymous",
			PathStyle: new(true), Client: client, StateDir: t.TempDir()})
		if err != nil {
			t.Fatalf("%s: %v", client, err)
		}
		names := 0
		for e, err := range place.Walk(t.Context(), mover.WalkOptions{}) {
			if err != nil {
				t.Fatalf("%s: %v", client, err)
			}
			names++
			compare(t, place, e)
		}
		if names != 4 {
			t.Errorf("%s: there are %d names", client, names)
		}
		must.Tell(t, place.Close())
	}
}

// compare reads an entry, whole and in part.
func compare(t *testing.T, place mover.Source, e mover.Entry) {
	t.Helper()
	c := must.Get(place.Open(t.Context(), e))(t)
	defer c.Close()
	o := newObject("001/"+e.Name, e.Size)
	if !c.Entry().Known.Has(mover.FactCRC) || c.Entry().CRC != o.crc() {
		t.Errorf("%s: the checksum is not told, or another one", e.Name)
	}
	for _, part := range []mover.Part{{Off: 0, Length: e.Size}, {Off: 123_456, Length: 7}} {
		r, err := c.Range(t.Context(), part.Off, part.Length)
		must.Do(t, err)
		got, err := io.ReadAll(r)
		if err != nil || !bytes.Equal(got, content(t, o, part.Off, part.Length)) {
			t.Errorf("%s: other bytes at %d: %v", e.Name, part.Off, err)
		}
		must.Tell(t, r.Close())
	}
	must.Tell(t, c.Check(t.Context()))
}

// TestUsage: a bucket that can not be is refused, and a server ends by itself.
func TestUsage(t *testing.T) {
	for _, args := range [][]string{{"-folders", "0"}, {"-folders", "1001"}, {"-objects", "-1"}, {"-bytes", "-1"}, {"-bucket", "a/b"}, {"-listen", "nowhere:at:all"}} {
		if err := run(t.Context(), args, io.Discard); err == nil {
			t.Errorf("%v is taken", args)
		}
	}
	var out bytes.Buffer
	if err := run(t.Context(), []string{"-for", "1ms"}, &out); err != nil || !strings.HasSuffix(out.String(), "\nready\n") {
		t.Errorf("%v, %q", err, out.String())
	}
}

func BenchmarkLoopback(b *testing.B) {
	server := httptest.NewServer(newStore(bucket{"pages", 1, 1, 64 << 20}))
	defer server.Close()
	b.SetBytes(64 << 20)
	for b.Loop() {
		resp, err := http.Get(server.URL + "/pages/000/00000.bin")
		must.Do(b, err)
		_, err = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		must.Do(b, err)
	}
}
