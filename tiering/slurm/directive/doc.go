// Package directive reads what a Slurm job asks of the mover, checks it when the job is
// submitted, and prints and keeps it. It decides and does nothing.
//
// # Grammar
//
//	#DATAMOVE stage-in=LOCATION [to=LOCATION] [required] [shared]
//	#DATAMOVE stage-out=LOCATION to=LOCATION [when=always|success]
//	#DATAMOVE checkpoint=LOCATION to=LOCATION[,LOCATION...] [profile=NAME] [keep=N]
//	#DATAMOVE purge=LOCATION [when=always|success]
//	#DATAMOVE dw
//	#DATAMOVE depends
//
// A line has one verb; its words are key=value or flags with blanks between them, in any
// order. A value with blanks, quotes or semicolons, in a comment with a '|', stands in double
// quotes, where \" is a quote and \\ a backslash. A stage-in without a target ends in the
// job's own directory, under the name of what is staged. The flag dw says that there are #DW lines and asks for nothing
// (Slurm calls us for one kind of line only; job_submit.lua inserts it). The flag depends says that the job waits for another one, and asks for nothing
// either (job_submit.lua inserts it where there is a --dependency): datasets that it names may be added later.
//
// Lines are found as Slurm's burst buffer plugin finds them: from the first line on
// while each line begins with '#', empty ones apart. What comes behind the first other
// line does not count. A line that ends in '\' goes on in the next one, which begins with
// #DATAMOVE, too. A directive that Slurm does not see is a mistake: one behind the first command, unless it is text that
// a command writes or has in quotes, and one in other letters, behind "# ", or before a colon ("##DATAMOVE" stays out).
//
// The same stands in the comment of a job, behind "datamove:", in any letters, and up to a '|' or the
// end, and in a variable, with ';' between requests. Script, comment and variable add
// up. The same request twice is one; two that differ and meet in their targets are a
// mistake.
//
// Locations are those of mover/location, absolute. In them %j is the job's id, %A that of
// the array, %a the task of the array, %u the user, %x the name of the job, {node} the node
// (only where a stage-out or a checkpoint goes to), and %% a percent sign ([Values.Expand]).
// Variables of a shell are not expanded. On a tier that is node-local and ephemeral, a path is one
// below the directory that the job has there, on each of its nodes ([Tiers.OfJob]).
//
// # DataWarp and Rabbit
//
//	#DW jobdw type=scratch|xfs|gfs2|lustre capacity=SIZE [access_mode=striped,private] [name=NAME]
//	#DW stage_in|stage_out type=file|directory source=PATH destination=PATH
//	#DW copy_in|copy_out source=PATH destination=PATH
//
// $DW_JOB_STRIPED, $DW_JOB_PRIVATE and $DW_JOB_name are directories of the job's own
// directory ([Scratch.Variables]). pool= and profile= choose among hardware that is not
// here, and are left out. What asks for something else than space of the job and copies
// is refused by name. A stage_in and a copy_in are required, as they are there.
//
// # Promises
//
//   - What is accepted is printed, and kept as JSON, such that it is read back as the
//     same: FuzzScript, FuzzComment, FuzzRecord.
//   - All mistakes are found in one reading, at most ten are told, each with its position and
//     with what would be right. All are mover.ErrUsage. None repeats a value that may hold a key.
//   - Nothing is staged where a job does not see it, taken from where it is not the job's
//     own, or purged outside of ephemeral tiers or where results go, as far as text tells:
//     TestPlaces, TestPurge.
//   - No name of a job leads out of the directory that it stands in: TestExpand, FuzzExpand.
//
// Everything here is pure; values do not change once they are made. A tier may have become another since a
// job was submitted: the reader of a record calls [Job.Check] again.
package directive
