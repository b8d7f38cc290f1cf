package gpfs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
)

// object is one JSON object of a reply. encoding/json would leave a zero for what is missing
// or null, and a zero is a meaning here.
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
		o.fail(name, "is missing")
		return false
	case bytes.Equal(raw, []byte("null")):
		o.fail(name, "is null, and not "+kind)
		return false
	}
	if err := json.Unmarshal(raw, into); err != nil {
		o.fail(name, fmt.Sprintf("is %s, and not %s", cut(string(raw[:min(len(raw), 60)])), kind))
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

func (o object) number(name string) int64 {
	var n json.Number
	raw := o.fields[name]
	if len(raw) > 0 && raw[0] == '"' { // json.Number would take a number in quotes
		o.fail(name, fmt.Sprintf("is %s, and not a number", cut(string(raw))))
		return 0
	}
	if !o.read(name, "a number", &n) {
		return 0
	}
	v, err := strconv.ParseInt(n.String(), 10, 64)
	if err != nil {
		o.fail(name, "is "+cut(n.String())+", and not a whole number of 64 bits")
	}
	return v
}

func (o object) fail(name, why string) { o.r.fail(o.at(name), why) }

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
