-- datamove hooks of Slurm, version 1
--
-- What slurmctld does not hear of salloc and srun: the variable DATAMOVE. Its requests become some of the comment, which job_submit.lua reads. It
-- lies beside slurm.conf on all machines, with CliFilterPlugins=lua: where Slurm does not find it, no sbatch, salloc or srun works.

local function refuse(text)
	slurm.log_error("datamove: %s", text)
	return slurm.ERROR
end

function slurm_cli_setup_defaults(options, early)
	return slurm.SUCCESS
end

function slurm_cli_pre_submit(options, component)
	local asked, comment = os.getenv("DATAMOVE") or "", options["comment"] or ""
	if options["type"] == "sbatch" then
		return slurm.SUCCESS -- its environment is the job's
	end
	if options["type"] == "srun" and os.getenv("SLURM_JOB_ID") then
		if comment:lower():find("datamove:", 1, true) then
			return refuse("--comment: a step of a job asks for no data: ask with sbatch, salloc, or an srun that begins the job")
		end
		return slurm.SUCCESS -- the variable is what the job was asked for with
	end
	if not asked:find("%S") then
		return slurm.SUCCESS
	end
	if asked:find("[|%c]") then
		return refuse("DATAMOVE: a request of salloc or srun has no | and no control character")
	end
	options["comment"] = (comment ~= "" and comment .. " | " or "") .. "datamove: " .. asked
	return slurm.SUCCESS
end

function slurm_cli_post_submit(component, job, step)
	return slurm.SUCCESS
end
