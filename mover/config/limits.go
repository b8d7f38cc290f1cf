package config

import (
	"encoding"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Limit holds back what all agents together move at one endpoint.
type Limit struct {
	Endpoint  string   `koanf:"endpoint"`  // a tier, or s3://bucket
	Direction string   `koanf:"direction"` // read or write; "" is each of them
	Rate      Rate     `koanf:"rate"`      // 0 is unlimited
	Ops       int64    `koanf:"ops"`       // calls per second; 0 is unlimited
	Windows   []Window `koanf:"windows"`   // when it holds; none is always
	Zone      string   `koanf:"zone"`      // of the windows, as Europe/Berlin; "" is that of the machine
}

// Rate is bytes per second, written as 20GB/s, 1.5 GiB/s or 10Gbit/s.
type Rate int64

var rates = map[string]float64{
	"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
	"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
	"kbit": 1e3 / 8, "Mbit": 1e6 / 8, "Gbit": 1e9 / 8, "Tbit": 1e12 / 8,
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *Rate) UnmarshalText(text []byte) error {
	amount, perSecond := strings.CutSuffix(string(text), "/s")
	cut := strings.LastIndexAny(amount, "0123456789") + 1
	unit, known := rates[strings.TrimSpace(amount[cut:])]
	number, err := strconv.ParseFloat(amount[:cut], 64)
	if !perSecond || !known || err != nil || strings.Trim(amount[:cut], "0123456789.") != "" || number*unit < 1 || number*unit > 1e15 {
		return fmt.Errorf("must be a rate like 20GB/s, 500 MiB/s or 10Gbit/s")
	}
	*r = Rate(number * unit)
	return nil
}

// Percent is a part of a whole, written as 85%.
type Percent int

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *Percent) UnmarshalText(text []byte) error {
	digits, ok := strings.CutSuffix(string(text), "%")
	n, err := strconv.Atoi(digits)
	if !ok || err != nil || n < 1 || n > 100 || digits != strconv.Itoa(n) {
		return fmt.Errorf("must be a percentage like 85%%, from 1%% to 100%%")
	}
	*p = Percent(n)
	return nil
}

// Window is a part of the week, written as "Mon-Fri 08:00-18:00", "Sun 00:00-24:00"
// or "22:00-06:00", which is every day. One that ends before it begins ends on
// the next day; one that ends when it begins lasts a day.
type Window struct {
	Days     [7]bool // by time.Weekday: on which it begins
	From, To int     // minutes of the day; To may be 24*60
}

var weekdays = []string{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"}

// UnmarshalText implements encoding.TextUnmarshaler.
func (w *Window) UnmarshalText(text []byte) error {
	days, hours, named := strings.Cut(string(text), " ")
	if !named {
		days, hours = "Sun-Sat", days
	}
	from, to, _ := strings.Cut(hours, "-")
	var read Window
	if !read.days(days) || !minutes(from, &read.From) || !minutes(to, &read.To) || read.From == 24*60 {
		return fmt.Errorf(`must be a window like "Mon-Fri 08:00-18:00", "Sat,Sun 00:00-24:00" or "22:00-06:00"`)
	}
	*w = read
	return nil
}

// days reads Mon, Mon-Fri or Sat,Sun-Tue.
func (w *Window) days(text string) bool {
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, to := weekday(first), weekday(last)
		if from < 0 || to < 0 {
			return false
		}
		for day := from; ; day = (day + 1) % 7 {
			w.Days[day] = true
			if day == to {
				break
			}
		}
	}
	return true
}

func weekday(text string) int {
	for i, name := range weekdays {
		if text == name {
			return i
		}
	}
	return -1
}

// minutes reads 08:00, and 24:00 for the end of a day.
func minutes(text string, into *int) bool {
	t, err := time.Parse("15:04", text)
	if text == "24:00" {
		*into = 24 * 60
		return true
	}
	*into = t.Hour()*60 + t.Minute()
	return err == nil && len(text) == len("15:04")
}

// checked checks a value by reading it.
func checked[T any, P interface {
	*T
	encoding.TextUnmarshaler
}](text string) error {
	return P(new(T)).UnmarshalText([]byte(text))
}
