// Package property has the properties of pgregory.net/rapid begin with the number of test/seed: a test binary that imports it has that as the default of
// -rapid.seed. RAPID_SEED and the command line go first. test/arch holds that each package with such properties imports it.
// That happens before go test notes what a test reads: results of properties that it keeps are those of any seed, and DATAMOVE_SEED wants -count=1.
//
// With the sizes of a soak each property has 2,000 cases, and not the 100 of rapid: in the environment and not on a command line, so that what repeats a failure
// has them, too.
//
// It is no part of test/seed because the tables of rapid are a tenth of the start of a process, and test binaries are started as the commands many times.
package property

import (
	"flag"
	"strconv"

	// Its init makes the flag -rapid.seed, and has to be done before the one of this package.
	_ "pgregory.net/rapid"

	"datamove.dev/test/seed"
)

func init() {
	begin("rapid.seed", "0", seed.Number()) // 0 is a random one
	if seed.Soak() {
		begin("rapid.checks", "100", 2_000)
	}
}

// begin gives a flag another default, where the environment has not.
func begin(name, was string, value uint64) {
	f := flag.Lookup(name)
	if f.Value.String() != was {
		return
	}
	f.DefValue = strconv.FormatUint(value, 10)
	if err := f.Value.Set(f.DefValue); err != nil {
		panic(err)
	}
}
