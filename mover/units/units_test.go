package units

import (
	"math"
	"testing"
	"time"
)

func TestPrint(t *testing.T) {
	for _, row := range []struct{ got, want string }{
		{Bytes(0), "0 B"},
		{Bytes(1023), "1023 B"},
		{Bytes(1024), "1.00 KiB"},
		{Bytes(4096), "4.00 KiB"},
		{Bytes(10 << 10), "10.0 KiB"},
		{Bytes(999 << 10), "999 KiB"},
		{Bytes(1000 << 10), "0.98 MiB"},
		{Bytes(12_900_000), "12.3 MiB"},
		{Bytes(512 << 30), "512 GiB"},
		{Bytes(math.MaxInt64), "8.00 EiB"},
		{Bytes(math.MinInt64), "-8.00 EiB"},
		{Bytes(-2048), "-2.00 KiB"},
		{Rate(100<<20, 2*time.Second), "50.0 MiB/s"},
		{Rate(100, 0), "–"},
		{PerSecond(math.Inf(1)), "4.00 EiB/s"},
		{Count(0), "0"},
		{Count(999), "999"},
		{Count(1000), "1,000"},
		{Count(1203456), "1,203,456"},
		{Count(-1000), "-1,000"},
		{Count(-100), "-100"},
		{Plural(1, "file", "files"), "1 file"},
		{Plural(1200, "file", "files"), "1,200 files"},
		{Duration(420 * time.Millisecond), "0.42s"},
		{Duration(9999 * time.Millisecond), "10.0s"},
		{Duration(12 * time.Second), "12.0s"},
		{Duration(59*time.Second + 999*time.Millisecond), "1m00s"},
		{Duration(184 * time.Second), "3m04s"},
		{Duration(time.Hour - 100*time.Millisecond), "1h00m"},
		{Duration(125 * time.Minute), "2h05m"},
		{Duration(76 * time.Hour), "3d04h"},
		{Clock(7 * time.Second), "0:07"},
		{Clock(750 * time.Second), "12:30"},
		{Clock(3723 * time.Second), "1:02:03"},
	} {
		if row.got != row.want {
			t.Errorf("%q, want %q", row.got, row.want)
		}
	}
}

func TestParse(t *testing.T) {
	const refused = -1
	for _, row := range []struct {
		text  string
		bytes int64
	}{
		{"0", 0}, {"4096", 4096}, {"500k", 500 << 10}, {"64MiB", 64 << 20}, {"64 mib", 64 << 20},
		{"1.5GB", 1.5e9}, {"1G", 1 << 30}, {"8TiB", 8 << 40}, {"1b", 1}, {"10Gbit", 1.25e9}, {"12.", 12},
		{"", refused}, {"MiB", refused}, {"-1", refused}, {"1e3", refused}, {"1/3", refused}, {"0x10", refused},
		{"1..2", refused}, {"9999999PiB", refused}, {"1 file", refused}, {"0.5", refused}, {"1bit", refused},
		{"1000000000000000000000000000000000", refused},
	} {
		n, err := ParseBytes(row.text)
		if row.bytes == refused && err == nil || row.bytes != refused && (err != nil || n != row.bytes) {
			t.Errorf("ParseBytes(%q) = %d, %v; want %d", row.text, n, err, row.bytes)
		}
	}
	for text, want := range map[string]int64{"100MiB/s": 100 << 20, "0": 0, "10Gbps": refused, "10gbit/s": 1.25e9, "1M": 1 << 20, "5/h": refused} {
		n, err := ParseRate(text)
		if want == refused && err == nil || want != refused && (err != nil || n != want) {
			t.Errorf("ParseRate(%q) = %d, %v; want %d", text, n, err, want)
		}
	}
}

// FuzzParse promises that nothing negative and nothing but a number is read.
func FuzzParse(f *testing.F) {
	f.Add("64MiB")
	f.Add("1.5 GB/s")
	f.Fuzz(func(t *testing.T, s string) {
		if n, err := ParseRate(s); err == nil && n < 0 {
			t.Errorf("ParseRate(%q) = %d", s, n)
		}
	})
}
