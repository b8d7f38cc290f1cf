// Package compat opens what programs of earlier releases have left: files of each format, the API, the command lines. make says how the fixtures are made.
package compat

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	_ "datamove.dev/api/datamove/agent/v1"
	_ "datamove.dev/api/datamove/ledger/v1"
	_ "datamove.dev/api/datamove/v1"
	bench "datamove.dev/cmd/datamove-bench/harness"
	"datamove.dev/cmd/datamove-csi/driver"
	"datamove.dev/cmd/datamove/root"
	"datamove.dev/cmd/datamoved/daemon"
	"datamove.dev/mover/backend/s3/s3test"
	"datamove.dev/test/must"
	"datamove.dev/test/script"
	"datamove.dev/tiering/burst"
)

// releases are the folders below testdata, by the days of their commits.
var releases = []string{"2026-11-28"}

// TestMain makes this test binary answer as the commands, too.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"datamove":       func() { os.Exit(root.Main("")) },
		"datamoved":      func() { os.Exit(daemon.Main("")) },
		"datamove-csi":   func() { os.Exit(driver.Main("")) },
		"datamove-bench": func() { os.Exit(bench.Main("")) },
	})
}

// fixture reads a file of a release, and unpacks one that ends in .gz.
func fixture(t testing.TB, release, name string) []byte {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join("testdata", release, name)))(t)
	if filepath.Ext(name) != ".gz" {
		return text
	}
	return must.Get(io.ReadAll(must.Get(gzip.NewReader(bytes.NewReader(text)))(t)))(t)
}

// each runs a test for each release.
func each(t *testing.T, test func(t *testing.T, release string)) {
	for _, release := range releases {
		t.Run(release, func(t *testing.T) { test(t, release) })
	}
}

// TestScripts runs test/script/compat/*.txt with the fixtures of each release at $FIXTURES.
func TestScripts(t *testing.T) {
	store := s3test.Start(t, false)
	each(t, func(t *testing.T, release string) {
		fixtures := must.Get(filepath.Abs(filepath.Join("testdata", release)))(t)
		script.Run(t, "compat/*.txt", func(env *testscript.Env) {
			env.Setenv("FIXTURES", fixtures)
			env.Setenv("SERVICE", "unix://"+filepath.Join(env.WorkDir, "s"))
			env.Setenv("DATAMOVE_SERVICE", env.Getenv("SERVICE"))
			env.Setenv("USER", "ada")
			env.Setenv("STORE", store.Dir)
			env.Setenv("AWS_ENDPOINT_URL_S3", store.Endpoint)
			env.Setenv("AWS_ACCESS_KEY_ID", store.Access)
			env.Setenv("AWS_SECRET_ACCESS_KEY", store.Secret)
		}, nil)
	})
}

// TestConfiguration: what sites have written means what it meant.
func TestConfiguration(t *testing.T) {
	each(t, func(t *testing.T, release string) {
		dir := filepath.Join("testdata", release, "config")
		was, now := settings(t, must.Get(os.ReadFile(filepath.Join(dir, "service.json")))(t)), settings(t, datamove(t, dir, "config", "view", "--config", "service.yaml", "-o", "json"))
		if len(was) < 70 || !slices.Equal(was, now) {
			t.Errorf("%d settings, %d now:\n%s\nnow:\n%s", len(was), len(now), strings.Join(was, "\n"), strings.Join(now, "\n"))
		}
		policies := strings.Split(strings.TrimSpace(string(must.Get(os.ReadFile(filepath.Join(dir, "policies.jsonl")))(t))), "\n")
		if len(policies) < 8 {
			t.Errorf("%d policies", len(policies))
		}
		for _, line := range policies {
			var policy struct{ Name, File string }
			must.Do(t, json.Unmarshal([]byte(line), &policy))
			said := regexp.MustCompile(`,"next":"[^"]*"`).ReplaceAll(datamove(t, dir, "policy", "lint", policy.File, "-o", "jsonl"), nil)
			if !slices.Contains(strings.Split(string(said), "\n"), line) {
				t.Errorf("%s was %s, and now there is\n%s", policy.Name, line, said)
			}
		}
	})
}

// TestBurst: a declaration means what it meant.
func TestBurst(t *testing.T) {
	each(t, func(t *testing.T, release string) {
		all := must.Get(burst.Read("llama-ft.yaml", must.Get(os.ReadFile(filepath.Join("testdata", release, "config/llama-ft.yaml")))(t)))(t)
		if len(all) != 1 {
			t.Fatalf("%d bursts", len(all))
		}
		b, s := all[0], all[0].Spec
		got := fmt.Sprintln(b.Metadata.Name, s.Team, s.Job.GPUs, s.Cloud.Region, s.Cloud.FileSystem.Type, s.Link.Kind, len(s.Data), s.Checkpoints[0].Home, s.Results[0].Path, s.Lasts, s.Idle, s.Cap)
		if want := "llama-ft vision 64 us-east-1 PERSISTENT_2 directConnect 1 project:runs/run7 results 1d06h 4h00m $20,000.00\n"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	})
}

// settings are those of a configuration, with the line that each is from.
func settings(t *testing.T, view []byte) (lines []string) {
	t.Helper()
	var v struct {
		Schema   string
		Settings []struct{ Key, Value, From string }
	}
	must.Do(t, json.Unmarshal(view, &v))
	for _, s := range v.Settings {
		lines = append(lines, fmt.Sprintf("%s %s=%s from %s", v.Schema, s.Key, s.Value, filepath.Base(s.From)))
	}
	return lines
}

// datamove is what a command says in a directory.
func datamove(t *testing.T, dir string, args ...string) []byte {
	t.Helper()
	cmd := exec.Command("datamove", args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		t.Errorf("datamove %s: %v", strings.Join(args, " "), err)
	}
	return out
}

// TestContract: messages, calls and JSON of an earlier release mean the same: nothing of its API is gone, or has another number, type, name or route.
func TestContract(t *testing.T) {
	each(t, func(t *testing.T, release string) {
		var set descriptorpb.FileDescriptorSet
		must.Do(t, proto.Unmarshal(fixture(t, release, "api.binpb.gz"), &set))
		was := contract(must.Get(protodesc.NewFiles(&set))(t))
		if len(was) < 1000 {
			t.Errorf("the API of %s has %d parts", release, len(was))
		}
		lacks(t, was, contract(protoregistry.GlobalFiles))
	})
}

// TestRoutes: what was asked for by HTTP is answered.
func TestRoutes(t *testing.T) {
	now := routes(t, must.Get(os.ReadFile("../../../api/openapi.json"))(t))
	each(t, func(t *testing.T, release string) {
		was := routes(t, fixture(t, release, "openapi.json.gz"))
		if len(was) < 100 {
			t.Errorf("%s has %d routes and parameters", release, len(was))
		}
		lacks(t, was, now)
	})
}

// lacks names what was there, and is not now.
func lacks(t *testing.T, was, now []string) {
	t.Helper()
	is := map[string]bool{}
	for _, one := range now {
		is[one] = true
	}
	for _, one := range was {
		if !is[one] {
			t.Errorf("gone or changed: %s", one)
		}
	}
}

// contract is an API as lines: each says all that must not change of a field, a value or a call.
func contract(files *protoregistry.Files) (lines []string) {
	files.RangeFiles(func(f protoreflect.FileDescriptor) bool {
		if strings.HasPrefix(string(f.Package()), "datamove.") {
			lines = append(lines, messages(f.Messages())...)
			lines = append(lines, enums(f.Enums())...)
			for i := range f.Services().Len() {
				lines = append(lines, calls(f.Services().Get(i))...)
			}
		}
		return true
	})
	return lines
}

func messages(all protoreflect.MessageDescriptors) (lines []string) {
	for i := range all.Len() {
		m := all.Get(i)
		lines = append(lines, fmt.Sprintf("message %s", m.FullName()))
		for i := range m.Fields().Len() {
			f := m.Fields().Get(i)
			line := fmt.Sprintf("field %s = %d, %s %s, in JSON %s, optional %v", f.FullName(), f.Number(), f.Cardinality(), f.Kind(), f.JSONName(), f.HasOptionalKeyword())
			switch {
			case f.Message() != nil:
				line += ", " + string(f.Message().FullName())
			case f.Enum() != nil:
				line += ", " + string(f.Enum().FullName())
			}
			if of := f.ContainingOneof(); of != nil {
				line += ", one of " + string(of.Name())
			}
			lines = append(lines, line)
		}
		lines = append(lines, messages(m.Messages())...)
		lines = append(lines, enums(m.Enums())...)
	}
	return lines
}

func enums(all protoreflect.EnumDescriptors) (lines []string) {
	for i := range all.Len() {
		for j := range all.Get(i).Values().Len() {
			v := all.Get(i).Values().Get(j)
			lines = append(lines, fmt.Sprintf("value %s.%s = %d", all.Get(i).FullName(), v.Name(), v.Number()))
		}
	}
	return lines
}

func calls(s protoreflect.ServiceDescriptor) (lines []string) {
	for i := range s.Methods().Len() {
		m := s.Methods().Get(i)
		lines = append(lines, fmt.Sprintf("call %s of %s, streamed %v, returns %s, streamed %v", m.FullName(), m.Input().FullName(), m.IsStreamingClient(), m.Output().FullName(), m.IsStreamingServer()))
	}
	return lines
}

// routes are the calls by HTTP, and their parameters, of a description.
func routes(t *testing.T, description []byte) (lines []string) {
	t.Helper()
	var d struct {
		Paths map[string]map[string]struct {
			OperationID string
			Parameters  []struct{ Name, In, Type string }
		}
	}
	must.Do(t, json.Unmarshal(description, &d))
	for path, methods := range d.Paths {
		for method, o := range methods {
			lines = append(lines, fmt.Sprintf("%s %s is %s", method, path, o.OperationID))
			for _, p := range o.Parameters {
				lines = append(lines, fmt.Sprintf("%s %s takes %s %s in %s", method, path, p.Type, p.Name, p.In))
			}
		}
	}
	slices.Sort(lines)
	return lines
}

// TestCommandLines: each command and option of an earlier release is there, with its short name, and takes a value if it did.
func TestCommandLines(t *testing.T) {
	each(t, func(t *testing.T, release string) {
		lines := strings.Split(strings.TrimSpace(string(fixture(t, release, "commands.txt"))), "\n")
		if len(lines) < 700 {
			t.Errorf("%s has %d commands and options", release, len(lines))
		}
		for _, line := range lines {
			if fault := missing(t, line); fault != "" {
				t.Errorf("%s: %s", line, fault)
			}
		}
	})
}

// missing says what of a command line is not there: "program command... [--option [-o] [VALUE]]".
func missing(t *testing.T, line string) string {
	t.Helper()
	words := strings.Fields(line)
	commands, option := words, ""
	var short, value string
	if i := slices.IndexFunc(words, func(word string) bool { return strings.HasPrefix(word, "--") }); i > 0 {
		commands, option = words[:i], words[i]
		for _, word := range words[i+1:] {
			if strings.HasPrefix(word, "-") {
				short = word
			} else {
				value = word
			}
		}
	}
	text, ok := help(t, commands)
	if option != "" && slices.Equal(commands, []string{"datamove"}) { // its own help has no list of options
		text, ok = help(t, []string{"datamove", "version"})
	}
	switch {
	case !ok:
		return "there is no such command"
	case option == "":
		return ""
	}
	m := regexp.MustCompile(`(?m)^ +(?:(-\w), )?` + option + `(?: (\S+))?(?:  |$)`).FindStringSubmatch(text)
	switch {
	case m == nil:
		return "there is no such option"
	case short != "" && m[1] != short:
		return "its short name is " + m[1]
	case value != "" && m[2] == "":
		return "it takes no value"
	case value == "" && m[2] != "":
		return "it takes a value"
	}
	return ""
}

// helps are the answers to --help, by command.
var helps = map[string]string{}

func help(t *testing.T, command []string) (text string, ok bool) {
	t.Helper()
	name := strings.Join(command, " ")
	if text, ok := helps[name]; ok {
		return text, text != ""
	}
	out, err := exec.Command(command[0], append(slices.Clone(command[1:]), "--help")...).Output()
	if err != nil {
		out = nil
	}
	helps[name] = string(out)
	return string(out), err == nil
}
