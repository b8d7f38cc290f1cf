package policy_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	yaml "go.yaml.in/yaml/v3"

	"datamove.dev/test/must"
	"datamove.dev/tiering/policy"
)

const examples = "../../deploy/policies"

// schema is the one that is published; -update is to write it.
func schema(t *testing.T) *jsonschema.Resolved {
	t.Helper()
	text, err := policy.Schema()
	must.Do(t, err)
	path := filepath.Join(examples, "tierpolicy.schema.json")
	if os.Getenv("UPDATE") != "" {
		must.Do(t, os.WriteFile(path, append(text, '\n'), 0o644))
	}
	published, err := os.ReadFile(path)
	if err != nil || strings.TrimSpace(string(published)) != string(text) {
		t.Errorf("%s is not what the types say; write it with UPDATE=1 go test ./tiering/policy (%v)", path, err)
	}
	s := new(jsonschema.Schema)
	must.Do(t, json.Unmarshal(text, s))
	resolved, err := s.Resolve(nil)
	must.Do(t, err)
	return resolved
}

func asJSON(t *testing.T, text string) (v any) {
	t.Helper()
	must.Do(t, yaml.Unmarshal([]byte(text), &v))
	b, err := json.Marshal(v)
	if err == nil {
		v = nil
		err = json.Unmarshal(b, &v)
	}
	must.Do(t, err)
	return v
}

// The examples are read, in the mode in which nothing is done, and the schema takes them.
func TestExamples(t *testing.T) {
	s := schema(t)
	files, err := filepath.Glob(filepath.Join(examples, "*.yaml"))
	if err != nil || len(files) < 4 {
		t.Fatal(files, err)
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		must.Do(t, err)
		all, err := policy.Read(filepath.Base(path), text)
		if err != nil {
			t.Error(err)
			continue
		}
		if all[0].Policy.Spec.Mode != policy.ModePlan {
			t.Errorf("%s begins in %s", path, all[0].Policy.Spec.Mode)
		}
		if err := s.Validate(asJSON(t, string(text))); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// What the schema can tell it tells: words, fields and forms that there are not.
func TestSchema(t *testing.T) {
	s := schema(t)
	good := text("  - {name: a, match: {idle: \">30d\", size: \"1MiB..2GiB\", kind: [file]}, where: 'size > 3', action: {type: archive, to: [cold]}}\n")
	must.Do(t, s.Validate(asJSON(t, good)))
	for old, wrong := range map[string]string{
		"idle:": "idel:", ">30d": "soon", "kind: [file]": "kind: [folder]", "type: archive": "type: arhive", "name: a,": "", "kind: TierPolicy": "kind: Policy", "rules:": "rulez:",
	} {
		bad := strings.Replace(good, old, wrong, 1)
		if bad == good {
			t.Fatal(old)
		}
		if err := s.Validate(asJSON(t, bad)); err == nil {
			t.Errorf("%s instead of %s is taken", wrong, old)
		}
		if _, err := policy.Read("x.yaml", []byte(bad)); err == nil {
			t.Errorf("%s instead of %s is read", wrong, old)
		}
	}
}
