package gpfs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
)

// reading takes fields out of a reply and remembers the first one that is not what it has
// to be, so that whoever reads ten fields asks once. encoding/json would leave a zero for
// what is missing or null, and a zero is a meaning here.
type reading struct{ err error }

func (r *reading) fail(path, why string) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s %s", ErrReply, path, why)
	}
}

// object is one JSON object of a reply.
type object struct {
	r      *reading
	path   string
	fields map[string]json.RawMessage
}

// parseReply reads a reply, which is one object and nothing after it.
func parseReply(body []byte) (object, error) {
	r := &reading{}
	o := object{r: r, path: ""}
	if !json.Valid(body) {
		return o, fmt.Errorf("%w: it is not JSON, or was cut off: it begins %q", ErrReply, cut(string(body[:min(len(body), 80)])))
	}
	if err := json.Unmarshal(body, &o.fields); err != nil || o.fields == nil {
		return o, fmt.Errorf("%w: it is JSON, but no object: it begins %q", ErrReply, cut(string(body[:min(len(body), 80)])))
	}
	return o, nil
}

func (o object) at(name string) string {
	if o.path == "" {
		return name
	}
	return o.path + "." + name
}

// has reports whether there is a field, and that it is not null.
func (o object) has(name string) bool {
	raw, ok := o.fields[name]
	return ok && !bytes.Equal(raw, []byte("null"))
}

// read decodes one field that has to be there.
func (o object) read(name, kind string, into any) bool {
	raw, ok := o.fields[name]
	switch {
	case !ok:
		o.r.fail(o.at(name), "is missing")
		return false
	case bytes.Equal(raw, []byte("null")):
		o.r.fail(o.at(name), "is null, and not "+kind)
		return false
	}
	if err := json.Unmarshal(raw, into); err != nil {
		o.r.fail(o.at(name), fmt.Sprintf("is %s, and not %s", cut(string(raw[:min(len(raw), 60)])), kind))
		return false
	}
	return true
}

func (o object) text(name string) (s string) {
	o.read(name, "a text", &s)
	return s
}

func (o object) truth(name string) (b bool) {
	o.read(name, "true or false", &b)
	return b
}

// count is a whole number that is not negative.
func (o object) count(name string) int64 {
	var n json.Number
	raw := o.fields[name]
	if len(raw) > 0 && raw[0] == '"' { // json.Number would take a number in quotes
		o.r.fail(o.at(name), fmt.Sprintf("is %s, and not a number", cut(string(raw))))
		return 0
	}
	if !o.read(name, "a number", &n) {
		return 0
	}
	v, err := strconv.ParseInt(n.String(), 10, 64)
	if err != nil || v < 0 {
		o.r.fail(o.at(name), "is "+cut(n.String())+", and not a whole number from 0 to 2^63")
		return 0
	}
	return v
}

// kib is a count of KiB, in bytes.
func (o object) kib(name string) int64 {
	return fromKiB(o.count(name), func(why string) { o.r.fail(o.at(name), why) })
}

func (o object) object(name string) object {
	sub := object{r: o.r, path: o.at(name)}
	o.read(name, "an object", &sub.fields)
	return sub
}

// objects is a list of objects.
func (o object) objects(name string) []object {
	var raws []json.RawMessage
	if !o.read(name, "a list", &raws) {
		return nil
	}
	list := make([]object, 0, len(raws))
	for i, raw := range raws {
		sub := object{r: o.r, path: fmt.Sprintf("%s[%d]", o.at(name), i)}
		if err := json.Unmarshal(raw, &sub.fields); err != nil || sub.fields == nil {
			o.r.fail(sub.path, "is not an object")
			return nil
		}
		list = append(list, sub)
	}
	return list
}

// texts is a list of texts.
func (o object) texts(name string) (list []string) {
	o.read(name, "a list of texts", &list)
	return list
}

// fromKiB turns KiB into bytes; what does not fit is a mistake of whoever said it.
func fromKiB(n int64, fail func(string)) int64 {
	if n < 0 || n >= 1<<53 {
		fail(fmt.Sprintf("is %d KiB, which can not be", n))
		return 0
	}
	return n << 10
}
