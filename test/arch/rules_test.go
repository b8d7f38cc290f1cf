package arch

// step is how high a package stands. Arrows point down: what is on one step never
// imports anything on the same one, but for the parts of one command.
type step int

const (
	words    step = iota // what everything is written in
	parts                // places, wrappers around places, and pure packages
	rules                // what is made of parts: pure packages that decide, and who asks a mounted Lustre
	memory               // what survives a process (journal, ledger, queue, audit), and who asks file systems of every kind
	motion               // what moves bytes: transfer
	task                 // one task from its beginning to its end
	person               // what does a task as the person who asked
	trip                 // what moves many things one after the other, as the person who asked: over the link to a cloud
	errand               // long work of such trips, which has its own record
	services             // the coordinator, the process of a task, and who comes in
	agents               // the node's side, which starts these processes
	commands             // flags in, wiring, exit code out
	tests                // what only tests use; it may import anything below
)

// packages has one line for each package of the module, but for what is below
// test, which may import anything of ours: its step, and what it may import. A new
// package adds its line.
var packages = map[string]struct {
	step step
	may  []string
}{
	"mover":                 {words, nil},
	"mover/buffer":          {words, []string{"mover"}},
	"lustre":                {words, nil},
	"api/datamove/v1":       {words, nil},
	"api/datamove/agent/v1": {words, []string{"api/datamove/v1"}},

	"mover/crc":      {parts, nil},
	"mover/units":    {words, nil},
	"mover/rate":     {words, nil},
	"test/must":      {words, nil}, // of packages for tests only
	"mover/spelling": {words, nil},
	"mover/remedy":   {words, []string{"mover"}},
	"mover/location": {parts, []string{"mover"}},
	"mover/manifest": {parts, []string{"mover"}},
	"mover/plan":     {parts, []string{"mover"}},
	"mover/config":   {parts, []string{"mover", "mover/spelling", "mover/units"}},
	"mover/quota":    {parts, []string{"mover", "mover/units"}},
	"mover/posix":    {parts, []string{"mover", "mover/buffer"}},
	"mover/s3":       {parts, []string{"mover", "mover/buffer", "mover/remedy"}},
	"mover/mem":      {parts, []string{"mover"}},
	"mover/retry":    {parts, []string{"mover"}},
	"mover/limit":    {parts, []string{"mover"}},
	"mover/fault":    {parts, []string{"mover"}},
	"mover/meter":    {parts, []string{"mover"}},
	"mover/swarm":    {parts, []string{"mover", "mover/buffer"}},
	"bench/compare":  {motion, []string{"bench/ceiling", "bench/record", "bench/statistic"}},
	"bench/record":   {parts, []string{"mover"}},
	"bench/load":     {memory, []string{"bench/record", "mover", "mover/buffer", "mover/crc"}},
	"bench/suite":    {motion, []string{"bench/load", "bench/record", "mover", "mover/spelling", "mover/units"}},
	"bench/party":    {motion, []string{"bench/load", "bench/record", "mover"}},
	"bench/report":   {motion, []string{"bench/model", "bench/record", "bench/statistic", "mover", "mover/units"}},
	"bench/ceiling":  {memory, []string{"mover", "mover/crc"}},
	"bench/model":    {memory, []string{"bench/record", "mover", "mover/declare", "mover/units"}},
	"lustre/abi":     {parts, []string{"lustre"}},
	"lustre/gpfs":    {parts, []string{"lustre"}},
	"lustre/ceph":    {parts, []string{"lustre"}},
	"lustre/plain":   {parts, []string{"lustre"}},

	"api/datamove/ledger/v1": {parts, []string{"api/datamove/v1"}},
	"api":                    {parts, []string{"mover", "mover/units", "api/datamove/v1"}},
	"mover/account":          {parts, []string{"mover"}},
	"mover/acting":           {parts, []string{"mover"}},
	"mover/shelf":            {parts, []string{"mover"}},
	"mover/share":            {parts, []string{"mover", "api/datamove/v1"}},
	"mover/task":             {parts, []string{"mover", "api/datamove/v1"}},
	"mover/telemetry":        {parts, []string{"mover", "api/datamove/v1", "api/datamove/agent/v1"}},
	"mover/trust":            {parts, []string{"mover"}},
	"mover/kubernetes":       {parts, []string{"mover"}},
	"mover/web":              {parts, nil},
	"bench/statistic":        {words, nil},
	"tiering/hook/hostlist":  {parts, []string{"mover"}},

	"mover/trash":            {rules, []string{"mover", "mover/limit"}},
	"mover/peer":             {rules, []string{"mover", "mover/crc", "mover/swarm", "mover/trust", "api/datamove/agent/v1"}},
	"mover/recall":           {rules, []string{"mover"}},
	"mover/mail":             {rules, []string{"mover"}},
	"mover/access":           {rules, []string{"mover", "mover/location", "api/datamove/v1", "api/datamove/agent/v1"}},
	"tiering":                {rules, []string{"mover", "mover/location", "api/datamove/v1"}},
	"tiering/hook/slurmconf": {rules, []string{"tiering/hook/hostlist"}},
	"tiering/hook/directive": {rules, []string{"mover", "mover/location", "mover/spelling", "mover/units"}},
	"tiering/checkpoint":     {rules, []string{"mover"}},
	"tiering/burst/notice":   {rules, []string{"mover"}},
	"tiering/stage":          {rules, []string{"mover", "mover/units", "api", "api/datamove/v1"}},

	"lustre/client":   {rules, []string{"lustre", "lustre/abi"}},
	"lustre/claim":    {memory, []string{"lustre", "mover"}},
	"lustre/system":   {memory, []string{"lustre", "lustre/client", "lustre/gpfs", "lustre/ceph", "lustre/plain"}},
	"lustre/copytool": {memory, []string{"lustre", "lustre/abi", "lustre/client"}},

	"mover/store":          {rules, []string{"mover", "mover/units"}},
	"mover/declare":        {rules, []string{"mover", "mover/spelling"}},
	"tiering/policy":       {memory, []string{"lustre", "mover", "mover/declare", "mover/spelling", "mover/units", "tiering"}},
	"tiering/catalog":      {memory, []string{"mover", "mover/store", "tiering"}},
	"deploy/prices":        {words, nil},
	"tiering/budget/price": {memory, []string{"mover", "mover/declare"}},
	"tiering/budget":       {motion, []string{"mover", "tiering/budget/price"}},
	"tiering/burst":        {motion, []string{"mover", "mover/declare", "mover/location", "mover/units", "tiering/budget/price", "tiering/checkpoint"}},
	"tiering/burst/amazon": {task, []string{"mover", "mover/s3", "tiering/budget/price", "tiering/burst"}},
	"tiering/burst/shelf":  {task, []string{"mover", "tiering/burst"}},
	"tiering/burst/wan":    {trip, []string{"mover", "mover/limit", "mover/share", "mover/local", "mover/location", "mover/plan", "tiering/burst", "tiering/checkpoint", "tiering/checkpoint/hop"}},
	"tiering/burst/leg":    {errand, []string{"mover", "mover/local", "mover/location", "mover/s3", "mover/site", "mover/units", "tiering/budget", "tiering/budget/price", "tiering/burst", "tiering/burst/amazon", "tiering/burst/wan", "tiering/checkpoint"}},
	"tiering/run":          {motion, []string{"mover", "api/datamove/v1", "tiering", "tiering/catalog", "tiering/policy"}},
	"tiering/feed":         {motion, []string{"mover", "tiering/catalog"}},
	"tiering/query":        {motion, []string{"mover", "api/datamove/v1", "tiering", "tiering/catalog", "tiering/policy"}},
	"mover/journal":        {memory, []string{"mover", "mover/store"}},
	"mover/audit":          {memory, []string{"mover"}},
	"mover/ledger":         {memory, []string{"mover", "mover/location", "mover/store", "api/datamove/v1", "api/datamove/ledger/v1"}},
	"mover/queue":          {memory, []string{"mover"}},

	"lustre/hints": {motion, []string{"mover", "lustre", "lustre/system"}},

	"mover/transfer": {motion, []string{"mover", "mover/buffer", "mover/crc", "mover/plan", "mover/manifest", "mover/limit", "mover/retry", "mover/journal"}},

	"mover/local": {task, []string{"mover", "mover/buffer", "mover/crc", "mover/location", "mover/manifest", "mover/plan", "mover/rate", "mover/remedy",
		"mover/posix", "mover/s3", "mover/retry", "mover/limit", "mover/journal", "mover/transfer"}},

	"mover/vault": {task, []string{"mover", "mover/buffer", "mover/plan", "mover/retry", "mover/transfer"}},

	"tiering/checkpoint/hop": {person, []string{"mover", "mover/local", "mover/location", "mover/plan", "mover/retry", "mover/transfer", "tiering/checkpoint"}},

	"tiering/feed/changelog": {task, []string{"lustre", "lustre/client", "mover", "tiering/catalog", "tiering/feed"}},
	"tiering/feed/bucket":    {task, []string{"tiering/catalog", "tiering/feed"}},
	"tiering/feed/far":       {task, []string{"api/datamove/agent/v1", "mover", "tiering/catalog", "tiering/feed"}},
	"tiering/feed/watch":     {task, []string{"mover", "tiering/feed"}},

	"mover/site": {person, []string{"mover", "mover/config", "mover/local", "mover/location", "mover/posix", "mover/s3"}},
	"mover/wire": {person, []string{"mover", "mover/local", "mover/location", "mover/plan", "mover/rate", "mover/units", "api/datamove/v1"}},

	"mover/worker": {services, []string{"mover", "mover/config", "mover/limit", "mover/local", "mover/location", "mover/meter", "mover/peer", "mover/plan", "mover/rate", "mover/remedy", "mover/site", "mover/swarm", "mover/telemetry", "mover/transfer", "mover/units", "mover/wire", "tiering/budget", "tiering/budget/price", "tiering/burst", "tiering/burst/leg", "tiering/catalog", "tiering/checkpoint", "tiering/checkpoint/hop", "tiering/feed", "tiering/feed/far", "tiering/run",
		"api", "api/datamove/v1", "api/datamove/agent/v1"}},
	"mover/service": {services, []string{"mover", "mover/access", "mover/audit", "mover/config", "mover/ledger", "mover/location", "mover/mail", "mover/manifest",
		"mover/queue", "mover/quota", "mover/share", "mover/swarm", "mover/task", "mover/telemetry", "mover/trust", "mover/units", "mover/wire", "tiering", "tiering/budget", "tiering/budget/price", "tiering/burst", "tiering/burst/leg", "tiering/catalog", "tiering/checkpoint", "tiering/feed", "tiering/feed/far", "tiering/policy", "tiering/query", "tiering/run",
		"deploy/prices", "mover/declare", "api/datamove/v1", "api/datamove/agent/v1", "api/datamove/ledger/v1"}},
	"mover/agent": {agents, []string{"mover", "mover/account", "mover/acting", "mover/config", "mover/local", "mover/location", "mover/peer", "mover/quota", "mover/rate", "mover/remedy", "mover/s3", "mover/share", "mover/shelf", "mover/site", "mover/swarm", "mover/telemetry",
		"mover/wire", "mover/worker", "api", "api/datamove/v1", "api/datamove/agent/v1"}},
	"mover/door": {services, []string{"mover", "mover/access", "mover/account", "mover/audit", "mover/telemetry", "mover/trust", "api", "api/datamove/v1", "api/datamove/agent/v1"}},

	"tiering/hook/controller": {task, []string{"mover", "mover/config", "mover/location", "mover/units", "api", "api/datamove/v1", "tiering/hook", "tiering/hook/directive", "tiering/stage"}},
	"tiering/hook":            {motion, []string{"lustre", "lustre/claim", "lustre/system", "mover", "mover/config", "mover/location", "mover/trash", "mover/units", "api", "api/datamove/v1", "tiering/checkpoint", "tiering/hook/hostlist", "tiering/stage"}},
	"tiering/hook/outside":    {person, []string{"mover", "mover/config", "mover/location", "tiering/hook", "tiering/hook/controller", "tiering/hook/directive"}},
	"tiering/hook/carrier":    {task, []string{"mover", "mover/location", "api", "api/datamove/v1", "tiering/checkpoint", "tiering/hook", "tiering/stage"}},

	"csi/volume":          {rules, []string{"lustre", "mover", "mover/location"}},
	"csi/mount":           {parts, []string{"mover"}},
	"csi/hand":            {parts, []string{"mover"}},
	"csi/registrar":       {parts, []string{"mover"}},
	"csi/base":            {motion, []string{"lustre", "lustre/claim", "lustre/gpfs", "lustre/system", "mover", "mover/trash", "csi/volume"}},
	"csi/files":           {task, []string{"lustre", "mover", "mover/shelf", "csi/base", "csi/hand", "csi/mount", "csi/volume"}},
	"csi/kube":            {motion, []string{"mover", "csi/relay", "csi/volume"}},
	"csi/metrics":         {parts, nil},
	"csi/relay":           {parts, []string{"mover"}},
	"csi/relay/relaytest": {tests, []string{"csi/relay", "test/must"}},
	"csi":                 {services, []string{"lustre", "lustre/gpfs", "mover", "mover/units", "csi/base", "csi/files", "csi/kube", "csi/metrics", "csi/mount", "csi/relay", "csi/volume", "tiering/stage"}},

	"cmd/datamove":            {commands, []string{"cmd/datamove/cli"}},
	"cmd/datamoved":           {commands, []string{"cmd/datamoved/daemon"}},
	"cmd/datamove-csi":        {commands, []string{"cmd/datamove-csi/driver"}},
	"cmd/datamove-bench":      {commands, []string{"cmd/datamove-bench/harness"}},
	"cmd/datamove-csi/driver": {commands, []string{"api", "mover", "csi", "csi/files", "csi/hand", "csi/kube", "csi/registrar", "csi/relay", "tiering/stage"}},
	"cmd/datamoved/daemon": {commands, []string{"mover/kubernetes", "lustre", "lustre/hints", "lustre/system", "mover", "mover/access", "mover/account", "mover/acting", "mover/agent", "mover/audit", "mover/config", "mover/door",
		"mover/ledger", "mover/peer", "mover/queue", "mover/s3", "mover/service", "mover/store", "mover/telemetry", "mover/trash", "mover/trust", "mover/web", "mover/worker", "tiering/catalog", "tiering/feed", "tiering/feed/bucket", "tiering/feed/changelog", "tiering/feed/watch", "tiering/policy", "tiering/hook", "tiering/hook/carrier", "api", "api/datamove/v1", "api/datamove/agent/v1", "lustre/abi", "lustre/client", "lustre/copytool", "mover/local", "mover/location", "mover/retry", "mover/site", "mover/vault", "mover/remedy"}},
	"cmd/datamove/cli": {commands, []string{"mover", "mover/config", "mover/declare", "mover/location", "mover/manifest", "mover/plan", "mover/posix", "mover/rate", "mover/recall", "mover/s3", "mover/remedy", "mover/spelling",
		"mover/limit", "mover/share", "mover/retry", "mover/local", "mover/site", "mover/wire", "mover/audit", "mover/trust", "lustre", "lustre/ceph", "lustre/gpfs", "lustre/hints", "lustre/system", "api", "api/datamove/v1", "cmd/datamove/demo", "cmd/datamove/doctor", "cmd/datamove/progress", "mover/account", "mover/units", "deploy/prices", "tiering/budget", "tiering/budget/price", "tiering/burst", "tiering/burst/amazon", "tiering/burst/leg", "tiering/burst/shelf", "tiering/burst/wan", "tiering/burst/notice", "tiering/catalog", "tiering/checkpoint", "tiering/checkpoint/hop", "tiering/policy", "tiering/query", "tiering/run", "tiering/hook", "tiering/hook/outside", "tiering/hook/controller", "tiering/hook/directive", "tiering/hook/hostlist", "tiering/hook/slurmconf", "mover/quota"}},
	"cmd/datamove/demo":          {commands, []string{"mover", "mover/units"}},
	"cmd/datamove/doctor":        {commands, []string{"lustre", "lustre/ceph", "mover", "mover/config", "mover/crc", "mover/location", "mover/posix", "mover/s3", "mover/units", "tiering/hook/slurmconf"}},
	"cmd/datamove/progress":      {commands, []string{"mover", "mover/local", "mover/plan", "mover/rate", "mover/units"}},
	"cmd/datamove-bench/harness": {commands, []string{"bench/ceiling", "bench/compare", "bench/load", "bench/model", "bench/party", "bench/record", "bench/report", "bench/suite", "lustre", "lustre/system", "mover", "mover/config", "mover/local", "mover/location", "mover/site", "mover/units"}},

	"mover/placetest":          {tests, []string{"mover", "mover/crc", "mover/buffer"}},
	"mover/kubernetes/apitest": {tests, []string{"test/must"}},
	"lustre/copytool/copytest": {tests, []string{"lustre", "lustre/abi", "test/must"}},

	"bench/report/reporttest":         {tests, []string{"bench/model", "bench/record", "bench/report", "test/must"}},
	"mover/s3/s3test":                 {tests, []string{"mover", "mover/s3"}},
	"tiering/burst/notice/noticetest": {tests, nil},

	"tiering/feed/feedtest": {tests, []string{"mover", "tiering", "tiering/catalog", "test/must"}},
}

// homes says which packages may import a library, in code that is shipped; a
// command stands for its parts. A library that is not here has no home yet: give
// it one, or do without it.
var homes = map[string][]string{
	"github.com/HdrHistogram/hdrhistogram-go":     {"bench/load", "bench/party", "bench/report"},
	"github.com/dgraph-io/badger/v4":              {"mover/store", "mover/journal", "mover/ledger", "tiering/catalog"},
	"github.com/nats-io":                          {"mover/queue"},
	"github.com/coreos/go-systemd/v22":            {"cmd/datamoved/daemon", "mover/door"},
	"github.com/landlock-lsm":                     {"mover/acting"},
	"github.com/prometheus":                       {"csi/metrics", "mover/telemetry"},
	"go.opentelemetry.io":                         {"mover/telemetry"},
	"github.com/grpc-ecosystem":                   {"api"},
	"google.golang.org/genproto":                  {"api"},
	"github.com/container-storage-interface/spec": {"csi"},
	"github.com/moby/sys":                         {"csi/mount", "mover/posix"},
	"k8s.io/kubelet":                              {"csi/registrar"},
	"k8s.io/client-go":                            {"csi/kube"},
	"k8s.io/api":                                  {"csi/kube"},
	"k8s.io/apimachinery":                         {"csi/kube"},
	"google.golang.org/grpc":                      {"csi", "csi/metrics", "csi/registrar", "csi/relay", "csi/relay/relaytest", "cmd/datamove-csi/driver", "api", "mover/agent", "mover/door", "mover/service", "mover/telemetry", "mover/worker", "cmd/datamoved/daemon", "cmd/datamove/cli"},
	"google.golang.org/protobuf":                  {"csi", "api", "mover/agent", "mover/door", "mover/ledger", "mover/peer", "mover/service", "mover/share", "mover/telemetry", "mover/wire", "mover/worker", "tiering", "tiering/feed/far", "tiering/hook", "tiering/query", "tiering/run", "tiering/stage", "cmd/datamove/cli"},
	"github.com/minio/minio-go/v7":                {"mover/s3"},
	"github.com/aws/aws-sdk-go-v2":                {"mover/s3", "tiering/burst/amazon", "tiering/burst/notice"},
	"github.com/aws/smithy-go":                    {"mover/s3", "tiering/burst/amazon"},
	"github.com/pkg/xattr":                        {"mover/posix", "lustre/client", "lustre/ceph"},
	"github.com/minio/crc64nvme":                  {"mover/crc", "mover/mem"},
	"github.com/klauspost/compress":               {"mover/manifest", "tiering/checkpoint"},
	"github.com/bmatcuk/doublestar/v4":            {"mover/plan", "tiering/policy"},
	"github.com/knadh/koanf":                      {"mover/config"},
	"cel.dev/cel-go":                              {"tiering/policy"},
	"github.com/robfig/cron/v3":                   {"tiering/policy"},
	"go.yaml.in/yaml/v3":                          {"csi", "mover/config", "mover/declare", "tiering/burst", "tiering/policy", "cmd/datamove/cli", "bench/model"},
	"github.com/spf13/cobra":                      {"cmd/datamove/cli", "cmd/datamove-csi/driver", "cmd/datamoved/daemon", "cmd/datamove-bench/harness"},
	"github.com/spf13/pflag":                      {"cmd/datamove/cli", "cmd/datamove-csi/driver", "cmd/datamoved/daemon", "cmd/datamove-bench/harness"},
	"golang.org/x/term":                           {"cmd/datamove/cli"},
	"golang.org/x/time":                           {"mover/door"},
	"golang.org/x/sync":                           {"mover/buffer", "mover/peer", "mover/posix", "mover/recall", "mover/s3", "mover/transfer", "mover/local", "mover/shelf", "tiering/catalog", "tiering/checkpoint", "tiering/checkpoint/hop", "tiering/feed/bucket", "tiering/feed/changelog", "tiering/feed/far", "tiering/feed/watch", "cmd/datamove/cli", "cmd/datamove-csi/driver"},
	"golang.org/x/sys":                            {"lustre/claim", "csi/base", "csi/files", "csi/hand", "csi/mount", "mover/vault", "lustre/client", "lustre/gpfs", "lustre/ceph", "lustre/plain", "lustre/system", "lustre/copytool", "lustre/hints", "mover/buffer", "mover/posix", "mover/s3", "mover/store", "mover/transfer", "mover/local", "mover/location", "mover/account", "mover/acting", "mover/agent", "mover/audit", "mover/door", "mover/ledger", "mover/service", "mover/shelf", "mover/trash", "tiering/budget", "tiering/burst/shelf", "tiering/catalog", "tiering/checkpoint", "tiering/checkpoint/hop", "tiering/feed/watch", "tiering/hook", "cmd/datamove/cli", "cmd/datamoved/daemon", "bench/ceiling", "bench/compare", "bench/load", "bench/record"},
}

// heavy are packages that take a minute to compile, with what is below them, and what does without them.
var heavy = map[string]string{
	"github.com/aws/aws-sdk-go-v2/service/ec2": "tiering/burst/amazon/query.go",
}

// card is the design card: what has to be used directly as soon as the part that
// needs it exists.
var card = map[string]string{
	"github.com/dgraph-io/badger/v4":              "mover/journal",
	"github.com/minio/minio-go/v7":                "mover/s3",
	"github.com/aws/aws-sdk-go-v2":                "mover/s3",
	"github.com/pkg/xattr":                        "mover/posix",
	"golang.org/x/sync":                           "mover/transfer",
	"google.golang.org/grpc":                      "api",
	"github.com/container-storage-interface/spec": "csi",
}
