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
	"mover/engine/bufpool":  {words, []string{"mover"}},
	"lustre":                {words, nil},
	"api/datamove/v1":       {words, nil},
	"api/datamove/agent/v1": {words, []string{"api/datamove/v1"}},

	"mover/checksum":                {parts, nil},
	"mover/units":                   {words, nil},
	"mover/engine/rate":             {words, nil},
	"mover/atomicfile":              {words, nil},
	"mover/beneath":                 {words, nil},
	"test/must":                     {words, nil}, // of packages for tests only
	"mover/config/spelling":         {words, nil},
	"mover/remedy":                  {words, []string{"mover"}},
	"mover/location":                {words, []string{"mover"}},
	"mover/manifest":                {parts, []string{"mover"}},
	"mover/engine/plan":             {parts, []string{"mover", "mover/units"}},
	"mover/engine/spool":            {words, nil},
	"mover/config":                  {parts, []string{"mover/atomicfile", "mover", "mover/location", "mover/config/spelling", "mover/units"}},
	"mover/coordinator/quota":       {parts, []string{"mover", "mover/units"}},
	"mover/backend/posix":           {parts, []string{"mover/backend/posix/allowance", "mover/backend/posix/xattrs", "mover/backend/posix/fstype", "mover/backend/posix/kernel", "mover/beneath", "mover", "mover/engine/bufpool"}},
	"mover/backend/posix/kernel":    {words, []string{"mover"}},
	"mover/backend/posix/allowance": {words, []string{"mover", "mover/units"}},
	"mover/backend/posix/fstype":    {words, []string{"mover", "mover/backend/posix/kernel"}},
	"mover/backend/posix/mounts":    {words, []string{"mover"}},
	"mover/backend/posix/xattrs":    {words, []string{"mover", "mover/backend/posix/kernel"}},
	"mover/backend/s3":              {parts, []string{"mover/backend/s3/s3api", "mover/atomicfile", "mover", "mover/engine/bufpool"}},
	"mover/backend/s3/s3api":        {words, []string{"mover", "mover/remedy"}},
	"mover/backend/mem":             {parts, []string{"mover"}},
	"mover/backend/retry":           {parts, []string{"mover", "mover/units"}},
	"mover/engine/concurrency":      {parts, []string{"mover"}},
	"mover/backend/throttle":        {parts, []string{"mover"}},
	"mover/backend/faulty":          {parts, []string{"mover"}},
	"mover/backend/metered":         {parts, []string{"mover"}},
	"mover/p2p":                     {parts, []string{"mover", "mover/engine/bufpool"}},
	"bench/compare":                 {motion, []string{"bench/hardware", "bench/result", "bench/stats"}},
	"bench/result":                  {parts, []string{"mover"}},
	"bench/loadgen":                 {memory, []string{"bench/result", "mover", "mover/engine/bufpool", "mover/checksum"}},
	"bench/workload":                {motion, []string{"bench/loadgen", "bench/result", "mover", "mover/config/spelling", "mover/units"}},
	"bench/multinode":               {motion, []string{"bench/loadgen", "bench/result", "mover"}},
	"bench/report":                  {motion, []string{"bench/roofline", "bench/result", "bench/stats", "mover", "mover/units"}},
	"bench/hardware":                {memory, []string{"mover", "mover/checksum"}},
	"bench/roofline":                {memory, []string{"bench/result", "mover", "mover/config/yamldoc", "mover/units"}},
	"lustre/uapi":                   {parts, []string{"lustre"}},
	"lustre/gpfs":                   {parts, []string{"lustre"}},
	"lustre/cephfs":                 {parts, []string{"lustre"}},
	"lustre/localfs":                {parts, []string{"lustre"}},

	"api/datamove/ledger/v1": {parts, []string{"api/datamove/v1"}},
	"api":                    {parts, []string{"mover", "mover/units", "api/datamove/v1"}},
	"mover/server/osaccount": {parts, []string{"mover"}},
	"mover/agent/sandbox":    {parts, []string{"mover"}},
	"mover/agent/replicadir": {parts, []string{"mover/beneath", "mover"}},
	"mover/fairshare":        {parts, []string{"mover", "api/datamove/v1"}},
	"mover/task":             {parts, []string{"mover", "api/datamove/v1"}},
	"mover/telemetry":        {parts, []string{"mover", "api/datamove/v1", "api/datamove/agent/v1"}},
	"mover/server/pki":       {parts, []string{"mover/atomicfile", "mover"}},
	"mover/server/kubeauth":  {parts, []string{"mover"}},
	"mover/webui":            {parts, nil},
	"bench/stats":            {words, nil},
	"tiering/slurm/hostlist": {parts, []string{"mover"}},

	"mover/trash":                   {rules, []string{"mover/beneath", "mover", "mover/backend/throttle"}},
	"mover/p2p/peer":                {rules, []string{"mover", "mover/checksum", "mover/p2p", "mover/server/pki", "api/datamove/agent/v1"}},
	"mover/engine/recall":           {rules, []string{"mover"}},
	"mover/notify":                  {rules, []string{"mover"}},
	"mover/server/authz":            {rules, []string{"mover/task", "mover", "mover/location", "api/datamove/v1", "api/datamove/agent/v1"}},
	"tiering/dataset":               {rules, []string{"mover", "mover/location", "api/datamove/v1"}},
	"tiering/slurm/slurmconf":       {rules, []string{"tiering/slurm/hostlist"}},
	"tiering/slurm/directive":       {rules, []string{"mover", "mover/location", "mover/config/spelling", "mover/units"}},
	"tiering/checkpoint":            {rules, []string{"mover/beneath", "mover"}},
	"tiering/burst/spotnotice":      {rules, []string{"mover"}},
	"tiering/dataset/datasetclient": {rules, []string{"mover/task", "mover/atomicfile", "mover", "mover/units", "api", "api/datamove/v1"}},

	"lustre/client":   {rules, []string{"lustre", "lustre/uapi"}},
	"lustre/claim":    {memory, []string{"lustre", "mover"}},
	"lustre/detect":   {memory, []string{"lustre", "lustre/client", "lustre/gpfs", "lustre/cephfs", "lustre/localfs"}},
	"lustre/copytool": {memory, []string{"lustre", "lustre/uapi", "lustre/client", "mover"}},

	"mover/kvstore":              {rules, []string{"mover", "mover/units"}},
	"mover/config/yamldoc":       {rules, []string{"mover", "mover/config/spelling"}},
	"tiering/policy":             {memory, []string{"lustre", "mover", "mover/config/yamldoc", "mover/config/spelling", "mover/units", "tiering/dataset"}},
	"tiering/catalog":            {memory, []string{"mover", "mover/kvstore", "tiering/dataset"}},
	"deploy/prices":              {words, nil},
	"tiering/burst/pricing":      {memory, []string{"mover", "mover/config/yamldoc"}},
	"tiering/burst/budget":       {motion, []string{"mover", "tiering/burst/pricing"}},
	"tiering/burst":              {motion, []string{"mover", "mover/config/yamldoc", "mover/location", "mover/units", "tiering/burst/pricing", "tiering/checkpoint"}},
	"tiering/burst/aws":          {task, []string{"mover/backend/s3/s3api", "mover", "tiering/burst/pricing", "tiering/burst"}},
	"tiering/burst/link":         {trip, []string{"mover", "mover/engine", "mover/location", "mover/engine/plan", "tiering/burst/pricing", "tiering/burst", "tiering/checkpoint", "tiering/checkpoint/replicate"}},
	"tiering/burst/lifecycle":    {errand, []string{"mover/backend/s3/s3api", "mover", "mover/engine", "mover/location", "mover/backend/s3", "mover/backend", "mover/units", "tiering/burst/budget", "tiering/burst/pricing", "tiering/burst", "tiering/burst/aws", "tiering/burst/link", "tiering/checkpoint"}},
	"tiering/policy/run":         {motion, []string{"mover/atomicfile", "mover", "api/datamove/v1", "tiering/dataset", "tiering/catalog", "tiering/policy"}},
	"tiering/catalog/changefeed": {motion, []string{"mover", "tiering/catalog"}},
	"tiering/catalog/query":      {motion, []string{"mover", "api/datamove/v1", "tiering/dataset", "tiering/catalog", "tiering/policy"}},
	"mover/engine/journal":       {memory, []string{"mover", "mover/kvstore"}},
	"mover/server/auditlog":      {memory, []string{"mover/atomicfile", "mover"}},
	"mover/coordinator/state":    {memory, []string{"mover/task", "mover/atomicfile", "mover", "mover/location", "mover/kvstore", "api/datamove/v1", "api/datamove/ledger/v1"}},
	"mover/coordinator/queue":    {memory, []string{"mover"}},

	"mover/coordinator/consensus/raftlog": {memory, []string{"mover", "mover/atomicfile"}},
	"mover/coordinator/consensus":         {motion, []string{"api/datamove/ledger/v1", "mover", "mover/atomicfile", "mover/coordinator/consensus/raftlog", "mover/coordinator/state"}},

	"lustre/fshints": {motion, []string{"mover", "lustre", "lustre/detect"}},

	"mover/engine/transfer":            {motion, []string{"mover/engine/transfer/standstill", "mover/engine/transfer/nospace", "mover/engine/transfer/feed", "mover/engine/spool", "mover/engine/compare", "mover", "mover/engine/bufpool", "mover/checksum", "mover/engine/plan", "mover/manifest", "mover/engine/concurrency", "mover/backend/throttle", "mover/backend/retry", "mover/engine/journal"}},
	"mover/engine/compare":             {rules, []string{"mover", "mover/checksum", "mover/engine/plan"}},
	"mover/engine/transfer/standstill": {words, []string{"mover"}},
	"mover/engine/transfer/nospace":    {words, []string{"mover"}},
	"mover/engine/transfer/feed":       {rules, []string{"mover", "mover/checksum"}},

	"mover/engine": {task, []string{"mover/backend/posix/mounts", "mover/engine/transfer/nospace", "mover/engine/spool", "mover/engine/compare", "mover", "mover/config/spelling", "mover/units", "mover/engine/bufpool", "mover/checksum", "mover/location", "mover/manifest", "mover/engine/plan", "mover/engine/rate", "mover/remedy",
		"mover/backend/posix", "mover/backend/s3", "mover/backend/retry", "mover/engine/concurrency", "mover/backend/throttle", "mover/engine/journal", "mover/engine/transfer"}},

	"mover/archive": {task, []string{"mover/atomicfile", "mover/atomicfile", "mover", "mover/engine/bufpool", "mover/engine/plan", "mover/backend/retry", "mover/engine/transfer"}},

	"tiering/checkpoint/replicate": {person, []string{"mover/engine/compare", "mover/atomicfile", "mover", "mover/engine", "mover/location", "mover/engine/plan", "mover/backend/retry", "tiering/checkpoint"}},

	"tiering/catalog/changefeed/lustre":   {task, []string{"lustre", "lustre/client", "mover", "tiering/catalog", "tiering/catalog/changefeed"}},
	"tiering/catalog/changefeed/s3events": {task, []string{"tiering/catalog", "tiering/catalog/changefeed"}},
	"tiering/catalog/changefeed/remote":   {task, []string{"api/datamove/agent/v1", "mover", "tiering/catalog", "tiering/catalog/changefeed"}},
	"tiering/catalog/changefeed/inotify":  {task, []string{"mover", "tiering/catalog/changefeed"}},

	"mover/backend":      {person, []string{"mover/backend/posix/fstype", "mover/backend/s3/s3api", "mover", "mover/config", "mover/engine", "mover/location", "mover/backend/posix", "mover/backend/s3"}},
	"mover/task/convert": {person, []string{"mover/task", "mover", "mover/engine", "mover/location", "mover/engine/plan", "mover/engine/rate", "mover/units", "api/datamove/v1"}},

	"mover/agent/worker":                  {services, []string{"api", "api/datamove/agent/v1", "api/datamove/v1", "mover", "mover/backend", "mover/backend/metered", "mover/backend/throttle", "mover/config", "mover/engine", "mover/engine/plan", "mover/engine/rate", "mover/engine/transfer", "mover/location", "mover/p2p", "mover/p2p/peer", "mover/remedy", "mover/task", "mover/task/convert", "mover/telemetry", "mover/units"}},
	"tiering/dataset/datasetworker":       {agents, []string{"api/datamove/agent/v1", "mover", "mover/agent/worker", "mover/engine", "mover/location", "mover/task", "mover/task/convert"}},
	"tiering/catalog/catalogworker":       {agents, []string{"api/datamove/agent/v1", "mover", "mover/agent/worker", "mover/engine", "mover/engine/transfer", "mover/units", "tiering/catalog", "tiering/catalog/changefeed", "tiering/catalog/changefeed/remote"}},
	"tiering/checkpoint/checkpointworker": {agents, []string{"api/datamove/agent/v1", "api/datamove/v1", "mover", "mover/agent/worker", "mover/engine", "mover/location", "tiering/checkpoint", "tiering/checkpoint/replicate"}},
	"tiering/policy/policyworker":         {agents, []string{"api/datamove/agent/v1", "api/datamove/v1", "mover", "mover/agent/worker", "mover/backend/throttle", "mover/engine", "mover/engine/plan", "mover/engine/transfer", "mover/location", "mover/p2p", "mover/p2p/peer", "mover/task/convert", "tiering/checkpoint", "tiering/checkpoint/replicate", "tiering/policy/run"}},
	"tiering/burst/burstworker":           {agents, []string{"api/datamove/agent/v1", "api/datamove/v1", "mover", "mover/agent/worker", "mover/engine", "mover/location", "mover/task/convert", "tiering/burst", "tiering/burst/budget", "tiering/burst/lifecycle", "tiering/burst/pricing"}},
	"mover/coordinator/clock":             {words, nil},
	"mover/coordinator/placement":         {trip, []string{"api/datamove/agent/v1", "api/datamove/v1", "mover", "mover/config", "mover/config/spelling", "mover/location", "mover/task/convert"}},
	"mover/coordinator/taskkind":          {task, []string{"api/datamove/agent/v1", "api/datamove/v1", "mover/coordinator/state"}},
	"mover/coordinator/idempotency":       {task, []string{"api/datamove/ledger/v1", "api/datamove/v1", "mover", "mover/coordinator/quota", "mover/coordinator/state", "mover/server/authz", "mover/task"}},
	"tiering/dataset/datasetserver":       {services, []string{"api/datamove/agent/v1", "api/datamove/ledger/v1", "api/datamove/v1", "mover", "mover/atomicfile", "mover/config", "mover/coordinator/clock", "mover/coordinator/idempotency", "mover/coordinator/placement", "mover/coordinator/quota", "mover/coordinator/state", "mover/coordinator/taskkind", "mover/location", "mover/manifest", "mover/server/auditlog", "mover/server/authz", "mover/task", "mover/task/convert", "mover/telemetry", "mover/units", "tiering/catalog", "tiering/checkpoint", "tiering/dataset", "tiering/policy/treecontext"}},
	"mover/coordinator/enroll":            {task, []string{"api/datamove/agent/v1", "api/datamove/ledger/v1", "api/datamove/v1", "mover", "mover/atomicfile", "mover/coordinator/state", "mover/server/authz", "mover/server/pki", "mover/task"}},
	"mover/coordinator/taskorder":         {errand, []string{"api/datamove/v1", "mover", "mover/config", "mover/coordinator/placement", "mover/coordinator/state", "mover/task"}},
	"mover/coordinator/ratelimit":         {task, []string{"mover/fairshare"}},
	"mover/coordinator/usage":             {trip, []string{"api/datamove/ledger/v1", "api/datamove/v1", "mover", "mover/config", "mover/coordinator/idempotency", "mover/coordinator/quota", "mover/coordinator/state", "mover/server/authz"}},
	"mover/coordinator":                   {services, []string{"api/datamove/agent/v1", "api/datamove/ledger/v1", "api/datamove/v1", "mover", "mover/config", "mover/coordinator/clock", "mover/coordinator/enroll", "mover/coordinator/idempotency", "mover/coordinator/placement", "mover/coordinator/queue", "mover/coordinator/quota", "mover/coordinator/ratelimit", "mover/coordinator/state", "mover/coordinator/taskkind", "mover/coordinator/taskorder", "mover/coordinator/usage", "mover/fairshare", "mover/location", "mover/p2p", "mover/server/auditlog", "mover/server/authz", "mover/server/pki", "mover/task", "mover/task/convert", "mover/telemetry", "mover/units"}},
	"mover/agent": {agents, []string{"mover/backend/s3/s3api", "mover/task", "mover/beneath", "mover", "mover/server/osaccount", "mover/agent/sandbox", "mover/config", "mover/engine", "mover/location", "mover/p2p/peer", "mover/coordinator/quota", "mover/engine/rate", "mover/remedy", "mover/backend/s3", "mover/fairshare", "mover/agent/replicadir", "mover/backend", "mover/p2p", "mover/telemetry",
		"mover/task/convert", "mover/agent/worker", "api", "api/datamove/v1", "api/datamove/agent/v1"}},
	"tiering/catalog/catalogserver": {services, []string{"api/datamove/agent/v1", "api/datamove/v1", "mover", "mover/config", "mover/coordinator/placement", "mover/coordinator/state", "mover/location", "mover/server/authz", "mover/task", "mover/telemetry", "tiering/catalog", "tiering/catalog/changefeed", "tiering/catalog/changefeed/remote", "tiering/catalog/query", "tiering/policy", "tiering/policy/treecontext"}},
	"tiering/policy/policyserver":   {services, []string{"api/datamove/agent/v1", "api/datamove/ledger/v1", "api/datamove/v1", "mover", "mover/config", "mover/coordinator/placement", "mover/coordinator/state", "mover/location", "mover/notify", "mover/server/authz", "mover/task", "mover/task/convert", "mover/telemetry", "mover/units", "tiering/catalog", "tiering/catalog/query", "tiering/dataset", "tiering/policy", "tiering/policy/run", "tiering/policy/treecontext"}},
	"tiering/policy/treecontext":    {task, []string{"api/datamove/v1", "mover", "mover/config", "mover/coordinator/state", "mover/location", "tiering/catalog", "tiering/catalog/query", "tiering/checkpoint", "tiering/dataset", "tiering/policy"}},
	"tiering/burst/burstserver":     {services, []string{"api/datamove/agent/v1", "api/datamove/ledger/v1", "api/datamove/v1", "deploy/prices", "mover", "mover/config", "mover/config/yamldoc", "mover/coordinator/placement", "mover/coordinator/state", "mover/server/authz", "mover/task", "mover/task/convert", "tiering/burst", "tiering/burst/budget", "tiering/burst/lifecycle", "tiering/burst/pricing"}},
	"mover/server":                  {services, []string{"mover", "mover/server/authz", "mover/server/osaccount", "mover/server/auditlog", "mover/telemetry", "mover/server/pki", "api", "api/datamove/v1", "api/datamove/agent/v1"}},

	"tiering/slurm/burstbuffer":  {task, []string{"mover/task", "mover/atomicfile", "mover", "mover/config", "mover/location", "mover/units", "api", "api/datamove/v1", "tiering/slurm", "tiering/slurm/directive", "tiering/dataset/datasetclient"}},
	"tiering/slurm":              {motion, []string{"mover/atomicfile", "mover/beneath", "lustre", "lustre/claim", "lustre/detect", "mover", "mover/config", "mover/location", "mover/trash", "mover/units", "api", "api/datamove/v1", "tiering/checkpoint", "tiering/slurm/hostlist", "tiering/dataset/datasetclient"}},
	"tiering/slurm/jobenv":       {person, []string{"mover", "mover/config", "mover/location", "tiering/slurm", "tiering/slurm/burstbuffer", "tiering/slurm/directive"}},
	"tiering/slurm/checkpointer": {task, []string{"mover", "mover/location", "api", "api/datamove/v1", "tiering/checkpoint", "tiering/slurm", "tiering/dataset/datasetclient"}},

	"csi/volume":              {rules, []string{"lustre", "mover", "mover/location"}},
	"csi/mount":               {parts, []string{"mover"}},
	"csi/fsworker":            {parts, []string{"mover"}},
	"csi/registrar":           {parts, []string{"mover"}},
	"csi/volumestore":         {motion, []string{"mover/beneath", "mover/atomicfile", "lustre", "lustre/claim", "lustre/gpfs", "lustre/detect", "mover", "mover/trash", "csi/volume"}},
	"csi/fsclient":            {task, []string{"lustre", "mover", "mover/agent/replicadir", "csi/volumestore", "csi/fsworker", "csi/mount", "csi/volume"}},
	"csi/kube":                {motion, []string{"mover", "csi/nodeproxy", "csi/volume"}},
	"csi/metrics":             {parts, nil},
	"csi/nodeproxy":           {parts, []string{"mover"}},
	"csi/nodeproxy/relaytest": {tests, []string{"csi/nodeproxy", "test/must"}},
	"csi":                     {services, []string{"lustre", "lustre/gpfs", "mover", "mover/units", "csi/volumestore", "csi/fsclient", "csi/kube", "csi/metrics", "csi/mount", "csi/nodeproxy", "csi/volume", "tiering/dataset/datasetclient"}},

	"cmd/datamove":            {commands, []string{"cmd/datamove/root"}},
	"cmd/datamoved":           {commands, []string{"cmd/datamoved/daemon"}},
	"cmd/datamove-csi":        {commands, []string{"cmd/datamove-csi/driver"}},
	"cmd/datamove-bench":      {commands, []string{"cmd/datamove-bench/harness"}},
	"cmd/datamove-csi/driver": {commands, []string{"api", "mover", "csi", "csi/fsclient", "csi/fsworker", "csi/kube", "csi/registrar", "csi/nodeproxy", "tiering/dataset/datasetclient"}},
	"cmd/datamoved/runners":   {commands, []string{"api/datamove/v1", "mover/agent/worker", "tiering/burst/burstworker", "tiering/catalog/catalogworker", "tiering/checkpoint/checkpointworker", "tiering/dataset/datasetworker", "tiering/policy/policyworker"}},
	"cmd/datamoved/daemon": {commands, []string{"mover/coordinator/enroll", "mover/coordinator/clock", "tiering/dataset/datasetserver", "cmd/datamoved/runners", "tiering/burst/burstserver", "tiering/catalog/catalogserver", "tiering/policy/policyserver", "mover/task", "mover/atomicfile", "mover/server/kubeauth", "lustre", "lustre/fshints", "lustre/detect", "mover", "mover/server/authz", "mover/server/osaccount", "mover/agent/sandbox", "mover/agent", "mover/server/auditlog", "mover/config", "mover/server",
		"mover/coordinator/state", "mover/p2p/peer", "mover/coordinator/queue", "mover/backend/s3", "mover/coordinator", "mover/kvstore", "mover/telemetry", "mover/trash", "mover/server/pki", "mover/webui", "mover/agent/worker", "tiering/catalog", "tiering/catalog/changefeed", "tiering/catalog/changefeed/s3events", "tiering/catalog/changefeed/lustre", "tiering/catalog/changefeed/inotify", "tiering/policy", "tiering/slurm", "tiering/slurm/checkpointer", "api", "api/datamove/v1", "api/datamove/agent/v1", "lustre/uapi", "lustre/client", "lustre/copytool", "mover/engine", "mover/location", "mover/backend/retry", "mover/backend", "mover/archive", "mover/remedy", "mover/units"}},
	"cmd/datamove/burst":         {commands, []string{"api", "api/datamove/v1", "cmd/datamove/cli", "cmd/datamove/task", "deploy/prices", "lustre/fshints", "mover", "mover/atomicfile", "mover/backend", "mover/backend/s3", "mover/config/yamldoc", "mover/engine", "mover/location", "mover/units", "tiering/burst", "tiering/burst/budget", "tiering/burst/link", "tiering/burst/pricing"}},
	"cmd/datamove/catalog":       {commands, []string{"api", "api/datamove/v1", "cmd/datamove/cli", "cmd/datamove/task", "mover", "mover/engine", "mover/location", "mover/server/osaccount", "mover/units", "tiering/catalog", "tiering/catalog/query", "tiering/policy"}},
	"cmd/datamove/checkpoint":    {commands, []string{"cmd/datamove/cli", "mover", "mover/units", "tiering/burst/spotnotice", "tiering/checkpoint", "tiering/checkpoint/replicate"}},
	"cmd/datamove/cli":           {commands, []string{"api", "api/datamove/v1", "cmd/datamove/manual", "lustre", "lustre/detect", "lustre/fshints", "lustre/gpfs", "mover", "mover/atomicfile", "mover/backend", "mover/backend/retry", "mover/backend/s3", "mover/config", "mover/config/spelling", "mover/engine", "mover/location", "mover/remedy", "mover/server/pki", "mover/units"}},
	"cmd/datamove/dataset":       {commands, []string{"api", "api/datamove/v1", "cmd/datamove/cli", "cmd/datamove/progress", "cmd/datamove/task", "mover", "mover/engine", "mover/engine/rate", "mover/engine/recall", "mover/location", "mover/units"}},
	"cmd/datamove/demo":          {commands, []string{"cmd/datamove/cli", "mover", "mover/units"}},
	"cmd/datamove/doctor":        {commands, []string{"mover/backend/s3/s3api", "api", "api/datamove/v1", "cmd/datamove/cli", "cmd/datamove/quota", "lustre", "lustre/cephfs", "mover", "mover/backend/posix", "mover/backend/retry", "mover/checksum", "mover/config", "mover/engine", "mover/location", "mover/remedy", "mover/units", "tiering/slurm/slurmconf"}},
	"cmd/datamove/files":         {commands, []string{"api/datamove/v1", "cmd/datamove/catalog", "cmd/datamove/cli", "cmd/datamove/task", "mover", "mover/engine", "mover/engine/plan", "mover/location", "mover/task/convert", "mover/units", "tiering/catalog/query"}},
	"cmd/datamove/layout":        {commands, []string{"cmd/datamove/cli", "cmd/datamove/progress", "lustre", "lustre/cephfs", "mover", "mover/engine/rate", "mover/units"}},
	"cmd/datamove/manual":        {commands, nil},
	"cmd/datamove/policy":        {commands, []string{"api", "api/datamove/v1", "cmd/datamove/catalog", "cmd/datamove/cli", "mover", "mover/config", "mover/config/yamldoc", "mover/units", "tiering/policy", "tiering/policy/run"}},
	"cmd/datamove/progress":      {commands, []string{"mover", "mover/engine/rate", "mover/units"}},
	"cmd/datamove/quota":         {commands, []string{"cmd/datamove/cli", "lustre", "mover", "mover/units"}},
	"cmd/datamove/root":          {commands, []string{"api/datamove/v1", "cmd/datamove/burst", "cmd/datamove/checkpoint", "cmd/datamove/cli", "cmd/datamove/dataset", "cmd/datamove/demo", "cmd/datamove/doctor", "cmd/datamove/files", "cmd/datamove/layout", "cmd/datamove/manual", "cmd/datamove/policy", "cmd/datamove/quota", "cmd/datamove/service", "cmd/datamove/slurm", "cmd/datamove/task", "cmd/datamove/tier", "mover/config/spelling"}},
	"cmd/datamove/service":       {commands, []string{"api", "api/datamove/v1", "cmd/datamove/catalog", "cmd/datamove/cli", "mover", "mover/config", "mover/coordinator/quota", "mover/server/auditlog", "mover/server/osaccount", "mover/server/pki", "mover/units"}},
	"cmd/datamove/slurm":         {commands, []string{"api", "cmd/datamove/cli", "cmd/datamove/quota", "mover", "mover/backend", "mover/config", "tiering/slurm", "tiering/slurm/burstbuffer", "tiering/slurm/directive", "tiering/slurm/hostlist", "tiering/slurm/jobenv", "tiering/slurm/slurmconf"}},
	"cmd/datamove/task":          {commands, []string{"api", "api/datamove/v1", "cmd/datamove/cli", "cmd/datamove/progress", "mover", "mover/backend/retry", "mover/engine", "mover/engine/plan", "mover/location", "mover/remedy", "mover/task", "mover/task/convert", "mover/units"}},
	"cmd/datamove/tier":          {commands, []string{"api", "api/datamove/v1", "cmd/datamove/catalog", "cmd/datamove/cli", "cmd/datamove/quota", "lustre", "mover", "mover/backend", "mover/config", "mover/units"}},
	"cmd/datamove-bench/harness": {commands, []string{"mover/atomicfile", "bench/hardware", "bench/compare", "bench/loadgen", "bench/roofline", "bench/multinode", "bench/result", "bench/report", "bench/workload", "lustre", "lustre/detect", "mover", "mover/config", "mover/engine", "mover/location", "mover/backend", "mover/config/spelling", "mover/units"}},

	"mover/backend/backendtest":     {tests, []string{"mover", "mover/checksum", "mover/engine/bufpool"}},
	"mover/server/kubeauth/apitest": {tests, []string{"test/must"}},
	"lustre/copytool/copytest":      {tests, []string{"lustre", "lustre/uapi", "test/must"}},

	"bench/report/reporttest":             {tests, []string{"bench/roofline", "bench/result", "bench/report", "test/must"}},
	"mover/backend/s3/s3test":             {tests, []string{"mover", "mover/backend/s3"}},
	"tiering/burst/spotnotice/noticetest": {tests, nil},

	"tiering/catalog/changefeed/feedtest": {tests, []string{"mover", "tiering/dataset", "tiering/catalog", "test/must"}},
}

// homes says which packages may import a library, in code that is shipped; a
// command stands for its parts. A library that is not here has no home yet: give
// it one, or do without it.
var homes = map[string][]string{
	"github.com/wneessen/go-mail":                 {"mover/notify"}, // SMTP
	"github.com/HdrHistogram/hdrhistogram-go":     {"bench/loadgen", "bench/multinode", "bench/report"},
	"github.com/dgraph-io/badger/v4":              {"mover/kvstore", "mover/engine/journal", "mover/coordinator/state", "tiering/catalog"},
	"github.com/hashicorp/raft":                   {"mover/coordinator/consensus", "mover/coordinator/consensus/raftlog"},
	"github.com/hashicorp/go-hclog":               {"mover/coordinator/consensus"}, // the log of Raft
	"github.com/coreos/go-systemd/v22":            {"cmd/datamoved/daemon", "mover/server"},
	"github.com/landlock-lsm":                     {"mover/agent/sandbox"},
	"github.com/prometheus":                       {"csi/metrics", "mover/telemetry"},
	"go.opentelemetry.io":                         {"mover/telemetry"},
	"github.com/grpc-ecosystem":                   {"api"},
	"google.golang.org/genproto":                  {"api"},
	"github.com/container-storage-interface/spec": {"csi"},
	"github.com/moby/sys":                         {"mover/backend/posix/mounts", "csi/mount", "mover/backend/posix"},
	"k8s.io/kubelet":                              {"csi/registrar"},
	"k8s.io/client-go":                            {"csi/kube"},
	"k8s.io/api":                                  {"csi/kube"},
	"k8s.io/apimachinery":                         {"csi/kube"},
	"google.golang.org/grpc":                      {"tiering/burst/burstserver", "tiering/catalog/catalogserver", "tiering/policy/policyserver", "csi", "csi/metrics", "csi/registrar", "csi/nodeproxy", "csi/nodeproxy/relaytest", "cmd/datamove-csi/driver", "api", "mover/agent", "mover/server", "mover/coordinator", "mover/telemetry", "mover/agent/worker", "cmd/datamoved/daemon", "cmd/datamove", "tiering/dataset/datasetserver"},
	"google.golang.org/protobuf":                  {"tiering/checkpoint/checkpointworker", "tiering/burst/burstserver", "tiering/catalog/catalogserver", "tiering/policy/policyserver", "csi", "api", "mover/agent", "mover/server", "mover/coordinator/state", "mover/coordinator/consensus", "mover/p2p/peer", "mover/coordinator", "mover/fairshare", "mover/telemetry", "mover/task/convert", "mover/agent/worker", "tiering/dataset", "tiering/catalog/changefeed/remote", "tiering/slurm", "tiering/catalog/query", "tiering/policy/run", "tiering/dataset/datasetclient", "cmd/datamove", "mover/coordinator/usage", "mover/coordinator/enroll", "tiering/dataset/datasetserver", "mover/coordinator/idempotency"},
	"github.com/minio/minio-go/v7":                {"mover/backend/s3/s3api"},
	"github.com/aws/aws-sdk-go-v2":                {"mover/backend/s3/s3api", "mover/backend/s3", "tiering/burst/aws", "tiering/burst/spotnotice"},
	"github.com/aws/smithy-go":                    {"mover/backend/s3/s3api", "mover/backend/s3", "tiering/burst/aws"},
	"github.com/pkg/xattr":                        {"mover/backend/posix/xattrs", "lustre/client", "lustre/cephfs"},
	"github.com/minio/crc64nvme":                  {"mover/checksum", "mover/backend/mem"},
	"github.com/klauspost/compress":               {"mover/manifest", "tiering/checkpoint"},
	"github.com/bmatcuk/doublestar/v4":            {"mover/engine/plan", "tiering/policy"},
	"github.com/knadh/koanf":                      {"mover/config"},
	"cel.dev/cel-go":                              {"tiering/policy"},
	"github.com/robfig/cron/v3":                   {"tiering/policy"},
	"go.yaml.in/yaml/v3":                          {"csi", "mover/config", "mover/config/yamldoc", "tiering/burst", "tiering/policy", "bench/roofline", "cmd/datamove"},
	"github.com/spf13/cobra":                      {"cmd/datamove-csi/driver", "cmd/datamoved/daemon", "cmd/datamove-bench/harness", "cmd/datamove"},
	"github.com/spf13/pflag":                      {"cmd/datamove-csi/driver", "cmd/datamoved/daemon", "cmd/datamove-bench/harness", "cmd/datamove"},
	"golang.org/x/term":                           {"cmd/datamove"},
	"golang.org/x/time":                           {"mover/server"},
	"golang.org/x/sync":                           {"mover/engine/compare", "mover/backend/s3/s3api", "mover/engine/bufpool", "mover/p2p/peer", "mover/backend/posix", "mover/engine/recall", "mover/backend/s3", "mover/engine/transfer", "mover/engine", "mover/agent/replicadir", "tiering/catalog", "tiering/checkpoint", "tiering/checkpoint/replicate", "tiering/catalog/changefeed/s3events", "tiering/catalog/changefeed/lustre", "tiering/catalog/changefeed/remote", "tiering/catalog/changefeed/inotify", "cmd/datamove", "cmd/datamove-csi/driver"},
	"golang.org/x/sys":                            {"tiering/slurm/burstbuffer", "mover/backend/posix/allowance", "mover/backend/posix/xattrs", "mover/backend/posix/fstype", "mover/backend/posix/kernel", "mover/beneath", "lustre/claim", "csi/volumestore", "csi/fsclient", "csi/fsworker", "csi/mount", "mover/archive", "lustre/client", "lustre/gpfs", "lustre/cephfs", "lustre/localfs", "lustre/detect", "lustre/copytool", "lustre/fshints", "mover/engine/bufpool", "mover/backend/posix", "mover/backend/s3/s3api", "mover/kvstore", "mover/engine/spool", "mover/engine", "mover/location", "mover/server/osaccount", "mover/agent/sandbox", "mover/agent", "mover/server/auditlog", "mover/server", "mover/coordinator/state", "mover/coordinator/consensus/raftlog", "mover/coordinator", "mover/agent/replicadir", "mover/trash", "tiering/catalog", "tiering/checkpoint", "tiering/checkpoint/replicate", "tiering/catalog/changefeed/inotify", "tiering/slurm", "cmd/datamove", "cmd/datamoved/daemon", "bench/hardware", "bench/compare", "bench/loadgen", "bench/result", "tiering/dataset/datasetserver"},
}

// heavy are packages that take a minute to compile, with what is below them, and what does without them.
var heavy = map[string]string{
	"github.com/aws/aws-sdk-go-v2/service/ec2": "tiering/burst/aws/query.go",
}

// above are the parts of the tree that mover has never heard of, nor its tests.
var above = []string{"lustre", "tiering", "csi", "bench", "cmd"}

// testedWithTiering are the packages below mover with tests that import tiering: the coordinator is tested with the servers beside it.
var testedWithTiering = []string{"mover/coordinator"}

// notInCommandLine are packages that cmd/datamove links by no way.
var notInCommandLine = []string{
	module + "/tiering/burst/aws", module + "/tiering/burst/lifecycle",
	"github.com/aws/aws-sdk-go-v2/service/ec2", "github.com/aws/aws-sdk-go-v2/service/fsx", "github.com/aws/aws-sdk-go-v2/service/cloudwatch", "github.com/aws/aws-sdk-go-v2/service/costexplorer",
}

// card is the design card: what has to be used directly as soon as the part that
// needs it exists.
var card = map[string]string{
	"github.com/dgraph-io/badger/v4":              "mover/engine/journal",
	"github.com/minio/minio-go/v7":                "mover/backend/s3/s3api",
	"github.com/aws/aws-sdk-go-v2":                "mover/backend/s3/s3api",
	"github.com/pkg/xattr":                        "mover/backend/posix/xattrs",
	"golang.org/x/sync":                           "mover/engine/transfer",
	"google.golang.org/grpc":                      "api",
	"github.com/container-storage-interface/spec": "csi",
}
