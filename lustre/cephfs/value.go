package cephfs

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// striping is a layout in the words of a CephFS.
type striping struct {
	unit, count, object int64 // bytes, stripes, bytes
	pool, namespace     string
}

// The limits of a layout. maxCount is that of the field (32 bits), maxBytes that of a
// size which is a multiple of 64 KiB.
const (
	maxCount = math.MaxUint32
	maxBytes = math.MaxUint32
)

// String is what ceph.file.layout and ceph.dir.layout say, and what they are told.
func (s striping) String() string {
	text := fmt.Sprintf("stripe_unit=%d stripe_count=%d object_size=%d pool=%s", s.unit, s.count, s.object, s.pool)
	if s.namespace != "" {
		text += " pool_namespace=" + s.namespace
	}
	return text
}

var errLayout = errors.New(`a layout of a CephFS is "stripe_unit=N stripe_count=N object_size=N pool=NAME[ pool_namespace=NAME]"`)

// parseStriping is the inverse of String. Names may have blanks and anything else: the
// namespace tells where that of the pool ends.
func parseStriping(text, namespace string) (striping, error) {
	s := striping{namespace: namespace}
	rest := text
	for _, field := range []struct {
		name string
		dst  *int64
		most int64
	}{{"stripe_unit=", &s.unit, maxBytes}, {"stripe_count=", &s.count, maxCount}, {"object_size=", &s.object, maxBytes}} {
		value, after, ok := strings.Cut(rest, " ")
		digits, named := strings.CutPrefix(value, field.name)
		if !ok || !named {
			return striping{}, fmt.Errorf("%q: %w", text, errLayout)
		}
		n, err := parseCount(digits)
		if err != nil || n > field.most {
			return striping{}, fmt.Errorf("%q: %s%q is no number from 0 to %d", text, field.name, digits, field.most)
		}
		*field.dst, rest = n, after
	}
	pool, named := strings.CutPrefix(rest, "pool=")
	if namespace != "" {
		var ok bool
		pool, ok = strings.CutSuffix(pool, " pool_namespace="+namespace)
		named = named && ok
	}
	if !named || pool == "" {
		return striping{}, fmt.Errorf("%q: %w", text, errLayout)
	}
	s.pool = pool
	return s, nil
}

// parseInherited reads ceph.dir.layout.json, which tells the layout that new files get,
// wherever it comes from. The kernel's client asks the metadata server for it (since Linux
// 5.18).
func parseInherited(text string) (striping, error) {
	var v struct {
		Unit      int64  `json:"stripe_unit"`
		Count     int64  `json:"stripe_count"`
		Object    int64  `json:"object_size"`
		Pool      string `json:"pool_name"`
		Namespace string `json:"pool_namespace"`
	}
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return striping{}, fmt.Errorf("%q: %w", text, err)
	}
	if v.Unit < 0 || v.Count < 0 || v.Object < 0 || v.Unit > maxBytes || v.Count > maxCount || v.Object > maxBytes || v.Pool == "" {
		return striping{}, fmt.Errorf("%q is no layout of a CephFS", text)
	}
	return striping{v.Unit, v.Count, v.Object, v.Pool, v.Namespace}, nil
}

// parseCount reads a number that is not negative: digits, and nothing else.
func parseCount(text string) (int64, error) {
	for _, b := range []byte(text) {
		if b < '0' || b > '9' {
			return 0, fmt.Errorf("%q is no number", text)
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is no number: %w", text, errors.Unwrap(err))
	}
	return n, nil
}

// parseTime reads rctime: seconds, a point, and nanoseconds in nine digits. Clients of
// before 2020 (Linux 5.4 and older among them) wrote "09" and the nanoseconds as they are.
func parseTime(text string) (time.Time, error) {
	whole, fraction, _ := strings.Cut(text, ".")
	sec, err := parseCount(whole)
	if err != nil {
		return time.Time{}, fmt.Errorf("%q is no time: %w", text, err)
	}
	if nines, old := strings.CutPrefix(fraction, "09"); old && len(fraction) != 9 {
		fraction = nines
	}
	nsec, err := parseCount(fraction)
	if err != nil || len(fraction) > 9 {
		return time.Time{}, fmt.Errorf("%q is no time: it is SECONDS.NANOSECONDS", text)
	}
	return time.Unix(sec, nsec), nil
}
