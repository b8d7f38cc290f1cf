package pricing

import (
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"
)

// Money is an amount of US dollars, in millionths of one. It may be negative: a correction.
type Money int64

// Amounts of money.
const (
	Dollar Money = 1_000_000
	Cent         = Dollar / 100

	// MoneyMost is the largest amount that is reckoned with, and the total of a bill: a billion dollars. Thousands of them can be added without overflow.
	MoneyMost = 1_000_000_000 * Dollar
)

var errMoney = errors.New(`want dollars, like 1500, $1,234.56 or 0.000040`)

// String prints cents, rounded half away from zero: "$1,234.56", "-$0.10". What is less than a cent, and is not nothing, keeps its digits: "$0.0004".
func (m Money) String() string {
	sign, micro := "", uint64(m)
	if m < 0 {
		sign, micro = "-", -micro
	}
	if micro == 0 || micro >= uint64(Cent) {
		cents := (micro + uint64(Cent)/2) / uint64(Cent)
		return fmt.Sprintf("%s$%s.%02d", sign, thousands(strconv.FormatUint(cents/100, 10)), cents%100)
	}
	return sign + "$" + strings.TrimRight(fmt.Sprintf("0.%06d", micro), "0")
}

// MarshalText writes all six digits, so that nothing is lost: "1234.560000".
func (m Money) MarshalText() ([]byte, error) {
	sign, micro := "", uint64(m)
	if m < 0 {
		sign, micro = "-", -micro
	}
	return fmt.Appendf(nil, "%s%d.%06d", sign, micro/uint64(Dollar), micro%uint64(Dollar)), nil
}

// UnmarshalText is ParseMoney.
func (m *Money) UnmarshalText(text []byte) (err error) {
	*m, err = ParseMoney(string(text))
	return err
}

// ParseMoney reads dollars with up to six digits behind the point, with or without the sign and commas: "$1,234.56", "-0.25", "1500". More than MoneyMost is refused.
func ParseMoney(s string) (Money, error) {
	text := strings.TrimSpace(s)
	text, negative := strings.CutPrefix(text, "-")
	text = strings.TrimPrefix(text, "$")
	whole, part, _ := strings.Cut(text, ".")
	plain := strings.ReplaceAll(whole, ",", "")
	if len(text) > 32 || len(part) > 6 || plain == "" || strings.Trim(plain+part, "0123456789") != "" || strings.HasSuffix(text, ".") ||
		strings.Contains(whole, ",") && thousands(plain) != whole {
		return 0, fmt.Errorf("%q: %w", s, errMoney)
	}
	micro, err := strconv.ParseInt(plain+part+strings.Repeat("0", 6-len(part)), 10, 64)
	if err != nil || Money(micro) > MoneyMost {
		return 0, fmt.Errorf("%q: more than %v is not reckoned with", s, MoneyMost)
	}
	if negative {
		micro = -micro
	}
	return Money(micro), nil
}

// thousands puts commas into digits.
func thousands(digits string) string {
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return b.String()
}

// rounded is dollars as Money, half up; not beyond MoneyMost.
func rounded(dollars *big.Rat) (Money, error) {
	micro := new(big.Rat).Mul(dollars, big.NewRat(int64(Dollar), 1))
	micro.Add(micro, big.NewRat(1, 2))
	whole := new(big.Int).Div(micro.Num(), micro.Denom()) // Euclidean: down, as the denominator is positive
	if !whole.IsInt64() || Money(whole.Int64()) > MoneyMost {
		return 0, fmt.Errorf("comes to more than %v, which is not reckoned with", MoneyMost)
	}
	return Money(whole.Int64()), nil
}
