package jobenv

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/mover/config"
	"datamove.dev/test/must"
	"datamove.dev/tiering/slurm/directive"
)

// world is a machine with an NVMe and a file system that others see.
func world(t *testing.T, files ...string) (dir string, c *config.Config) {
	t.Helper()
	dir = t.TempDir()
	for _, file := range append(files, "nvme/.there", "pfs/.there") {
		file = filepath.Join(dir, file)
		must.Do(t, errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte("x"), 0o644)))
	}
	return dir, &config.Config{Tiers: map[string]config.Tier{
		"scratch": {Level: "hot", Path: filepath.Join(dir, "nvme"), Ephemeral: true, NodeLocal: true},
		"project": {Level: "warm", Path: filepath.Join(dir, "pfs")},
		"cloud":   {Level: "cold", S3: &config.S3{Bucket: "burst"}},
	}}
}

// TestVariables: what a script asks for, and what it finds.
func TestVariables(t *testing.T) {
	for _, c := range []struct {
		what, asks string
		files      []string
		want       map[string]string // within DIR
		kind       error
	}{
		{"nothing", "", nil, map[string]string{"DATAMOVE_DIR": "DIR/nvme/run", "DATAMOVE_HOT": "1", "DATAMOVE_RESUME": ""}, nil},
		{"data that all see", "stage-in=project:imagenet to=scratch:imagenet", []string{"pfs/imagenet/a"},
			map[string]string{"DATAMOVE_DIR": "DIR/nvme/run", "DATAMOVE_HOT": "0", "DATAMOVE_IN_IMAGENET": "DIR/pfs/imagenet", "DATAMOVE_WARM_IMAGENET": "DIR/pfs/imagenet", "DATAMOVE_RESUME": ""}, nil},
		{"data that is here", "stage-in=project:imagenet to=scratch:imagenet required", []string{"nvme/run/imagenet/a", "pfs/imagenet/a"},
			map[string]string{"DATAMOVE_DIR": "DIR/nvme/run", "DATAMOVE_HOT": "1", "DATAMOVE_IN_IMAGENET": "DIR/nvme/run/imagenet", "DATAMOVE_WARM_IMAGENET": "DIR/pfs/imagenet", "DATAMOVE_RESUME": ""}, nil},
		{"data that is nowhere", "stage-in=cloud:imagenet to=scratch:imagenet", nil,
			map[string]string{"DATAMOVE_DIR": "DIR/nvme/run", "DATAMOVE_HOT": "0", "DATAMOVE_IN_IMAGENET": "", "DATAMOVE_WARM_IMAGENET": "", "DATAMOVE_RESUME": ""}, nil},
		{"and required", "stage-in=cloud:imagenet to=scratch:imagenet required", nil, nil, mover.ErrNotExist},
		{"checkpoints", "checkpoint=scratch:ckpt to=cloud:run1,project:run1 profile=dcp", []string{"pfs/run1/step_7/__0_0.distcp", "pfs/run1/step_7/.metadata", "pfs/run1/step_8/__0_0.distcp"},
			map[string]string{"DATAMOVE_DIR": "DIR/nvme/run", "DATAMOVE_HOT": "1", "DATAMOVE_CHECKPOINT": "DIR/nvme/run/ckpt", "DATAMOVE_CHECKPOINT_CKPT": "DIR/nvme/run/ckpt",
				"DATAMOVE_SAVED_CKPT": "DIR/pfs/run1", "DATAMOVE_PROFILE_CKPT": "dcp", "DATAMOVE_RESUME": "DIR/pfs/run1/step_7", "DATAMOVE_RESUME_CKPT": "DIR/pfs/run1/step_7"}, nil},
		{"a mistake", "stage-in=nowhere:x to=scratch:x", nil, nil, mover.ErrUsage},
		{"out of the directory", "stage-in=project:x to=scratch:../../x", nil, nil, mover.ErrUsage},
	} {
		t.Run(c.what, func(t *testing.T) {
			dir, conf := world(t, c.files...)
			job := &Job{Config: conf, Values: directive.Values{Job: "run"}}
			text := directive.Text{Script: "#!/bin/sh\n"}
			if c.asks != "" {
				text.Script += "#DATAMOVE " + c.asks + "\n"
			}
			vars, err := job.Variables(t.Context(), text)
			if !errors.Is(err, c.kind) || (err == nil) != (c.kind == nil) {
				t.Fatalf("%v", err)
			}
			got := map[string]string{}
			for _, v := range vars {
				got[v[0]] = strings.ReplaceAll(v[1], dir, "DIR")
			}
			if err == nil && !maps.Equal(got, c.want) {
				t.Errorf("%v\nwant %v", got, c.want)
			}
		})
	}
}

// TestTold: what a hook has told holds, and what it could not know is added.
func TestTold(t *testing.T) {
	dir, conf := world(t, "pfs/imagenet/a")
	told := map[string]string{"DATAMOVE_DIR": filepath.Join(dir, "nvme/jobs/1.7"), "DATAMOVE_HOT": "1", "DATAMOVE_CHECKPOINT_CKPT": "/ckpt", "DATAMOVE_CHECKPOINT": "/ckpt"}
	job := &Job{Config: conf, Values: directive.Values{Job: "run"}, Told: func(name string) string { return told[name] }}
	vars, err := job.Variables(t.Context(), directive.Text{Script: "#!/bin/sh\n#DATAMOVE stage-in=project:imagenet to=scratch:imagenet\n#DATAMOVE checkpoint=scratch:ckpt to=project:run1\n"})
	must.Do(t, err)
	at := filepath.Join(dir, "pfs/imagenet")
	if want := [][2]string{{"DATAMOVE_IN_IMAGENET", at}, {"DATAMOVE_RESUME", ""}, {"DATAMOVE_WARM_IMAGENET", at}}; !slices.Equal(vars, want) {
		t.Errorf("%v", vars)
	}
	if _, err := os.Stat(filepath.Join(dir, "nvme/run")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("another directory: %v", err)
	}
}

// TestNames: a job's name is one directory below the scratch tier, and nothing else.
func TestNames(t *testing.T) {
	for _, name := range []string{"", ".", "..", "a/b", "a\nb"} {
		dir, conf := world(t)
		job := &Job{Config: conf, Values: directive.Values{Job: name}}
		if _, err := job.Variables(t.Context(), directive.Text{Script: "#!/bin/sh\n"}); !errors.Is(err, mover.ErrUsage) {
			t.Errorf("%q: %v", name, err)
		}
		if entries, err := os.ReadDir(filepath.Join(dir, "nvme")); err != nil || len(entries) != 1 {
			t.Errorf("%q: %v, %v", name, entries, err)
		}
	}
}
