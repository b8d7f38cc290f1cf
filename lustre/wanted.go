package lustre

import (
	"fmt"
	"strconv"
	"strings"
)

// Advised is the word for the layout that suits a file by its size: see [Advise].
const Advised = "advised"

// ParseWanted reads which layout is wanted, in the words of a policy: "advised", or how a file is striped, as "count=8 size=4MiB pool=flash", of which some may be
// left out. count is a number of targets, or all.
func ParseWanted(text string) (l Layout, advised bool, err error) {
	if text == Advised {
		return l, true, nil
	}
	c := Component{End: EOF, FirstTarget: AnyTarget}
	words := strings.Fields(text)
	for _, word := range words {
		key, value, ok := strings.Cut(word, "=")
		switch {
		case !ok || value == "":
			err = fmt.Errorf("%q is no KEY=VALUE", word)
		case key == "count" && value == "all":
			c.StripeCount = AllTargets
		case key == "count":
			if c.StripeCount, err = strconv.Atoi(value); err != nil || c.StripeCount < 1 {
				err = fmt.Errorf("%q is no number of targets", value)
			}
		case key == "size":
			c.StripeBytes, err = stripeBytes(value)
		case key == "pool":
			c.Pool = value
		default:
			err = fmt.Errorf("%q is none of count, size, pool", key)
		}
		if err != nil {
			return l, false, fmt.Errorf(`want %q, or words like "count=8 size=4MiB pool=flash": %w`, Advised, err)
		}
	}
	if len(words) == 0 {
		return l, false, fmt.Errorf(`want %q, or words like "count=8 size=4MiB pool=flash"`, Advised)
	}
	l.Components = []Component{c}
	return l, false, l.Validate()
}

// stripeBytes reads a size like 4MiB.
func stripeBytes(text string) (int64, error) {
	for unit, times := range map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30} {
		if number, ok := strings.CutSuffix(text, unit); ok {
			if n, err := strconv.ParseInt(number, 10, 32); err == nil && n > 0 {
				return n * times, nil
			}
		}
	}
	return 0, fmt.Errorf("%q is no size: want a number with KiB, MiB or GiB", text)
}
