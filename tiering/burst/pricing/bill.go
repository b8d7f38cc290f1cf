package pricing

import (
	"errors"
	"fmt"
	"math/big"
	"strings"
	"time"

	"datamove.dev/mover"
)

// Usage is how much of a rate is used.
type Usage struct {
	Rate   string
	Amount Amount
	Why    string // for people: "the dataset in S3, for 30 hours"
}

// Bill says what uses cost.
type Bill struct {
	Region   string   `json:"region"`
	Date     Date     `json:"date"` // of the book
	Lines    []Line   `json:"lines"`
	Total    Money    `json:"total"`
	Warnings []string `json:"warnings,omitempty"` // for people: prices that are old
}

// Line is one use on a bill.
type Line struct {
	Rate   string  `json:"rate"`
	Why    string  `json:"why,omitempty"`
	Amount Amount  `json:"-"`
	Units  float64 `json:"units"` // the amount, in Unit.Of
	Of     Measure `json:"of"`
	Unit   string  `json:"unit"` // that prices are for
	Pieces []Piece `json:"pieces"`
	Cost   Money   `json:"cost"`
	Basis  string  `json:"basis"` // for people: how the cost comes about, and where the price was read
}

// Piece is the part of a use that lies in one tier.
type Piece struct {
	Units float64 `json:"units"`
	USD   USD     `json:"usd"` // for one unit of the line
	n     *big.Rat
}

// usesMost bounds a bill.
const usesMost = 10_000

// MissingError says that a book lacks a rate. It is mover.ErrUsage.
type MissingError struct{ Rate, Region, File string }

func (e *MissingError) Error() string {
	return fmt.Sprintf("the price book of %s (%s) has no rate %s: add it with its source, or take a book that has it", e.Region, mover.Printable(e.File), mover.Printable(e.Rate))
}

// Unwrap implements errors.Is.
func (e *MissingError) Unwrap() error { return mover.ErrUsage }

// Bill says what uses of one calendar month cost, in their order. What was used of a rate in this calendar month before, in the whole account, stands in before and decides where in its tiers the
// first use begins; one that is not there begins at nothing. Errors are mover.ErrUsage: all rates that are missing ([MissingError]), amounts that do not fit their unit, costs beyond MoneyMost.
func (b *Book) Bill(uses []Usage, before map[string]Amount, now time.Time) (Bill, error) {
	bill := Bill{Region: b.Region, Date: b.Date, Warnings: b.aged(uses, now)}
	if len(uses) > usesMost {
		return Bill{}, fmt.Errorf("%w: %d uses on one bill, want at most %d", mover.ErrUsage, len(uses), usesMost)
	}
	used := map[string]Amount{} // up to now, of this month
	var wrong []error
	for _, u := range uses {
		was, again := used[u.Rate]
		if !again {
			was = before[u.Rate]
		}
		line, is, err := b.line(u, was)
		if err != nil {
			wrong = append(wrong, err)
			continue
		}
		used[u.Rate] = is
		bill.Lines = append(bill.Lines, line)
		if bill.Total += line.Cost; bill.Total > MoneyMost {
			return Bill{}, fmt.Errorf("%w: the bill comes to more than %v, which is not reckoned with", mover.ErrUsage, MoneyMost)
		}
	}
	if len(wrong) > 0 {
		return Bill{}, errors.Join(wrong...)
	}
	return bill, nil
}

// line bills one use after what was used before; is is what is used with it.
func (b *Book) line(u Usage, was Amount) (line Line, is Amount, err error) {
	rate, ok := b.Rates[u.Rate]
	if !ok {
		return line, is, &MissingError{u.Rate, b.Region, b.File}
	}
	for _, a := range []Amount{u.Amount, was} {
		if a.of != "" && a.of != rate.Unit.Of || a.rat().Cmp(amountMost) > 0 {
			return line, is, fmt.Errorf("%w: %v of %s, which is priced by %s", mover.ErrUsage, a, u.Rate, rate.Unit)
		}
	}
	if is, err = was.Plus(u.Amount); err != nil {
		return line, is, err
	}
	first, err1 := rounded(rate.cost(was.rat()))
	last, err2 := rounded(rate.cost(is.rat()))
	if err := errors.Join(err1, err2); err != nil {
		return line, is, fmt.Errorf("%w: %v of %s: %w", mover.ErrUsage, u.Amount, u.Rate, err)
	}
	line = Line{Rate: u.Rate, Why: u.Why, Amount: Amount{rate.Unit.Of, u.Amount.rat()}, Units: u.Amount.Units(), Of: rate.Unit.Of, Unit: rate.Unit.String(),
		Pieces: rate.pieces(was.rat(), is.rat()), Cost: last - first}
	line.Basis = b.basis(rate, line)
	return line, is, nil
}

// cost is what n of a rate cost in a month, in dollars.
func (r Rate) cost(n *big.Rat) *big.Rat {
	sum := new(big.Rat)
	for _, p := range r.pieces(new(big.Rat), n) {
		sum.Add(sum, new(big.Rat).Mul(p.n, p.USD.dollars))
	}
	return sum.Quo(sum, big.NewRat(r.Unit.Per, 1))
}

// pieces are the parts of what lies between two amounts, tier by tier. There is one at least, which may be of nothing.
func (r Rate) pieces(from, to *big.Rat) (all []Piece) {
	tiers := r.tiers()
	for i, t := range tiers {
		end := to
		if t.UpTo != nil && t.UpTo.n.Cmp(to) < 0 {
			end = t.UpTo.n
		}
		if end.Cmp(from) > 0 || len(all) == 0 && i == len(tiers)-1 {
			n := new(big.Rat).Sub(end, from)
			units, _ := n.Float64()
			all = append(all, Piece{units, *t.USD, n})
			from = end
		}
	}
	return all
}

// basis prints "10,240 GB at $0.09 + 1,000 GB at $0.085 per GB; https://… of 2026-07-28".
func (b *Book) basis(r Rate, line Line) string {
	parts := make([]string, len(line.Pieces))
	for i, p := range line.Pieces {
		parts[i] = fmt.Sprintf("%v at %v", Amount{r.Unit.Of, p.n}, p.USD)
	}
	source := r.Source
	if source == "" {
		source = b.Source
	}
	return fmt.Sprintf("%s per %s; %s, of %s", strings.Join(parts, " + "), r.Unit, source, b.dateOf(r))
}

func (b *Book) dateOf(r Rate) Date {
	if r.Date.IsZero() {
		return b.Date
	}
	return r.Date
}

// aged warns of prices that are old, or of a day that has not come, once for each date.
func (b *Book) aged(uses []Usage, now time.Time) (warnings []string) {
	var days []Date
	names := map[Date][]string{}
	seen := map[string]bool{}
	for _, u := range uses {
		rate, ok := b.Rates[u.Rate]
		if !ok || seen[u.Rate] {
			continue
		}
		seen[u.Rate] = true
		day := b.dateOf(rate)
		if names[day] == nil {
			days = append(days, day)
		}
		names[day] = append(names[day], u.Rate)
	}
	for _, day := range days {
		switch age := now.Sub(day.Begin()); {
		case age > OldAfter:
			warnings = append(warnings, fmt.Sprintf("prices of %s are of %s, %d days old: compare them with AWS's pages and update %s", listed(names[day]), day, age/(24*time.Hour), mover.Printable(b.File)))
		case age < -24*time.Hour:
			warnings = append(warnings, fmt.Sprintf("prices of %s are of %s, a day that has not come: is the clock right?", listed(names[day]), day))
		}
	}
	return warnings
}

// listed prints a few names.
func listed(names []string) string {
	if len(names) > 6 {
		return strings.Join(names[:5], ", ") + fmt.Sprintf(" and %d more", len(names)-5)
	}
	return strings.Join(names, ", ")
}
