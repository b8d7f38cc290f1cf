package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"datamove.dev/mover"
	"datamove.dev/mover/atomicfile"
)

// Template is a file with every key explained and nothing set.
const Template = `# Configuration of datamove. Check it with: datamove config check

# Tiers are named places: "archive:run-7" is run-7 below the tier archive.
# Each has a level (hot: node NVMe, warm: parallel file system, cold: objects)
# and either a path or a bucket.
tiers:
#  scratch:
#    level: hot
#    path: /local_nvme
#    ephemeral: true            # purge may remove what is here
#    node_local: true           # each node has its own
#    cache: {high: 85%, low: 70%}   # from this fullness on, replicas leave until that one
#    keep_free: 10%             # of the file system, for others than datamove: nothing is staged or copied into it
#  project:
#    level: warm
#    path: /lustre/project
#    scan: 24h                  # the catalog (find, usage, policies) is never older than that; leave it out to scan when you say
#    feed: inotify              # and hears of changes as they happen, on disks of one node; on Lustre: feed: changelog, with reader: cl1; of a MinIO: feed: events, of AWS with queue: https://sqs.REGION.amazonaws.com/ACCOUNT/NAME
#    verify: 720h               # and is compared with what is there in that time, a part each hour: not everything is told
#    checkpoints: {folders: [runs/*/checkpoints]}   # where jobs save: policies know them then, and have them copied and thinned as a whole
#    kind: lustre               # refused where something else is at the path: it is not mounted there
#  archive:
#    level: cold
#    s3:
#      endpoint: https://s3.site:9000   # leave it out for AWS
#      bucket: archive
#      prefix: team-a                   # leave it out for the whole bucket
#      region: us-east-1
#      credentials: file:/etc/datamove/archive.env   # or profile:NAME, or env
#      ca: /etc/datamove/ca.pem         # who signed the endpoint's certificate
#      path_style: true                 # leave it out to find out
#      client: auto                     # auto, minio or aws
#      encryption: aws:kms              # how the store has to encrypt what is written (or aws:kms:dsse, AES256); one that does not say that it does is sent nothing
#      kms_key: alias/archive           # by which key: an ARN, an id or an alias; leave it out for the store's usual one
#      trusted: true                    # who may write there is believed: setuid bits, attributes of security.* and trusted.*, and devices come from it without being asked for by name
#      require_region: us-east-1        # nothing is read or written when the bucket is in another region, or the store does not say in which

# A credentials file has mode 0600 and two lines:
# AWS_ACCESS_KEY_ID=...
# AWS_SECRET_ACCESS_KEY=...

# How a file system of Storage Scale (GPFS) is asked about filesets, quotas and pools:
# by the REST API of its GUI. Without this, by the mm commands, which also say and set the
# pool of a file.
#gpfs:
#  fs1:                         # the name of its device
#    url: https://gui.site:443
#    credentials: /etc/datamove/scale.env   # mode 0600: SCALE_USER=... and SCALE_PASSWORD=...
#    ca: /etc/datamove/ca.pem   # who signed the GUI's certificate
#    as: gpfs0                  # what its own cluster calls it; leave it out where that is the same
#    commands: /opt/scale/sudo  # wrappers of the mm commands; leave it out for /usr/lpp/mmfs/bin

# With a service, copies run there. Without one they run in the command itself.
#service: unix:///run/datamove/datamoved.sock

# What follows is for the service, datamoved.

# Where it answers. On a unix socket the kernel says who calls; over tcp a client
# certificate does.
#listen: [unix:///run/datamove/datamoved.sock, tcp://0.0.0.0:7643]
#metrics: 127.0.0.1:7644       # metrics and the web page, for this machine alone
#scrape: 0.0.0.0:7644          # metrics and health alone, for the network: they name no person, task or path
#data: /var/lib/datamove       # its state
#node: n17                     # leave it out for the name of the host

# Who may use what. Without projects, everybody uses paths as the kernel lets them,
# and buckets are for who runs the service. With projects, only members use
# anything, and only below the roots.
#projects:
#  vision:
#    roots: ["project:vision", "archive:vision", /lustre/vision]
#    reads: ["archive:public"]  # more roots, to read only
#    members: [alice, "@vision"]    # people and @groups
#    weight: 2                  # its share beside other projects; 1 if left out
#    s3: {credentials: file:/etc/datamove/vision.env}   # instead of those of the tiers

# Who may do more than everybody may. Root, and who runs the service, may do
# everything on its own socket; root of a node that joined may only look.
#roles:
#  operator: {members: ["@storage"], may: [task.*, dataset.*, agent.drain]}
#  admin: {members: [carol], may: ["*"]}
#  slurm: {members: [slurm], may: [person.act]}   # calls for others, as hooks of Slurm do that run as SlurmUser;
#                             # root on its node may do so in any case. "*" does not give it: name it

# People who come from other machines: the common name of their certificate.
#users:
#  alice: {certificate: alice}

# Where the accounts of this node are, passwd and group, for a service in a container. Without
# this its name service is asked (getent), which has those of LDAP, too.
#accounts: /host/etc

# What all agents together may do at one endpoint: a tier, or s3://bucket. A datamove burst that
# moves by itself is held to the rates, too.
#limits:
#  - endpoint: archive
#    direction: read            # or write; leave it out for each of them
#    rate: 20GB/s
#    ops: 5000                  # calls per second
#    windows: ["Mon-Fri 08:00-18:00"]   # leave it out for always
#    zone: Europe/Berlin        # of the windows; leave it out for that of the machine

# How much of the service one account may hold. What is not said is as in default here; of groups and roles the
# largest counts, and users before them. Root and the account of the service have no quota. datamove usage --me shows it.
#quotas:
#  default:
#    slots: 75%                 # of the tasks that an agent leads at one time
#    tasks: 10000               # that have not ended
#    specs: 32MiB               # of the records of tasks; the oldest of those that ended are forgotten for new ones
#    leases: 10000              # and stagings that are waited for
#    requests: 100000           # whose idempotency keys are remembered for a day
#    datasets: 10000            # names of them
#    journals: 4GiB             # in the directory of its journals on an agent, by the configuration there; not said, a tenth of a smaller disk
#  users: {alice: {tasks: 50000}}
#  groups: {vision: {leases: 50000}}
#  roles: {operator: {specs: 1GiB}}

#audit: {dir: /var/lib/datamove/audit, sync: true}   # sync: on stable storage before it takes effect
#leases: {lead: 30s}           # how long an agent may be silent
#agent: {spares: 4}            # processes that wait for the next task, one for each of the
                              # accounts that had one last, for a minute; 0 is none.
                              # journals: /var/tmp/datamove is where users have the journals of their tasks. They can
                              # fill its disk up to their quotas, so it is best another one than that of data

#peers: {listen: 0.0.0.0:7645} # where this node gives others what they stage, too, over TLS; off is nowhere; without
                              # it port 7645 of the address from which this node reaches the coordinator.
                              # host: by which name or address they reach it, where the coordinator sees another one

# Rules of what happens to files on the tiers: each file that ends in .yaml has policies. Check them with: datamove policy lint.
#policies: /etc/datamove/policies

# What the hooks of Slurm need to know. On a node: the tier of the directories of jobs (the only one that is node_local and
# ephemeral), how long a hook may take, for how long nothing in a checkpoint has to change before it leaves the node, and, on ext4
# and xfs, the project IDs that hold jobs to their capacity=, which nothing else on these disks may use. On the host of slurmctld: the tier that all nodes see, onto which datasets are brought that
# lie on none; how long data may take to come onto the nodes of a job, which is less than OtherTimeout of
# burst_buffer.conf; the most bytes that one job may have staged; and where the records of jobs are, in a directory of SlurmUser. On all of them, and on
# login nodes: the name of the cluster, where several Slurm clusters have one coordinator, which have the same numbers of jobs.
#slurm: {cluster: lab, scratch: scratch, deadline: 5s, quiet: 30s, warm: lustre, ready: 4m, most: 50TiB, records: /var/lib/datamove/slurm, project_ids: 3000000-3999999}

# Archives of a Lustre with HSM that this node serves: what lfs hsm_archive, a policy
# engine or a reader of a released file asks for. It needs root.
#hsm:
#  - mount: /lustre             # a mount has one copytool, and so one archive
#    archive: 1                 # as in lfs hsm_archive --archive 1
#    to: "archive:hsm"          # a tier, and a path or prefix in it, of this file system alone
#    jobs: 4                    # files at a time; 4 if left out

# How agents join that have no token of ours: on Kubernetes a pod has one of its own, and the API
# server says on which node it runs. Outside of a pod: where that server is, and who we are there.
#join:
#  kubernetes:
#    service_account: datamove/datamove-agent     # NAMESPACE/NAME of agents
#    config_map: datamove/datamove-authority      # where the pin of this service is written for them
#    audience: datamove         # of their tokens; datamove if left out
#    server: https://api.site:6443
#    ca: /etc/datamove/kubernetes.pem             # who signed its certificate
#    token: /etc/datamove/kubernetes.token        # ours, mode 0600; it may make TokenReviews

# What training in AWS (datamove burst) may cost each team, in a calendar month or in total, and whom to ask for more. The prices
# of a region are in REGION.yaml, and the rules by which a job may be there at all in admission: the program has both itself.
# With a service, the members of the project that has the name of a team may use its account.
#burst:
#  accounts:
#    vision: {cap: "$20,000", period: month, ask: ml-ops@site.example}
#  prices: /etc/datamove/prices
#  admission: /etc/datamove/admission.yaml

# Notices of policies go by mail: to owners of what the next run takes away (report: {preview: 3d}), to the users that a
# rule names that notifies, and to the owner of a policy when a run of it was stopped or waits for an approval.
#mail: {server: "mail.site:25", from: datamove@site.example}    # and domain, of users that are named without one

# A webhook hears of stopped runs, and of rules that notify webhook:NAME. The file has its URL and mode 0600.
#webhooks:
#  ops: {file: /etc/datamove/ops.url, format: slack}    # or mattermost, or json

#trace: {endpoint: "http://127.0.0.1:4317"}    # where OpenTelemetry listens
`

// Init writes the template where [Load] will find it and returns the name of the
// file. The file is the owner's alone (0600) and appears whole. An existing one is
// kept, unless force is set.
func Init(getenv func(string) string, force bool) (string, error) {
	file := getenv("DATAMOVE_CONFIG")
	if file == "" {
		file = userFile(getenv)
	}
	if file == "" {
		return "", fmt.Errorf("%w: there is no home directory: name the file with --config", mover.ErrUsage)
	}
	return file, write(file, force)
}

func write(file string, force bool) error {
	dir := filepath.Dir(file)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	err := atomicfile.Write(file, []byte(Template), atomicfile.Options{Exclusive: !force, Draft: ".config-*.yaml"})
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: %s is there already: keep it, or replace it with --force", mover.ErrConflict, mover.Printable(file))
	}
	return err
}
