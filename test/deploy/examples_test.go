package deploy

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/yaml"

	"datamove.dev/csi"
	"datamove.dev/csi/volume"
	"datamove.dev/test/crash/rig"
	"datamove.dev/test/must"
)

// forOthers are examples that are for another program than kubectl.
var forOthers = []string{"jupyterhub-values.yaml", "skypilot.yaml", "skypilot-volume.yaml"}

func read(t *testing.T, name string) string {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join(examples, name)))(t)
	return string(text)
}

// applied are the examples for kubectl, by file.
func applied(t *testing.T) map[string][]any {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(examples, "*.yaml"))
	if err != nil || len(files) < 8 {
		t.Fatalf("%v, %v", files, err)
	}
	all := map[string][]any{}
	for _, file := range files {
		if name := filepath.Base(file); !slices.Contains(forOthers, name) {
			all[name] = objects(t, name, read(t, name))
		}
	}
	return all
}

// claims are those that objects ask for: as such, and in pods.
func claims(all []any) (found []corev1.PersistentVolumeClaimSpec) {
	for _, c := range of[*corev1.PersistentVolumeClaim](all) {
		found = append(found, c.Spec)
	}
	for _, p := range pods(all) {
		for _, v := range p.Volumes {
			if v.Ephemeral != nil {
				found = append(found, v.Ephemeral.VolumeClaimTemplate.Spec)
			}
		}
	}
	return found
}

func pods(all []any) (found []corev1.PodSpec) {
	for _, p := range of[*corev1.Pod](all) {
		found = append(found, p.Spec)
	}
	for _, j := range of[*batchv1.Job](all) {
		found = append(found, j.Spec.Template.Spec)
	}
	return found
}

// Every class that an example names is in the manifests, or in the example itself.
func TestExamplesHaveClasses(t *testing.T) {
	known := map[string]bool{"storage/": true} // "": no class, a volume that is there
	add := func(all []any) {
		for _, c := range of[*storagev1.StorageClass](all) {
			known["storage/"+c.Name] = true
		}
		for _, c := range of[*storagev1.VolumeAttributesClass](all) {
			known["attributes/"+c.Name] = true
		}
		for _, c := range of[*snapshotClass](all) {
			known["snapshot/"+c.Name] = true
		}
	}
	add(objects(t, plain, render(t, filepath.Join(plain, "values.yaml"))))
	named := 0
	for name, all := range applied(t) {
		add(all)
		check := func(kind, class string) {
			named++
			if !known[kind+"/"+class] {
				t.Errorf("%s: there is no class %s for %s", name, class, kind)
			}
		}
		for _, c := range claims(all) {
			check("storage", *c.StorageClassName)
			if c.VolumeAttributesClassName != nil {
				check("attributes", *c.VolumeAttributesClassName)
			}
		}
		for _, s := range of[*snapshot](all) {
			check("snapshot", s.Spec.VolumeSnapshotClassName)
		}
		for _, c := range of[*storagev1.StorageClass](all) {
			if _, err := volume.ParseParameters(c.Parameters); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if named < 10 {
		t.Errorf("only %d classes are named", named)
	}
}

// What the examples ask the driver for it understands, and the grants of the manifests give it.
func TestExamplesAreGranted(t *testing.T) {
	var config *csi.Config
	for _, m := range of[*corev1.ConfigMap](objects(t, plain, render(t, filepath.Join(plain, "values.yaml")))) {
		if text, is := m.Data["csi.yaml"]; is {
			var err error
			if config, err = csi.ParseConfig([]byte(text)); err != nil {
				t.Fatal(err)
			}
		}
	}
	asked := 0
	for name, all := range applied(t) {
		anybody := volume.Pod{Namespace: "team-audio", ServiceAccount: "default"}
		for _, p := range pods(all) {
			for _, v := range p.Volumes {
				if v.CSI == nil {
					continue
				}
				asked++
				attributes := map[string]string{"csi.storage.k8s.io/ephemeral": "true"}
				for k, text := range v.CSI.VolumeAttributes {
					attributes[k] = text
				}
				a, err := volume.ParseAttributes(volume.Inline, attributes)
				if err == nil {
					err = config.Grants.Source(anybody, a.Source.Location)
				}
				if err != nil || v.CSI.ReadOnly == nil || !*v.CSI.ReadOnly {
					t.Errorf("%s: volume %s: %v", name, v.Name, err)
				}
			}
		}
		for _, v := range of[*corev1.PersistentVolume](all) {
			asked++
			id, err := volume.ParseID(v.Spec.CSI.VolumeHandle)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			a, err := volume.ParseAttributes(id.Kind, v.Spec.CSI.VolumeAttributes)
			if err == nil {
				_, err = config.Grants.Directory(volume.Pod{Namespace: v.Spec.ClaimRef.Namespace}, id.FileSystem, a.Path)
			}
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if _, err := config.Grants.Directory(anybody, id.FileSystem, a.Path); err == nil {
				t.Errorf("%s: everybody may have it", name)
			}
		}
	}
	if asked < 4 {
		t.Errorf("only %d volumes", asked)
	}
}

// A file or directory that the command of an example names is in one of its volumes.
func TestExamplesHaveTheirFiles(t *testing.T) {
	found := 0
	for name, all := range applied(t) {
		for _, p := range pods(all) {
			for _, c := range p.Containers {
				for _, word := range append(c.Command, c.Args...) {
					at := word[strings.LastIndex(word, "=")+1:]
					if !strings.HasPrefix(at, "/") {
						continue
					}
					found++
					if !slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return at == m.MountPath || strings.HasPrefix(at, m.MountPath+"/") }) {
						t.Errorf("%s: nothing has %s", name, at)
					}
				}
			}
		}
	}
	if found < 2 {
		t.Errorf("%d files are named", found)
	}
}

// The flags of the load generator's example are those that it has, and all nodes that it waits for are there.
func TestExampleBench(t *testing.T) {
	all := objects(t, "bench.yaml", read(t, "bench.yaml"))
	jobs := of[*batchv1.Job](all)
	if len(jobs) != 2 {
		t.Fatalf("%d jobs", len(jobs))
	}
	for i, name := range []string{"run", "join"} {
		words := jobs[i].Spec.Template.Spec.Containers[0].Command
		if words[0] != "datamove-bench" || words[1] != name {
			t.Fatalf("it is %q", words)
		}
		help := rig.NewCommand(t, "datamove-bench").Do(t, 0, name, "--help").Stdout()
		for _, word := range words[2:] {
			if flag, _, is := strings.Cut(word, "="); is && !strings.Contains(help, flag+" ") {
				t.Errorf("%s has no flag %s", name, flag)
			}
		}
	}
	run, join := jobs[0].Spec.Template.Spec.Containers[0].Command, jobs[1]
	if nodes := fmt.Sprintf("--nodes=%d", *join.Spec.Completions); !slices.Contains(run, nodes) || *join.Spec.Parallelism != *join.Spec.Completions {
		t.Errorf("%q waits for others than %s", run, nodes)
	}
	service := of[*corev1.Service](all)[0]
	port := fmt.Sprint(service.Spec.Ports[0].Port)
	if words := join.Spec.Template.Spec.Containers[0].Command; words[len(words)-1] != service.Name+":"+port || !slices.Contains(run, "--listen=:"+port) || service.Spec.Selector["app"] != jobs[0].Spec.Template.Labels["app"] {
		t.Errorf("%q do not meet %q", words, run)
	}
}

// Pods of the examples may run where the profile restricted is enforced, but for SkyPilot's, which are its own.
func TestExamplesAreRestricted(t *testing.T) {
	for name, all := range applied(t) {
		if name == "skypilot-pod.yaml" {
			continue
		}
		for _, p := range pods(all) {
			s := p.SecurityContext
			if s == nil || s.RunAsNonRoot == nil || !*s.RunAsNonRoot || s.SeccompProfile == nil || s.FSGroup == nil {
				t.Errorf("%s: %+v", name, s)
			}
			for _, c := range p.Containers {
				if strings.HasSuffix(c.Image, ":latest") || !strings.Contains(c.Image, ":") {
					t.Errorf("%s: image %s", name, c.Image)
				}
				if c.SecurityContext == nil || *c.SecurityContext.AllowPrivilegeEscalation || !slices.Equal(c.SecurityContext.Capabilities.Drop, []corev1.Capability{"ALL"}) {
					t.Errorf("%s: %+v", name, c.SecurityContext)
				}
			}
		}
	}
}

// The pods that stand for those of JupyterHub and SkyPilot have what their files say.
func TestExamplesOfOthers(t *testing.T) {
	var hub struct {
		Singleuser struct {
			Storage struct {
				ExtraVolumes []corev1.Volume
			}
			ProfileList []struct {
				Override struct {
					Volumes []corev1.Volume      `json:"volumes"`
					Mounts  []corev1.VolumeMount `json:"volume_mounts"`
				} `json:"kubespawner_override"`
			}
		}
	}
	var sky struct {
		Volumes map[string]string
		Config  struct {
			Kubernetes struct {
				PodConfig struct {
					Spec corev1.PodSpec
				} `json:"pod_config"`
			}
		}
	}
	for name, into := range map[string]any{"jupyterhub-values.yaml": &hub, "skypilot.yaml": &sky} {
		if err := yaml.Unmarshal([]byte(read(t, name)), into); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	of := applied(t)
	notebook, head := pods(of["jupyterhub-pod.yaml"])[0], pods(of["skypilot-pod.yaml"])[0]
	profile := hub.Singleuser.ProfileList[1].Override
	same(t, "JupyterHub", profile.Volumes[1:], notebook.Volumes[1:])
	same(t, "JupyterHub", hub.Singleuser.Storage.ExtraVolumes, notebook.Volumes[1:2])
	same(t, "JupyterHub", profile.Mounts, notebook.Containers[0].VolumeMounts)
	spec := sky.Config.Kubernetes.PodConfig.Spec
	same(t, "SkyPilot", spec.Volumes, head.Volumes[1:])
	same(t, "SkyPilot", spec.Containers[0].VolumeMounts, head.Containers[0].VolumeMounts[1:])
	if claim := head.Volumes[0].PersistentVolumeClaim.ClaimName; sky.Volumes[head.Containers[0].VolumeMounts[0].MountPath] != claim {
		t.Errorf("SkyPilot mounts %v, and the pod %s", sky.Volumes, claim)
	}
}

func same[T any](t *testing.T, whose string, a, b []T) {
	t.Helper()
	if len(a) == 0 || !reflect.DeepEqual(a, b) {
		t.Errorf("%s: %+v\nand the pod %+v", whose, a, b)
	}
}

// The table of the README has every file.
func TestExamplesReadme(t *testing.T) {
	files := must.Get(os.ReadDir(examples))(t)
	readme := read(t, "README.md")
	for _, f := range files {
		if f.Name() != "README.md" && !strings.Contains(readme, "`"+f.Name()+"`") {
			t.Errorf("README.md does not name %s", f.Name())
		}
	}
}
