package units

import (
	"errors"
	"fmt"
	"math/big"
	"strings"
)

// factors are the units of bytes. A bare letter is binary, as cp, du and rsync
// read it; kB, MB … are the thousands of disk makers, and bits those of networks.
var factors = func() map[string]*big.Rat {
	units := map[string]*big.Rat{"": big.NewRat(1, 1), "b": big.NewRat(1, 1), "bit": big.NewRat(1, 8)}
	thousand, kibi := int64(1), int64(1)
	for _, letter := range []string{"k", "m", "g", "t", "p"} {
		thousand, kibi = thousand*1000, kibi*1024
		units[letter] = big.NewRat(kibi, 1)
		units[letter+"ib"] = big.NewRat(kibi, 1)
		units[letter+"b"] = big.NewRat(thousand, 1)
		units[letter+"bit"] = big.NewRat(thousand, 8)
	}
	return units
}()

var errBytes = errors.New("want a number with a unit, like 64MiB, 1.5GB or 500k")

// ParseBytes reads an amount like "64MiB", "1.5 GB", "500k" or "4096"; upper and
// lower case are the same. A fraction of a byte is dropped.
func ParseBytes(s string) (int64, error) {
	text := strings.ToLower(strings.TrimSpace(s))
	cut := strings.LastIndexAny(text, "0123456789.") + 1
	factor, ok := factors[strings.TrimSpace(text[cut:])]
	// Rat reads "1/3", "1e99" and "0x10", too: digits and a point are enough.
	if !ok || cut == 0 || cut > 32 || strings.Trim(text[:cut], "0123456789.") != "" {
		return 0, fmt.Errorf("%q: %w", s, errBytes)
	}
	value, ok := new(big.Rat).SetString(text[:cut])
	if !ok {
		return 0, fmt.Errorf("%q: %w", s, errBytes)
	}
	value.Mul(value, factor)
	if value.Sign() > 0 && value.Cmp(big.NewRat(1, 1)) < 0 {
		return 0, fmt.Errorf("%q is less than a byte", s)
	}
	whole := new(big.Int).Quo(value.Num(), value.Denom())
	if !whole.IsInt64() {
		return 0, fmt.Errorf("%q is more than can be counted", s)
	}
	return whole.Int64(), nil
}

// ParseRate reads bytes per second: an amount, with or without "/s" ("100MiB/s",
// "10Gbit/s"). 0 is no limit.
func ParseRate(s string) (int64, error) {
	text := strings.TrimSpace(s)
	for _, suffix := range []string{"/s", "/sec"} {
		if rest, ok := strings.CutSuffix(strings.ToLower(text), suffix); ok {
			text = rest
			break
		}
	}
	n, err := ParseBytes(text)
	if err != nil {
		return 0, fmt.Errorf("%q: want a rate, like 100MiB/s, 1GB or 10Gbit; 0 is no limit", s)
	}
	return n, nil
}
