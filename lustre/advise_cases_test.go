package lustre

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	"datamove.dev/test/must"
)

var update = flag.Bool("update", false, "write the table of typical cases into advise.go")

// cases are the ten typical ones of the documentation.
var cases = []struct {
	name string
	r    Request
	c    Cluster
}{
	{"shards of a dataset, of all sizes, which all nodes read", Request{Use: Dataset}, site(64, 4)},
	{"a Parquet dataset of 6 GiB files", Request{Use: Dataset, Bytes: 6 * gib}, site(64, 4)},
	{"1.3 million images of up to 200 KiB in one directory", Request{Use: SmallFiles, Bytes: 200 << 10, Files: 1_300_000}, site(64, 4)},
	{"a checkpoint of 512 ranks, 4 GiB each", Request{Use: Checkpoint, Bytes: 4 * gib, Writers: 512}, site(64, 4)},
	{"a checkpoint of 32 ranks, 40 GiB each", Request{Use: Checkpoint, Bytes: 40 * gib, Writers: 32}, site(64, 4)},
	{"a whole checkpoint of 200 GiB in one file", Request{Use: Checkpoint, Bytes: 200 * gib, Writers: 1}, site(64, 4)},
	{"one file of 500 GiB, 2,048 ranks write 1 MiB each at a time", Request{Use: SharedFile, Bytes: 500 * gib, Writers: 2048, IOBytes: mib}, site(64, 4)},
	{"nothing is known of the file", Request{}, site(64, 4)},
	{"an archive of 30 TiB, OSTs with 4 TiB free, 8 of them nearly full", Request{Bytes: 30 * tib}, used(site(64, 4))},
	{"a file of 100 GiB, nothing is known of the file system", Request{Bytes: 100 * gib}, Cluster{}},
}

// used is a site whose OSTs have 4 TiB each, the first eight hardly anything.
func used(c Cluster) Cluster {
	for i := range c.OSTs {
		c.OSTs[i].TotalBytes, c.OSTs[i].FreeBytes = 16*tib, 4*tib
		if i < 8 {
			c.OSTs[i].FreeBytes = tib
		}
	}
	return c
}

// The defaults of two clouds: stripes up to a size (their documentation: "Striping data
// in your file system", FSx for Lustre user guide; "Optimize file and directory layouts",
// Azure Managed Lustre).
var (
	fsx   = []step{{100 * mib, 1}, {10 * gib, 8}, {100 * gib, 16}, {EOF, 32}}
	azure = []step{{gib, 1}, {100 * gib, 5}, {500 * gib, 10}, {EOF, 64}}
)

// byDefault is how many stripes the end of a file has.
func byDefault(steps []step, size int64) string {
	if size == 0 {
		return fmt.Sprintf("%d-%d", steps[0].want, steps[len(steps)-1].want)
	}
	i := slices.IndexFunc(steps, func(s step) bool { return size <= s.end })
	return fmt.Sprint(steps[i].want)
}

// TestTypicalCases holds the table in the documentation of Advise equal to what it says.
func TestTypicalCases(t *testing.T) {
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "case\tadvice, as lfs setstripe has it\tpart\tFSx\tAzure\tsource of the stripes")
	for _, c := range cases {
		a := Advise(c.r, c.c)
		advice, part, _ := strings.Cut(say(a), "; parts of ")
		var sources []string
		for _, r := range a.Reasons {
			by, _, _ := strings.Cut(r.Source, ",")
			if (r.What == "stripe count" || r.What == "overstriping" || r.What == "Data-on-MDT" || r.What == "directory") && !slices.Contains(sources, by) {
				sources = append(sources, by)
			}
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", c.name, advice, part, byDefault(fsx, c.r.Bytes), byDefault(azure, c.r.Bytes), strings.Join(sources, "; "))
	}
	_ = w.Flush()
	want := "//\n//\t" + strings.ReplaceAll(strings.TrimSpace(table.String()), "\n", "\n//\t") + "\nfunc Advise("
	source := must.Get(os.ReadFile("advise.go"))(t)
	if strings.Contains(string(source), want) {
		return
	}
	if *update {
		head, rest, _ := strings.Cut(string(source), "equal to what Advise says.\n")
		_, tail, _ := strings.Cut(rest, "func Advise(")
		must.Do(t, os.WriteFile("advise.go", []byte(head+"equal to what Advise says.\n"+want+tail), 0o644))
		return
	}
	t.Errorf("the documentation of Advise should have this table; go test -run TestTypicalCases -update writes it:\n%s", want)
}
