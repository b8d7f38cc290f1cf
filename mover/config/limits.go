package config

import (
	"encoding"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"datamove.dev/mover"
	"datamove.dev/mover/units"
)

// Limit holds back what all agents together move at one endpoint.
type Limit struct {
	Endpoint  string   `koanf:"endpoint"`  // what is held back
	Direction string   `koanf:"direction"` // of the transfers; "" is each of both
	Rate      Rate     `koanf:"rate"`      // bytes per second; 0 is unlimited
	Ops       int64    `koanf:"ops"`       // calls per second; 0 is unlimited
	Windows   []string `koanf:"windows"`   // when the limit holds; none is always
	Zone      string   `koanf:"zone"`      // time zone of the windows; "" is that of the machine
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

// Size is bytes, written as 500GB or 20TiB.
type Size int64

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Size) UnmarshalText(text []byte) error {
	n, err := units.ParseBytes(string(text))
	if err != nil || n < 1 {
		return errors.New("must be a size like 500GB or 20TiB")
	}
	*s = Size(n)
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

const (
	day   = `(Mon|Tue|Wed|Thu|Fri|Sat|Sun)`
	days  = day + `(-` + day + `)?(,` + day + `(-` + day + `)?)*`
	clock = `([01][0-9]|2[0-3]):[0-5][0-9]`
	hours = clock + `-(` + clock + `|24:00)`
)

var windows = mover.Pattern(`^(` + days + `|` + hours + `|` + days + ` ` + hours + `)$`)

// window checks a part of the week. What it means is known to share.
func window(s string) error {
	clocks := s[strings.LastIndexByte(s, ' ')+1:]
	from, to, _ := strings.Cut(clocks, "-")
	if len(s) > 100 || !windows().MatchString(s) || strings.Contains(clocks, ":") && from == to {
		return errors.New("must be days, hours or both, as Mon-Fri 08:00-18:00, Sat,Sun or 22:00-06:00")
	}
	return nil
}

// checked checks a value by reading it.
func checked[T any, P interface {
	*T
	encoding.TextUnmarshaler
}](text string) error {
	return P(new(T)).UnmarshalText([]byte(text))
}
