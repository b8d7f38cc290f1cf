package deploy

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"datamove.dev/test/must"
)

// kubernetes is whose API the schemas are of. They are made from the OpenAPI file of that module, and kept in
// schemas, so that kubeconform needs no network.
const kubernetes = "k8s.io/kubernetes@v1.36.3"

// kinds are those that we deploy.
var kinds = []string{
	"api.apps.v1.DaemonSet", "api.apps.v1.Deployment", "api.apps.v1.StatefulSet", "api.batch.v1.Job",
	"api.core.v1.ConfigMap", "api.core.v1.Namespace", "api.core.v1.PersistentVolume", "api.core.v1.PersistentVolumeClaim", "api.core.v1.Pod",
	"api.core.v1.Secret", "api.core.v1.Service", "api.core.v1.ServiceAccount", "api.networking.v1.NetworkPolicy", "api.policy.v1.PodDisruptionBudget",
	"api.rbac.v1.ClusterRole", "api.rbac.v1.ClusterRoleBinding", "api.rbac.v1.Role", "api.rbac.v1.RoleBinding",
	"api.storage.v1.CSIDriver", "api.storage.v1.StorageClass", "api.storage.v1.VolumeAttributesClass",
}

// extensions are kinds for which only TestStrict has types.
const extensions = "Kustomization,ServiceMonitor,VolumeSnapshot,VolumeSnapshotClass"

type schema = map[string]any

// slim takes what only people read away, and has objects take no property that they do not know.
func slim(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = slim(v[i])
		}
	case schema:
		for name, inner := range v {
			text, word := inner.(string) // and no property of that name
			if strings.HasPrefix(name, "x-kubernetes") || name == "default" && v["type"] != nil || word && (name == "description" || name == "format" && text != "int-or-string") {
				delete(v, name)
				continue
			}
			v[name] = slim(inner)
		}
		if v["format"] == "int-or-string" {
			return schema{"type": []any{"string", "integer"}}
		}
		if properties, is := v["properties"].(schema); is && v["type"] == "object" {
			v["additionalProperties"] = false
			if at := properties["creationTimestamp"]; at != nil { // of templates of claims, where it is null
				delete(properties, "creationTimestamp")
			}
		}
	}
	return v
}

// reach adds a definition, and all that it refers to.
func reach(all, found schema, name string) {
	if found[name] != nil {
		return
	}
	found[name] = all[name]
	var look func(any)
	look = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, inner := range v {
				look(inner)
			}
		case schema:
			if ref, is := v["$ref"].(string); is {
				reach(all, found, strings.TrimPrefix(ref, "#/definitions/"))
			}
			for _, inner := range v {
				look(inner)
			}
		}
	}
	look(all[name])
}

// writeSchemas makes the files of schemas.
func writeSchemas(t *testing.T) {
	t.Helper()
	out, err := exec.Command("go", "mod", "download", "-json", kubernetes).Output()
	var module struct{ Dir string }
	if err == nil {
		err = json.Unmarshal(out, &module)
	}
	must.Do(t, err)
	text, err := os.ReadFile(filepath.Join(module.Dir, "api/openapi-spec/swagger.json"))
	must.Do(t, err)
	var swagger struct{ Definitions schema }
	must.Do(t, json.Unmarshal(text, &swagger))
	all := swagger.Definitions
	files := map[string]any{}
	for _, kind := range kinds {
		name := "io.k8s." + kind
		parts := strings.Split(kind, ".")
		file := strings.ToLower(parts[3]) + "-" + parts[1] + "-" + parts[2] + ".json"
		if parts[1] == "core" {
			file = strings.ToLower(parts[3]) + "-" + parts[2] + ".json"
		}
		definition := all[name].(schema)
		definition["required"] = []any{"apiVersion", "kind"}
		files[file] = schema{"$ref": "definitions.json#/definitions/" + name}
	}
	found := schema{}
	for _, kind := range kinds {
		reach(all, found, "io.k8s."+kind)
	}
	found["io.k8s.apimachinery.pkg.api.resource.Quantity"] = schema{"type": []any{"string", "number"}}
	files["definitions.json"] = schema{"definitions": slim(found)}
	for file, content := range files {
		text, err := json.Marshal(content)
		if err == nil {
			err = os.WriteFile(filepath.Join("schemas", file), append(text, '\n'), 0o644)
		}
		must.Do(t, err)
	}
}

// kubeconform checks a text, or files, which it names.
func kubeconform(t *testing.T, text string, files ...string) (string, error) {
	t.Helper()
	program, err := exec.LookPath("kubeconform")
	if err != nil {
		t.Skip("kubeconform is missing: test/setup tools")
	}
	dir, err := filepath.Abs("schemas")
	must.Do(t, err)
	c := exec.Command(program, append([]string{"-strict", "-skip", extensions, "-schema-location", dir + "/{{.ResourceKind}}{{.KindSuffix}}.json"}, files...)...)
	c.Stdin = strings.NewReader(text)
	out, err := c.CombinedOutput()
	return string(out), err
}

// The other reader of what is deployed: by the OpenAPI file of Kubernetes, and not by its types.
func TestConform(t *testing.T) {
	if *update {
		writeSchemas(t)
	}
	var files []string
	dir := t.TempDir()
	add := func(name, text string) {
		files = append(files, filepath.Join(dir, strings.ReplaceAll(strings.TrimSuffix(name, ".yaml"), "/", "-")+".yaml"))
		must.Do(t, os.WriteFile(files[len(files)-1], []byte(text), 0o600))
	}
	for _, values := range settings(t) {
		add("chart with "+values, render(t, values))
	}
	for name := range applied(t) {
		add(name, read(t, name))
	}
	namespace := must.Get(os.ReadFile(filepath.Join(plain, "namespace.yaml")))(t)
	add("namespace", string(namespace))
	if out, err := kubeconform(t, "", files...); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// The check itself finds what is wrong.
func TestConformFinds(t *testing.T) {
	good := "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec:\n  containers: [{name: c, image: i, resources: {requests: {cpu: 1, memory: 1Gi}}, livenessProbe: {httpGet: {port: http}}}]\n"
	if out, err := kubeconform(t, good); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for what, text := range map[string]string{
		"misspelt":       strings.Replace(good, "image:", "imagePath:", 1),
		"a wrong type":   strings.Replace(good, "name: c", "name: 7", 1),
		"missing":        strings.Replace(good, "name: c, ", "", 1),
		"unknown kind":   strings.Replace(good, "Pod", "Bod", 1),
		"a deep mistake": strings.Replace(good, "{port: http}", "{ports: http}", 1),
	} {
		if out, err := kubeconform(t, text); err == nil {
			t.Errorf("%s is not found: %s", what, out)
		}
	}
}

// Nothing is in schemas that nobody uses, and no file there is a scare.
func TestSchemas(t *testing.T) {
	files, err := os.ReadDir("schemas")
	if err != nil || len(files) != len(kinds)+1 {
		t.Errorf("%d files, %v", len(files), err)
	}
	if !slices.ContainsFunc(files, func(f os.DirEntry) bool { return f.Name() == "pod-v1.json" }) {
		t.Error(fmt.Sprint(files))
	}
}
