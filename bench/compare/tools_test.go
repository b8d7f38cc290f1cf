package compare

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"datamove.dev/test/must"
)

// inPath puts programs of that name first in PATH, each a script of sh.
func inPath(t *testing.T, scripts map[string]string) {
	t.Helper()
	dir := t.TempDir()
	for name, does := range scripts {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+does+"\n"), 0o755))
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

// TestCommands: each tool is called as it is documented, with the options that its manual has; and no secret of the store is
// among the words of a call, which everybody on the machine can see.
func TestCommands(t *testing.T) {
	cores := fmt.Sprint(runtime.NumCPU())
	tree, file := dataset{files: 8, dirs: 1, bytes: 64 << 20}, dataset{files: 1, bytes: 1 << 30}
	local := func(d dataset) job {
		return job{source: "/a/source", target: "/a/target", folder: "/a/target", data: d, file: d.dirs == 0, scratch: "/a/scratch"}
	}
	toStore := func(d dataset) job {
		j := local(d)
		j.target, j.store = "s3://bench/run", &store{endpoint: "http://127.0.0.1:7070", root: "/a/store"}
		return j
	}
	fromStore := func(d dataset) job {
		j := local(d)
		j.source, j.store = "s3://bench/source", &store{endpoint: "http://127.0.0.1:7070", root: "/a/store"}
		return j
	}
	cold := local(tree)
	cold.cold = true
	for _, row := range []struct {
		tool string
		mpi  bool
		job  job
		want string
		env  string // a variable that it needs
	}{
		{"datamove", false, local(tree), "datamove copy -q SRC DST", "XDG_STATE_HOME=/a/scratch/state"},
		{"datamove", false, cold, "datamove copy -q --reflink never SRC DST", ""},
		{"datamove", false, toStore(tree), "datamove copy -q SRC DST", "AWS_ENDPOINT_URL_S3=http://127.0.0.1:7070"},
		{"rsync", false, local(tree), "rsync -a SRC/ DST", ""},
		{"rsync", false, local(file), "rsync -a SRC DST", ""},
		{"fpsync", false, local(tree), "fpsync -n " + cores + " -f 2000 -t TMP/fpsync SRC/ DST/", ""},
		{"s5cmd", false, fromStore(tree), "s5cmd --endpoint-url URL --log error cp SRC/* DST/", "AWS_REGION=us-east-1"},
		{"rclone", false, toStore(file), "rclone copyto --transfers 32 --checkers 32 --s3-no-check-bucket SRC store:DST", "RCLONE_CONFIG_STORE_TYPE=s3"},

		{"dcp", true, local(tree), "mpirun -np " + cores + " dcp --preserve SRC DST", "OMPI_ALLOW_RUN_AS_ROOT=1"},
		{"dcp", false, local(file), "dcp --preserve SRC DST", ""},
		{"juicefs", false, local(tree), "juicefs --quiet sync --dirs --perms SRC/ DST/", ""},
		{"juicefs", false, local(file), "juicefs --quiet sync --dirs --perms SRC DST", ""},
		{"juicefs", false, toStore(tree), "juicefs --quiet sync --threads 32 SRC/ minio://HOST/DST/", "MINIO_ACCESS_KEY=" + accessKey},
		{"juicefs", false, fromStore(file), "juicefs --quiet sync --threads 32 minio://HOST/SRC DST", "MINIO_SECRET_KEY=" + secretKey},

		{"elbencho", false, local(tree), "elbencho --mkdirs --write --read --threads 8 --dirs 1 --files 1 --size 67108864 --block 4m --direct --blockvarpct 100 " +
			"--nolive --csvfile TMP/elbencho.csv DST", ""},
		{"fio", false, local(tree), "fio --directory=DST --filename_format=f$jobnum --bs=4194304 --fallocate=none --create_on_open=1 --direct=1 --ioengine=psync --thread --numjobs=8 --size=67108864 --group_reporting " +
			"--output-format=json --output=TMP/fio.json --name=write --rw=write --refill_buffers --end_fsync=1 --name=read --rw=read --stonewall", ""},
		{"ior", true, local(tree), "mpirun -np 8 ior -a POSIX -w -r -e -F -k -l incompressible --posix.odirect -t 4m -b 67108864 -o DST/ior", "PRTE_ALLOW_RUN_AS_ROOT=1"},
		{"ior", false, local(tree), "ior -a POSIX -w -r -e -F -k -l incompressible --posix.odirect -t 4m -b 536870912 -o DST/ior", ""},
		{"warp", false, toStore(tree), "warp put --quiet --no-color --host HOST --region us-east-1 --bucket warp --obj.size 67108864 --concurrent 32 --duration 10s " +
			"--benchdata TMP/warp", "WARP_ACCESS_KEY=" + accessKey},
		{"warp", false, fromStore(tree), "warp get --quiet --no-color --host HOST --region us-east-1 --bucket warp --obj.size 67108864 --concurrent 32 --duration 10s " +
			"--benchdata TMP/warp --objects 8", "WARP_SECRET_KEY=" + secretKey},
	} {
		t.Setenv("PATH", t.TempDir())
		if row.mpi {
			inPath(t, map[string]string{"mpirun": "exit"})
		}
		tool := must.Get(toolNamed(row.tool))(t)
		program := "/opt/bin/" + row.tool
		c := tool.command(program, row.job)
		if got := c.shown(program, row.job); got != row.want {
			t.Errorf("%s\nwant %s", got, row.want)
		}
		if row.env != "" && !slices.Contains(c.env, row.env) {
			t.Errorf("%s: no %s in %q", row.tool, row.env, c.env)
		}
		if strings.Contains(strings.Join(c.args, " "), secretKey) {
			t.Errorf("%s: the secret is in %q", row.tool, c.args)
		}
	}
}

// TestPeers: what can be asked for is what can be found.
func TestPeers(t *testing.T) {
	names := Peers()
	for _, name := range names {
		if _, err := toolNamed(name); err != nil {
			t.Error(err)
		}
	}
	if slices.Contains(names, Ours) || !slices.Contains(names, "fio") || slices.Contains(names, "cp --reflink") {
		t.Errorf("%q", names)
	}
}

// TestAbsent: who is not installed is named, and who is asked for by name alone.
func TestAbsent(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	s := Scenario{Tools: []string{Ours, "elbencho", "fio", "ior", "cp"}}
	present, absent := lineUp(s, &house{datamove: "/bin/sh"}, Options{Peers: []string{"fio", "ior"}})
	if len(present) != 1 || !slices.Equal(absent, []string{"fio", "ior"}) {
		t.Errorf("%d are present, and not %q", len(present), absent)
	}
}

// TestVersions: a version is found in what each program says of itself.
func TestVersions(t *testing.T) {
	for _, row := range []struct{ tool, said, want string }{
		{"fio", "fio-3.33", "3.33"},
		{"elbencho", `elbencho\n * Version: 3.0-12\n * Net: 3001`, "3.0-12"},
		{"juicefs", "juicefs version 1.3.0+2025-07-03.30190ca", "1.3.0+2025-07-03.30190ca"},
		{"warp", "warp version v1.3.1 - (dev)", "1.3.1"},
		{"dd", `dd (coreutils) 9.1\nCopyright (C) 2022`, "9.1"},
	} {
		inPath(t, map[string]string{row.tool: "printf '" + row.said + "'"})
		tool, err := toolNamed(row.tool)
		must.Do(t, err)
		path, err := tool.find("")
		if got := tool.versionOf(path); err != nil || got != row.want {
			t.Errorf("%s is of version %q, want %q; %v", row.tool, got, row.want, err)
		}
	}
}
