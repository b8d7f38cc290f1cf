package pricing

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"
)

// Unit is what a price is for: "GB-month", "GB", "IOPS-month", "hour", or a number of requests: "1000 requests".
type Unit struct {
	Of  Measure
	Per int64 // of Of; 1 but for requests
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (u *Unit) UnmarshalText(text []byte) error {
	s := strings.TrimSpace(string(text))
	switch of := Measure(s); of {
	case GB, GBMonth, IOPSMonth, Hour, Request:
		*u = Unit{of, 1}
		return nil
	}
	if digits, ok := strings.CutSuffix(s, " requests"); ok {
		if n, err := strconv.ParseInt(digits, 10, 64); err == nil && n > 0 && n <= 1e9 && strconv.FormatInt(n, 10) == digits {
			*u = Unit{Request, n}
			return nil
		}
	}
	return fmt.Errorf("%q: want GB-month, GB, IOPS-month, hour, request, or a number of requests like 1000 requests", s)
}

func (u Unit) String() string {
	if u.Per == 1 {
		return string(u.Of)
	}
	return thousands(strconv.FormatInt(u.Per, 10)) + " requests"
}

// USD is a price in dollars, exact: prices of a request have more digits than Money.
type USD struct{ dollars *big.Rat }

// usdMost bounds a price of a unit.
const usdMost = 1_000_000

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *USD) UnmarshalText(text []byte) error {
	s := strings.TrimSpace(string(text))
	_, part, _ := strings.Cut(s, ".")
	value, ok := decimal(s, 24)
	if !ok || len(part) > 12 || value.Cmp(big.NewRat(usdMost, 1)) > 0 {
		return fmt.Errorf("%q: want dollars for one unit, a number from 0 to %d with at most 12 digits behind the point", s, usdMost)
	}
	p.dollars = value
	return nil
}

// String prints at least cents and all digits that there are: "$0.09", "$0.0004", "$55.04".
func (p USD) String() string {
	if p.dollars == nil {
		return "$0.00"
	}
	whole, part, _ := strings.Cut(p.dollars.FloatString(12), ".")
	part = strings.TrimRight(part, "0")
	return "$" + thousands(whole) + "." + part + strings.Repeat("0", max(0, 2-len(part)))
}

// MarshalText is String without the sign and commas.
func (p USD) MarshalText() ([]byte, error) {
	return []byte(strings.ReplaceAll(strings.TrimPrefix(p.String(), "$"), ",", "")), nil
}

// Limit is where a tier ends, in the measure of its rate: a plain number, or "10TB" where bytes are counted. As on AWS's bills 1 TB is 1,024 GB.
type Limit struct {
	n     *big.Rat
	bytes bool // written with a unit of bytes
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (l *Limit) UnmarshalText(text []byte) error {
	s := strings.TrimSpace(string(text))
	digits, gb := s, int64(0)
	for unit, of := range map[string]int64{"GB": 1, "TB": 1 << 10, "PB": 1 << 20, "GiB": 1, "TiB": 1 << 10, "PiB": 1 << 20} {
		if rest, is := strings.CutSuffix(s, unit); is {
			digits, gb = strings.TrimSpace(rest), of
		}
	}
	value, ok := decimal(digits, 18)
	if !ok || value.Sign() == 0 {
		return fmt.Errorf("%q: want where the tier ends, like 10TB, or 1000000 of the unit's requests, hours or GB", s)
	}
	if gb > 0 {
		value.Mul(value, big.NewRat(gb, 1))
	}
	l.n, l.bytes = value, gb > 0
	return nil
}

func (l Limit) String() string {
	if l.n == nil {
		return "no end"
	}
	return number(l.n)
}

// decimal reads digits and a point. Rat alone would read "1e999999999", too, and take all memory for it.
func decimal(s string, most int) (*big.Rat, bool) {
	if len(s) > most || strings.Trim(s, "0123456789.") != "" {
		return nil, false
	}
	return new(big.Rat).SetString(s)
}
