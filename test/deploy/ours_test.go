package deploy

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/yaml"

	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/csi"
	"datamove.dev/csi/volume"
	"datamove.dev/mover/config"
	"datamove.dev/mover/server/authz"
	"datamove.dev/test/must"
)

func none(string) string { return "" }

// What the chart puts into ConfigMaps our own programs can read.
func TestConfigurations(t *testing.T) {
	for _, values := range settings(t) {
		texts := map[string]string{}
		all := objects(t, values, render(t, values))
		for _, m := range of[*corev1.ConfigMap](all) {
			maps.Copy(texts, m.Data)
		}
		p := parts(all)
		for name, component := range map[string]string{"csi.yaml": "csi-node", "coordinator.yaml": "coordinator", "agent.yaml": "agent"} {
			text, is := texts[name]
			if _, wanted := p[component]; is != wanted {
				t.Errorf("%s: %s: %v, and component %s: %v", values, name, is, component, wanted)
			}
			if !is {
				continue
			}
			var err error
			if name == "csi.yaml" {
				_, err = csi.ParseConfig([]byte(text))
			} else {
				_, err = config.Parse(name, []byte(text), none)
			}
			if err != nil {
				t.Errorf("%s: %s: %v\n%s", values, name, err, text)
			}
		}
	}
}

// Pods see the file systems and tiers that their configuration names, at the same paths.
func TestRoots(t *testing.T) {
	p := parts(objects(t, "", render(t, filepath.Join("values", "full.yaml"))))
	for component, want := range map[string]string{
		"csi-controller": "/gpfs/fs1 /lustre/project /nfs/home /run/datamove",
		"csi-node":       "/gpfs/fs1 /local_nvme /lustre/project /nfs/home /run/datamove",
		"agent":          "/local_nvme /lustre/project /run/datamove /var/lib/datamove", // not the tier below another one
	} {
		on := map[string]string{}
		for _, v := range p[component].Spec.Volumes {
			if v.HostPath != nil {
				on[v.Name] = v.HostPath.Path
			}
		}
		var found []string
		for _, m := range p[component].Spec.Containers[0].VolumeMounts {
			path, host := on[m.Name]
			if host && path == m.MountPath && slices.Contains(strings.Fields(want), path) {
				found = append(found, path)
			}
		}
		slices.Sort(found)
		if strings.Join(found, " ") != want {
			t.Errorf("%s has %q", component, found)
		}
	}
}

// ownMounts are the roots of file systems that the driver mounts itself.
func ownMounts(t *testing.T, all []any) map[string]bool {
	t.Helper()
	mounted := map[string]bool{}
	for _, m := range of[*corev1.ConfigMap](all) {
		c := must.Get(csi.ParseConfig([]byte(m.Data["csi.yaml"])))(t)
		for _, f := range c.FileSystems {
			mounted[f.Root] = f.Mount != nil
		}
	}
	return mounted
}

// A pod waits for the directory of a tier whose kind nobody says: else what is copied there would lie on the disk of the node. All other
// mount points may be made, because somebody looks what is mounted there.
func TestRootsAreThere(t *testing.T) {
	found := map[corev1.HostPathType]int{}
	for _, values := range settings(t) {
		all := objects(t, values, render(t, values))
		known := map[string]bool{}
		for _, m := range of[*corev1.ConfigMap](all) {
			for _, tier := range tiersOf(t, m.Data["agent.yaml"]) {
				known[tier.Path] = tier.Kind != ""
			}
		}
		for component, p := range parts(all) {
			for _, v := range p.Spec.Volumes {
				if !strings.HasPrefix(v.Name, "root-") && !strings.HasPrefix(v.Name, "tier-") {
					continue
				}
				want := corev1.HostPathDirectoryOrCreate
				if component == "agent" && !known[v.HostPath.Path] {
					want = corev1.HostPathDirectory
				}
				if found[want]++; *v.HostPath.Type != want {
					t.Errorf("%s: %s: %s is a %s", values, component, v.HostPath.Path, *v.HostPath.Type)
				}
			}
		}
	}
	if len(found) != 2 {
		t.Errorf("%v", found)
	}
}

// tier is one of a configuration of the mover.
type tier struct{ Path, Kind string }

func tiersOf(t *testing.T, text string) map[string]tier {
	t.Helper()
	var c struct{ Tiers map[string]tier }
	must.Do(t, yaml.Unmarshal([]byte(text), &c))
	return c.Tiers
}

// The kubelet finds the driver's socket where the driver says it is.
func TestKubeletRoot(t *testing.T) {
	for values, root := range map[string]string{"": "/var/lib/kubelet", filepath.Join("values", "datasets.yaml"): "/var/lib/k0s/kubelet"} {
		p := parts(objects(t, "", render(t, values)))["csi-node"]
		if !slices.Contains(p.Spec.Containers[0].Command, "--register-endpoint="+root+"/plugins/csi.datamove.dev/csi.sock") {
			t.Errorf("%s: %q", root, p.Spec.Containers[0].Command)
		}
		paths := map[string]string{}
		for _, v := range p.Spec.Volumes {
			if v.HostPath != nil {
				paths[v.Name] = v.HostPath.Path
			}
		}
		if paths["kubelet"] != root || paths["plugin"] != root+"/plugins/csi.datamove.dev" || paths["registration"] != root+"/plugins_registry" {
			t.Errorf("%s: %v", root, paths)
		}
	}
}

// Every class is one that the driver takes.
func TestClasses(t *testing.T) {
	classes := 0
	for _, values := range settings(t) {
		all := objects(t, values, render(t, values))
		for _, c := range of[*storagev1.StorageClass](all) {
			classes++
			if _, err := volume.ParseParameters(c.Parameters); err != nil {
				t.Errorf("%s: StorageClass %s: %v", values, c.Name, err)
			}
			if _, err := volume.ParseMounting(c.MountOptions); err != nil {
				t.Errorf("%s: StorageClass %s: %v", values, c.Name, err)
			}
		}
		for _, c := range of[*storagev1.VolumeAttributesClass](all) {
			classes++
			if _, err := (volume.Parameters{Kind: volume.Project, OnDelete: volume.Remove}).Modified(c.Parameters); err != nil {
				t.Errorf("%s: VolumeAttributesClass %s: %v", values, c.Name, err)
			}
		}
	}
	if classes < 8 {
		t.Errorf("%d classes", classes)
	}
}

// With the rights of the example the driver, which asks as root of its node, can have datasets staged, and no more than that.
func TestRightsOfTheDriver(t *testing.T) {
	var c *config.Config
	for _, m := range of[*corev1.ConfigMap](objects(t, "", render(t, filepath.Join(plain, "values.yaml")))) {
		if text, is := m.Data["coordinator.yaml"]; is {
			var err error
			if c, err = config.Parse("coordinator.yaml", []byte(text), none); err != nil {
				t.Fatal(err)
			}
		}
	}
	in := authz.Input{UID: 64643, Tiers: map[string]string{}, Projects: map[string]authz.Project{}, Roles: map[string]authz.Role{}}
	for name, tier := range c.Tiers {
		in.Tiers[name] = tier.Path
	}
	for name, p := range c.Projects {
		in.Projects[name] = authz.Project{Roots: p.Roots, Reads: p.Reads, Members: p.Members}
	}
	for name, r := range c.Roles {
		in.Roles[name] = authz.Role{Members: r.Members, May: r.May}
	}
	rules := must.Get(authz.New(in))(t)
	driver := authz.Caller{Name: "root", UID: 0, Via: authz.Forwarded, Agent: "n1"}
	for method, may := range map[string]bool{
		datamovev1.DatasetService_Stage_FullMethodName:         true,
		datamovev1.DatasetService_ListLeases_FullMethodName:    true,
		datamovev1.DatasetService_RenewLease_FullMethodName:    true,
		datamovev1.DatasetService_DropLease_FullMethodName:     true,
		datamovev1.TaskService_GetTask_FullMethodName:          true,
		datamovev1.TierService_ListTiers_FullMethodName:        true,
		datamovev1.DatasetService_Purge_FullMethodName:         false,
		datamovev1.DatasetService_RemoveDataset_FullMethodName: false,
		datamovev1.AgentService_ForgetAgent_FullMethodName:     false,
	} {
		if d := rules.MayCall(driver, method); d.Allowed != may {
			t.Errorf("%s: %+v", method, d)
		}
	}
}
