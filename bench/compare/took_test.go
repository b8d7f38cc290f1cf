package compare

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"datamove.dev/test/must"
)

// said writes what a tool would have, and returns where.
func said(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "said")
	must.Do(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

const (
	elbenchoHead = "ISO date,label,path type,paths,hosts,threads,dirs,files,file size,block size,direct IO,random,random aligned,IO depth,shared paths,truncate,operation," +
		"time ms [first],time ms [last],entries/s [first],entries/s [last]\n"
	elbenchoRow = "2026-11-26T21:00:00+0000,,dir,1,1,8,1,1,67108864,4194304,1,0,,1,,0,"

	ior33 = `IOR-3.3.0: MPI Coordinated Test of Parallel I/O
Results: 

access    bw(MiB/s)  IOPS       Latency(s)  block(KiB) xfer(KiB)  open(s)    wr/rd(s)   close(s)   total(s)   iter
------    ---------  ----       ----------  ---------- ---------  --------   --------   --------   --------   ----
write     912.40     4282       0.001868    1024.00    4096.00    0.001203   0.007473   0.000973   0.250      0   
read      495.76     2259.33    0.000031    1024.00    4096.00    0.015838   0.014163   0.014007   0.125      0   
remove    -          -          -           -          -          -          -          -          0.006066   0   
Max Write: 912.40 MiB/sec (956.72 MB/sec)

Summary of all tests:
Operation   Max(MiB)   Min(MiB)  Mean(MiB)     StdDev   Max(OPs)
write         912.40     912.40     912.40       0.00    3649.60    3649.60    3649.60
`
	ior32 = `access    bw(MiB/s)  block(KiB) xfer(KiB)  open(s)    wr/rd(s)   close(s)   total(s)   iter
------    ---------  ---------- ---------  --------   --------   --------   --------   ----
write     2030.54    1024.00    4096.00    0.001463   8.07       1.13       8.07       0   
read      1968.99    1024.00    4096.00    0.000037   8.32       0.055648   8.33       0   
`
	warpOld = "\n----------------------------------------\nOperation: PUT. Concurrency: 32\n* Average: 10.00 MiB/s, 2.50 obj/s\n" +
		"\n----------------------------------------\nOperation: GET. Concurrency: 32\n* Average: 256.00 MiB/s, 64.00 obj/s\n\n" +
		"Throughput, split into 9 x 1s:\n * Fastest: 300.1MiB/s, 75.00 obj/s\n"
	warpNew = "Report: GET. Concurrency: 32. Ran: 9s\n * Average: 128.00 MiB/s, 32.00 obj/s\n * Reqs: Avg: 62.1ms, 50%: 61.0ms\n\n" +
		"Report: PUT. Concurrency: 32. Ran: 9s\n * Average: 512.00 MiB/s, 128.00 obj/s\n"
	warpShort = "Skipping PUT too few samples. Longer benchmark run required for reliable results.\n"
)

// TestTook: load generators are timed by what they say of their phases, in each form in which their versions say it; and what
// says nothing has failed.
func TestTook(t *testing.T) {
	const mib = 1 << 20
	warp := func(op string) func(string) (time.Duration, error) {
		return func(file string) (time.Duration, error) { return tookWarp(file, op, 256*mib) }
	}
	fio := func(file string) (time.Duration, error) { return tookFio(file, 8*mib) }
	for _, row := range []struct {
		what string
		took func(string) (time.Duration, error)
		text string
		want time.Duration
		err  string
	}{
		{"elbencho", tookElbencho, elbenchoHead + elbenchoRow + "MKDIRS,1,7,,\n" + elbenchoRow + "WRITE,200,250,,\n" + elbenchoRow + "READ,100,125,,\n", 375 * time.Millisecond, ""},
		{"elbencho without a read", tookElbencho, elbenchoHead + elbenchoRow + "WRITE,200,250,,\n", 0, "no lines of WRITE and READ"},
		{"elbencho without a time", tookElbencho, elbenchoHead + elbenchoRow + "WRITE\n", 0, `WRITE took "" ms`},
		{"elbencho, nothing", tookElbencho, "", 0, "no lines"},

		{"ior 3.3 and 4", tookIOR, ior33, 375 * time.Millisecond, ""},
		{"ior 3.2", tookIOR, ior32, 16400 * time.Millisecond, ""},
		{"ior without a read", tookIOR, strings.Replace(ior33, "\nread ", "\nrode ", 1), 0, "no lines of write and read"},
		{"ior, cut", tookIOR, "write 1 2 3 4 5 6 x 0\n", 0, `invalid syntax in "write`},

		{"warp 0 put", warp("put"), warpOld, 25600 * time.Millisecond, ""},
		{"warp 0 get", warp("get"), warpOld, time.Second, ""},
		{"warp 1 put", warp("put"), warpNew, 500 * time.Millisecond, ""},
		{"warp 1 get", warp("get"), warpNew, 2 * time.Second, ""},
		{"warp, too short", warp("put"), warpShort, 0, "no report of PUT: Skipping PUT too few samples"},
		{"warp, errors alone", warp("put"), "Operation: PUT. Concurrency: 32\nErrors: 7\n", 0, "no average of PUT: Errors: 7"},
		{"warp, nothing moved", warp("put"), "Report: PUT.\n * Average: 0.00 MiB/s, 0.00 obj/s\n", 0, "at 0.00 MiB/s"},

		{"fio", fio, `{"jobs": [{"write": {"io_bytes": 8388608, "runtime": 40}, "read": {"io_bytes": 0, "runtime": 0}},
			{"write": {"io_bytes": 0, "runtime": 0}, "read": {"io_bytes": 8388608, "runtime": 20}}]}`, 60 * time.Millisecond, ""},
		{"fio without a read", fio, `{"jobs": [{"write": {"io_bytes": 8388608, "runtime": 20}}]}`, 0, "has written 8388608 bytes and read 0, and not 8388608"},
		{"fio, no report", fio, `fio: no space`, 0, "the report of fio"},
	} {
		got, err := row.took(said(t, row.text))
		if row.err != "" {
			if err == nil || !strings.Contains(err.Error(), row.err) {
				t.Errorf("%s: %v, want %q", row.what, err, row.err)
			}
			continue
		}
		if err != nil || got != row.want {
			t.Errorf("%s: %s, %v, want %s", row.what, got, err, row.want)
		}
	}
}
