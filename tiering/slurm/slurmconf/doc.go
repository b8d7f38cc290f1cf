// Package slurmconf reads how a site has configured Slurm, and judges whether datamove's hooks work there.
//
// Its words: a setting is a line "Key=Value" of slurm.conf, of what that includes, or of burst_buffer.conf, read as Slurm 22.05 reads
// it. [Read] makes [Facts] of files: settings, the programs that they name and which users may change those, the Lua scripts beside slurm.conf, the
// directory of the controller's records. [Judge] makes findings of facts, and looks at nothing; no program of Slurm is called.
//
// What is read may be hostile. Sizes, files and the depth of includes are bounded, only regular files are opened, and
// what can not be read is a fact. FuzzParse and FuzzRead show that; TestFaults has one wrong thing for each finding, and TestShipped that what
// lies in deploy/slurm has none.
package slurmconf
