package report

import (
	"math"
	"strconv"
	"strings"

	"datamove.dev/bench/result"
	"datamove.dev/bench/stats"
	"datamove.dev/mover"
	"datamove.dev/mover/units"
)

// longest is how many characters of a text are shown.
const longest = 300

// plain is a text from outside as people see it: what is hidden in it is visible, and it has an end.
func plain(s string) string { return mover.Printable(short(s, longest)) }

// short is the beginning of a text that has more characters than that.
func short(s string, most int) string {
	for i := range s {
		if most--; most < 0 {
			return s[:i] + "…"
		}
	}
	return s
}

// narrow is the beginning of a text that takes more columns than that, where all letters are alike; those of East Asia take two.
func narrow(s string, most int) string {
	columns, cut := 0, 0
	for i, r := range s {
		if columns < most {
			cut = i // with room for what says that there is more
		}
		if columns++; r >= 0x1100 {
			columns++
		}
		if columns > most {
			return s[:cut] + "…"
		}
	}
	return s
}

var prefixes = [...]string{"", "k", "M", "G", "T", "P", "E"}

// magnitude is by what a value is divided to be read, and the prefix of its unit.
func magnitude(v float64) (by float64, prefix string) {
	by = 1
	for _, prefix = range prefixes {
		if math.Abs(v) < 999.5*by {
			return by, prefix
		}
		by *= 1000
	}
	return by / 1000, prefix
}

// digits prints a value below 1000 with three digits.
func digits(v float64) string {
	switch a := math.Abs(v); {
	case a >= 1e6:
		return strconv.FormatFloat(v, 'g', 3, 64)
	case a >= 99.95 || a == 0:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 9.995:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case a >= 0.0995:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	return strconv.FormatFloat(v, 'g', 2, 64)
}

func unitName(u result.Unit) string {
	if u == result.Bytes {
		return "B/s"
	}
	return "ops/s"
}

// rate prints bytes or operations per second: "12.3 GB/s", "4.56 kops/s".
func rate(v float64, u result.Unit) string {
	by, prefix := magnitude(v)
	return digits(v/by) + " " + prefix + unitName(u)
}

// span prints where a rate is likely to be, both ends alike: "12.1 to 12.5 GB/s".
func span(i stats.Interval, u result.Unit) string {
	by, prefix := magnitude(i.High)
	if i.Count == 1 {
		return "1 repeat"
	}
	return digits(i.Low/by) + " to " + digits(i.High/by) + " " + prefix + unitName(u)
}

// micros prints a number of microseconds: "850 ns", "12.3 µs", "1.23 ms", "4.56 s".
func micros(us float64) string { return microsBy(us, digits) }

func microsBy(us float64, print func(float64) string) string {
	switch a := math.Abs(us); {
	case a == 0:
		return "–"
	case a < 0.9995:
		return print(us*1e3) + " ns"
	case a < 999.5:
		return print(us) + " µs"
	case a < 999.5e3:
		return print(us/1e3) + " ms"
	}
	return print(us/1e6) + " s"
}

// figure is one of an axis: no more digits than it takes.
func figure(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }

func microsFigure(us float64) string { return microsBy(us, figure) }

func seconds(s float64) string {
	if s == 0 {
		return "0 s"
	}
	return micros(s * 1e6)
}

func percent(share float64) string { return digits(share*100) + " %" }

// difference prints a ratio as what has changed: "−18 %", "+2.3 %".
func difference(ratio float64) string {
	text := strconv.FormatFloat((ratio-1)*100, 'f', 1, 64)
	switch {
	case strings.Trim(text, "-0.") == "":
		text = "±0"
	case text[0] == '-':
		text = "−" + text[1:]
	default:
		text = "+" + text
	}
	return text + " %"
}

// several prints a number with its noun.
func several[T int | int64](n T, one string) string { return units.Plural(int64(n), one, one+"s") }
