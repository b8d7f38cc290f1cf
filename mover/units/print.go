// Package units turns numbers into what people read and back: bytes in KiB, MiB
// and GiB, rates per second, counts with separators, durations.
//
// It is pure. The same number always prints the same, whatever the locale; what
// [ParseBytes] and [ParseRate] read, they read exactly or refuse.
// TestPrint and TestParse are the tables.
package units

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

var binary = [...]string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}

// Bytes prints n with three digits: "0 B", "1023 B", "4.00 KiB", "12.3 MiB", "512 GiB".
func Bytes(n int64) string {
	if n < 0 {
		return "-" + Bytes(-max(n, -math.MaxInt64))
	}
	if n < 1024 {
		return strconv.FormatInt(n, 10) + " B"
	}
	value, unit := float64(n), 0
	for value >= 999.5 && unit < len(binary)-1 {
		value /= 1024
		unit++
	}
	return three(value) + " " + binary[unit]
}

// three prints a value below 1024 with three digits.
func three(value float64) string {
	switch {
	case value < 9.995:
		return strconv.FormatFloat(value, 'f', 2, 64)
	case value < 99.95:
		return strconv.FormatFloat(value, 'f', 1, 64)
	}
	return strconv.FormatFloat(value, 'f', 0, 64)
}

// Rate prints n bytes in d as bytes per second, and "–" when there was no time.
func Rate(n int64, d time.Duration) string {
	if d <= 0 {
		return "–"
	}
	return PerSecond(float64(n) / d.Seconds())
}

// PerSecond prints a rate in bytes per second.
func PerSecond(bytesPerSec float64) string {
	return Bytes(int64(min(max(bytesPerSec, 0), 1<<62))) + "/s"
}

// Count prints n with a separator for every thousand: "1,203,456".
func Count(n int64) string {
	digits := strconv.FormatInt(n, 10)
	start := len(digits) % 3
	if n < 0 {
		start = (len(digits)-1)%3 + 1
	}
	out := []byte(digits[:start])
	for i := start; i < len(digits); i += 3 {
		if len(out) > 0 && out[len(out)-1] != '-' {
			out = append(out, ',')
		}
		out = append(out, digits[i:i+3]...)
	}
	return string(out)
}

// Plural prints a count with its noun: "1 file", "1,203 files".
func Plural(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return Count(n) + " " + many
}

// Duration prints d with two units at most: "0.42s", "12.0s", "3m04s", "2h05m", "3d04h".
func Duration(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < 0:
		return "-" + Duration(-max(d, -math.MaxInt64))
	case d < 10*time.Second-5*time.Millisecond:
		return fmt.Sprintf("%.2fs", d.Seconds())
	case d < 59*time.Second+950*time.Millisecond:
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	if d = d.Round(time.Second); d < time.Hour {
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	}
	if d = d.Round(time.Minute); d < day {
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	d = d.Round(time.Hour)
	return fmt.Sprintf("%dd%02dh", d/day, d%day/time.Hour)
}

// Clock prints d as a countdown: "0:07", "12:30", "1:02:03".
func Clock(d time.Duration) string {
	s := int64(max(d, 0).Round(time.Second) / time.Second)
	if s < 3600 {
		return fmt.Sprintf("%d:%02d", s/60, s%60)
	}
	return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
}
