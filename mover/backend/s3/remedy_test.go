package s3_test

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/s3"
	"datamove.dev/mover/backend/s3/s3api"
	"datamove.dev/mover/remedy"
	"datamove.dev/test/must"
)

// noise is what the clients say of a call, and no person wants to know.
var noise = regexp.MustCompile(`operation error|https? response error|StatusCode|RequestID|HostID|list-type=|Retry again|get identity`)

// TestKeysAreToldBySource: a refusal names what gave the keys and the tier that they are for, and never a key; keys that an agent gave are the agent's.
func TestKeysAreToldBySource(t *testing.T) {
	const id, secret = "AKIDOFOURS", "secretofours"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { errorDocument(w, 403, "AccessDenied") }))
	defer server.Close()
	lines := "AWS_ACCESS_KEY_ID=" + id + "\nAWS_SECRET_ACCESS_KEY=" + secret + "\n"
	file := filepath.Join(t.TempDir(), "cold.env")
	must.Do(t, os.WriteFile(file, []byte(lines), 0o600))
	shared := filepath.Join(t.TempDir(), "config")
	must.Do(t, os.WriteFile(shared, []byte("[profile lab]\naws_access_key_id="+id+"\naws_secret_access_key="+secret+"\n[default]\ncredential_process = echo '{\"Version\":1,\"AccessKeyId\":\""+id+"\",\"SecretAccessKey\":\""+secret+"\"}'\n"), 0o600))
	given := func(context.Context) (s3api.Keys, error) { return s3api.ParseKeys(lines) }
	for _, row := range []struct {
		options s3.Options
		env     bool
		want    string
	}{
		{s3.Options{}, true, ", with the keys of AWS_ACCESS_KEY_ID ("},
		{s3.Options{Tier: "cold"}, true, ", with the keys of AWS_ACCESS_KEY_ID for tier cold ("},
		{s3.Options{Tier: "cold", Credentials: "file:" + file}, true, ", with the keys of " + file + " for tier cold ("},
		{s3.Options{Credentials: "profile:lab"}, true, ", with the keys of profile lab ("},
		{s3.Options{}, false, ", with the keys of credential_process of profile default ("},
		{s3.Options{Tier: "cold", Credentials: "anonymous"}, true, ", without keys for tier cold: credentials: anonymous ("},
		{s3.Options{Tier: "cold", Credentials: "file:" + file, Renew: given}, true, ", with the keys of " + file + " for tier cold ("},
		{s3.Options{Tier: "cold", Credentials: "profile:lab", Renew: given}, true, ", with the keys of profile lab of the agent for tier cold ("},
		{s3.Options{Tier: "cold", Credentials: "env", Renew: given}, false, ", with the keys of AWS_ACCESS_KEY_ID of the agent for tier cold ("},
		{s3.Options{Tier: "cold", Renew: given}, true, ", with the keys of the agent for tier cold ("},
	} {
		t.Run(row.want, func(t *testing.T) {
			for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": id, "AWS_SECRET_ACCESS_KEY": secret} {
				if !row.env {
					value = ""
				}
				t.Setenv(name, value)
			}
			for name, value := range map[string]string{"AWS_PROFILE": "", "AWS_SESSION_TOKEN": "", "AWS_ENDPOINT_URL_S3": "", "AWS_CONFIG_FILE": shared, "AWS_SHARED_CREDENTIALS_FILE": shared + "-none", "AWS_EC2_METADATA_DISABLED": "true"} {
				t.Setenv(name, value)
			}
			row.options.Endpoint, row.options.Bucket, row.options.StateDir = server.URL, "bucket", t.TempDir()
			place, err := s3.Open(t.Context(), row.options)
			if err == nil {
				for _, err = range place.Walk(t.Context(), mover.WalkOptions{}) {
					if err != nil {
						break
					}
				}
				must.Do(t, place.Close())
			}
			if !errors.Is(err, mover.ErrPermission) || !strings.Contains(err.Error(), row.want) {
				t.Fatalf("%v, want %q", err, row.want)
			}
			if strings.Contains(err.Error(), id) || strings.Contains(err.Error(), secret) {
				t.Errorf("a key is in: %v", err)
			}
		})
	}
}

// TestOpenSaysWhy: an endpoint, keys or a profile that are wrong are told by the name of what says them, and are not tried again; both clients say the same.
func TestOpenSaysWhy(t *testing.T) {
	ok := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	hangsUp := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	code := func(status int, code string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { errorDocument(w, status, code) })
	}
	// An old store takes ListObjectsV2 for ListObjects: it says that there is more, and gives no token for it.
	cut := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `<ListBucketResult><IsTruncated>true</IsTruncated><NextMarker>a</NextMarker><Contents><Key>p/a</Key><Size>1</Size></Contents></ListBucketResult>`)
	})
	elsewhere := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `<Error><Code>AuthorizationHeaderMalformed</Code><Region>eu-north-1</Region></Error>`)
	})
	env := map[string]string{"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
	for _, row := range []struct {
		name    string
		server  http.Handler
		tls     bool
		scheme  string            // in place of the right one, or with a host in place of both
		env     map[string]string // beside the keys
		config  string            // the shared configuration file
		kind    error
		cause   string
		mention []string
	}{
		{"TLS to a server without it", ok, false, "https", nil, "", mover.ErrUsage, remedy.OtherScheme, []string{"AWS_ENDPOINT_URL_S3", "does not speak TLS"}},
		{"no TLS to a server of Go", ok, true, "http", nil, "", mover.ErrUsage, remedy.OtherScheme, []string{"AWS_ENDPOINT_URL_S3", "speaks TLS"}},
		{"a server that hangs up", hangsUp, false, "", nil, "", mover.ErrTransient, "", []string{"closed the connection"}},
		{"a server with a certificate of its own", ok, true, "", nil, "", mover.ErrUnreachable, remedy.Certificate, []string{"the endpoint https://127.0.0.1:", "(AWS_ENDPOINT_URL_S3)", "certificate signed by unknown authority"}},
		{"a certificate of another host", ok, true, "https://localhost", nil, "", mover.ErrUnreachable, remedy.OtherHost, []string{"the endpoint https://localhost:", "(AWS_ENDPOINT_URL_S3)", "certificate is valid for"}},
		{"a key that the store does not know", code(403, "InvalidAccessKeyId"), false, "", nil, "", mover.ErrPermission, "InvalidAccessKeyId", []string{"keys of AWS_ACCESS_KEY_ID"}},
		{"another secret", code(403, "SignatureDoesNotMatch"), false, "", nil, "", mover.ErrPermission, "SignatureDoesNotMatch", []string{"secret key"}},
		{"a token that has ended", code(400, "ExpiredToken"), false, "", nil, "", mover.ErrPermission, "ExpiredToken", []string{"expired"}},
		{"keys of a profile", code(403, "AccessDenied"), false, "", map[string]string{"AWS_ACCESS_KEY_ID": "", "AWS_PROFILE": "lab"}, "[profile lab]\naws_access_key_id=a\naws_secret_access_key=b\n", mover.ErrPermission, "AccessDenied", []string{"keys of profile lab"}},
		{"keys without their other half", ok, false, "", map[string]string{"AWS_SECRET_ACCESS_KEY": ""}, "", mover.ErrUsage, "", []string{"AWS_ACCESS_KEY_ID is set, and AWS_SECRET_ACCESS_KEY is not"}},
		{"no keys", ok, false, "", map[string]string{"AWS_ACCESS_KEY_ID": ""}, "", mover.ErrPermission, remedy.NoKeys, []string{"AWS_ACCESS_KEY_ID is not set", "profile default has no keys"}},
		{"no such profile", ok, false, "", map[string]string{"AWS_ACCESS_KEY_ID": "", "AWS_PROFILE": "lib"}, "[profile lab]\n", mover.ErrUsage, remedy.NoProfile, []string{"no profile lib (AWS_PROFILE)"}},
		{"a broken file", ok, false, "", map[string]string{"AWS_ACCESS_KEY_ID": ""}, "# ours\n[default\nregion = a\n", mover.ErrUsage, "", []string{"line 2 of "}},
		{"an endpoint of a profile", ok, false, "https", map[string]string{"AWS_ACCESS_KEY_ID": ""}, "[default]\naws_access_key_id=a\naws_secret_access_key=b\nendpoint_url = URL\n", mover.ErrUsage, remedy.OtherScheme, []string{"endpoint_url of profile default"}},
		{"another region", elsewhere, false, "", nil, "", mover.ErrUsage, remedy.OtherRegion, []string{"region eu-north-1"}},
		{"no such bucket", code(404, "NoSuchBucket"), false, "", nil, "", mover.ErrNotExist, "NoSuchBucket", []string{"bucket does not exist"}},
		{"no ListObjectsV2", code(501, "NotImplemented"), false, "", nil, "", mover.ErrUnsupported, "NotImplemented", []string{"ListObjectsV2"}},
		{"ListObjects for ListObjectsV2", cut, false, "", nil, "", mover.ErrUnsupported, "NotImplemented", []string{"ListObjectsV2", "continuation token"}},
	} {
		for _, client := range []string{s3api.ClientMinio, s3api.ClientAWS} {
			t.Run(row.name+" "+client, func(t *testing.T) {
				server := httptest.NewUnstartedServer(row.server)
				server.Config.ErrorLog = log.New(io.Discard, "", 0)
				if row.tls {
					server.StartTLS()
				} else {
					server.Start()
				}
				defer server.Close()
				endpoint := server.URL
				if _, port, _ := net.SplitHostPort(server.Listener.Addr().String()); strings.Contains(row.scheme, "://") {
					endpoint = row.scheme + ":" + port
				} else if row.scheme != "" {
					endpoint = row.scheme + "://127.0.0.1:" + port
				}
				files := filepath.Join(t.TempDir(), "config")
				must.Do(t, os.WriteFile(files, []byte(strings.ReplaceAll(row.config, "URL", endpoint)), 0o600))
				for _, name := range []string{"AWS_PROFILE", "AWS_CA_BUNDLE", "AWS_SESSION_TOKEN", "AWS_REGION", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"} {
					t.Setenv(name, "")
				}
				if !strings.Contains(row.config, "URL") {
					t.Setenv("AWS_ENDPOINT_URL_S3", endpoint)
				}
				t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
				t.Setenv("AWS_CONFIG_FILE", files)
				t.Setenv("AWS_SHARED_CREDENTIALS_FILE", files+"-none")
				for _, set := range []map[string]string{env, row.env} {
					for name, value := range set {
						t.Setenv(name, value)
					}
				}
				place, err := s3.Open(t.Context(), s3.Options{Bucket: "bucket", Prefix: "p", Client: client, StateDir: t.TempDir()})
				if err == nil { // what only a listing meets
					for _, err = range place.Walk(t.Context(), mover.WalkOptions{}) {
						if err != nil {
							break
						}
					}
					must.Do(t, place.Close())
				}
				var in *mover.Error
				if !errors.Is(err, row.kind) || !errors.As(err, &in) || noise.MatchString(err.Error()) {
					t.Fatalf("%v", err)
				}
				if final := row.kind != mover.ErrTransient; final == errors.Is(err, mover.ErrTransient) {
					t.Errorf("tried again: %v", err)
				}
				if c := remedy.Of(err, row.kind); c.Cause != row.cause || c.Backend != remedy.S3 || c.Operation == "" {
					t.Errorf("%+v: %v", c, err)
				}
				for _, part := range row.mention {
					if !strings.Contains(err.Error(), part) {
						t.Errorf("%q is not in: %v", part, err)
					}
				}
			})
		}
	}
}
