package cli

import (
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"datamove.dev/test/must"
	"datamove.dev/tiering/burst"
	"datamove.dev/tiering/burst/link"
)

// TestLimitsOfBursts: a command that moves by itself is held to what the configuration allows at the bucket, in the direction in which it moves.
//
//safety:aws with mover/coordinator TestLimitsOfBursts
func TestLimitsOfBursts(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	err := os.WriteFile(file, []byte(`tiers:
  aws: {level: cold, s3: {bucket: overflow, region: us-east-1, credentials: env}}
limits:
  - {endpoint: aws, direction: write, rate: 2MB/s}
  - {endpoint: "s3://overflow", direction: read, rate: 3MB/s}
  - {endpoint: "s3://other", rate: 1kB/s}
  - {endpoint: aws, ops: 5}
`), 0o600)
	must.Do(t, err)
	all, err := burst.Read("test", []byte(`kind: Burst
metadata: {name: llama}
spec:
  team: vision
  job: {kind: training, priority: high, gpus: 64, startsIn: 9h}
  cloud: {tier: aws, region: us-east-1}
  link: {kind: directConnect, rate: 10Gbit/s}
  lasts: 30h
  data: [{from: /data, to: data}]
`))
	must.Do(t, err)
	for _, row := range []struct {
		comes     bool
		own, want int64
	}{{false, 0, 2e6}, {true, 0, 3e6}, {true, 1e6, 1e6}, {false, 5e6, 2e6}} {
		u := &bursts{app: &app{configFile: file, err: io.Discard, env: func(string) string { return "" }}, comes: row.comes, limit: row.own}
		if u.conf, err = u.config(); err != nil {
			t.Fatal(err)
		}
		at := must.Get(u.tier(all[0]))(t)
		if r, err := u.rates(at); err != nil || r.At(time.Now()) != row.want {
			t.Errorf("%+v: %v, %v", row, r, err)
		}
		l := must.Get(u.leg(t.Context(), all[0], nil))(t)
		if w, is := l.Way.(*link.Link); !is || w.Request.Limiter == nil {
			t.Errorf("%+v: nothing holds the way back", row)
		}
	}
}
