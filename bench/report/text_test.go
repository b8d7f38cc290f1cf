package report

import (
	"testing"

	"datamove.dev/bench/result"
	"datamove.dev/bench/stats"
)

func TestText(t *testing.T) {
	for _, row := range []struct{ got, want string }{
		{rate(0, result.Bytes), "0 B/s"},
		{rate(999, result.Bytes), "999 B/s"},
		{rate(999.6e6, result.Bytes), "1.00 GB/s"},
		{rate(12.345e9, result.Bytes), "12.3 GB/s"},
		{rate(512e9, result.Bytes), "512 GB/s"},
		{rate(88_123, result.Ops), "88.1 kops/s"},
		{rate(1e18, result.Ops), "1.00 Eops/s"},
		{span(stats.Interval{Low: 990e6, High: 1.2e9, Count: 5}, result.Bytes), "0.99 to 1.20 GB/s"},
		{span(stats.Interval{Low: 5, High: 5, Count: 1}, result.Bytes), "1 repeat"},
		{micros(0.85), "850 ns"},
		{micros(12.34), "12.3 µs"},
		{micros(1234), "1.23 ms"},
		{micros(4.56e6), "4.56 s"},
		{micros(0), "–"},
		{seconds(0), "0 s"},
		{seconds(0.0005), "500 µs"},
		{percent(0.749), "74.9 %"},
		{difference(0.818), "−18.2 %"},
		{difference(1.023), "+2.3 %"},
		{difference(0.9999), "±0 %"},
		{short("ünlü", 3), "ünl…"},
		{short("ünlü", 4), "ünlü"},
		{narrow("gpu001", 6), "gpu001"},
		{narrow("gpu0012", 6), "gpu00…"},
		{narrow("存储一号", 6), "存储…"},
		{plain("a\u202eb\x1b[31m"), `"a\u202eb\x1b[31m"`},
		{several(1, "node"), "1 node"},
		{several(1234, "node"), "1,234 nodes"},
	} {
		if row.got != row.want {
			t.Errorf("%s, want %s", row.got, row.want)
		}
	}
}
