// Package property has the properties of pgregory.net/rapid begin with the number of test/seed: a test binary that imports it has that as the default of
// -rapid.seed. RAPID_SEED and the command line go first. test/arch holds that each package with such properties imports it.
// That happens before go test notes what a test reads: results of properties that it keeps are those of any seed, and DATAMOVE_SEED wants -count=1.
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
	if f := flag.Lookup("rapid.seed"); f.Value.String() == "0" { // 0 is a random one
		f.DefValue = strconv.FormatUint(seed.Number(), 10)
		if err := f.Value.Set(f.DefValue); err != nil {
			panic(err)
		}
	}
}
