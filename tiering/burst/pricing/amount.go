package pricing

import (
	"fmt"
	"math"
	"math/big"
	"strings"
	"time"

	"datamove.dev/mover"
)

// Measure is what is counted.
type Measure string

// Measures.
const (
	GB        Measure = "GB"         // 2^30 bytes that move
	GBMonth   Measure = "GB-month"   // 2^30 bytes that lie there through a calendar month
	IOPSMonth Measure = "IOPS-month" // one provisioned operation per second, through a calendar month
	Request   Measure = "request"
	Hour      Measure = "hour" // of one instance, connection or port
)

// Amount is how much of something is used: an exact number, not negative, and what it counts. The zero value is nothing of anything.
type Amount struct {
	of Measure
	n  *big.Rat
}

// amountMost bounds an amount, in its measure.
var amountMost = big.NewRat(1e18, 1)

func amount(of Measure, n *big.Rat) Amount {
	if n.Sign() < 0 {
		n = new(big.Rat)
	}
	return Amount{of, n}
}

// Bytes are bytes that move. Less than none is none, here and below.
func Bytes(n int64) Amount { return amount(GB, big.NewRat(n, 1<<30)) }

// Requests are calls to a service.
func Requests(n int64) Amount { return amount(Request, big.NewRat(n, 1)) }

// Hours are those of n things that run for d each.
func Hours(n int64, d time.Duration) Amount {
	h := big.NewRat(int64(d), int64(time.Hour))
	return amount(Hour, h.Mul(h, big.NewRat(n, 1)))
}

// Stored are bytes that lie there from an instant on for d, or are provisioned whatever lies there. Each calendar month counts by its own hours.
func Stored(bytes int64, from time.Time, d time.Duration) Amount {
	return amount(GBMonth, new(big.Rat).Mul(big.NewRat(bytes, 1<<30), months(from, d)))
}

// IOPS are operations per second that are provisioned from an instant on for d.
func IOPS(n int64, from time.Time, d time.Duration) Amount {
	return amount(IOPSMonth, new(big.Rat).Mul(big.NewRat(n, 1), months(from, d)))
}

// Of is an amount that another component has counted: units of a measure.
func Of(of Measure, units float64) (Amount, error) {
	n := new(big.Rat).SetFloat64(units)
	if n == nil || units < 0 {
		return Amount{}, fmt.Errorf("%w: %v %s is no amount", mover.ErrUsage, units, of)
	}
	return Amount{of, n}, nil
}

// months is the part of calendar months, in UTC, that d covers. A time.Duration ends after 292 years, and so does the loop.
func months(from time.Time, d time.Duration) *big.Rat {
	sum, from := new(big.Rat), from.UTC()
	for end := from.Add(d); from.Before(end); {
		first := time.Date(from.Year(), from.Month(), 1, 0, 0, 0, 0, time.UTC)
		next := first.AddDate(0, 1, 0)
		until := next
		if end.Before(next) {
			until = end
		}
		sum.Add(sum, big.NewRat(int64(until.Sub(from)), int64(next.Sub(first))))
		from = until
	}
	return sum
}

// Plus adds what counts the same.
func (a Amount) Plus(b Amount) (Amount, error) {
	switch {
	case a.n == nil:
		return b, nil
	case b.n == nil:
		return a, nil
	case a.of != b.of:
		return Amount{}, fmt.Errorf("%w: %v and %v can not be added", mover.ErrUsage, a, b)
	}
	return Amount{a.of, new(big.Rat).Add(a.n, b.n)}, nil
}

// Of is what is counted; empty in the zero Amount.
func (a Amount) Of() Measure { return a.of }

// Units is the number, in GB, GB-months, requests or hours.
func (a Amount) Units() float64 {
	f, _ := a.rat().Float64()
	return f
}

func (a Amount) rat() *big.Rat {
	if a.n == nil {
		return new(big.Rat)
	}
	return a.n
}

// String prints the number with up to three digits behind the point, and what it counts: "3,413.333 GB-months".
func (a Amount) String() string {
	s := number(a.rat())
	if a.of == "" {
		return s
	}
	if s == "1" {
		return "1 " + string(a.of)
	}
	if a.of == GB {
		return s + " GB"
	}
	return s + " " + string(a.of) + "s"
}

// number prints up to three digits behind the point, more where all of them would be zero.
func number(n *big.Rat) string {
	digits := 3
	if f, _ := n.Float64(); f != 0 && f < 0.001 {
		digits = min(12, 2-int(math.Floor(math.Log10(f))))
	}
	whole, part, _ := strings.Cut(n.FloatString(digits), ".")
	if part = strings.TrimRight(part, "0"); part != "" {
		part = "." + part
	}
	return thousands(whole) + part
}
