package api

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"datamove.dev/test/document"
	"datamove.dev/test/must"
)

var update = flag.Bool("update", false, "write docs/reference/api.md")

const referenceIntroduction = `# API

<!-- generated from api/datamove/v1 and api/http.yaml by make docs -->

` + "`datamoved` serves `datamove.v1` by gRPC on each address of `listen:`, and by JSON over HTTP on the same addresses and on that of `metrics:`." + `
[openapi.json](../../api/openapi.json) describes the JSON side. Messages in full are in the .proto files that each part names. An error has the reason of a kind
of [exit code](exit-codes.md) in its details. [Security](../guides/security.md) says how a caller proves an identity.

`

// declared is a service, a message or an enum of a .proto file.
type declared struct {
	is, name, says string
	items          []item
}

// item is a call, a field or a value.
type item struct{ name, of, says string }

var (
	opens  = regexp.MustCompile(`^(service|message|enum) (\w+) \{(\})?$`)
	rpc    = regexp.MustCompile(`^  rpc (\w+)\((stream )?(\w+)\) returns \((stream )?(\w+)\)(?: \{|;)$`)
	field  = regexp.MustCompile(`^  (?:  )?((?:optional |repeated )?(?:map<\w+, [\w.]+>|[\w.]+)) (\w+) = \d+;(?: // (.*))?$`)
	value  = regexp.MustCompile(`^  ([A-Z][A-Z0-9_]*) = \d+;(?: // (.*))?$`)
	others = regexp.MustCompile(`^(?:syntax|package|import|option|reserved) |^  (?:reserved |option |oneof \w+ \{$|\}$)|^    option |^\}?$`)
)

// declarations reads a .proto file as buf formats it. What it does not know is an error, so that nothing is left out.
func declarations(text string) (all []declared, err error) {
	var above []string
	for i, line := range strings.Split(text, "\n") {
		if comment, is := strings.CutPrefix(strings.TrimSpace(line), "//"); is {
			above = append(above, strings.TrimSpace(comment))
			continue
		}
		says := strings.Join(above, " ")
		above = nil
		if m := opens.FindStringSubmatch(line); m != nil {
			all = append(all, declared{is: m[1], name: m[2], says: says})
			continue
		}
		var one *declared
		if len(all) > 0 {
			one = &all[len(all)-1]
		}
		switch m, f, v := rpc.FindStringSubmatch(line), field.FindStringSubmatch(line), value.FindStringSubmatch(line); {
		case others.MatchString(line):
		case one == nil:
			return nil, fmt.Errorf("line %d: %q is not understood", i+1, line)
		case one.is == "service" && m != nil:
			one.items = append(one.items, item{m[1], "`" + m[2] + m[3] + "` → `" + m[4] + m[5] + "`", says})
		case one.is == "message" && f != nil:
			one.items = append(one.items, item{f[2], f[1], strings.TrimSpace(says + " " + f[3])})
		case one.is == "enum" && v != nil:
			one.items = append(one.items, item{v[1], "", strings.TrimSpace(says + " " + v[2])})
		default:
			return nil, fmt.Errorf("line %d: %q is not understood", i+1, line)
		}
	}
	return all, nil
}

// httpRoutes are those of the JSON side, by the names of the calls.
func httpRoutes(t *testing.T) map[string]string {
	t.Helper()
	var file struct {
		HTTP struct {
			Rules []map[string]string
		}
	}
	must.Do(t, yaml.Unmarshal(must.Get(os.ReadFile("http.yaml"))(t), &file))
	found := map[string]string{}
	for _, rule := range file.HTTP.Rules {
		for _, method := range []string{"get", "post", "put", "patch", "delete"} {
			if path := rule[method]; path != "" {
				found[strings.TrimPrefix(rule["selector"], "datamove.v1.")] = "`" + strings.ToUpper(method) + " " + path + "`"
			}
		}
	}
	return found
}

// TestReference holds docs/reference/api.md to the .proto files and to the routes: each call, message, field and value is there.
func TestReference(t *testing.T) {
	var b strings.Builder
	b.WriteString(referenceIntroduction)
	routes := httpRoutes(t)
	files := must.Get(filepath.Glob("datamove/v1/*.proto"))(t)
	for _, file := range files {
		all, err := declarations(string(must.Get(os.ReadFile(file))(t)))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		name := strings.TrimSuffix(filepath.Base(file), ".proto")
		fmt.Fprintf(&b, "## %s%s\n\nFrom [%s](../../api/%s).\n\n", strings.ToUpper(name[:1]), name[1:], filepath.Base(file), file)
		for _, d := range all {
			if d.is != "service" {
				continue
			}
			fmt.Fprintf(&b, "### %s\n\n%s\n\n%s", d.name, document.Cell(d.says), document.Head("call", "takes and returns", "HTTP", "does"))
			for _, c := range d.items {
				route := d.name + "." + c.name
				b.WriteString(document.Row("`"+c.name+"`", c.of, routes[route], document.Cell(strings.TrimPrefix(c.says, c.name+" "))))
				delete(routes, route)
			}
			b.WriteString("\n")
		}
		messages(&b, name, all)
	}
	for route := range routes {
		t.Errorf("http.yaml has a route for %s, which is no call", route)
	}
	document.Hold(t, "..", "docs/reference/api.md", strings.TrimSuffix(b.String(), "\n"), *update && !t.Failed())
}

// messages writes the tables of messages and of enums of a file.
func messages(b *strings.Builder, file string, all []declared) {
	for _, is := range []string{"message", "enum"} {
		if !slices.ContainsFunc(all, func(d declared) bool { return d.is == is }) {
			continue
		}
		column := map[string]string{"message": "fields", "enum": "values"}[is]
		fmt.Fprintf(b, "#### %ss of %s\n\n%s", strings.ToUpper(is[:1])+is[1:], file, document.Head(is, column, "meaning"))
		for _, d := range all {
			if d.is != is {
				continue
			}
			var items []string
			for _, i := range d.items {
				text := "`" + strings.TrimSpace(i.of+" "+i.name) + "`"
				if i.says != "" && is == "enum" {
					text += " " + i.says
				}
				items = append(items, text)
			}
			separator := ", "
			if is == "enum" {
				separator = "; "
			}
			b.WriteString(document.Row("`"+d.name+"`", document.Cell(strings.Join(items, separator)), document.Cell(strings.TrimPrefix(d.says, d.name+" is "))))
		}
		b.WriteString("\n")
	}
}

// TestDeclarations: what stands in a .proto file is found, and what is not understood is told.
func TestDeclarations(t *testing.T) {
	const text = `syntax = "proto3";

// S does.
service S {
  // A asks,
  // and gets.
  rpc A(Ask) returns (stream Told) {
    option idempotency_level = NO_SIDE_EFFECTS;
  }
}

message Ask {
  repeated string a = 1; // of it
  map<string, int64> b = 2;
  oneof c {
    bool d = 3; // or
  }
}

enum E {
  E_NONE = 0; // not
}
`
	all, err := declarations(text)
	must.Do(t, err)
	const want = "[{service S S does. [{A `Ask` → `stream Told` A asks, and gets.}]} {message Ask  [{a repeated string of it} {b map<string, int64> } {d bool or}]} {enum E  [{E_NONE  not}]}]"
	if got := fmt.Sprint(all); got != want {
		t.Errorf("%s, want\n%s", got, want)
	}
	if _, err := declarations(strings.Replace(text, "bool d = 3;", "bool d : 3;", 1)); err == nil || !strings.Contains(err.Error(), "line 16") {
		t.Errorf("%v", err)
	}
}
