package compare

import (
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"datamove.dev/bench/hardware"
)

// Load generators write as many bytes as the source has, then read them, in files of their own. What they write is not
// compressible. Those that take a while to start say themselves how long both took; see took.go.

func elbencho(program string, j job) command {
	results := filepath.Join(j.scratch, "elbencho.csv")
	c := call(program, "--mkdirs", "--write", "--read", "--threads", strconv.Itoa(j.data.files), "--dirs", "1", "--files", "1",
		"--size", strconv.FormatInt(j.data.bytes, 10), "--block", "4m", "--direct", "--blockvarpct", "100", "--nolive", "--csvfile", results, j.target)
	c.folder = true
	c.took = func() (time.Duration, error) { return tookElbencho(results) }
	return c
}

func fio(program string, j job) command {
	report := filepath.Join(j.scratch, "fio.json")
	c := call(program, "--directory="+j.target, "--filename_format=f$jobnum", fmt.Sprintf("--bs=%d", j.data.block()), "--fallocate=none", "--create_on_open=1", "--direct=1", "--ioengine=psync", "--thread",
		fmt.Sprintf("--numjobs=%d", j.data.files), fmt.Sprintf("--size=%d", j.data.bytes), "--group_reporting", "--output-format=json", "--output="+report,
		"--name=write", "--rw=write", "--refill_buffers", "--end_fsync=1", "--name=read", "--rw=read", "--stonewall")
	c.env = []string{hardware.HugePages("fio")}
	c.folder = true
	c.took = func() (time.Duration, error) { return tookFio(report, j.data.total()) }
	return c
}

// ourLoad is our own one, with the same pattern as fio.
func ourLoad(program string, j job) command {
	record := filepath.Join(j.scratch, "run.json")
	c := call(program, "run", "-q", "--keep", "--suite", "large", "--phases", "write,read", fmt.Sprintf("--ranks=%d", j.data.files),
		fmt.Sprintf("--size=%d", j.data.bytes), fmt.Sprintf("--block=%d", j.data.block()), "--save", record, j.target)
	c.folder = true
	c.took = func() (time.Duration, error) { return tookOurs(record, j.data.total()) }
	return c
}

// ior has a file for each of its processes, and one process where nothing launches more.
func ior(program string, j job) command {
	launcher, each := mpirun(), j.data.bytes
	if launcher == "" {
		each = j.data.total()
	}
	c := ranks(launcher, j.data.files, program, "-a", "POSIX", "-w", "-r", "-e", "-F", "-k", "-l", "incompressible", "--posix.odirect",
		"-t", "4m", "-b", strconv.FormatInt(each, 10), "-o", filepath.Join(j.target, "ior"))
	c.folder = true
	c.said = filepath.Join(j.scratch, "ior")
	c.took = func() (time.Duration, error) { return tookIOR(c.said) }
	return c
}

// dd reads the source and writes the target, past the page cache, in one stream.
func dd(program string, j job) command {
	c := call("/bin/sh", "-c", `for f in "$1"/*/*; do "$0" if="$f" of="$2/${f##*/}" bs=4M iflag=direct oflag=direct conv=fsync status=none || exit; done`,
		program, j.source, j.target)
	c.folder = true
	return c
}

// warpTime is how long warp works in a run; for less than two whole seconds of it says nothing.
const warpTime = "10s"

// warp puts, or gets, for a time and in a bucket of its own. A get puts what it gets, before its time begins.
func warp(program string, j job) command {
	op := "get"
	if j.toStore() {
		op = "put"
	}
	args := []string{program, op, "--quiet", "--no-color", "--host", j.store.host(), "--region", "us-east-1", "--bucket", wiped,
		"--obj.size", strconv.FormatInt(j.data.bytes, 10), "--concurrent", wide, "--duration", warpTime, "--benchdata", filepath.Join(j.scratch, "warp")}
	if op == "get" {
		args = append(args, "--objects", strconv.Itoa(j.data.files))
	}
	said := filepath.Join(j.scratch, "warp.txt")
	return command{
		args:  args,
		env:   []string{"WARP_ACCESS_KEY=" + accessKey, "WARP_SECRET_KEY=" + secretKey},
		said:  said,
		timed: true,
		took:  func() (time.Duration, error) { return tookWarp(said, op, j.data.total()) },
	}
}
