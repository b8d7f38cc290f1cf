package s3api

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/smithy-go/logging"

	"datamove.dev/mover"
	"datamove.dev/mover/remedy"
	"datamove.dev/test/must"
)

// TestLogOfSDK: what the AWS SDK tells while it looks for keys goes to our log, at its level, and not to stderr; without a log it goes nowhere.
func TestLogOfSDK(t *testing.T) {
	dir := t.TempDir()
	for name, value := range map[string]string{
		accessVariable: "", secretVariable: "", profileVariable: "", "AWS_CONFIG_FILE": filepath.Join(dir, "config"), "AWS_SHARED_CREDENTIALS_FILE": filepath.Join(dir, "keys"),
		"AWS_CA_BUNDLE": "", "AWS_ENDPOINT_URL": "", "AWS_ENDPOINT_URL_S3": "",
	} {
		t.Setenv(name, value)
	}
	stderr := os.Stderr
	defer func() { os.Stderr = stderr }()
	os.Stderr = must.Get(os.Create(filepath.Join(dir, "stderr")))(t)
	defer os.Stderr.Close()
	var said bytes.Buffer
	for _, o := range []*Options{{Logger: slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelDebug}))}, {}} {
		env, err := o.ambient(t.Context(), nil)
		must.Do(t, err)
		env.loaded.Logger.Logf(logging.Warn, "falling back to %s", "IMDSv1")
	}
	if got := said.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, `level=DEBUG msg="falling back to IMDSv1"`) {
		t.Errorf("our log has %q", got)
	}
	if text := must.Get(os.ReadFile(filepath.Join(dir, "stderr")))(t); len(text) > 0 {
		t.Errorf("stderr has %q", text)
	}
}

// TestKeyFileNotReadable: a file of keys that can not be read has a remedy of its own, whether it is denied or not there; more rights at the store are none.
func TestKeyFileNotReadable(t *testing.T) {
	_, err := (&keyFile{path: filepath.Join(t.TempDir(), "none")}).Retrieve(t.Context())
	var told *caused
	if !errors.As(err, &told) || told.Cause() != remedy.NoKeyFile || !errors.Is(err, mover.ErrNotExist) {
		t.Errorf("not there: %v", err)
	}
	_, err = (&keyFile{path: t.TempDir()}).Retrieve(t.Context())
	if !errors.As(err, &told) || told.Cause() != remedy.NoKeyFile {
		t.Errorf("no file that can be read: %v", err)
	}
}
