// Package hardware measures what one thing can do at most, alone: memory, the checksum, a disk, its metadata, and a network link between two hosts.
//
// Each measurement is a [Ceiling]: the median of some runs, with their spread, and how it was made, so that it can be held beside dd, fio and iperf3. What a
// measurement has made on a disk is removed when it ends, also when it is interrupted; nothing that was there before is touched. Data does not compress.
//
// One measurement at a time, with nothing else on the machine.
package hardware
