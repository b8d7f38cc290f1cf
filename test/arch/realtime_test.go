package arch

// realTime are the packages whose tests depend on real time, and how often: each number may only fall. In hermetic packages everything counts that is not found to be
// in a bubble; some is, and is called through an interface or a table. In system packages, which wait for real processes, a literal duration counts.
var realTime = map[string]clock{
	"test/memnet":                         {waits: 1, measures: 2}, // deadlines of connections
	"test/s3server":                       {waits: 2},              // what its faults say, in virtual time
	"bench/hardware":                      {limits: 1},
	"bench/loadgen":                       {waits: 1},
	"bench/multinode":                     {waits: 1},
	"cmd/datamove-bench/harness":          {waits: 2},
	"cmd/datamoved/daemon":                {waits: 1, limits: 1},
	"csi":                                 {waits: 3, limits: 2, measures: 2},
	"csi/volumestore":                     {waits: 2, measures: 2},
	"csi/fsclient":                        {waits: 1, measures: 2},
	"csi/fsworker":                        {waits: 4, measures: 3},
	"lustre/cephfs":                       {waits: 2, measures: 1},
	"lustre/client":                       {waits: 9, limits: 5, measures: 6},
	"lustre/copytool":                     {waits: 8, measures: 4},
	"lustre/copytool/copytest":            {waits: 1, measures: 1},
	"lustre/gpfs":                         {waits: 3, measures: 3},
	"lustre/localfs":                      {waits: 1, measures: 2},
	"mover/agent/sandbox":                 {limits: 1, measures: 1},
	"mover/agent":                         {waits: 1, measures: 1},
	"mover/server":                        {waits: 3, limits: 2, measures: 1},
	"mover/server/kubeauth":               {waits: 1, limits: 1, measures: 1},
	"mover/coordinator/state":             {waits: 1, measures: 1},
	"mover/coordinator/consensus":         {waits: 5}, // virtual: its network is called through interfaces of Raft
	"mover/notify":                        {limits: 1},
	"mover/coordinator/queue":             {waits: 4},
	"mover/backend/s3":                    {waits: 2},
	"mover/backend/s3/s3api":              {waits: 4, measures: 2},
	"mover/coordinator":                   {waits: 1},
	"mover/p2p":                           {waits: 2},
	"mover/engine/transfer":               {waits: 5},
	"test/cluster/rig":                    {waits: 8, limits: 1, measures: 4}, // most of them in virtual time
	"test/fabric/model":                   {limits: 1},                        // commands, whose main has a time
	"test/fabric/pages":                   {limits: 1},
	"test/fabric/verdict":                 {limits: 1},
	"test/loopfs":                         {waits: 1, measures: 1},
	"tiering/burst/spotnotice/noticetest": {measures: 1},
	"tiering/catalog":                     {measures: 3},
	"tiering/checkpoint":                  {waits: 1},
	"tiering/checkpoint/replicate":        {waits: 1, measures: 1},
	"tiering/catalog/changefeed/lustre":   {waits: 1},
	"tiering/catalog/changefeed/remote":   {waits: 1},
	"tiering/catalog/changefeed/feedtest": {waits: 1},
	"tiering/catalog/changefeed/inotify":  {waits: 1},

	// System.
	"test/e2e":                {waits: 1},
	"test/fabric":             {waits: 2, limits: 3},
	"test/hostile":            {waits: 1},
	"test/power":              {waits: 2},
	"test/power/outage":       {waits: 2},
	"test/patience":           {waits: 1, measures: 3},               // where tests of processes wait
	"test/simulation/service": {waits: 17, limits: 16, measures: 10}, // all in virtual time, by the interface of its domains
	"test/slurm":              {waits: 2},
	"test/system/browser":     {waits: 1},
	"test/system/service":     {waits: 1}, // folders and links that change places all the time
}
