package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	yamlv3 "go.yaml.in/yaml/v3"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"datamove.dev/mover/config"
	"datamove.dev/test/must"
	bursts "datamove.dev/tiering/burst"
	"datamove.dev/tiering/slurm/burstbuffer"
	"datamove.dev/tiering/slurm/directive"
)

// burst are the examples of the AWS leg.
var burst = filepath.Join(examples, "burst")

func readBurst(t *testing.T, name string) string {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join(burst, name)))(t)
	return string(text)
}

// strictly reads a document of YAML; a key that the type does not have, in just these letters, is an error.
func strictly(text string, into any) error {
	d := yamlv3.NewDecoder(strings.NewReader(text))
	d.KnownFields(true)
	return d.Decode(into)
}

// pcluster is a configuration of ParallelCluster 3, as far as the example uses it: names and patterns are those of aws/aws-parallelcluster,
// cli/src/pcluster/schemas/cluster_schema.py (ClusterSchema, and what is nested in it; CamelCase of the fields), the deny list that of
// cli/src/pcluster/validators/slurm_settings_validator.py.
type pcluster struct {
	Region string `yaml:"Region"`
	Tags   []struct {
		Key   string `yaml:"Key"`
		Value string `yaml:"Value"`
	} `yaml:"Tags"`
	Imds struct {
		ImdsSupport string `yaml:"ImdsSupport"`
	} `yaml:"Imds"`
	Image struct {
		OS string `yaml:"Os"`
	} `yaml:"Image"`
	HeadNode struct {
		InstanceType string `yaml:"InstanceType"`
		Networking   struct {
			SubnetID string `yaml:"SubnetId"`
		} `yaml:"Networking"`
		SSH struct {
			KeyName string `yaml:"KeyName"`
		} `yaml:"Ssh"`
		IAM           pclusterIAM     `yaml:"Iam"`
		CustomActions pclusterActions `yaml:"CustomActions"`
	} `yaml:"HeadNode"`
	Scheduling struct {
		Scheduler     string `yaml:"Scheduler"`
		SlurmSettings struct {
			ScaledownIdletime   int                 `yaml:"ScaledownIdletime"`
			QueueUpdateStrategy string              `yaml:"QueueUpdateStrategy"`
			CustomSlurmSettings []map[string]string `yaml:"CustomSlurmSettings"`
		} `yaml:"SlurmSettings"`
		SlurmQueues []pclusterQueue `yaml:"SlurmQueues"`
	} `yaml:"Scheduling"`
	SharedStorage []struct {
		Name              string            `yaml:"Name"`
		StorageType       string            `yaml:"StorageType"`
		MountDir          string            `yaml:"MountDir"`
		FsxLustreSettings map[string]string `yaml:"FsxLustreSettings"` // with FileSystemId no other is taken
	} `yaml:"SharedStorage"`
}

type pclusterQueue struct {
	Name                   string `yaml:"Name"`
	CapacityType           string `yaml:"CapacityType"`
	AllocationStrategy     string `yaml:"AllocationStrategy"`
	JobExclusiveAllocation bool   `yaml:"JobExclusiveAllocation"`
	Networking             struct {
		SubnetIDs      []string `yaml:"SubnetIds"`
		PlacementGroup struct {
			Enabled bool `yaml:"Enabled"`
		} `yaml:"PlacementGroup"`
	} `yaml:"Networking"`
	ComputeSettings struct {
		LocalStorage struct {
			EphemeralVolume struct {
				MountDir string `yaml:"MountDir"`
			} `yaml:"EphemeralVolume"`
		} `yaml:"LocalStorage"`
	} `yaml:"ComputeSettings"`
	IAM              pclusterIAM     `yaml:"Iam"`
	CustomActions    pclusterActions `yaml:"CustomActions"`
	ComputeResources []struct {
		Name      string `yaml:"Name"`
		Instances []struct {
			InstanceType string `yaml:"InstanceType"`
		} `yaml:"Instances"`
		MinCount int `yaml:"MinCount"`
		MaxCount int `yaml:"MaxCount"`
		Efa      struct {
			Enabled bool `yaml:"Enabled"`
		} `yaml:"Efa"`
	} `yaml:"ComputeResources"`
}

type pclusterIAM struct {
	S3Access []struct {
		BucketName        string `yaml:"BucketName"`
		KeyName           string `yaml:"KeyName"`
		EnableWriteAccess bool   `yaml:"EnableWriteAccess"`
	} `yaml:"S3Access"`
}

type pclusterActions struct {
	OnNodeConfigured struct {
		Script string   `yaml:"Script"`
		Args   []string `yaml:"Args"`
	} `yaml:"OnNodeConfigured"`
}

// wrong says what ParallelCluster would refuse of a configuration that has no key too many.
func (c *pcluster) wrong() (all []string) {
	subnet, fsx, bucket := regexp.MustCompile(`^subnet-([0-9a-z]{8}|[0-9a-z]{17})$`), regexp.MustCompile(`^fs-[0-9a-z]{17}$`), regexp.MustCompile(`^[*a-z0-9\-.]+$`)
	dir := regexp.MustCompile(`^\/?[^\/.\\][^\/\\]*(\/[^\/.\\][^\/]*)*$`)
	hold := func(is bool, what string) {
		if !is {
			all = append(all, what)
		}
	}
	hold(slices.Contains([]string{"v1.0", "v2.0"}, c.Imds.ImdsSupport), "ImdsSupport")
	hold(len(c.Tags) == 1 && c.Tags[0].Key == bursts.TagBurst && c.Tags[0].Value != "", "Tags: the tag by which the burst knows its instances")
	hold(slices.Contains([]string{"alinux2", "alinux2023", "ubuntu2004", "ubuntu2204", "ubuntu2404", "rhel8", "rhel9", "rocky8", "rocky9"}, c.Image.OS), "Os")
	hold(c.HeadNode.InstanceType != "" && subnet.MatchString(c.HeadNode.Networking.SubnetID), "HeadNode")
	hold(c.Scheduling.Scheduler == "slurm" && len(c.Scheduling.SlurmQueues) > 0, "Scheduling")
	hold(slices.Contains([]string{"DRAIN", "COMPUTE_FLEET_STOP", "TERMINATE"}, c.Scheduling.SlurmSettings.QueueUpdateStrategy), "QueueUpdateStrategy")
	for _, one := range c.Scheduling.SlurmSettings.CustomSlurmSettings {
		for name := range one {
			hold(!slices.Contains(denied, strings.ToLower(name)), name)
		}
	}
	for _, q := range c.Scheduling.SlurmQueues {
		hold(regexp.MustCompile(`^[a-z][a-z0-9\-]{0,24}$`).MatchString(q.Name), "Name of a queue")
		hold(slices.Contains([]string{"ONDEMAND", "SPOT", "CAPACITY_BLOCK"}, q.CapacityType), "CapacityType")
		hold(slices.Contains([]string{"lowest-price", "capacity-optimized", "price-capacity-optimized", "prioritized", "capacity-optimized-prioritized"}, q.AllocationStrategy), "AllocationStrategy")
		hold(dir.MatchString(q.ComputeSettings.LocalStorage.EphemeralVolume.MountDir), "EphemeralVolume")
		hold(len(q.Networking.SubnetIDs) > 0 && len(q.ComputeResources) > 0, "SubnetIds and ComputeResources")
		for _, id := range q.Networking.SubnetIDs {
			hold(subnet.MatchString(id), "SubnetIds")
		}
		for _, a := range append(c.HeadNode.IAM.S3Access, q.IAM.S3Access...) {
			hold(bucket.MatchString(a.BucketName), "BucketName")
		}
		for _, r := range q.ComputeResources {
			hold(r.Name != "" && len(r.Instances) > 0 && r.MinCount >= 0 && r.MaxCount >= max(1, r.MinCount), "ComputeResources")
		}
		hold(q.CustomActions.OnNodeConfigured.Script != "", "CustomActions of a queue")
	}
	for _, s := range c.SharedStorage {
		hold(s.Name != "" && dir.MatchString(s.MountDir) && s.StorageType == "FsxLustre", "SharedStorage")
		hold(len(s.FsxLustreSettings) == 1 && fsx.MatchString(s.FsxLustreSettings["FileSystemId"]), "FsxLustreSettings")
	}
	return all
}

// denied are settings of Slurm that ParallelCluster keeps for itself, in small letters.
var denied = strings.Fields(`communicationparameters epilog grestypes jobcomppass launchparameters prolog reconfigflags resumefailprogram resumeprogram resumetimeout slurmctldhost
	slurmctldlogfile slurmctldparameters slurmdlogfile slurmuser suspendexcnodes suspendprogram suspendtime taskplugin treewidth
	accountingstoragetype accountingstoragehost accountingstorageport accountingstorageuser jobacctgathertype`)

// The cluster of the example is one, of p5.48xlarge with EFA, with the FSx where the configuration has its tier, and what it installs is here.
func TestParallelCluster(t *testing.T) {
	text := readBurst(t, "parallelcluster.yaml")
	var c pcluster
	if err := strictly(text, &c); err != nil || len(c.wrong()) > 0 {
		t.Fatalf("%v, %v", err, c.wrong())
	}
	tiers := tiersOfBurst(t)
	queue := c.Scheduling.SlurmQueues[0]
	if r := queue.ComputeResources[0]; r.Instances[0].InstanceType != "p5.48xlarge" || !r.Efa.Enabled || !queue.Networking.PlacementGroup.Enabled {
		t.Errorf("%+v", r)
	}
	if at := tiers["project"].Path; c.SharedStorage[0].MountDir != at || queue.ComputeSettings.LocalStorage.EphemeralVolume.MountDir != tiers["scratch"].Path {
		t.Errorf("%+v, and project is at %s", c.SharedStorage, at)
	}
	for _, script := range []string{c.HeadNode.CustomActions.OnNodeConfigured.Script, queue.CustomActions.OnNodeConfigured.Script} {
		name := script[strings.LastIndex(script, "/")+1:]
		if out, err := exec.Command("bash", "-n", filepath.Join(burst, name)).CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", name, err, out)
		}
		for _, word := range regexp.MustCompile(`"\$from/([a-z.-]+)"`).FindAllStringSubmatch(readBurst(t, name), -1) {
			_, here := os.Stat(filepath.Join(burst, word[1]))
			_, hook := os.Stat(filepath.Join(examples, "..", "slurm", "datamove", word[1]))
			if word[1] != "datamove" && here != nil && hook != nil {
				t.Errorf("%s installs %s, which is not here", name, word[1])
			}
		}
	}
	set := c.Scheduling.SlurmSettings.CustomSlurmSettings[0]["TaskProlog"]
	if name := filepath.Base(set); !strings.Contains(readBurst(t, "parallelcluster-head.sh"), `"$scripts/`+name+`"`) {
		t.Errorf("nobody installs %s", set)
	}
	for what, other := range map[string]string{
		"a key too many":             strings.Replace(text, "    MountDir: /fsx", "    MountDir: /fsx\n    Path: /fsx", 1),
		"a letter too small":         strings.Replace(text, "ScaledownIdletime", "ScaleDownIdletime", 1),
		"a subnet that is none":      strings.Replace(text, "subnet-0123456789abcdef1", "subnet-1", 1),
		"what is ParallelCluster's":  strings.Replace(text, "TaskProlog", "Prolog", 1),
		"a file system that is none": strings.Replace(text, "fs-0123456789abcdef0", "fs-1", 1),
		"what is ignored":            strings.Replace(text, "      FileSystemId", "      StorageCapacity: 1200\n      FileSystemId", 1),
	} {
		var c pcluster
		if err := strictly(other, &c); err == nil && len(c.wrong()) == 0 {
			t.Errorf("%s is not found", what)
		}
	}
}

// sky is a task of SkyPilot, as far as the example uses it: names are those of skypilot-org/skypilot, sky/utils/schemas.py (get_task_schema,
// get_resources_schema: additionalProperties is false there), strategies those of sky/jobs/recovery_strategy.py.
type sky struct {
	Name      string `yaml:"name"`
	Resources struct {
		Infra        string            `yaml:"infra"`
		InstanceType string            `yaml:"instance_type"`
		UseSpot      bool              `yaml:"use_spot"`
		NetworkTier  string            `yaml:"network_tier"`
		DiskSize     int               `yaml:"disk_size"`
		Labels       map[string]string `yaml:"labels"` // tags of the instances, in AWS
		JobRecovery  struct {
			Strategy            string `yaml:"strategy"`
			MaxRestartsOnErrors int    `yaml:"max_restarts_on_errors"`
		} `yaml:"job_recovery"`
	} `yaml:"resources"`
	Envs       map[string]string `yaml:"envs"`
	FileMounts map[string]string `yaml:"file_mounts"`
	Setup      string            `yaml:"setup"`
	Run        string            `yaml:"run"`
}

// The task of the example is one of SkyPilot, on spot instances, and what it brings is here or is the user's.
func TestSkyPilot(t *testing.T) {
	text := readBurst(t, "skypilot.yaml")
	var s sky
	must.Do(t, strictly(text, &s))
	if s.Resources.Labels[bursts.TagBurst] == "" {
		t.Error("its instances have no tag by which the burst knows them")
	}
	r := s.Resources
	if !r.UseSpot || !regexp.MustCompile(`^aws/[a-z0-9-]+$`).MatchString(r.Infra) || r.NetworkTier != "best" || !slices.Contains([]string{"FAILOVER", "EAGER_NEXT_REGION"}, r.JobRecovery.Strategy) || r.JobRecovery.MaxRestartsOnErrors < 0 {
		t.Errorf("%+v", r)
	}
	for name := range s.Envs {
		if !regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`).MatchString(name) || !strings.Contains(s.Setup+s.Run, "$"+name) {
			t.Errorf("the variable %s is none, or nobody uses it", name)
		}
	}
	users := []string{"./datamove", "./train.py"}
	for to, from := range s.FileMounts {
		if _, err := os.Stat(filepath.Join(burst, from)); err != nil && !slices.Contains(users, from) {
			t.Errorf("%s: %v", from, err)
		}
		if !strings.Contains(s.Setup+s.Run, to) {
			t.Errorf("nobody uses %s", to)
		}
	}
	for what, script := range map[string]string{"setup": s.Setup, "run": s.Run, "train.sh": readBurst(t, "train.sh")} {
		c := exec.Command("bash", "-n")
		c.Stdin = strings.NewReader(script)
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", what, err, out)
		}
	}
	for _, tier := range tiersOfBurst(t) {
		if tier.Path != "" && !strings.Contains(s.Setup, tier.Path) {
			t.Errorf("nobody makes %s", tier.Path)
		}
	}
	if err := strictly(strings.Replace(text, "use_spot", "use_Spot", 1), &sky{}); err == nil {
		t.Error("a key that there is not is not found")
	}
}

func tiersOfBurst(t *testing.T) map[string]config.Tier {
	t.Helper()
	c := must.Get(config.Parse("config.yaml", []byte(readBurst(t, "config.yaml")), none))(t)
	return c.Tiers
}

// What the script asks for can be asked for in AWS, and on premises with the tiers that its configuration names in a comment.
func TestBurstScript(t *testing.T) {
	var there strings.Builder
	there.WriteString("tiers:\n")
	for line := range strings.Lines(readBurst(t, "config.yaml")) {
		if tier, is := strings.CutPrefix(line, "#   "); is {
			there.WriteString("  " + tier)
		}
	}
	for what, text := range map[string]string{"AWS": readBurst(t, "config.yaml"), "on premises": there.String()} {
		c, err := config.Parse("config.yaml", []byte(text), none)
		if err != nil || len(c.Tiers) != 3 {
			t.Fatalf("%s: %v\n%s", what, err, text)
		}
		job, err := directive.Parse(directive.Text{Script: readBurst(t, "train.sh")}, burstbuffer.TiersOf(c))
		if err != nil || len(job.Requests) != 2 {
			t.Errorf("%s: %v, %v", what, job, err)
		}
	}
}

// The Job of EKS is held as the other examples are, and sees at their paths what its configuration names.
func TestEKS(t *testing.T) {
	text := readBurst(t, "eks.yaml")
	if out, err := kubeconform(t, text); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	all := objects(t, "eks.yaml", text)
	volume, claim := of[*corev1.PersistentVolume](all)[0], of[*corev1.PersistentVolumeClaim](all)[0]
	if volume.Spec.CSI.Driver != "fsx.csi.aws.com" || claim.Spec.VolumeName != volume.Name || volume.Spec.ClaimRef.Name != claim.Name || *claim.Spec.StorageClassName != volume.Spec.StorageClassName {
		t.Errorf("%+v is not for %+v", volume.Spec, claim.Spec)
	}
	for _, name := range []string{"dnsname", "mountname"} { // what kubernetes-sigs/aws-fsx-csi-driver wants of a volume that is there: examples/kubernetes/static_provisioning
		if volume.Spec.CSI.VolumeAttributes[name] == "" {
			t.Errorf("%s is missing", name)
		}
	}
	p := of[*batchv1.Job](all)[0].Spec.Template.Spec
	watch, training := p.InitContainers[0], p.Containers[0]
	if watch.RestartPolicy == nil || *watch.RestartPolicy != corev1.ContainerRestartPolicyAlways || watch.Image != training.Image {
		t.Errorf("%+v is not beside the training", watch)
	}
	s := p.SecurityContext
	if s == nil || !*s.RunAsNonRoot || s.SeccompProfile == nil || p.ServiceAccountName != of[*corev1.ServiceAccount](all)[0].Name {
		t.Errorf("%+v", p)
	}
	for _, c := range []corev1.Container{watch, training} {
		if *c.SecurityContext.AllowPrivilegeEscalation || !slices.Equal(c.SecurityContext.Capabilities.Drop, []corev1.Capability{"ALL"}) {
			t.Errorf("%s: %+v", c.Name, c.SecurityContext)
		}
		for name, tier := range tiersOfBurst(t) {
			if tier.Path != "" && !slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == tier.Path }) {
				t.Errorf("%s does not see %s at %s", c.Name, name, tier.Path)
			}
		}
	}
	grace := regexp.MustCompile(`--grace (\d+)s`).FindStringSubmatch(watch.Command[2])
	if grace == nil || *p.TerminationGracePeriodSeconds != 120 || grace[1] != "100" {
		t.Errorf("the watch has %v of %d seconds", grace, *p.TerminationGracePeriodSeconds)
	}
	directory := tiersOfBurst(t)["scratch"].Path + "/train/ckpt" // of train.sh, by its name and by the word in its request
	if strings.Count(watch.Command[2], directory) != 2 || training.Command[1] != "/code/train.sh" {
		t.Errorf("%q watches something else than %s", watch.Command, directory)
	}
}

// The table of the README has every file.
func TestBurstReadme(t *testing.T) {
	files := must.Get(os.ReadDir(burst))(t)
	readme := readBurst(t, "README.md")
	for _, f := range files {
		if f.Name() != "README.md" && !strings.Contains(readme, "`"+f.Name()+"`") {
			t.Errorf("README.md does not name %s", f.Name())
		}
	}
}
