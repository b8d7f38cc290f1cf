module datamove.dev/test/tools/s5cmd

go 1.26.8

require github.com/peak/s5cmd/v2 v2.3.0
